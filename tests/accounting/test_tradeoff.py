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
    NonPrivateDpEvent,
    NoOpDpEvent,
    compose,
    delta_of,
    epsilon_of,
    gdp_to_delta,
    gdp_to_epsilon,
)
from privfcd.accounting.tradeoff import gaussian_mu, tradeoff, true_positive_rate
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


def test_delta_is_the_inverse_of_epsilon() -> None:
    plan = compose([(GaussianDpEvent(3.0), 2), (BoundedRangeDpEvent(0.1), 5)])
    for delta in (1e-3, 1e-8):
        found = delta_of(plan, epsilon_of(plan, delta))
        assert 0.98 * delta <= found <= delta
    assert delta_of(GaussianDpEvent(1.0), 1.0) == pytest.approx(gdp_to_delta(1.0, 1.0), rel=1e-6)
    assert delta_of(NonPrivateDpEvent(), 3.0) == 1.0
    with pytest.raises(InvalidParameter, match="epsilon"):
        delta_of(plan, -1.0)
