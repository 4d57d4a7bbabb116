"""The tables that a command runs on: the checks of its options, then the tables with their budgets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.config import given, origin
from privfcd.cli.output import echo

if TYPE_CHECKING:
    from privfcd.data import PrivateTable, Schema
    from privfcd.mechanisms import NoiseSource

WORTH = 1e-3
"""Less than this share of what was asked for is not offered instead: roundings leave remainders that buy nothing."""

NOT_WITHOUT_PRIVACY = ("delta", "bounds", "noise_multiplier", "row_norm", "noise", "seed")


def check_privacy(context: click.Context, what: str) -> None:
    """Refuse options that contradict each other about privacy.

    Parameters
    ----------
    what : str
        What is without privacy: "a private run", say.
    """
    options = context.params
    if options["no_privacy"] and options["epsilon"] is not None:
        raise click.UsageError(f"give --epsilon or --no-privacy, not both{origin(context, 'epsilon', 'no_privacy')}")
    if not options["no_privacy"] and options["epsilon"] is None and not options.get("ledgers"):
        raise click.UsageError(f"give --epsilon or --ledger for {what}, or --no-privacy for exact answers")
    refuse_without_privacy(context)


def refuse_without_privacy(context: click.Context) -> None:
    """Refuse options that exact answers have no use for."""
    for name in NOT_WITHOUT_PRIVACY if context.params["no_privacy"] else ():
        if name in context.params and given(context, name):
            flag = "--" + name.replace("_", "-")
            raise click.UsageError(
                f"leave out {flag} or --no-privacy{origin(context, name, 'no_privacy')}: exact answers have no {flag[2:]}"
            )


def noise_source(options: dict[str, Any]) -> NoiseSource:
    """Take `noise` and `seed` out of the options, and return the source they name."""
    kind, seed = options.pop("noise"), options.pop("seed")
    from privfcd.mechanisms import SecureNoise, SimulatedNoise

    if kind == "secure":
        if seed is not None:
            raise click.UsageError("--seed belongs to --noise simulated: secure noise has no seed")
        return SecureNoise()
    return SimulatedNoise(0 if seed is None else seed)


def read_schema(options: dict[str, Any]) -> Schema | None:
    """Return the schema of the columns that the options take; None where there is none."""
    if options["schema"] is None:
        return None
    from privfcd.data.schema import Schema

    schema = Schema.read(options["schema"])
    return schema.only(options["columns"], drop=options["drop"] or ())


def read_files(
    files: Sequence[str], ledgers: Sequence[str], target: str | None, schema: str | None = None
) -> list[str]:
    """Return all that a run reads, with the files that SQLite keeps beside a ledger."""
    beside = [ledger + suffix for ledger in ledgers for suffix in ("", "-wal", "-shm", "-journal")]
    return [*files, *beside, *(each for each in (target, schema) if each is not None)]


def paired(options: dict[str, Any]) -> list[str] | None:
    """Return which ledger pays for which table, in words; None where there are no ledgers."""
    ledgers = options["ledgers"]
    return [f"{file} -> {ledger}" for file, ledger in zip(options["files"], ledgers, strict=True)] if ledgers else None


def open_tables(options: dict[str, Any], noise: NoiseSource, *, dry_run: bool = False) -> list[PrivateTable]:
    """Return the tables, each with its budget.

    A dry run works on copies of the ledgers in memory, made from what can be read of the files: they stay as they are.
    """
    from privfcd.ledger.tools import snapshot
    from privfcd.runs import data_set_of, private_tables

    ledgers: Sequence[Any] | None = options["ledgers"] or None
    if dry_run and ledgers is not None:
        labels = [Path(file).stem for file in options["files"]]
        ledgers = [snapshot(path, data_set_of(path, label)) for path, label in zip(ledgers, labels, strict=False)]
    return private_tables(
        options["files"],
        epsilon=options["epsilon"],
        delta=options["delta"],
        private=not options["no_privacy"],
        bounds=options["bounds"],
        noise=noise,
        ledgers=ledgers,
        log1p=options["log1p"],
        columns=options["columns"],
        drop=options["drop"] or (),
        schema=options["schema"],
    )


def print_columns(options: dict[str, Any], tables: Sequence[PrivateTable]) -> None:
    """Say after a plan which columns were taken, where not all were."""
    if not options["as_json"] and (options["columns"] or options["drop"]):
        echo(f"Columns: {', '.join(tables[0].columns)}; the others' cells were not looked at.")


def warn_of_delta(options: dict[str, Any], tables: Sequence[PrivateTable], *, quiet: bool) -> None:
    """Say on stderr where the run's delta is not below 1/n: before anything is charged."""
    if quiet:
        return
    from privfcd.reports.html.promise import loose_delta

    slices = [(table.name, _delta_of(options, table), table.n_rows) for table in tables]
    for line in loose_delta([(name, delta, rows) for name, delta, rows in slices if delta is not None]):
        echo(f"Warning: {line}", err=True)


def _delta_of(options: dict[str, Any], table: PrivateTable) -> float | None:
    """Return the delta that a run takes of a table's budget; None where it has none."""
    if table.open:
        return None
    if options["delta"] is not None:
        return float(options["delta"])
    left, epsilon = table.ledger.left(), options["epsilon"]
    if left is None or left.epsilon is None:
        return None
    return left.delta * (1.0 if epsilon is None else min(1.0, epsilon / left.epsilon))


@contextmanager
def fitting(options: dict[str, Any], tables: Sequence[PrivateTable]) -> Iterator[None]:
    """If a budget refuses what the block asks of it, say what would fit."""
    from privfcd.errors import BudgetExceeded

    try:
        yield
    except BudgetExceeded as error:
        hint = _what_fits(options, tables, str(error))
        if hint:
            error.args = (f"{error}; {hint}", *error.args[1:])
        raise


def _what_fits(options: dict[str, Any], tables: Sequence[PrivateTable], refusal: str) -> str:
    """Return what the budgets would allow where the run asks for more; "" where asking for less would not help."""
    from privfcd.reports.html.wording import rounded_down

    found = [table.ledger.left() for table in tables if not table.open]
    left = [each for each in found if each is not None]
    if len(left) < len(found):
        return ""
    takes = []
    for name in ("epsilon", "delta"):
        asked, have = options[name], [getattr(each, name) for each in left if each.epsilon is not None]
        if asked is not None and have and WORTH * asked < min(have) < asked:
            takes.append(f"--{name} {rounded_down(min(have), 6)} or less")
    if not takes and options["epsilon"] is not None and "asked rho" in refusal:
        return "take a smaller --epsilon, or leave it out for all that is left (--dry-run shows what that buys)"
    return f"take {' and '.join(takes)}; --dry-run shows what that buys" if takes else ""
