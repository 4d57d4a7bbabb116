"""Attackers and groups: against the Gaussian trade-off curve, randomised response, and paths of neighbours."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privfcd.accounting import (
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    ZCDpEvent,
    compose,
    epsilon_of,
    gaussian_epsilon,
    gdp_to_epsilon,
)
from privfcd.accounting.tradeoff import gaussian_mu, group_event, tradeoff, true_positive_rate
from privfcd.errors import InvalidParameter

LAWS = settings(max_examples=25, deadline=None, derandomize=True)


@LAWS
@given(st.floats(0.05, 4.0), st.floats(0.001, 0.9))
def test_attackers_of_gaussian_noise(mu: float, rate: float) -> None:
    exact = norm.cdf(norm.ppf(rate) + mu)
    bound = true_positive_rate(GaussianDpEvent(1 / mu), rate)
    assert exact * (1 - 1e-9) <= bound <= exact + 0.02
    assert tradeoff(GaussianDpEvent(1 / mu), rate) == pytest.approx(1 - bound)


def test_attackers_of_randomised_response_nothing_and_everything() -> None:
    epsilon = 1.0
    assert true_positive_rate(EpsilonDeltaDpEvent(epsilon, 0.0), 0.01) == pytest.approx(0.01 * math.e, rel=1e-9)
    assert true_positive_rate(EpsilonDeltaDpEvent(epsilon, 0.0), 0.5) == pytest.approx(1 - 0.5 / math.e, rel=1e-9)
    assert true_positive_rate(NoOpDpEvent(), 0.01) == pytest.approx(0.01)
    assert true_positive_rate(NonPrivateDpEvent(), 0.01) == 1.0
    with pytest.raises(InvalidParameter, match="false_positive_rate"):
        true_positive_rate(NoOpDpEvent(), 1.5)


@LAWS
@given(st.floats(0.01, 20), st.floats(-12, -1).map(lambda x: 10.0**x))
def test_mu_of_a_promise_is_the_largest(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gdp_to_epsilon(mu, delta) <= epsilon < gdp_to_epsilon(mu * (1 + 1e-9), delta)


def test_groups() -> None:
    plan = compose([(GaussianDpEvent(6.0), 4), (LaplaceDpEvent(9.0), 1), (BoundedRangeDpEvent(0.1), 2)])
    three = compose([(GaussianDpEvent(2.0), 4), (LaplaceDpEvent(3.0), 1), (BoundedRangeDpEvent(0.3), 2)])
    assert group_event(plan, 3) == three
    assert group_event(plan, 1) == plan
    cost = epsilon_of(group_event(GaussianDpEvent(6.0), 3), 1e-6)
    assert cost == pytest.approx(gaussian_epsilon(2.0, 1e-6), rel=1e-12)
    assert group_event(ZCDpEvent(0.1), 3) == ZCDpEvent(0.9)
    pair = group_event(EpsilonDeltaDpEvent(0.5, 1e-6), 2)
    assert pair.epsilon == 1.0
    assert pair.delta == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    assert pair.delta >= 1e-6 * (1 + math.exp(0.5))
    with pytest.raises(InvalidParameter, match="rows"):
        group_event(plan, 0)
    with pytest.raises(InvalidParameter, match="event"):
        from dp_accounting.dp_event import RandomizedResponseDpEvent

        group_event(RandomizedResponseDpEvent(0.5, 2), 2)
