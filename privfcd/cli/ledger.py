"""privfcd ledger: make a budget that lasts, look at it, verify it, export it."""

from __future__ import annotations

import os
import re
from typing import Any

import click

from privfcd.cli.commands import Group, option
from privfcd.cli.options import json_option
from privfcd.cli.output import console, print_json, say, significant
from privfcd.cli.progress import progress

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
    from privfcd.accounting.ledger_tools import init_ledger
    from privfcd.accounting.ledger_tools import show as read

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

    from privfcd.accounting.ledger_tools import show as read

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
        for entry in data["unfinished"]:
            say(
                f"entry {entry['number']}, of {name!r}: {entry['label']!r} was paid for on {entry['time']} and never "
                "closed. If nothing runs any more, it ended early; what it took stays spent"
            )
        for entry in data["unanswered"]:
            say(f"entry {entry['number']}, of {name!r}: request {entry['request']!r} was paid, not answered")
        say(f"head of {name!r}: {data['head']}")
    say(f"head: {held['head']}")


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
    from privfcd.accounting.ledger_tools import verify as recompute

    if head is not None and re.fullmatch(r"\d+:[0-9a-f]{64}", head) is None:
        raise click.UsageError(f"--head must be a number, a colon and 64 hexadecimal digits, got {head!r}")
    with progress("verify", quiet=as_json):
        found = recompute(file, head)
    if as_json:
        listed: dict[str, Any] = {"problems": list(found.problems), "notes": list(found.notes)}
        print_json({"path": file, "ok": found.ok, "entries": found.entries, "head": found.head, **listed})
    else:
        click.echo(str(found))
        if head is None and found.ok:
            click.echo("whether newer entries were cut off, only a head that was kept elsewhere can tell (--head)")
    if not found.ok:
        raise click.exceptions.Exit(PROBLEMS)


@ledger.command()
@click.argument("file", type=click.Path(dir_okay=False))
def export(file: str) -> None:
    """Print the ledger as JSON lines: one about it, then one an entry. Without stored answers and row fingerprints.

    \b
    Example:
      privfcd ledger export north.sqlite > north.jsonl
    """
    from privfcd.accounting.ledger_tools import export as lines

    for line in lines(file):
        click.echo(line)
