"""Selections as Gaussians: the Lemma by direct evaluation, the order of ranges, and the certificates."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting.curves import gaussian_values
from privfcd.accounting.domination import CERTIFIED, chained_variance, equal_variance
from privfcd.accounting.selections import selection_lower

LAWS = settings(max_examples=40, deadline=None, derandomize=True)
RANGES = st.lists(st.tuples(st.floats(-2, 0.5).map(lambda x: 10.0**x), st.integers(1, 30)), min_size=1, max_size=4)


def mapped(variance: float, eta: float) -> float:
    q = eta * eta / 4
    return variance * variance / (variance - q)


@LAWS
@given(st.floats(-2, 1).map(lambda x: 10.0**x), st.floats(0.3, 100.0), st.floats(0.0, 1.0), st.floats(-3, 6))
def test_lemma(eta: float, multiple: float, share_of_eta: float, deviations: float) -> None:
    variance = multiple * eta * eta / 4 + eta * eta / 4
    t = share_of_eta * eta
    share = math.expm1(t - eta) / math.expm1(-eta)
    epsilon = deviations * math.sqrt(variance)
    shifted = gaussian_values(variance, np.array([epsilon - t, epsilon - t + eta]))
    game = share * shifted[0] + (1 - share) * shifted[1]
    bound = gaussian_values(mapped(variance, eta), np.array([epsilon]))[0]
    assert game <= bound * (1 + 1e-9) + 1e-14


@given(st.lists(st.floats(0.05, 2.0), min_size=2, max_size=4))
@LAWS
def test_falling_order_is_the_worst(etas: list[float]) -> None:
    begin = max(etas) ** 2 / 2

    def result(order: tuple[float, ...]) -> float:
        variance = begin
        for eta in order:
            variance = mapped(variance, eta)
        return variance

    worst = max(result(order) for order in itertools.permutations(etas))
    assert worst <= result(tuple(sorted(etas, reverse=True))) * (1 + 1e-14)
    assert worst <= chained_variance([(eta, 1) for eta in etas])


@LAWS
@given(RANGES)
def test_chained_variance_laws(ranges: list[tuple[float, int]]) -> None:
    bound = chained_variance(ranges)
    assert bound >= sum(count * eta * eta / 4 for eta, count in ranges)
    assert chained_variance(ranges[::-1]) == bound
    assert chained_variance([*ranges, (0.01, 1)]) >= bound
    eta, count = ranges[0]
    assert chained_variance([(eta, count + 1), *ranges[1:]]) > bound


@pytest.mark.parametrize("eta", [0.001, 0.3, 2.0])
@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_certified_variance_dominates(eta: float, count: int) -> None:
    variance = equal_variance(eta, count)
    lower = selection_lower(eta, count, math.inf)
    dominating = gaussian_values(variance, lower.nodes())
    assert np.all(lower.values <= dominating + 1e-306)
    q = eta * eta / 4
    assert variance <= q * (count + 0.9)
    # and a smaller one does not: the certificate is nearly the best there is
    less = gaussian_values(0.99 * variance, lower.nodes())
    assert np.any(lower.values > less)


def test_the_excess_is_small_and_counts_are_free() -> None:
    q = 0.05**2 / 4
    assert equal_variance(0.05, 2000) < q * 2000 * 1.0025
    assert equal_variance(0.05, 10**6) < q * 10**6 * 1.00002
    assert chained_variance([(0.05, 3)]) == pytest.approx(q * (3 + 2 + 1 + 1 / 2 + 1 / 3), rel=1e-12)
    steps = 0.05**2 / 2
    for _ in range(1000):
        steps = mapped(steps, 0.05)
    assert steps <= chained_variance([(0.05, 1000)]) <= steps * 1.002


@LAWS
@given(st.floats(-3, 0.5).map(lambda x: 10.0**x), st.integers(1, 200))
def test_equal_variance_rises(eta: float, count: int) -> None:
    assert equal_variance(eta, count + 1) > equal_variance(eta, count)
    assert equal_variance(eta * 1.001, count) > equal_variance(eta, count)
    if count <= CERTIFIED:
        assert equal_variance(eta, count) <= chained_variance([(eta, count)])
