"""How runs are charged, whoever makes them: under what name, and every ledger before a row is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from privfcd.data.private import PrivateTable
from privfcd.ledger import PlanPart, Reservation


class Plan(Protocol):
    """What a run releases from one table."""

    @property
    def parts(self) -> Sequence[PlanPart]:
        """All releases."""

    @property
    def delta(self) -> float | None:
        """The slice's, under an (epsilon, delta) budget."""


def run_label(run: str, table: PrivateTable) -> str:
    """Return a run's name in a table's journal, which marks noise that protects nobody."""
    return run if table.noise.secure else f"{run} with SIMULATED noise"


def reserve_all(tables: Sequence[PrivateTable], plans: Sequence[Plan], run: str) -> list[Reservation]:
    """Ask every ledger, then charge every ledger; no row is read.

    Parameters
    ----------
    tables : sequence of PrivateTable
    plans : sequence of Plan
        One for each table.
    run : str
        The run's name for `run_label`.

    Raises
    ------
    BudgetExceeded
        A budget does not allow it. Where the asking says so, no table was charged.
    """
    planned = list(zip(tables, plans, strict=True))
    for table, plan in planned:
        table.ledger.check(plan.parts, run_label(run, table), delta=plan.delta)
    return [table.ledger.reserve(plan.parts, run_label(run, table), delta=plan.delta) for table, plan in planned]
