"""What a run promises about one data set: in numbers, and in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from typing import Any

from dp_accounting import NeighboringRelation, UnsupportedEventError

from privfcd.accounting.accountants import PureDPAccountant, ZCDPAccountant
from privfcd.accounting.calibration import epsilon_of
from privfcd.accounting.events import REPLACE_ONE
from privfcd.accounting.ledger import Reservation


@dataclass(frozen=True)
class ReportedPart:
    """One kind of release: its name, the event of one, how many were paid for and how many were drawn."""

    label: str
    event: str
    planned: int
    drawn: int
    remark: str = ""


@dataclass(frozen=True)
class PrivacyReport:
    """The promise to one party's records.

    Attributes
    ----------
    party : str
        The data set's name.
    relation, change : str
        What neighbours differ in, in words, and what happens to the record.
    parts : sequence of ReportedPart
        All releases of the run.
    epsilon, delta : float
        What the run costs by `accountant`; epsilon is inf for an open table.
    rho, pure_epsilon : float
        The same under zCDP and pure DP; inf where there is none.
    accountant : str
        Who says so.
    budget : str
        The data set's budget, and what is left of it.
    noise : str
        Where the noise came from.
    secure : bool
        Whether that source protects anything.
    declared : mapping of str to object
        What the owner declared public.
    assumptions : sequence of str
        What the promise rests on.
    head : str
        Number and hash of the data set's last entry in its ledger when the report was made; empty where the ledger
        chains nothing. Kept outside the ledger, it shows later whether entries were cut off.
    """

    party: str
    relation: str
    change: str
    parts: Sequence[ReportedPart]
    epsilon: float
    delta: float
    rho: float
    pure_epsilon: float
    accountant: str
    budget: str
    left: str
    noise: str
    secure: bool
    declared: Mapping[str, Any] = field(default_factory=dict)
    assumptions: Sequence[str] = ()
    head: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON; infinities become the text "inf"."""

        def plain(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {str(key): plain(item) for key, item in value.items()}
            if isinstance(value, Iterable) and not isinstance(value, str):
                return [plain(item) for item in value]
            return str(value) if isinstance(value, float) and not math.isfinite(value) else value

        result = {name: plain(getattr(self, name)) for name in self.__dataclass_fields__ if name != "parts"}
        result["declared"] = plain(self.declared)
        result["assumptions"] = list(self.assumptions)
        result["parts"] = [vars_of(part) for part in self.parts]
        return result

    def __str__(self) -> str:
        lines = [f"Privacy report for {self.party!r}", "", *_promise(self), ""]
        paid = "exact, unpaid" if math.isinf(self.rho) else "each was paid for before a row was read"
        lines.append(f"What was released ({paid}):")
        for part in self.parts:
            remark = f" ({part.remark})" if part.remark else ""
            lines.append(f"  {part.drawn} of {part.planned} x {part.label}: {part.event}{remark}")
        lines += [
            "",
            f"Cost: epsilon = {_up(self.epsilon)} at delta = {_up(self.delta)} by the {self.accountant} accountant; "
            f"rho = {self.rho:.6g} (zCDP); pure epsilon = {self.pure_epsilon:.6g}",
            f"Budget: {self.budget}; left: {self.left}",
            *([f"Ledger: head {self.head} (keep it: `privfcd ledger verify --head`)"] if self.head else []),
            f"Noise: {self.noise}",
            "Declared public by the owner: " + ("; ".join(f"{k} = {v}" for k, v in self.declared.items()) or "nothing"),
            *(["Assumptions:"] if self.assumptions else []),
            *(f"  - {text}" for text in self.assumptions),
        ]
        return "\n".join(lines)


def _up(value: float, digits: int = 6) -> str:
    """Return a number with so many digits, rounded up: a printed promise is never better than the true one."""
    if math.isinf(value) or value == 0:
        return f"{value:g}"
    exact = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(exact):.{digits}g}"


def vars_of(part: ReportedPart) -> dict[str, Any]:
    """Return a part for JSON."""
    return {name: getattr(part, name) for name in part.__dataclass_fields__}


def report_on(
    reservation: Reservation,
    *,
    delta: float | None,
    relation: NeighboringRelation,
    noise: str,
    secure: bool,
    declared: Mapping[str, Any],
    assumptions: Sequence[str] = (),
) -> PrivacyReport:
    """Return the report on one reservation: what was planned is what was paid, drawn or not."""
    ledger, event = reservation.ledger, reservation.event
    drawn = reservation.drawn()
    report_delta = 0.0 if delta is None else delta
    left = ledger.left()
    epsilon = math.inf if ledger.open else epsilon_of(event, report_delta, ledger.accountant)
    return PrivacyReport(
        party=ledger.name,
        relation=_relation_words(relation),
        change="another one" if relation is REPLACE_ONE else "absent, or one more present",
        parts=[ReportedPart(p.label, repr(p.event), p.count, drawn[p.label], p.remark) for p in reservation.parts],
        epsilon=epsilon,
        delta=report_delta,
        rho=_rho(reservation),
        pure_epsilon=_pure(reservation),
        accountant=ledger.accountant,
        budget="none (open table)" if ledger.budget is None else str(ledger.budget),
        left="everything is open" if ledger.open else ("nothing" if left is None else str(left)),
        noise=noise,
        secure=secure,
        declared=dict(declared),
        assumptions=tuple(assumptions),
        head=ledger.head(),
    )


def _rho(reservation: Reservation) -> float:
    try:
        return ZCDPAccountant().compose(reservation.event).rho
    except UnsupportedEventError:
        return math.inf


def _pure(reservation: Reservation) -> float:
    try:
        return PureDPAccountant().compose(reservation.event).get_epsilon(0.0)
    except UnsupportedEventError:
        return math.inf


def _relation_words(relation: NeighboringRelation) -> str:
    if relation is REPLACE_ONE:
        return "replace one record of this party by any other; the number of records is public"
    return "add or remove one record of this party; the number of records is not public, only the declared one"


def _promise(report: PrivacyReport) -> list[str]:
    if math.isinf(report.epsilon) and math.isfinite(report.rho):
        return [
            f"If any one record of {report.party!r} had been {report.change}, what left the party would have been "
            f"distributed almost the same: rho = {report.rho:.6g} zero-concentrated differential privacy. At delta = 0 no "
            "epsilon says so.",
            f"Neighbours: {report.relation}.",
        ]
    if math.isinf(report.epsilon):
        return [
            "NO PRIVACY: this table has no budget, so the run used exact answers (epsilon = inf). Whoever sees the "
            "messages or the result may learn anything about its records."
        ]
    factor = f" = {math.exp(report.epsilon):.4g}" if report.epsilon < 700 else ""
    lines = [
        f"If any one record of {report.party!r} had been {report.change}, every set of outcomes of this run would have "
        f"been at most e^{report.epsilon:.4g}{factor} times as likely, but for "
        f"a probability of {_up(report.delta)}. This holds for everything that left the party: towards the coordinator, the "
        "other parties and whoever sees the graph, whatever else they know.",
        f"Neighbours: {report.relation}.",
    ]
    if not report.secure:
        warning = "THE NOISE WAS SIMULATED: whoever knows the seed can remove it. This run protects nobody."
        return [warning, "With secure noise of the same scale, this would hold:", *lines]
    return lines
