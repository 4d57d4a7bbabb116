"""What a run promises about one data set: in numbers, and in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any

from dp_accounting import NeighboringRelation, UnsupportedEventError

from privfcd.accounting.accountants import PureDPAccountant, ZCDPAccountant
from privfcd.accounting.calibration import epsilon_of
from privfcd.accounting.events import REPLACE_ONE
from privfcd.accounting.group_privacy import group_event
from privfcd.accounting.units import UNITS_IN_ONE
from privfcd.amounts import float_down, float_up
from privfcd.ledger.ledger import Reservation
from privfcd.markup import bullets, card, folded, one_line, paragraph, table, writable

EACH_ROW = "Records are independent rows: a person with several rows has this promise for each row, not for all together."
"""An assumption of whoever releases anything; reports add the price of a person with `ROWS` rows, see `group_event`."""
ROWS = 3


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
    budget, left : str
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
    standing : mapping of str to object
        The data set's budget in numbers when the report was made, in the one account in which costs add up: `account`
        ("epsilon", "rho", or that of an adaptive slice), its `cap`, what this `run` took of it, what was `spent` in all,
        this run included, and what is `left`; and whether anything is `usable`: epsilon without delta buys nothing.
        Empty for an open table, and in reports that were stored before there was one.
    trusted : str
        Who could see more than the answers with noise, so that nothing is promised towards it; empty where nobody could.
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
    standing: Mapping[str, Any] = field(default_factory=dict)
    trusted: str = ""

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
        result["standing"] = plain(self.standing)
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
            f"Cost: epsilon = {rounded_up(self.epsilon)} at delta = {rounded_up(self.delta)} by the {self.accountant} "
            f"accountant; rho = {rounded_up(self.rho)} (zCDP); pure epsilon = {rounded_up(self.pure_epsilon)}",
            f"Budget: {self.budget}; left: {self.left}",
            *([f"Ledger: head {self.head} (keep it: `privfcd ledger verify --head`)"] if self.head else []),
            f"Noise: {self.noise}",
            "Declared public by the owner: " + ("; ".join(f"{k} = {v}" for k, v in self.declared.items()) or "nothing"),
            *(["Assumptions:"] if self.assumptions else []),
            *(f"  - {text}" for text in self.assumptions),
        ]
        return "\n".join(map(writable, lines))  # names come from others

    def headline(self) -> str:
        """Return the promise in one line, its numbers rounded up."""
        if math.isinf(self.epsilon) and math.isinf(self.rho):
            return f"{one_line(self.party)}: NO PRIVACY, exact answers (epsilon = inf)"
        cost = f"rho = {rounded_up(self.rho)} (zCDP; at delta = 0 no epsilon)"
        if math.isfinite(self.epsilon):
            cost = f"epsilon = {rounded_up(self.epsilon)} at delta = {rounded_up(self.delta)}"
        if self.trusted:
            cost += f", not towards {self.trusted}"
        if self.secure:
            return f"{one_line(self.party)}: {cost}; left of its budget: {self.left}"
        return f"{one_line(self.party)}: THE NOISE WAS SIMULATED, this run protects nobody; with secure noise {cost}"

    def _repr_html_(self) -> str:
        """Return the report for notebooks: the promise first, the releases and assumptions folded away."""
        releases = [(part.label, part.event, part.planned, part.drawn, part.remark) for part in self.parts]
        cost = [
            ("epsilon, delta", f"{rounded_up(self.epsilon)}, {rounded_up(self.delta)} ({self.accountant} accountant)"),
            ("rho (zCDP)", rounded_up(self.rho)),
            ("pure epsilon", rounded_up(self.pure_epsilon)),
            ("budget", self.budget),
            ("left", self.left),
            ("noise", self.noise),
            *((("head of the ledger", self.head),) if self.head else ()),
            *((f"declared: {name}", value) for name, value in self.declared.items()),
        ]
        return card(
            f"Privacy report for {self.party!r}",
            *map(paragraph, _promise(self)),
            table(cost),
            folded("What was released", table(releases, ("release", "event", "paid", "drawn", "remark"))),
            folded("Assumptions", bullets(self.assumptions)) if self.assumptions else "",
        )


def rounded_up(value: float, digits: int = 6) -> str:
    """Return a number with so many digits, rounded up: a printed promise is never better than the true one.

    Parameters
    ----------
    value : float
        At least 0; inf stays inf.
    digits : int
        Significant ones.
    """
    if math.isinf(value) or value == 0:
        return f"{value:g}"
    exact = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(repr(value))
    return f"{float(exact):.{digits}g}"


def towards(report: PrivacyReport, seen: str = "the graph") -> str:
    """Return in a sentence or two towards whom a promise holds, and towards whom it does not."""
    if report.trusted:
        return (
            "This holds towards whoever sees the answers with noise and what was made of them, whatever else they know. "
            f"It does NOT hold towards {report.trusted}: that must be trusted with the records."
        )
    return (
        "This holds for everything that left the party in this run: towards the coordinator, the other parties and "
        f"whoever sees {seen}, whatever else they know."
    )


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
    trusted: str = "",
) -> PrivacyReport:
    """Return the report on one reservation: what was planned is what was paid, drawn or not."""
    ledger, event = reservation.ledger, reservation.event
    drawn = reservation.drawn()
    report_delta = 0.0 if delta is None else delta
    left = ledger.left()
    epsilon = math.inf if ledger.open else epsilon_of(event, report_delta, ledger.accountant)
    if math.isfinite(epsilon):
        price = rounded_up(epsilon_of(group_event(event, ROWS), report_delta, ledger.accountant))
        several = f"{EACH_ROW} For a person with {ROWS} rows it is epsilon = {price} at the same delta."
        assumptions = [several if text == EACH_ROW else text for text in assumptions]
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
        standing=_standing(reservation),
        trusted="" if ledger.open else trusted,
    )


def _standing(reservation: Reservation) -> dict[str, Any]:
    """Return `PrivacyReport.standing`: what was spent rounded up, what is left rounded down."""
    ledger, charged = reservation.ledger, reservation.charged()
    if ledger.budget is None or not charged:
        return {}
    account = next((name for name in ("epsilon", "rho") if name in charged), next(iter(charged)))
    spent, left = ledger.spent_units()[account], ledger.left()
    if account == "epsilon":
        cap = ledger.budget.epsilon_units
    elif account == "rho":
        cap = ledger.budget.rho_units
    else:  # an adaptive slice: its cap is in the journal, and is what is spent and left of it
        cap = spent + (0 if left is None else left.rho_units)
    return {
        "account": account,
        "cap": float_down(Fraction(cap, UNITS_IN_ONE)),
        "run": float_up(Fraction(charged[account], UNITS_IN_ONE)),
        "spent": float_up(Fraction(spent, UNITS_IN_ONE)),
        "left": float_down(Fraction(cap - spent, UNITS_IN_ONE)),
        "usable": left is not None,
    }


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
    if math.isinf(report.epsilon) and math.isinf(report.rho):
        return [
            "NO PRIVACY: this table has no budget, so the run used exact answers (epsilon = inf). Whoever sees the "
            "messages or the result may learn anything about its records."
        ]
    if math.isinf(report.epsilon):
        same = (
            f"what left the party in this run would have been distributed almost the same: rho = {rounded_up(report.rho)} "
            "zero-concentrated differential privacy. At delta = 0 no epsilon says so."
        )
    else:
        factor = ""
        if report.epsilon < 700:
            factor = f" = {rounded_up(math.nextafter(math.exp(report.epsilon), math.inf), 4)}"
        same = (
            f"every set of outcomes of this run would have been at most e^{rounded_up(report.epsilon, 4)}{factor} times as "
            f"likely, but for a probability of {rounded_up(report.delta)}."
        )
    lines = [
        f"If any one record of {report.party!r} had been {report.change}, {same} {towards(report)}",
        f"Neighbours: {report.relation}.",
    ]
    if not report.secure:
        warning = "THE NOISE WAS SIMULATED: whoever knows the seed can remove it. This run protects nobody."
        return [warning, "With secure noise of the same scale, this would hold:", *lines]
    return lines
