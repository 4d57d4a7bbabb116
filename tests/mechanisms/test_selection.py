"""The exponential mechanism: upper bounds, decisions and law, against mpmath; extremes."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.mechanisms import selection
from tests.support.helpers import seeded

LARGEST = np.finfo(float).max


def law(scores: np.ndarray, scale: float) -> np.ndarray:
    with mpmath.workprec(300):
        peak = max(scores)
        weights = [
            mpmath.exp((mpmath.mpf(s) - mpmath.mpf(peak)) / mpmath.mpf(scale)) for s in scores.tolist()
        ]
        total = sum(weights)
        return np.array([float(weight / total) for weight in weights])


def fits(picks: np.ndarray, probabilities: np.ndarray, level: float = 1e-7) -> bool:
    counts = np.bincount(picks, minlength=len(probabilities))
    expected = probabilities * len(picks)
    assert not counts[probabilities == 0].any()
    common = expected > 8
    if not common.all() and expected[~common].sum() > 0:
        counts = np.append(counts[common], counts[~common].sum())
        expected = np.append(expected[common], expected[~common].sum())
        if expected[-1] < 1e-3:
            assert counts[-1] == 0
            counts, expected = counts[:-1], expected[:-1]
    else:
        counts, expected = counts[common], expected[common]
    return len(counts) < 2 or stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > level


def test_the_table_is_above_the_powers_and_tight() -> None:
    with mpmath.workprec(300):
        powers = [mpmath.mpf(2) ** (62 + mpmath.mpf(j) / 1024) for j in range(1024)]
        assert all(p <= int(t) <= p + 1.001 for p, t in zip(powers, selection._table(), strict=True))


def check_weights(scores: np.ndarray, scale: float) -> None:
    peak = float(scores.max())
    weights = selection.integer_weights(scores, scale, peak)
    unit = 1 << (62 - len(scores).bit_length())
    assert sum(weights.tolist()) < 2**63
    with mpmath.workprec(2400):
        for score, weight in zip(scores.tolist(), weights.tolist(), strict=True):
            quotient = (mpmath.mpf(score) - mpmath.mpf(peak)) / mpmath.mpf(scale)
            exact = unit * mpmath.exp(max(quotient, -(2**60)))  # beyond, mpmath itself would overflow
            assert exact <= weight <= exact * mpmath.mpf(2) ** (mpmath.mpf(1.00001) / 1024) + 2.001
            if weight > 2:
                assert (1.0 - 1.0 / weight) * selection.CERTAIN <= exact / weight


doubles = st.floats(-LARGEST, LARGEST) | st.floats(-50, 50) | st.just(-np.inf) | st.floats(-1e-300, 1e-300)


@given(st.lists(doubles, min_size=1, max_size=8), st.floats(5e-324, LARGEST) | st.floats(1e-3, 1e3))
@settings(max_examples=80, deadline=None)
def test_integer_weights_are_above_the_exact_ones_and_close(scores: list[float], scale: float) -> None:
    array = np.array(scores)
    if array.max() > -np.inf:
        check_weights(array, scale)


@pytest.mark.parametrize(
    "scale", [5e-324, 1e-310, 2.0**-900, 2.0**-901, 1e-3, 1.0, 1e200, 2.0**900, 2.0**901, LARGEST]
)
def test_integer_weights_where_quotients_are_moderate(scale: float) -> None:
    rng = np.random.default_rng(1)
    with np.errstate(over="ignore"):
        scores = rng.uniform(-60, 1, 300) * scale
    check_weights(scores[np.isfinite(scores)], scale)


CASES = [
    (np.zeros(1), 1.0),
    (np.zeros(7), 1.0),
    (np.array([0.0, 0.0]), 1.0),
    (np.array([1.0, -1.0]), 1.0),
    (np.array([3.0, 1.0, 2.0, 3.0, -np.inf]), 0.7),
    (np.array([0.0, -1e6, -2e6]), 1.0),
    (np.array([1e308, -1e308]), 1.0),
    (np.array([1e308, -1e308, 0.0]), 1e308),
    (np.array([3e-324, 0.0, 5e-324]), 5e-324),
    (np.array([1e-310, 0.0]), 1e-310),
    (np.array([-1e308, -1e308, -np.inf]), 5e-324),
    (np.array([-1.0, 0.0, -745.0, -800.0, -37.0]), 1.0),
    (np.random.default_rng(2).normal(size=400) * 2, 1.3),
    (np.random.default_rng(3).normal(size=1500), 1.0),
]


@pytest.mark.parametrize(("scores", "scale"), CASES)
def test_many_selections_have_the_law(scores: np.ndarray, scale: float) -> None:
    picks = selection.select_many(seeded(4), scores, scale, float(scores.max()), 60_000)
    assert fits(picks, law(scores, scale))


@pytest.mark.parametrize(("scores", "scale"), CASES)
def test_single_selections_have_the_law(scores: np.ndarray, scale: float) -> None:
    entropy = seeded(5)
    picks = np.array([selection.select(entropy, scores, scale, float(scores.max())) for _ in range(3000)])
    assert fits(picks, law(scores, scale))


def test_noise_at_the_probability_of_a_known_example() -> None:
    """Scores 1 and -1 at scale 1: 0.1192 for the second (permute-and-flip would give 0.0677)."""
    picks = selection.select_many(seeded(6), np.array([1.0, -1.0]), 1.0, 1.0, 60_000)
    assert stats.binomtest(int(picks.sum()), 60_000, 0.11920292202211755).pvalue > 1e-7


def test_the_law_holds_when_every_decision_needs_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "CERTAIN", 0.0)
    scores = np.array([0.0, -0.5, -3.0, -1.0])
    picks = selection.select_many(seeded(7), scores, 1.0, 0.0, 8000)
    assert fits(picks, law(scores, 1.0))


def test_the_law_holds_with_bounds_that_are_far_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rejection repairs any upper bound: weights of up to four times the exact ones change nothing."""
    right = selection.integer_weights
    monkeypatch.setattr(selection, "CERTAIN", 0.0)
    factors = np.array([1, 2, 3, 4], dtype=np.uint64)
    monkeypatch.setattr(selection, "integer_weights", lambda s, b, p: right(s, b, p) * factors)
    scores = np.array([0.0, -0.5, -3.0, -1.0])
    entropy = seeded(8)
    picks = np.array([selection.select(entropy, scores, 1.0, 0.0) for _ in range(4000)])
    assert fits(picks, law(scores, 1.0))


@pytest.mark.parametrize("size", [1, 3, 1023, 1024, 1025, 1280, 1281, 5000, 16_384, 40_001])
def test_the_drawn_integer_finds_its_candidate(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At both ends of candidates' shares of the total, whatever the groups in which sums are made."""
    rng = np.random.default_rng(9)
    scores = rng.normal(size=size) * 3
    peak = float(scores.max())
    sums = np.cumsum(selection.integer_weights(scores, 1.0, peak))
    entropy = seeded(10)
    monkeypatch.setattr(selection, "_kept", lambda *args: True)
    for index in {0, 1, 255, 256, size // 2, size - 257, size - 256, size - 2, size - 1} & set(range(size)):
        for drawn in (int(sums[index - 1]) if index else 0, int(sums[index]) - 1):
            monkeypatch.setattr(
                entropy, "below", lambda total, drawn=drawn: drawn if total == int(sums[-1]) else -1
            )
            assert selection.select(entropy, scores, 1.0, peak) == index


def test_a_million_candidates() -> None:
    size = 10**6
    scores = np.random.default_rng(11).normal(size=size)
    picks = selection.select_many(seeded(12), scores, 0.5, float(scores.max()), 100_000)
    weights = np.exp((scores - scores.max()) / 0.5)
    groups = np.add.reduceat(weights, np.arange(0, size, 20_000)) / weights.sum()
    assert fits(picks // 20_000, groups)
    order = np.argsort(scores)
    ranks = np.empty(size, dtype=np.int64)
    ranks[order] = np.arange(size)
    by_rank = np.add.reduceat(weights[order], np.arange(0, size, 20_000)) / weights.sum()
    assert fits(ranks[picks] // 20_000, by_rank)
    far = np.full(size, -1e6)
    far[size // 3] = 0.0
    entropy = seeded(13)
    assert {selection.select(entropy, far, 1.0, 0.0) for _ in range(3)} == {size // 3}


def test_minus_infinity_is_not_kept_if_it_is_drawn() -> None:
    assert not selection._kept(seeded(1), 0, 2, -np.inf, 0.0, 1.0, 2)


def test_a_decision_agrees_with_mpmath_on_its_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "CERTAIN", 0.0)
    rng = np.random.default_rng(14)
    for trial in range(300):
        score = -float(rng.uniform(0, 40))
        with mpmath.workprec(400):
            weight = int(mpmath.exp(score) * 2**60 * rng.uniform(1, 3)) + 3
            odds = mpmath.exp(score) * 2**60 / weight
            coin = max(int(odds * 2**53) + int(rng.integers(-1, 2)), 0)
            got = selection._kept(seeded(trial), coin, weight, score, 0.0, 1.0, 2)
            # the bits that are read next make no difference where the first 53 decide
            assert got == ((mpmath.mpf(coin) * 2**64 + seeded(trial).bits(64)) / 2**117 < odds)
