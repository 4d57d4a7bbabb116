"""The tables that a command runs on: the checks of its options, then the tables with their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.config import given, origin

if TYPE_CHECKING:
    from privfcd.data import PrivateTable
    from privfcd.mechanisms import NoiseSource

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


def read_files(files: Sequence[str], ledgers: Sequence[str], target: str | None) -> list[str]:
    """Return all that a run reads, with the files that SQLite keeps beside a ledger."""
    beside = [ledger + suffix for ledger in ledgers for suffix in ("", "-wal", "-shm", "-journal")]
    return [*files, *beside, *([] if target is None else [target])]


def open_tables(options: dict[str, Any], noise: NoiseSource, *, dry_run: bool = False) -> list[PrivateTable]:
    """Return the tables, each with its budget.

    A dry run works on copies of the ledgers in memory, made from what can be read of the files: they stay as they are.
    """
    from privfcd.accounting.ledger_tools import snapshot
    from privfcd.learning import data_set_of, private_tables

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
    )
