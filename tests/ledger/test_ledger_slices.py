"""Ledgers with an (epsilon, delta) budget: slices by basic composition, and one adaptive slice that is a rho."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    ZCDpEvent,
    calibrate,
    epsilon_of,
    zcdp_to_epsilon,
)
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger, MemoryJournal, PlanPart

UNITS = 10**24
ADAPTIVE = "rho of the adaptive slice"
BOTH = Budget(epsilon=1, delta=1e-6)


def decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def state(ledger: Ledger) -> tuple[Any, ...]:
    return ledger.spent_units(), ledger.left(), tuple(ledger.entries())


def unchanged(ledger: Ledger, call: Callable[[], object], error: type[Exception], match: str | None = None) -> None:
    before = state(ledger)
    with pytest.raises(error, match=match):
        call()
    assert state(ledger) == before


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["slice", "plan", "adaptive"]), st.floats(-4, 0).map(lambda x: 10.0**x)), max_size=10
    )
)
def test_slices_add_up_by_basic_composition_and_never_exceed_the_budget(steps: list[tuple[str, float]]) -> None:
    ledger = Ledger(BOTH)
    epsilon, delta = Fraction(0), Fraction(0)
    slice_: tuple[float, float] | None = None
    for kind, share in steps:
        left = ledger.left()
        try:
            if kind == "slice":
                ledger.charge(EpsilonDeltaDpEvent(share, share * 1e-6))
                epsilon += decimal(share)
                delta += decimal(share * 1e-6)
            elif kind == "plan":
                plan = [PlanPart("steps", GaussianDpEvent(30 / share), 5)]
                spent = dict(ledger.reserve(plan, delta=share * 1e-6).entry.spent)
                if ADAPTIVE not in spent:
                    price = epsilon_of(SelfComposedDpEvent(GaussianDpEvent(30 / share), 5), share * 1e-6)
                    assert spent["epsilon"] == math.ceil(decimal(price) * UNITS)
                    epsilon += decimal(price)
                    delta += decimal(share * 1e-6)
            else:
                ledger.charge(GaussianDpEvent(30 / share))
                if slice_ is None:
                    assert left is not None and left.epsilon is not None
                    slice_ = (left.epsilon, left.delta)
        except (BudgetExceeded, InvalidParameter) as error:
            assert isinstance(error, BudgetExceeded) or slice_ is not None
        spent_units = ledger.spent_units()
        if slice_ is None:
            assert spent_units.get("epsilon", 0) >= epsilon * UNITS
            assert spent_units.get("epsilon", 0) <= UNITS
            assert delta * UNITS <= spent_units.get("delta", 0) <= 10**18
        else:
            assert (spent_units["epsilon"], spent_units["delta"]) == (UNITS, 10**18)
            rho = spent_units[ADAPTIVE] / UNITS
            assert zcdp_to_epsilon(rho, slice_[1]) <= slice_[0] * (1 + 1e-14)


def test_the_adaptive_slice_is_what_is_left_as_a_rho_by_the_tight_conversion() -> None:
    journal = MemoryJournal()
    ledger = Ledger(BOTH, journal=journal)
    ledger.charge(EpsilonDeltaDpEvent(0.25, 5e-7))
    ledger.charge(GaussianDpEvent(100.0))
    cap = journal.balance("table")[ADAPTIVE][1]
    assert cap is not None
    assert zcdp_to_epsilon(cap / UNITS, 5e-7) == pytest.approx(0.75, rel=1e-12)
    assert ledger.spent_units()[ADAPTIVE] == UNITS // 20000
    assert (ledger.spent_units()["epsilon"], ledger.spent_units()["delta"]) == (UNITS, 10**18)
    fits = (cap - UNITS // 20000) // (UNITS // 20000)
    for _ in range(fits):
        ledger.charge(GaussianDpEvent(100.0))
    unchanged(ledger, lambda: ledger.charge(GaussianDpEvent(100.0)), BudgetExceeded, ADAPTIVE)
    ledger.charge(ZCDpEvent((cap % (UNITS // 20000)) / UNITS * 0.99))


def test_events_with_a_delta_are_refused_once_the_slice_is_a_rho() -> None:
    ledger = Ledger(BOTH)
    ledger.charge(GaussianDpEvent(100.0))
    unchanged(ledger, lambda: ledger.charge(EpsilonDeltaDpEvent(1e-3, 1e-9)), InvalidParameter, "adaptive zCDP slice")
    unchanged(ledger, lambda: ledger.reserve(EpsilonDeltaDpEvent(1e-3, 1e-9)), InvalidParameter, "EpsilonDeltaDpEvent")
    ledger.reserve([PlanPart("steps", GaussianDpEvent(100.0), 3)])
    assert ledger.spent_units()[ADAPTIVE] == 4 * UNITS // 20000


def test_a_first_adaptive_charge_that_is_refused_opens_no_slice() -> None:
    ledger = Ledger(BOTH)
    unchanged(ledger, lambda: ledger.charge(GaussianDpEvent(0.1)), BudgetExceeded, "asked rho 50")
    ledger.reserve([PlanPart("steps", GaussianDpEvent(100.0), 1)], delta=1e-7)


def test_a_plan_that_calibrate_made_fits_the_budget_that_it_was_made_for() -> None:
    for count in (1, 7, 500):
        plan = calibrate(1.0, 1e-6, selections=count, gaussians=count)
        ledger = Ledger(BOTH)
        ledger.reserve([PlanPart(str(i), event, times) for i, (event, times) in enumerate(plan.events)])
        assert ledger.left() is None
        fresh = Ledger(BOTH)
        larger = ComposedDpEvent([plan.event, plan.events[0][0]])
        unchanged(fresh, lambda fresh=fresh, larger=larger: fresh.reserve(larger), BudgetExceeded, "asked epsilon")


def test_mixed_parts_with_a_delta_must_be_charged_on_their_own() -> None:
    ledger = Ledger(BOTH)
    mixed = ComposedDpEvent([EpsilonDeltaDpEvent(0.1, 1e-9), GaussianDpEvent(100.0)])
    unchanged(ledger, lambda: ledger.charge(mixed), InvalidParameter, "on their own")


def test_threads_that_open_the_adaptive_slice_at_once_are_all_granted_what_fits() -> None:
    start = threading.Barrier(2)

    class Meeting(MemoryJournal):
        """Both threads see that no slice is open before either opens it."""

        def balance(self, scope: str) -> Any:
            found = super().balance(scope)
            if ADAPTIVE not in found:
                try:
                    start.wait(timeout=0.5)
                except threading.BrokenBarrierError:
                    pass
            return found

    ledger = Ledger(BOTH, journal=Meeting())
    outcomes: list[Any] = []

    def race() -> None:
        try:
            outcomes.append(ledger.charge(GaussianDpEvent(100.0)))
        except BudgetExceeded as error:
            outcomes.append(error)

    threads = [threading.Thread(target=race) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert ledger.spent_units()[ADAPTIVE] == 2 * UNITS // 20000
    assert [entry.kind for entry in ledger.entries()].count("slice") == 1


# --- what went wrong once ------------------------------------------------------------------------------------------


def test_charging_nothing_leaves_the_budget_as_it_was() -> None:
    ledger = Ledger(BOTH)
    ledger.charge(NoOpDpEvent())
    assert ledger.left() == BOTH
    assert ADAPTIVE not in ledger.spent_units()


def test_reserving_nothing_leaves_the_budget_as_it_was() -> None:
    ledger = Ledger(BOTH)
    ledger.reserve(NoOpDpEvent())
    assert ledger.left() == BOTH


def test_a_release_of_cost_0_is_granted_when_nothing_is_left() -> None:
    ledger = Ledger(BOTH)
    ledger.charge(EpsilonDeltaDpEvent(1.0, 1e-6))
    ledger.charge(NoOpDpEvent())


def test_what_is_left_of_the_adaptive_slice_is_reported() -> None:
    ledger = Ledger(BOTH)
    ledger.charge(GaussianDpEvent(100.0))
    ledger.check([PlanPart("steps", GaussianDpEvent(100.0), 1)])
    assert ledger.left() is not None


@pytest.mark.parametrize(("eta", "count"), [(1.0, 1), (0.1, 10), (0.25, 4)])
def test_a_pure_plan_that_costs_exactly_the_budget_fits(eta: float, count: int) -> None:
    Ledger(BOTH).reserve([PlanPart("steps", BoundedRangeDpEvent(eta), count)], delta=0.0)


def test_the_refusal_of_an_infinite_plan_says_what_was_asked_and_spent() -> None:
    ledger = Ledger(BOTH)
    ledger.reserve([PlanPart("steps", GaussianDpEvent(100.0), 1)], delta=5e-7)
    spent = ledger.spent()["epsilon"]
    with pytest.raises(BudgetExceeded, match=rf"'second run' .* asked epsilon inf, spent {spent:.9g}"):
        ledger.reserve(NonPrivateDpEvent(), "second run", delta=1e-7)
