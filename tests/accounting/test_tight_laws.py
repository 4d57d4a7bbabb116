"""What the tight accountant may never do: be above other bounds, charge less for more, or disagree with itself."""

from __future__ import annotations

import logging
import math
from functools import reduce
from typing import Any

import pytest
from dp_accounting import NeighboringRelation, SelfComposedDpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    TightAccountant,
    compose,
)
from privfcd.ledger import Ledger

LAWS = settings(max_examples=12, deadline=None, derandomize=True)
Plan = list[tuple[DpEvent, int]]


def power_of_ten(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda x: 10.0**x)


FIXED: st.SearchStrategy[DpEvent] = (
    st.builds(GaussianDpEvent, power_of_ten(-0.2, 1.7))
    | st.builds(LaplaceDpEvent, power_of_ten(-0.3, 2))
    | st.builds(DiscreteLaplaceDpEvent, power_of_ten(-2, 0), st.sampled_from([1, 3, 20]))
    | st.builds(RandomizedResponseDpEvent, st.floats(0.2, 0.99), st.sampled_from([2, 3, 10]))
)
ANY = (
    FIXED
    | st.builds(EpsilonDeltaDpEvent, power_of_ten(-4, 0.5), st.just(0.0))
    | st.builds(BoundedRangeDpEvent, power_of_ten(-2, 0.3))
)
COUNTS = st.sampled_from([1, 1, 1, 2, 5, 30])
PLANS = st.lists(st.tuples(ANY, COUNTS), min_size=2, max_size=5)
DELTAS = power_of_ten(-30, -2)
SEEN: Plan = [
    (GaussianDpEvent(5.0), 1),
    (EpsilonDeltaDpEvent(2.0, 0.0), 1),
    (EpsilonDeltaDpEvent(0.3, 0.0), 1),
    (EpsilonDeltaDpEvent(0.001, 0.0), 1),
]


def epsilon(plan: Plan, delta: float) -> float:
    return TightAccountant().compose(compose(plan)).get_epsilon(delta)


def test_the_plan_that_was_seen_at_11_9() -> None:
    assert epsilon(SEEN, 1e-6) < 3.1033


@LAWS
@given(PLANS, DELTAS, st.data())
@example(SEEN, 1e-6, None)
def test_never_above_basic_composition_of_any_split(plan: Plan, delta: float, data: Any) -> None:
    whole = epsilon(plan, delta)
    first = [True] + [False] * (len(plan) - 1) if data is None else [data.draw(st.booleans()) for _ in plan]
    one = [part for part, taken in zip(plan, first, strict=True) if taken]
    two = [part for part, taken in zip(plan, first, strict=True) if not taken]
    for share in (0.0, 0.5, 1.0):
        parts = [epsilon(part, amount) for part, amount in ((one, share * delta), (two, (1 - share) * delta))]
        assert whole <= sum(parts) * (1 + 1e-5)


@LAWS
@given(PLANS, DELTAS, st.data())
@example(SEEN, 1e-6, None)
def test_leaving_a_part_out_never_costs_more(plan: Plan, delta: float, data: Any) -> None:
    out = 3 if data is None else data.draw(st.integers(0, len(plan) - 1))
    less = plan[:out] + plan[out + 1 :]
    assert epsilon(less, delta) <= epsilon(plan, delta) * (1 + 1e-9)
    event, count = plan[out]
    if count > 1:
        assert epsilon([*less, (event, count - 1)], delta) <= epsilon(plan, delta) * (1 + 1e-9)


@LAWS
@given(PLANS, power_of_ten(-15, -2), st.data())
def test_a_ledger_admits_every_part_of_a_plan_that_it_admits(plan: Plan, delta: float, data: Any) -> None:
    delta = Budget(1, delta).delta  # to the unit
    budget = Budget(epsilon(plan, delta), delta)
    Ledger(budget).reserve(compose(plan))
    for event, count in plan:
        less = [part for part in plan if part != (event, count)]
        Ledger(budget).reserve(compose([*less, (event, data.draw(st.integers(0, count - 1)))]))


def reference(event: DpEvent, count: int) -> Any:
    """dp_accounting's pessimistic distribution, for what we call replaced."""
    match event:
        case GaussianDpEvent():
            return pld.from_gaussian_mechanism(event.noise_multiplier / math.sqrt(count))
        case LaplaceDpEvent():
            one = pld.from_laplace_mechanism(event.noise_multiplier)
        case DiscreteLaplaceDpEvent():
            one = pld.from_discrete_laplace_mechanism(event.noise_parameter, event.sensitivity)
        case RandomizedResponseDpEvent():
            replaced = NeighboringRelation.REPLACE_ONE
            one = pld.from_randomized_response(event.noise_parameter, event.num_buckets, neighboring_relation=replaced)
        case _:
            raise AssertionError(event)
    return one.self_compose(count) if count > 1 else one


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.lists(st.tuples(FIXED, st.sampled_from([1, 1, 2, 10])), min_size=1, max_size=4), power_of_ten(-10, -2))
def test_never_above_dp_accountings_distribution(plan: Plan, delta: float) -> None:
    logging.disable(logging.WARNING)
    try:
        bound = reduce(lambda a, b: a.compose(b), (reference(*part) for part in plan)).get_epsilon_for_delta(delta)
    finally:
        logging.disable(logging.NOTSET)
    assert epsilon(plan, delta) <= bound * 1.001


@LAWS
@given(PLANS, DELTAS)
@example(SEEN, 1e-30)
@example([(LaplaceDpEvent(2.0), 3), (EpsilonDeltaDpEvent(0.7, 0.0), 2)], 1e-11)
@example([(BoundedRangeDpEvent(0.3), 30), (EpsilonDeltaDpEvent(0.7, 1e-9), 2)], 1e-7)
def test_delta_of_epsilon_is_delta(plan: Plan, delta: float) -> None:
    accountant = TightAccountant().compose(compose(plan))
    found = accountant.get_epsilon(delta)
    back = accountant.get_delta(found)
    assert back <= delta
    if 0 < found < accountant.get_epsilon(0.0):
        assert back >= 0.99 * delta


@pytest.mark.parametrize("delta", [1e-9, 1e-12, 1e-30])
def test_many_distinct_releases(delta: float) -> None:
    """300 unequal responses beside Gaussian noise: between what equal ones of the least and largest epsilon cost."""
    unequal: Plan = [(EpsilonDeltaDpEvent(0.01 + 1e-5 * i, 0.0), 1) for i in range(300)]
    gaussian = (GaussianDpEvent(4.0), 1)
    cost = epsilon([*unequal, gaussian], delta)
    mean_square = math.sqrt(sum(event.epsilon**2 for event, _ in unequal) / 300)
    equal = epsilon([(EpsilonDeltaDpEvent(mean_square, 0.0), 300), gaussian], delta)
    assert cost == pytest.approx(equal, rel=3e-4)
    assert TightAccountant().compose(SelfComposedDpEvent(compose(unequal), 1)).get_epsilon(0.0) == pytest.approx(3.4485)
