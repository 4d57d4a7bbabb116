"""The cost of a group of records, against sums of tables with a record in several of them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, ZCDpEvent
from dp_accounting.dp_event import RandomizedResponseDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import laplace, norm

import privfcd as pf
from privfcd.accounting import BoundedRangeDpEvent, EpsilonDeltaDpEvent, epsilon_of
from privfcd.accounting.conversions import gdp_to_delta, gdp_to_epsilon
from privfcd.accounting.events import compose, leaves
from privfcd.accounting.group_privacy import group_event


def divergence(one: np.ndarray, other: np.ndarray, epsilon: float) -> float:
    """Return the hockey-stick divergence of two laws on the same points."""
    return float(np.maximum(one - math.exp(epsilon) * other, 0).sum())


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize(("law", "kind"), [(norm, GaussianDpEvent), (laplace, LaplaceDpEvent)])
def test_noise_on_a_sum_that_a_record_enters_several_times(law: object, kind: type, size: int) -> None:
    """By the law of the released sum itself, on a fine grid, at the epsilon that is stated and a little below."""
    edges = np.linspace(-80, 80, 400_001)
    sigma, delta = 2.5, 1e-3
    one, moved = (np.diff(law.cdf(edges, loc=shift, scale=sigma)) for shift in (0.0, float(size)))  # type: ignore[attr-defined]
    epsilon = epsilon_of(group_event(kind(sigma), size), delta, "tight")
    assert divergence(moved, one, epsilon) <= delta * (1 + 1e-6)
    assert divergence(moved, one, epsilon - 1e-3) > delta
    several = epsilon_of(compose([(kind(sigma), size)]), delta, "tight")
    assert size == 1 or several < epsilon, "composition says too little"


def test_two_reports_of_ten_are_not_twenty() -> None:
    low, high = 0.1, 10.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if gdp_to_epsilon(middle, 4e-8) < 10 else (low, middle)
    both = epsilon_of(group_event(GaussianDpEvent(1 / high), 2), 8e-8)
    assert both == pytest.approx(gdp_to_epsilon(2 * high, 8e-8), rel=1e-9) and 22.6 < both < 22.8


@settings(max_examples=80)
@given(st.integers(2, 4), st.integers(0, 10_000))
def test_any_chain_of_laws_is_within_the_bounds(size: int, seed: int) -> None:
    """Random laws on four outcomes; the events are the tightest that hold for every step."""
    rng = np.random.default_rng(seed)
    laws = [rng.dirichlet(np.ones(4))]
    for _ in range(size):
        step = laws[-1] * np.exp(rng.uniform(-0.4, 0.4, 4))
        laws.append(step / step.sum())
    steps = [pair for one, two in itertools.pairwise(laws) for pair in ((one, two), (two, one))]
    losses = [np.log(one / two) for one, two in itertools.pairwise(laws)]
    ends = [(laws[0], laws[-1]), (laws[-1], laws[0])]
    width = group_event(BoundedRangeDpEvent(max(float(np.ptp(loss)) for loss in losses)), size)
    assert np.ptp(np.log(laws[0] / laws[-1])) <= width.eta * (1 + 1e-12)
    for epsilon in (0.0, 0.1, 0.3):
        delta = max(divergence(one, two, epsilon) for one, two in steps)
        found = group_event(EpsilonDeltaDpEvent(epsilon, delta), size)
        assert all(divergence(one, two, found.epsilon) <= found.delta + 1e-15 for one, two in ends)
    orders = [1.0 + 2.0**k for k in range(-6, 7)]
    rho = max(max(_renyi(one, two, order) / order for order in [*orders, 1e6]) for one, two in steps)
    bound = group_event(ZCDpEvent(rho), size).rho
    assert all(_renyi(one, two, order) <= bound * order * (1 + 1e-6) for one, two in ends for order in orders)


def _renyi(one: np.ndarray, two: np.ndarray, order: float) -> float:
    exponents = order * np.log(one) - (order - 1) * np.log(two)
    top = exponents.max()
    return float(top + math.log(np.exp(exponents - top).sum())) / (order - 1)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (NonPrivateDpEvent(), NonPrivateDpEvent()),
        (EpsilonDeltaDpEvent(1.0, 0.0), EpsilonDeltaDpEvent(3.0, 0.0)),
        (EpsilonDeltaDpEvent(400.0, 0.5), EpsilonDeltaDpEvent(1200.0, 1.0)),
        (ZCDpEvent(0.5), ZCDpEvent(4.5)),
        (RandomizedResponseDpEvent(0.5, 2), EpsilonDeltaDpEvent(3 * math.log(3), 0.0)),
    ],
)
def test_each_kind(event: DpEvent, expected: DpEvent) -> None:
    (found, _), (said, _) = *leaves(group_event(event, 3)), *leaves(expected)
    assert type(found) is type(said)
    for name in ("epsilon", "delta", "rho"):
        assert getattr(found, name, 0) == pytest.approx(getattr(said, name, 0))


def test_compositions_keep_their_counts() -> None:
    event = compose([(GaussianDpEvent(2.0), 4), (LaplaceDpEvent(3.0), 1)])
    assert leaves(group_event(event, 2)) == [(GaussianDpEvent(1.0), 4), (LaplaceDpEvent(1.5), 1)]
    assert gdp_to_delta(2.0, 1.0) > gdp_to_delta(math.sqrt(2), 1.0)


def test_a_trusted_sum_says_what_a_record_in_two_tables_loses() -> None:
    rng = np.random.default_rng(3)
    tables = [
        pf.PrivateTable(rng.normal(size=(300, 3)), name=name, budget=pf.Budget(10.0, 4e-8), noise=pf.SimulatedNoise(1))
        for name in ("north", "south")
    ]
    (report, _) = pf.release_moments(tables, sum="trusted").privacy_report
    (said,) = [text for text in report.assumptions if "in two of the tables" in text]
    assert "delta = 8e-08" in said and ("epsilon = 22.6" in said or "epsilon = 22.7" in said)
    assert not any("in two of the tables" in text for text in pf.release_moments(
        [pf.PrivateTable(rng.normal(size=(300, 3)), name=name, budget=pf.Budget(10.0, 4e-8), noise=pf.SimulatedNoise(1))
         for name in ("east", "west")]).privacy_report[0].assumptions)  # fmt: skip
