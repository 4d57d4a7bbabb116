"""privfcd ledger: make a budget that lasts, look at it, verify it, export it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.options import json_option
from privfcd.cli.output import console, echo, print_json, say, significant
from privfcd.cli.progress import progress

if TYPE_CHECKING:
    from privfcd.ledger.tools import Verification

PROBLEMS = 1


@click.group(cls=Group)
def ledger() -> None:
    """Budgets that last: made once, charged by every run, refused when spent.

    A ledger is one file. Each data set in it has a name and a budget, which all runs on that name share.

    \b
    Examples:
      privfcd ledger init north.sqlite --name north --epsilon 5 --delta 1e-6
      privfcd ledger show north.sqlite
      privfcd ledger verify north.sqlite
    """


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
@option("--name", required=True, help="The data set's name, to which the budget belongs.")
@option("--epsilon", type=float, default=None, help="Budget; with --delta, or pure without.")
@option("--delta", type=float, default=None, help="Delta of the budget; far below 1/n, n the number of rows.")
@option("--rho", type=float, default=None, help="Budget under zCDP, instead of epsilon and delta.")
@json_option
def init(file: str, name: str, epsilon: float | None, delta: float | None, rho: float | None, as_json: bool) -> None:
    """Declare a data set's budget.

    The ledger is made where there is none. The budget cannot be changed later. Declaring the same one again changes
    nothing, and says what is spent of it. A pure budget (epsilon alone) pays for Laplace noise and selections;
    `privfcd learn` needs a delta, or rho.

    \b
    Examples:
      privfcd ledger init north.sqlite --name north --epsilon 5 --delta 1e-6
      privfcd ledger init north.sqlite --name north --rho 0.5
    """
    from privfcd.accounting import Budget
    from privfcd.ledger.tools import init_ledger
    from privfcd.ledger.tools import show as read

    budget = Budget(epsilon=epsilon, delta=0.0 if delta is None else delta, rho=rho)
    before = read(file)["data_sets"].get(name) if os.path.exists(file) else None
    head = init_ledger(file, name, budget)
    if as_json:
        spent = None if before is None else {key: each["spent"] for key, each in before["accounts"].items()}
        said = {"path": file, "name": name, "budget": str(budget), "head": head}
        print_json({**said, "existed": before is not None, "spent": spent})
        return
    if before is None:
        say(f"{name!r} has the budget {budget} in {file}")
    else:
        words = ", ".join(f"{key} {significant(each['spent'], 9)}" for key, each in before["accounts"].items())
        say(f"{name!r} is there already, since {before['opened']}: the budget {budget} in {file}; spent: {words}")
    say(f"head {head}")


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
@json_option
def show(file: str, as_json: bool) -> None:
    """Show what is spent and left, by which runs.

    And what was paid for and never finished.
    Entries are numbered over the whole file, as heads are: a head is the number of an entry, a colon and its hash.

    \b
    Example:
      privfcd ledger show north.sqlite
    """
    from rich.table import Table

    from privfcd.ledger.tools import show as read

    held = read(file)
    if as_json:
        print_json(held)
        return
    table = Table(title=f"{file}: {held['entries']} entries since {held['created']}", title_justify="left")
    table.add_column("data set")
    table.add_column("account")
    for heading in ("spent", "left", "cap"):
        table.add_column(heading, justify="right")
    table.add_column("last entry")
    for name, data in held["data_sets"].items():
        for account, amounts in data["accounts"].items() or [("no budget", {})]:
            numbers = [amounts.get(key) for key in ("spent", "left", "cap")]
            cells = ["-" if number is None else significant(number, 9) for number in numbers]
            table.add_row(name, account, *cells, data["last"])
    console().print(table)
    for name, data in held["data_sets"].items():
        _print_runs(name, data)
        _say_more(data["more_unfinished"], f"runs of {name!r} before these were paid for and never closed")
        for entry in data["unfinished"]:
            say(
                f"entry {entry['number']}, of {name!r}: {entry['label']!r} was paid for on {entry['time']} and never "
                "closed. If nothing runs any more, it ended early; what it took stays spent"
            )
        _say_more(data["more_unanswered"], f"requests of {name!r} before these were paid, not answered")
        for entry in data["unanswered"]:
            say(f"entry {entry['number']}, of {name!r}: request {entry['request']!r} was paid, not answered")
        say(f"head of {name!r}: {data['head']}")
    say(f"head: {held['head']}")


def _say_more(number: int, what: str) -> None:
    if number:
        say(f"{number:,} {what}")


def _print_runs(name: str, data: dict[str, Any]) -> None:
    """Print what was charged, newest last."""
    from rich.table import Table

    if not data["runs"]:
        return
    table = Table(title=f"Charges to {name!r}, newest last", title_justify="left")
    table.add_column("entry", justify="right")
    table.add_column("date")
    table.add_column("what")
    accounts = list(dict.fromkeys(account for run in data["runs"] for account in run["spent"]))
    for account in accounts:
        table.add_column(account, justify="right")
    table.add_column("state")
    for run in data["runs"]:
        amounts = [significant(run["spent"][each], 6) if each in run["spent"] else "-" for each in accounts]
        table.add_row(str(run["number"]), run["time"][:19].replace("T", " "), run["label"], *amounts, run["state"])
    console().print(table)
    if data["more_runs"]:
        say(f"and {data['more_runs']:,} more before them")


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
@option("--head", default=None, metavar="HEAD", help="A head that was kept elsewhere, as in a run's report.")
@json_option
def verify(file: str, head: str | None, as_json: bool) -> None:
    """Recompute the chain and all balances. Exit code 1: something is wrong; nothing is repaired.

    \b
    Example:
      privfcd ledger verify north.sqlite
    """
    from privfcd.ledger.tools import verify as recompute

    with progress("verify", quiet=as_json):
        found = recompute(file, _head(head))
    _end_with(file, found, head, as_json)


@ledger.command("verify-export")
@click.argument("file", type=click.File(encoding="utf-8"))
@option("--head", default=None, metavar="HEAD", help="A head that was kept elsewhere, as in a run's report.")
@json_option
def verify_export(file: IO[str], head: str | None, as_json: bool) -> None:
    """Recompute chain and balances of an export. Exit code 1: something is wrong. The ledger itself is not needed.

    FILE may be - for standard input.

    \b
    Example:
      privfcd ledger verify-export north.jsonl
    """
    from privfcd.ledger.tools import verify_export as recompute

    _end_with(file.name, recompute(_lines(file), _head(head)), head, as_json)


def _head(head: str | None) -> str | None:
    """Return a head, or refuse what is none."""
    if head is not None and re.fullmatch(r"[0-9]{1,18}:[0-9a-f]{64}", head) is None:
        raise click.UsageError(f"--head must be a number, a colon and 64 hexadecimal digits, got {head!r}")
    return head


def _lines(file: IO[str]) -> Iterator[str]:
    """Yield a file's lines, or refuse it by name."""
    try:
        yield from file
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{file.name!r} is not an export, which is text: {error}") from None


def _end_with(path: str, found: Verification, head: str | None, as_json: bool) -> None:
    """Print what was found, and end with the code that says it."""
    if as_json:
        listed: dict[str, Any] = {"problems": list(found.problems), "notes": list(found.notes)}
        counted = {"entries": found.entries, "unfinished": found.unfinished, "head": found.head}
        print_json({"path": path, "ok": found.ok, **counted, **listed})
    else:
        echo(found)
        if head is None and found.ok:
            echo("compare the head with one that was kept elsewhere, as in the last run's report (--head)")
    if not found.ok:
        raise click.exceptions.Exit(PROBLEMS)


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
def export(file: str) -> None:
    """Print the ledger as JSON lines.

    One about it, then one an entry; without stored answers and row fingerprints.

    \b
    Example:
      privfcd ledger export north.sqlite > north.jsonl
    """
    from privfcd.ledger.tools import export as lines

    for line in lines(file):
        click.echo(line)


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
def upgrade(file: str) -> None:
    """Bring a ledger of an older privfcd to the present format. What is spent stays spent; the chain goes on.

    Upgrade it where it is: its newest entries may still be in the -wal file beside it. End what uses it first.

    \b
    Example:
      privfcd ledger upgrade north.sqlite
    """
    from privfcd.ledger.journal_schema import SCHEMA_VERSION
    from privfcd.ledger.repair import upgrade as bring_up

    version, head = bring_up(file)
    same = version == SCHEMA_VERSION
    say(f"{file} " + ("has the present format already" if same else f"was upgraded from format {version}: all is kept"))
    say(f"head {head}")


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
@option("--head", default=None, metavar="HEAD", help="A head that was kept elsewhere, as in a run's report.")
def adopt(file: str, head: str | None) -> None:
    """Use a ledger without its -head file.

    As after it was copied alone.

    Without --head, nothing shows whether its newest entries were cut off. An old copy has forgotten what was spent since.

    \b
    Example:
      privfcd ledger adopt north.sqlite --head 6:e78fa90c...
    """
    from privfcd.ledger.repair import adopt as take

    found = take(file, _head(head))
    say(f"{file} can be charged. It has {found.entries} entries; head {found.head}")
    if head is None:
        say(
            "compare the head with the one in the last run's report: if that one has a higher number, entries are missing"
        )


@ledger.command()
@click.argument("exported", metavar="EXPORT", type=click.File(encoding="utf-8"))
@click.argument("file", type=click.Path(dir_okay=False))
@option(
    "--head", default=None, metavar="HEAD", help="Head of the lost ledger's last entry, from its last run's report."
)
def restore(exported: IO[str], file: str, head: str | None) -> None:
    """Make a lost ledger from an export.

    What was spent after the export is not known: all that was left then counts as spent. With --head, and if it is the
    export's last entry, nothing was spent after it, and what was left then is left now.

    \b
    Example:
      privfcd ledger restore north.jsonl north.sqlite
    """
    from privfcd.ledger.repair import restore as make

    known = make(file, _lines(exported), _head(head))
    left = (
        "what was left is left" if known else "what was left then counts as spent, because what came after is not known"
    )
    say(f"{file} was made from {exported.name}: {left}. See `privfcd ledger show {file}`")
