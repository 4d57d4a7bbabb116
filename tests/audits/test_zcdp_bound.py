"""Bounds on rho, bounds over all thresholds, and bounds from one run: validity and tightness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from privfcd.accounting import bounded_range_rho, laplace_rho
from privfcd.audits import (
    Claim,
    curve_test_all,
    epsilon_bound_all,
    mu_bound_all,
    zcdp_bound,
)
from privfcd.audits.zcdp_bound import bernstein_width
from privfcd.errors import InvalidParameter


def gaussian_ratios(mu: float, runs: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [mu * (rng.normal(size=runs) + mean) - mu**2 / 2 for mean in (0.0, mu)]


@pytest.mark.parametrize(("mu", "least"), [(0.3, 0.85), (1.0, 0.93), (2.0, 0.85)])
def test_gaussian_noise_is_found_nearly_in_full(mu: float, least: float) -> None:
    found = zcdp_bound(*gaussian_ratios(mu, 200_000, 1))
    assert least <= found.rho / (mu**2 / 2) <= 1.0


def test_laplace_noise_and_selections() -> None:
    rng = np.random.default_rng(2)
    noise = rng.laplace(size=(2, 200_000))
    ratios = [np.clip(2 * x - 1, -1, 1) for x in (noise[0], noise[1] + 1)]  # |x| - |x - 1|
    assert 0.9 <= zcdp_bound(*ratios).rho / laplace_rho(1.0) <= 1.0
    # two candidates at even odds: the divergence of their two laws is below the bound of all eta-ranges
    share = 1 / (1 + math.exp(-0.5))
    picks = [np.where(rng.random(200_000) < p, 0.5, -0.5) for p in (1 - share, share)]
    assert 0.9 <= zcdp_bound(*picks).rho / bounded_range_rho(1.0) <= 1.0


def test_bounds_fail_at_most_as_often_as_they_say() -> None:
    """At level 0.2, 80 trials: more than 28 failures have a chance below 1e-3."""
    failed = sum(zcdp_bound(*gaussian_ratios(1.0, 500, seed), confidence=0.8).rho > 0.5 for seed in range(80))
    assert failed <= 28


def test_wrong_ratios_are_valid_too() -> None:
    rng = np.random.default_rng(0)
    assert zcdp_bound(rng.normal(size=50_000), rng.normal(size=50_000)).rho == 0.0
    shrunk = [0.7 * scores for scores in gaussian_ratios(1.0, 100_000, 3)]
    assert 0.7 < zcdp_bound(*shrunk).rho / 0.5 <= 1.0
    certain = [np.full(1_000, -1e6), np.full(1_000, 1e6)]
    assert zcdp_bound(*certain).rho > 3.0


def test_the_bernstein_width_covers_the_mean() -> None:
    rng = np.random.default_rng(4)
    missed = 0
    for _ in range(500):
        values = rng.beta(0.3, 3.0, size=200)
        missed += values.mean() + bernstein_width(values, 1.0, 0.1) < 0.3 / 3.3
    assert missed <= 75


@pytest.mark.parametrize("method", ["bonferroni", "dkw"])
def test_all_thresholds_find_nearly_as_much_as_the_best_one(method: str) -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(size=100_000), rng.normal(size=100_000) + 1
    assert 0.96 <= mu_bound_all(*scores, method=method).value <= 1.0  # type: ignore[arg-type]
    assert curve_test_all(*scores, Claim(mu=1.0).curve, method=method).value <= 0  # type: ignore[arg-type]
    assert curve_test_all(*scores, Claim(mu=0.9).curve, method=method).value > 0  # type: ignore[arg-type]
    swapped = mu_bound_all(scores[1], scores[0], method=method)  # type: ignore[arg-type]
    assert swapped.value > 0.96


def test_all_thresholds_on_ties_and_at_delta() -> None:
    rng = np.random.default_rng(6)
    answers = [rng.integers(0, 2, 20_000) ^ (rng.random(20_000) < p) for p in (0.5, 0.5)]
    assert epsilon_bound_all(*answers).value < 0.1
    share = math.e / (1 + math.e)
    said = [(rng.random(100_000) < p).astype(int) for p in (1 - share, share)]
    found = epsilon_bound_all(*said)
    assert 0.9 <= found.value <= 1.0
    assert found.attack.rates(np.array(said[0], float), np.array(said[1], float)).hits == found.rates.hits
    assert epsilon_bound_all(*said, delta=0.1).value < found.value


def test_all_thresholds_are_valid() -> None:
    failed = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        scores = rng.laplace(size=500), rng.laplace(size=500) + 1
        failed += epsilon_bound_all(*scores, confidence=0.8).value > 1.0
    assert failed <= stats.binom.isf(1e-3, 300, 0.2)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="method"):
        mu_bound_all([0.0, 1.0], [0.0, 1.0], method="best")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="pilot"):
        zcdp_bound([0.0, 1.0], [0.0, 1.0], pilot=0.99)
    with pytest.raises(InvalidParameter, match="log_ratios1"):
        zcdp_bound([0.0, 1.0], [0.0, math.nan])
