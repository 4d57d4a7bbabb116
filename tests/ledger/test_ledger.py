"""The ledger: refuses before access, records before release, and never grants more than the budget."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import ComposedDpEvent

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    ZCDpEvent,
)
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger, MemoryJournal, PlanPart

UNITS = 10**24
PURE, RHO, BOTH = Budget(epsilon=1), Budget(rho=0.5), Budget(epsilon=1, delta=1e-6)


def decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def state(ledger: Ledger) -> tuple[Any, ...]:
    return ledger.spent_units(), ledger.spent(), ledger.left(), tuple(ledger.entries())


def unchanged(ledger: Ledger, call: Callable[[], object], error: type[Exception], match: str | None = None) -> None:
    before = state(ledger)
    with pytest.raises(error, match=match):
        call()
    assert state(ledger) == before


# --- exact sums ---------------------------------------------------------------------------------------------------


def test_ten_charges_of_a_tenth_fit_one_and_an_eleventh_does_not() -> None:
    ledger = Ledger(PURE)
    for _ in range(10):
        ledger.charge(BoundedRangeDpEvent(0.1))
    assert ledger.spent_units() == {"epsilon": UNITS}
    assert ledger.left() is None
    unchanged(ledger, lambda: ledger.charge(BoundedRangeDpEvent(1e-20)), BudgetExceeded, "asked epsilon 1e-20")
    tenths = Ledger(PURE)
    tenths.reserve([PlanPart("steps", LaplaceDpEvent(10.0), 10)])
    assert tenths.left() is None
    gaussians = Ledger(RHO)
    gaussians.reserve([PlanPart("steps", GaussianDpEvent(10.0), 100)])
    assert gaussians.left() is None


def test_eleven_parts_of_a_budget_split_by_eleven_fit_and_a_twelfth_does_not() -> None:
    parts = Budget(epsilon=1).split(11)
    ledger = Ledger(Budget(epsilon=1))
    for part in parts:
        assert part.epsilon is not None
        ledger.charge(BoundedRangeDpEvent(part.epsilon))
    assert ledger.spent_units()["epsilon"] <= UNITS
    unchanged(ledger, lambda: ledger.charge(BoundedRangeDpEvent(1 / 11)), BudgetExceeded)
    eleventh = Ledger(Budget(epsilon=1))
    for _ in range(10):
        eleventh.charge(BoundedRangeDpEvent(1 / 11))
    assert eleventh.spent_units()["epsilon"] == 10 * math.ceil(decimal(1 / 11) * UNITS)


def test_a_refusal_leaves_the_ledger_open_for_what_fits() -> None:
    ledger = Ledger(Budget(epsilon=0.5))
    ledger.charge(BoundedRangeDpEvent(0.2))
    for _ in range(3):
        unchanged(
            ledger,
            lambda: ledger.charge(BoundedRangeDpEvent(0.4), "greedy"),
            BudgetExceeded,
            "'greedy' on 'table' was refused: asked epsilon 0.4, spent 0.2, left 0.3 of 0.5",
        )
    ledger.charge(BoundedRangeDpEvent(0.1))
    assert ledger.spent()["epsilon"] == pytest.approx(0.3)


def test_what_is_recorded_is_never_less_than_what_was_spent() -> None:
    ledger = Ledger(RHO)
    for event in (GaussianDpEvent(7.3), LaplaceDpEvent(3.7), BoundedRangeDpEvent(0.13), ZCDpEvent(1e-30)):
        before = ledger.spent_units().get("rho", 0)
        ledger.charge(event)
        exact = {
            GaussianDpEvent: lambda e: 1 / (2 * decimal(e.noise_multiplier) ** 2),
            ZCDpEvent: lambda e: decimal(e.rho),
            LaplaceDpEvent: lambda e: (
                Fraction(1 / e.noise_multiplier + math.exp(-1 / e.noise_multiplier) - 1) - Fraction(1, 10**15)
            ),
            BoundedRangeDpEvent: lambda e: decimal(e.eta) ** 2 / 8 * Fraction(99, 100),
        }[type(event)](event)
        assert ledger.spent_units()["rho"] - before >= exact * UNITS


# --- who is refused, by name --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "event", "error", "match"),
    [
        (PURE, GaussianDpEvent(5.0), InvalidParameter, "GaussianDpEvent cannot be paid from a pure-DP budget"),
        (PURE, ZCDpEvent(0.1), InvalidParameter, "ZCDpEvent cannot be paid from a pure-DP budget"),
        (PURE, EpsilonDeltaDpEvent(0.1, 1e-9), InvalidParameter, "EpsilonDeltaDpEvent"),
        (
            RHO,
            EpsilonDeltaDpEvent(0.1, 1e-9),
            InvalidParameter,
            "EpsilonDeltaDpEvent cannot be paid from a zCDP budget",
        ),
        (PURE, NonPrivateDpEvent(), BudgetExceeded, "NonPrivateDpEvent"),
        (RHO, NonPrivateDpEvent(), BudgetExceeded, "NonPrivateDpEvent"),
        (BOTH, NonPrivateDpEvent(), BudgetExceeded, "NonPrivateDpEvent"),
        (PURE, LaplaceDpEvent(0.0), BudgetExceeded, "LaplaceDpEvent"),
        (RHO, GaussianDpEvent(0.0), BudgetExceeded, "GaussianDpEvent"),
        (PURE, "gaussian", InvalidParameter, "event"),
        (None, GaussianDpEvent(math.nan), InvalidParameter, "NaN"),
        (PURE, BoundedRangeDpEvent(math.nan), InvalidParameter, "NaN"),
        (BOTH, ComposedDpEvent([GaussianDpEvent(9.0), ZCDpEvent(math.nan)]), InvalidParameter, "NaN"),
    ],
)
def test_events_that_no_budget_pays_for_are_refused_by_name(
    budget: Budget | None, event: Any, error: type[Exception], match: str
) -> None:
    ledger = Ledger(budget)
    unchanged(ledger, lambda: ledger.charge(event), error, match)
    if isinstance(event, DpEvent):
        unchanged(ledger, lambda: ledger.charge(ComposedDpEvent([NoOpDpEvent(), event])), error, match)
        with pytest.raises(error):
            ledger.reserve([PlanPart("part", event, 2)])
        assert not ledger.entries()


def test_reservations_are_refused_as_a_whole() -> None:
    ledger = Ledger(PURE)
    plan = [PlanPart("small", BoundedRangeDpEvent(0.1), 5), PlanPart("large", BoundedRangeDpEvent(0.11), 5)]
    unchanged(ledger, lambda: ledger.reserve(plan), BudgetExceeded, "asked epsilon 1.05")
    unchanged(ledger, lambda: ledger.check(plan), BudgetExceeded, "asked epsilon 1.05")
    unchanged(ledger, lambda: ledger.reserve([plan[0], plan[0]]), InvalidParameter, "all different")
    for count in (-1, 1.5, True, math.nan):
        part = PlanPart("small", BoundedRangeDpEvent(0.1), count)  # type: ignore[arg-type]
        unchanged(ledger, lambda part=part: ledger.reserve([part]), InvalidParameter, "small")
    for delta in (math.nan, -1.0, 1.0, True):
        both = Ledger(BOTH)
        unchanged(both, lambda both=both, delta=delta: both.reserve(plan, delta=delta), InvalidParameter, "delta")
    both = Ledger(BOTH)
    unchanged(both, lambda: both.reserve([plan[0]], delta=1e-5), BudgetExceeded, "asked delta 1e-05")


def test_ledgers_are_made_from_a_budget_a_name_and_an_accountant() -> None:
    for arguments in ({"budget": 1.0}, {"budget": PURE, "name": ""}, {"budget": PURE, "name": 3}):
        with pytest.raises(InvalidParameter, match=r"budget|name"):
            Ledger(**arguments)
    with pytest.raises(InvalidParameter, match="accountant"):
        Ledger(PURE, accountant="renyi")


# --- asking, sharing, racing --------------------------------------------------------------------------------------


def test_asking_never_changes_anything() -> None:
    for budget in (PURE, RHO, BOTH, None):
        ledger = Ledger(budget)
        event = GaussianDpEvent(50.0) if budget is not PURE else BoundedRangeDpEvent(0.01)
        ledger.charge(event)
        before = state(ledger)
        for _ in range(3):
            assert ledger.check([PlanPart("x", event, 2)]) == ledger.check([PlanPart("x", event, 2)])
            assert state(ledger) == before


def test_an_open_ledger_records_everything_and_refuses_nothing() -> None:
    ledger = Ledger(None)
    assert ledger.open
    ledger.charge(NonPrivateDpEvent(), "exact")
    ledger.reserve([PlanPart("steps", NonPrivateDpEvent(), 3)]).draw("steps", 3)
    assert [entry.label for entry in ledger.entries()] == ["exact", "run"]
    assert ledger.left() is None
    assert ledger.spent() == {}


def test_a_data_set_keeps_the_budget_that_it_was_opened_with() -> None:
    journal = MemoryJournal()
    Ledger(PURE, name="a", journal=journal).charge(BoundedRangeDpEvent(1.0))
    for budget in (Budget(epsilon=2), Budget(epsilon=0.5), RHO, BOTH, None):
        with pytest.raises(InvalidParameter, match="budget of 'a'"):
            Ledger(budget, name="a", journal=journal)
    Ledger(None, name="b", journal=journal).charge(NonPrivateDpEvent())
    with pytest.raises(InvalidParameter, match="budget of 'b'"):
        Ledger(PURE, name="b", journal=journal)


def test_names_in_one_journal_share_or_do_not_share_a_budget() -> None:
    journal = MemoryJournal()
    first, again, other = (Ledger(PURE, name=name, journal=journal) for name in ("a", "a", "b"))
    first.charge(BoundedRangeDpEvent(0.6))
    unchanged(again, lambda: again.charge(BoundedRangeDpEvent(0.6)), BudgetExceeded)
    other.charge(BoundedRangeDpEvent(0.6))


@pytest.mark.parametrize(
    ("budget", "first", "event", "granted"),
    [
        (PURE, [], BoundedRangeDpEvent(0.05), 20),
        (RHO, [], ZCDpEvent(0.05), 10),
        (BOTH, [], EpsilonDeltaDpEvent(0.1, 1e-8), 10),
        (BOTH, [ZCDpEvent(1e-9)], ZCDpEvent(0.005), 4),
    ],
)
def test_threads_that_race_for_the_last_unit_are_granted_exactly_what_fits(
    budget: Budget, first: list[DpEvent], event: DpEvent, granted: int
) -> None:
    ledger = Ledger(budget)
    for early in first:
        ledger.charge(early)
    start = threading.Barrier(32)
    outcomes: list[bool] = []

    def race() -> None:
        start.wait()
        try:
            ledger.charge(event)
            outcomes.append(True)
        except BudgetExceeded:
            outcomes.append(False)

    threads = [threading.Thread(target=race) for _ in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(outcomes), sum(outcomes)) == (32, granted)


def test_a_charge_does_not_slow_down_with_the_history() -> None:
    class Counting(MemoryJournal):
        reads = 0

        def entries(self, scope: str) -> Any:
            Counting.reads += 1
            return super().entries(scope)

    ledger = Ledger(Budget(epsilon=1000), journal=Counting())
    for _ in range(200):
        ledger.charge(BoundedRangeDpEvent(0.1))
    assert Counting.reads == 0


def test_a_request_that_arrives_twice_gets_the_same_bytes_and_pays_once() -> None:
    ledger = Ledger(PURE)
    answers = iter([b"first", b"second"])
    for _ in range(3):
        assert ledger.answer_once("m1", BoundedRangeDpEvent(0.5), lambda: next(answers)) == b"first"
    assert ledger.spent_units() == {"epsilon": UNITS // 2}
    with pytest.raises(BudgetExceeded):
        ledger.answer_once("m2", BoundedRangeDpEvent(0.6), lambda: pytest.fail("the rows were read"))


# --- what went wrong once ------------------------------------------------------------------------------------------

INFINITE = [
    GaussianDpEvent(math.inf),
    LaplaceDpEvent(math.inf),
    EpsilonDeltaDpEvent(math.inf, 1e-9),
    EpsilonDeltaDpEvent(math.inf, 0.0),
    BoundedRangeDpEvent(math.inf),
    LaplaceDpEvent(1e-320),
]


@pytest.mark.parametrize("event", INFINITE, ids=repr)
def test_infinite_parameters_are_priced_or_refused_as_infinite(event: DpEvent) -> None:
    for budget in (RHO, BOTH):
        ledger = Ledger(budget)
        if isinstance(event, GaussianDpEvent | LaplaceDpEvent) and event.noise_multiplier == math.inf:
            ledger.charge(event)
            continue
        try:
            unchanged(ledger, lambda ledger=ledger: ledger.charge(event), BudgetExceeded)
        except InvalidParameter as error:
            assert budget is RHO and type(event).__name__ in str(error)


@pytest.mark.parametrize(
    "plan",
    [
        [GaussianDpEvent(5.0)],
        "steps",
        [("steps", GaussianDpEvent(5.0), 3)],
        PlanPart("steps", GaussianDpEvent(5.0), 3),
        None,
    ],
)
def test_a_plan_of_other_things_is_refused_by_name(plan: Any) -> None:
    with pytest.raises(InvalidParameter, match="plan"):
        Ledger(RHO).reserve(plan)


@pytest.mark.parametrize("delta", [math.nan, 2.0, 1e-6])
def test_a_delta_for_a_budget_without_one_is_refused_by_name(delta: float) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        Ledger(PURE).reserve(BoundedRangeDpEvent(0.1), delta=delta)
