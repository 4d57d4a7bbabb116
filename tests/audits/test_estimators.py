"""Estimators: coverage by exact enumeration, and agreement with independent computations."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from privfcd.audits import (
    Claim,
    clopper_pearson_lower,
    clopper_pearson_upper,
    curve_test,
    epsilon_bound,
    mu_bound,
)
from privfcd.audits.estimators import (
    Attack,
    Rates,
    choose_attack,
    curve_margin,
    epsilon_from_rates,
    epsilon_objective,
    mu_from_rates,
    mu_upper_from_rates,
    pure_epsilon_from_rates,
    roc,
)
from privfcd.errors import InvalidParameter

PROBABILITIES = np.concatenate([[0.0, 1e-4, 1e-2], np.linspace(0.03, 0.97, 48), [0.99, 0.9999, 1.0]])


@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-3])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_clopper_pearson_covers_by_enumeration(n: int, alpha: float) -> None:
    k = np.arange(n + 1)
    lower, upper = clopper_pearson_lower(k, n, alpha), clopper_pearson_upper(k, n, alpha)
    for p in PROBABILITIES:
        law = binom.pmf(k, n, p)
        assert law[lower > p].sum() <= alpha * (1 + 1e-9)
        assert law[upper < p].sum() <= alpha * (1 + 1e-9)


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (3, 10), (123, 1000), (5, 10**6), (10**6 - 5, 10**6)])
def test_clopper_pearson_is_the_exact_interval(k: int, n: int) -> None:
    interval = binomtest(k, n).proportion_ci(confidence_level=0.9, method="exact")
    assert float(clopper_pearson_lower(k, n, 0.05)) == pytest.approx(interval.low, rel=1e-9, abs=1e-15)
    assert float(clopper_pearson_upper(k, n, 0.05)) == pytest.approx(interval.high, rel=1e-9)


def test_clopper_pearson_solves_the_tail_equations_at_small_levels() -> None:
    k, n, alpha = 2000, 10**6, 1e-9
    assert binom.sf(k - 1, n, float(clopper_pearson_lower(k, n, alpha))) == pytest.approx(alpha, rel=1e-6)
    assert binom.cdf(k, n, float(clopper_pearson_upper(k, n, alpha))) == pytest.approx(alpha, rel=1e-6)


@pytest.mark.parametrize("delta", [0.0, 0.05, 0.3])
def test_epsilon_bound_covers_by_enumeration(delta: float) -> None:
    """The chance of a bound above the truth is at most alpha whatever the rates; the truth is that of this event."""
    n, m, alpha = 12, 9, 0.1
    hits, false_hits = np.meshgrid(np.arange(n + 1), np.arange(m + 1), indexing="ij")
    bounds = epsilon_from_rates(Rates(hits, n, false_hits, m), delta, alpha)
    for p in PROBABILITIES[::3]:
        for q in PROBABILITIES[1::3]:
            truth = max(0.0, math.log((p - delta) / q)) if p > delta else 0.0
            law = np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(m + 1), m, q))
            assert law[bounds > truth + 1e-12].sum() <= alpha


@pytest.mark.parametrize("coin", [True, False], ids=["coin", "fixed"])
@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_pure_bound_covers_by_enumeration(coin: bool, alpha: float) -> None:
    """With a fair coin for every run, and with equal fixed numbers, where the docstring says at most 0.71 alpha."""
    runs = 24
    for p, q in [(1.0, 0.5), (0.9, 0.45), (0.5, 0.5), (0.3, 0.1), (0.2, 0.01), (1.0, 0.1), (0.05, 0.05)]:
        truth = math.log(p / q)
        error = 0.0
        for n in range(runs + 1) if coin else [runs // 2]:
            weight = binom.pmf(n, runs, 0.5) if coin else 1.0
            hits, false_hits = np.meshgrid(np.arange(n + 1), np.arange(runs - n + 1), indexing="ij")
            bounds = pure_epsilon_from_rates(Rates(hits, n, false_hits, runs - n), alpha)
            law = np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(runs - n + 1), runs - n, q))
            error += weight * law[bounds > truth + 1e-12].sum()
        assert error <= alpha * (1.0 if coin else 0.71)


def test_mu_and_curve_cover_by_enumeration() -> None:
    n, alpha = 30, 0.1
    hits, false_hits = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    rates = Rates(hits, n, false_hits, n)
    lower, upper = mu_from_rates(rates, alpha), mu_upper_from_rates(rates, alpha)
    for mu in (0.0, 0.5, 2.0):
        margin = curve_margin(rates, Claim(mu=mu).curve, alpha)
        for threshold in np.linspace(-2, 4, 13):
            p, q = norm.sf(threshold - mu), norm.sf(threshold)
            law = np.outer(binom.pmf(np.arange(n + 1), n, p), binom.pmf(np.arange(n + 1), n, q))
            assert law[lower > mu + 1e-12].sum() <= alpha
            assert law[upper < mu - 1e-12].sum() <= alpha
            assert law[margin > 1e-12].sum() <= alpha


def test_curve_test_of_a_gaussian_is_the_mu_bound() -> None:
    first, second, third, fourth = np.random.default_rng(0).integers(1, 50, (4, 200))
    rates = Rates(np.minimum(first, second), second, np.minimum(third, fourth), fourth)
    margin = curve_margin(rates, Claim(mu=0.4).curve, 0.05)
    np.testing.assert_array_equal(margin > 0, mu_from_rates(rates, 0.05) > 0.4)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 50), st.integers(0, 50), st.floats(0, 0.5), st.floats(0.01, 0.3))
def test_epsilon_from_rates_by_hand(hits: int, false_hits: int, delta: float, alpha: float) -> None:
    p = binomtest(hits, 50).proportion_ci(1 - alpha, "exact").low  # two-sided: alpha / 2 on each side
    q = binomtest(false_hits, 50).proportion_ci(1 - alpha, "exact").high
    expected = max(0.0, math.log((p - delta) / q)) if p > delta else 0.0
    assert float(epsilon_from_rates(Rates(hits, 50, false_hits, 50), delta, alpha)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=2, max_size=30), st.lists(st.integers(-3, 3), min_size=2, max_size=30))
def test_attack_counts_with_ties(first: list[int], second: list[int]) -> None:
    scores0, scores1 = np.array(first, dtype=float), np.array(second, dtype=float)
    for threshold in (-3.0, 0.0, 0.5):
        up = Attack(0, threshold, True, 1).rates(scores0, scores1)
        assert (up.hits, up.false_hits) == (sum(x >= threshold for x in second), sum(x >= threshold for x in first))
        down = Attack(0, threshold, False, 0).rates(scores0, scores1)
        assert (down.hits, down.false_hits) == (sum(x <= threshold for x in first), sum(x <= threshold for x in second))
        assert Attack(0, threshold, False, 1).rates(scores0, scores1) == down.swapped()
    # what the pilot counted for its choice is what the attack does on the same runs
    attack = choose_attack([(scores0, scores1)], epsilon_objective(0.0), 0.5)
    rates = attack.rates(scores0, scores1)
    best = max(
        float(pure_epsilon_from_rates(Attack(0, t, above, names).rates(scores0, scores1), 1e-2))
        for t in np.union1d(scores0, scores1)
        for above in (True, False)
        for names in (0, 1)
    )
    assert float(pure_epsilon_from_rates(rates, 1e-2)) <= best
    fpr, tpr = roc(scores0, scores1)
    assert np.all(np.diff(fpr) >= 0) and np.all(np.diff(tpr) >= 0)


def test_the_pilot_finds_the_better_score_and_direction() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(2, 4000))
    signal = (rng.normal(size=4000), rng.normal(size=4000) - 2)
    attack = choose_attack([(noise[0], noise[1]), signal], epsilon_objective(1e-3), 0.05)
    assert attack.score == 1
    fired = attack.rates(*signal)
    assert fired.hits / fired.trials > 3 * fired.false_hits / fired.false_trials


def test_the_evaluation_never_sees_the_pilot() -> None:
    """Pilot scores that separate the worlds perfectly, then scores without a difference: the bound is small."""
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=10_000), rng.normal(size=10_000)
    first[:2000] -= 100
    second[:2000] += 100
    bound = epsilon_bound(first, second, confidence=0.95)
    assert bound.rates.trials == 8000
    assert bound.value < 0.2


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_bounds_come_close_and_stay_below(delta: float) -> None:
    rng = np.random.default_rng(3)
    claim, scores = Claim(mu=1.0), (rng.normal(size=200_000), 1 + rng.normal(size=200_000))
    if delta:
        assert 0.7 * claim.epsilon_at(delta) < epsilon_bound(*scores, delta).value < claim.epsilon_at(delta)
    assert 0.97 < mu_bound(*scores).value < 1
    assert curve_test(*scores, claim.curve).value < 0 < curve_test(*scores, Claim(mu=0.95).curve).value


def test_nothing_is_done_run_by_run(calls: Callable[[Callable[[], object]], int]) -> None:
    rng = np.random.default_rng(4)
    scores = (rng.normal(size=10**5), 1 + rng.normal(size=10**5))
    few, many = (calls(lambda n=n: epsilon_bound(scores[0][:n], scores[1][:n], 1e-5)) for n in (10**3, 10**5))
    assert many < 2 * few


@pytest.mark.parametrize(
    ("first", "second"),
    [([1.0], [1.0, 2.0]), ([1.0, math.nan], [1.0, 2.0]), ([[1.0, 2.0]], [1.0, 2.0])],
)
def test_bad_scores_are_refused(first: list[float], second: list[float]) -> None:
    with pytest.raises(InvalidParameter, match="scores0"):
        epsilon_bound(first, second)


@pytest.mark.parametrize("arguments", [{"delta": 1.0}, {"confidence": 1.0}, {"pilot": 0.0}, {"pilot": 0.99}])
def test_bad_parameters_are_refused(arguments: dict[str, float]) -> None:
    with pytest.raises(InvalidParameter):
        epsilon_bound([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], **arguments)


def test_more_successes_than_trials_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="successes"):
        clopper_pearson_lower(3, 2, 0.05)
