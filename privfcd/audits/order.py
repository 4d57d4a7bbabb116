"""Is everything paid for before rows are read, and does a refusal keep the answer back?

A subject is run on a table that notes when its rows are looked at, by whatever door, and when its ledger is charged; and
once more with a budget that allows nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, Budget
from privfcd.audits.canaries import Template, worst_canary
from privfcd.audits.subjects import Subject, WatchedLedger, subject_of
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded
from privfcd.mechanisms import SimulatedNoise

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OrderReport:
    """What the two runs showed.

    Attributes
    ----------
    subject : str
    read_before_charge : bool
        Rows were looked at before anything had been charged.
    read_after_refusal : bool
        Rows were looked at though the charge was refused.
    answered_after_refusal : bool
        The run ended with an answer though a charge was refused, or none was asked for.
    """

    subject: str
    read_before_charge: bool
    read_after_refusal: bool
    answered_after_refusal: bool

    @property
    def ok(self) -> bool:
        """Whether none of these happened."""
        return not (self.read_before_charge or self.read_after_refusal or self.answered_after_refusal)

    def __str__(self) -> str:
        wrong = [
            words
            for words, happened in (
                ("rows were read before a charge", self.read_before_charge),
                ("rows were read after a refusal", self.read_after_refusal),
                ("an answer was given after a refusal", self.answered_after_refusal),
            )
            if happened
        ]
        return f"Order of charges and reads in {self.subject}: {'; '.join(wrong) or 'nothing wrong seen'}"


class WatchedTable(PrivateTable):
    """A table that notes every look at its rows, behind the door or in front of it."""

    @property
    def _rows(self) -> Array:
        self.ledger.log.append("read")  # type: ignore[attr-defined]
        return self._kept

    @_rows.setter
    def _rows(self, rows: Array) -> None:
        self._kept = rows


class _LoggedLedger(WatchedLedger):
    """Notes charges and refusals; with `spent` it refuses all, as a ledger does whose budget is used up."""

    def __init__(self, template: Template, spent: bool) -> None:
        super().__init__(template)
        self.log: list[str] = []
        self._spent = spent

    def left(self) -> Budget | None:
        return None if self._spent else super().left()

    def check(self, *args: Any, **kwargs: Any) -> Any:
        return self._noted("checked", super().check, *args, **kwargs)

    def charge(self, *args: Any, **kwargs: Any) -> Any:
        return self._noted("charged", super().charge, *args, **kwargs)

    def reserve(self, *args: Any, **kwargs: Any) -> Any:
        return self._noted("charged", super().reserve, *args, **kwargs)

    def _noted(self, word: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._spent:
            self.log.append("refused")
            raise BudgetExceeded(f"nothing is left of the budget of {self.name!r}")
        answer = method(*args, **kwargs)
        self.log.append(word)
        return answer


def check_order(subject: Any, table: PrivateTable) -> OrderReport:
    """Run a subject on watched tables like `table`, with its budget and with nothing left of it.

    Parameters
    ----------
    subject : Estimator or function of a list with one table
    table : PrivateTable
        A private table, of which only the public side is used.

    Returns
    -------
    OrderReport
        What was done in which order, and whether rows were read before they were paid for.

    Raises
    ------
    InvalidParameter
        The table has no budget.
    """
    how = subject_of(subject, "honest")
    template = Template.of(table)
    if template.budget is None:
        raise checks.refuse("table", table, "one with a budget")
    log, _ = _run(how, template, spent=False)
    refused, answered = _run(how, template, spent=True)
    first_charge = log.index("charged") if "charged" in log else len(log)
    return OrderReport(
        subject=how.name,
        read_before_charge="read" in log[:first_charge],
        read_after_refusal="read" in refused,
        answered_after_refusal=answered,
    )


def _run(subject: Subject, template: Template, spent: bool) -> tuple[list[str], bool]:
    canary = worst_canary(template.bounds, len(template.columns))
    ledger = _LoggedLedger(template, spent)
    table = WatchedTable(
        template.worlds(canary, None)[0],
        template.columns,
        ledger=ledger,
        bounds=template.bounds,
        noise=SimulatedNoise(0),
        relation=template.relation,
        declared_rows=None if template.relation is REPLACE_ONE else template.rows,
    )
    try:
        subject.open(lambda: [table], 0)(0)
    except BudgetExceeded:
        return ledger.log, False
    return ledger.log, True
