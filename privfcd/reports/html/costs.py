"""What each kind of release cost, in an account where costs add up, and what is left of the budget.

Epsilons at a delta above 0 do not add up: the epsilon of a run is of all its releases together. Two other numbers do:
zCDP's rho, and pure DP's epsilon. The shares that the page draws are of one of these two, or none are drawn.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import dp_accounting
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

from privfcd.accounting.accountants import pure_cost, zcdp_cost
from privfcd.accounting.costs import exact_cost
from privfcd.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent, leaves
from privfcd.amounts import float_up
from privfcd.errors import InvalidParameter
from privfcd.ledger.privacy_report import PrivacyReport, ReportedPart, rounded_up
from privfcd.reports.html.promise import NEGLIGIBLE
from privfcd.reports.html.wording import printable, rounded_down

_LEFTOVER = 1e-6
"""Epsilon is priced a little below the budget that it was calibrated to: what is left then is called nothing."""

_OURS = {"BoundedRangeDpEvent": BoundedRangeDpEvent, "EpsilonDeltaDpEvent": EpsilonDeltaDpEvent}


@dataclass(frozen=True)
class PartCost:
    """One kind of release: what it was, and what all that were planned of it cost.

    Attributes
    ----------
    label, remark, mechanism : str
        Its name, what is to be known of it, and its noise in words.
    planned, drawn : int
        How many were paid for, and how many were made.
    cost : float or None
        Of all that were planned, in the run's account, rounded up; None where there is no such account.
    share : float
        Of the run, in that account.
    """

    label: str
    remark: str
    mechanism: str
    planned: int
    drawn: int
    cost: float | None
    share: float


@dataclass(frozen=True)
class RunCosts:
    """What one party paid for.

    Attributes
    ----------
    account : {"rho", "epsilon", ""}
        What adds up here: zCDP's rho, pure epsilon, or nothing.
    total : float
        Sum over the parts, rounded up.
    parts : sequence of PartCost
    """

    account: str
    total: float
    parts: Sequence[PartCost]


@dataclass(frozen=True)
class CostGroup:
    """Parties that paid the same, to the digits that are shown; the numbers are those of the one that paid most."""

    parties: Sequence[str]
    report: PrivacyReport
    costs: RunCosts


@dataclass(frozen=True)
class Standing:
    """A party's budget as a picture: three lengths that make up one bar.

    Attributes
    ----------
    party, budget, account : str
        Whose, how much, and what is added up along the bar.
    before, run, left : float
        Shares of the cap: spent by other runs, by this one, and left.
    amounts : sequence of str
        The three as numbers, spent ones rounded up, what is left rounded down.
    note : str
        What is to be known of it.
    head : str
        Of the party's ledger.
    """

    party: str
    budget: str
    account: str
    before: float
    run: float
    left: float
    amounts: Sequence[str]
    note: str
    head: str


def event_of(text: str) -> DpEvent | None:
    """Return the event that a report holds as text, or None where it is none that is known here.

    Only calls of the events' names with numbers are read; nothing is executed.
    """
    try:
        event = _built(ast.parse(text, mode="eval").body)
        return event if isinstance(event, DpEvent) else None
    except (SyntaxError, ValueError, TypeError, RecursionError):
        return None


def _built(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        kind = _OURS.get(node.func.id) or getattr(dp_accounting, node.func.id, None)
        if not (isinstance(kind, type) and issubclass(kind, DpEvent)):
            raise ValueError(node.func.id)
        named = {keyword.arg: _built(keyword.value) for keyword in node.keywords if keyword.arg}
        return kind(*(_built(argument) for argument in node.args), **named)
    if isinstance(node, ast.List | ast.Tuple):
        return [_built(item) for item in node.elts]
    if isinstance(node, ast.Name) and node.id in ("inf", "nan"):
        return float(node.id)
    return ast.literal_eval(node)


def run_costs(report: PrivacyReport) -> RunCosts:
    """Return what each kind of release cost, in the account of the budget where the parts have a cost in it.

    A pure budget is spent in epsilon; every other one is shown in rho, whichever notion it is in.
    """
    events = [event_of(part.event) for part in report.parts]
    for notion in ("epsilon", "rho") if _pure(report) else ("rho",):
        costs = [_cost(event, part.planned, notion) for event, part in zip(events, report.parts, strict=True)]
        known = [cost for cost in costs if cost is not None]
        if len(known) == len(costs) and (total := sum(known, Fraction(0))) > 0:
            return RunCosts(
                notion,
                float_up(total),
                [
                    _part(part, event, float_up(cost), float(cost / total))
                    for part, event, cost in zip(report.parts, events, known, strict=True)
                ],
            )
    return RunCosts("", math.inf, [_part(*pair, None, 0.0) for pair in zip(report.parts, events, strict=True)])


def cost_groups(reports: Iterable[PrivacyReport]) -> list[CostGroup]:
    """Return what was paid for, each with the parties that did, in the order of their first."""
    groups: dict[tuple[Any, ...], list[PrivacyReport]] = {}
    for report in reports:
        costs = run_costs(report)
        shown = tuple(
            (part.label, part.remark, part.mechanism, part.planned, part.drawn, _shown(part.cost))
            for part in costs.parts
        )
        key = (costs.account, _shown(costs.total), shown, report.accountant, _shown(report.epsilon))
        groups.setdefault(key, []).append(report)
    made = []
    for members in groups.values():
        most = max(members, key=lambda report: (report.rho, report.epsilon))
        made.append(CostGroup([printable(report.party) for report in members], most, run_costs(most)))
    return made


def _shown(cost: float | None) -> str:
    return "" if cost is None else rounded_up(cost, 3)


def standings(reports: Iterable[PrivacyReport]) -> list[Standing]:
    """Return the budgets of the parties that have one."""
    return [made for report in reports if report.standing and (made := _standing(report)) is not None]


def _standing(report: PrivacyReport) -> Standing | None:
    given = report.standing
    cap, run, spent, left = (float(given[name]) for name in ("cap", "run", "spent", "left"))
    if not cap > 0:
        return None
    before, left = max(spent - run, 0.0), max(left, 0.0)
    negligible = _LEFTOVER * cap
    account, note = str(given["account"]), ""
    if left > negligible and not given["usable"]:
        note = "cannot be spent: delta is used up"
    elif account not in ("epsilon", "rho"):
        note = "of the rho that what was left of the budget was once turned into; slices before that are not in the bar"
    amounts = (
        rounded_up(before) if before > NEGLIGIBLE * cap else "0",
        rounded_up(run),
        rounded_down(left) if left > negligible else "nothing",
    )
    total = before + run + left
    shares = [min(1.0, part / total) for part in (before, run, left)]
    return Standing(
        printable(report.party),
        report.budget,
        "epsilon" if account == "epsilon" else "rho",
        shares[0],
        shares[1],
        shares[2],
        amounts,
        note,
        report.head,
    )


def _part(part: ReportedPart, event: DpEvent | None, cost: float | None, share: float) -> PartCost:
    words = part.event if event is None else mechanism_words(event)
    return PartCost(part.label, part.remark, words, part.planned, part.drawn, cost, share)


def _pure(report: PrivacyReport) -> bool:
    """Say whether the budget is spent in pure epsilon: the run took the sum of its parts' epsilons, whatever its delta."""
    taken = report.standing.get("run") if report.standing.get("account") == "epsilon" else None
    if taken is None:
        return report.delta == 0 and not report.standing
    return math.isclose(taken, report.pure_epsilon, rel_tol=1e-9)


def _cost(event: DpEvent | None, count: int, notion: str) -> Fraction | None:
    """Return what `count` such events cost; None where the event is not known or has no finite cost."""
    if event is None:
        return None
    priced: Callable[[DpEvent], float | None] = pure_cost if notion == "epsilon" else zcdp_cost
    total = Fraction(0)
    try:
        for leaf, times in leaves(event):
            cost = None if priced(leaf) is None else exact_cost(leaf, notion)
            if cost is None:
                return None
            total += cost * times * count
    except InvalidParameter:
        return None
    return total


def mechanism_words(event: DpEvent) -> str:
    """Return an event in the words of the field."""
    match event:
        case GaussianDpEvent():
            return f"Gaussian noise, sd = {rounded_down(event.noise_multiplier, 4)} × sensitivity"
        case LaplaceDpEvent():
            return f"Laplace noise, scale = {rounded_down(event.noise_multiplier, 4)} × sensitivity"
        case BoundedRangeDpEvent():
            return f"exponential mechanism, range of the privacy loss {rounded_up(event.eta, 4)}"
        case EpsilonDeltaDpEvent():
            return f"({rounded_up(event.epsilon, 4)}, {rounded_up(event.delta, 4)})-DP"
        case ZCDpEvent():
            return f"{rounded_up(event.rho, 4)}-zCDP"
        case NonPrivateDpEvent():
            return "exact, no noise"
        case NoOpDpEvent():
            return "no record can change it"
        case SelfComposedDpEvent():
            return f"{event.count:,} × ({mechanism_words(event.event)})"
        case ComposedDpEvent():
            return "; ".join(mechanism_words(part) for part in event.events)
    return repr(event)
