"""Selections in two stages: the exponential mechanism's law, exactly, from tables of which columns change."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.errors import InvalidParameter
from privfcd.mechanisms import GumbelMax, LaplaceNoisyMax, SecureNoise, SimulatedNoise
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.lazy import Lazy
from privfcd.mechanisms.staged import ExactTable, MaxTable, SoftTable
from privfcd.mechanisms.tables import FlatTable, selection_table

D = 4
OFF = ~np.eye(D, dtype=bool)


def exact(candidates: np.ndarray, scale: float, seed: int = 1) -> ExactTable:
    return ExactTable(Entropy(np.random.default_rng(seed).bytes), candidates, scale)


def soft(candidates: np.ndarray, scale: float, seed: int = 1) -> SoftTable:
    return SoftTable(np.random.default_rng(seed), candidates, scale)


def law(scores: np.ndarray, candidates: np.ndarray, scale: float) -> np.ndarray:
    weights = np.where(candidates, np.exp((scores - scores[candidates].max()) / scale), 0.0)
    return np.asarray(weights / weights.sum())


def fits(counts: np.ndarray, probabilities: np.ndarray, level: float = 1e-6) -> bool:
    expected = probabilities * counts.sum()
    assert not counts[probabilities == 0].any()
    common = expected > 5
    observed, wanted = counts[common], expected[common]
    rest = expected[~common].sum()
    if rest > 0.5:
        observed, wanted = np.append(observed, counts[~common].sum()), np.append(wanted, rest)
    return len(observed) < 2 or stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue > level


@pytest.mark.parametrize("make", [exact, soft])
@pytest.mark.parametrize(
    ("name", "spread", "scale"),
    [("flat", 0.0, 1.0), ("mild", 1.0, 0.7), ("steep", 3.0, 0.5), ("far columns", 40.0, 1.0)],
)
def test_a_selection_has_the_exponential_mechanisms_law(
    make: Callable[..., SoftTable], name: str, spread: float, scale: float
) -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=(D, D)) + spread * np.arange(D)[:, None] * (name == "far columns") + spread * rng.random(D)
    table = make(OFF, scale)
    table.replace(scores)
    counts = np.zeros((D, D))
    for _ in range(4000):
        counts[table.select()] += 1
    assert fits(counts, law(scores, OFF, scale))


@pytest.mark.parametrize("make", [exact, soft])
def test_after_columns_changed_the_law_is_that_of_the_new_scores(make: Callable[..., SoftTable]) -> None:
    rng = np.random.default_rng(4)
    scores = rng.normal(size=(D, D))
    table = make(OFF, 0.5)
    table.replace(scores)
    for column, shift in ((2, 5.0), (0, -7.0), (2, -1.0), (3, 0.5)):
        scores[column] = rng.normal(size=D) + shift
        table.replace_column(column, scores[column])
    counts = np.zeros((D, D))
    for _ in range(4000):
        counts[table.select()] += 1
    assert fits(counts, law(scores, OFF, 0.5))


numbers = st.floats(-30, 30) | st.sampled_from([0.0, -1e300, 1e300, 5e-324, -700.0])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(numbers, numbers, numbers), min_size=2, max_size=4), st.sampled_from([0.1, 1.0, 37.0, 1e250]))
def test_proposals_times_acceptances_are_the_law_exactly(rows: list[tuple[float, ...]], scale: float) -> None:
    """P(propose) · a = constant · exp(s / b) for all candidates, a <= 1, and the quick acceptance is below a."""
    scores = np.array(rows)
    table = exact(np.ones(scores.shape, dtype=bool), scale)
    table.replace(scores)
    seen = []
    peak = float(scores.max())
    factors, shares = table._proposals(peak)
    with mpmath.workprec(400):
        for (column, row), score in np.ndenumerate(scores):
            weight, total = int(table._weights[column, row]), int(table._sums[column])
            assert total == sum(table._weights[column].tolist()) < 2**63 and sum(shares.tolist()) < 2**63
            ratio = mpmath.mpf(table._constant) * total / (weight * int(shares[column]))
            gap = max((mpmath.mpf(float(score)) - mpmath.mpf(peak)) / mpmath.mpf(scale), mpmath.mpf(-(10**6)))
            kept = ratio * mpmath.exp(gap)
            assert kept <= 1
            sure = table._sure(weight, int(factors[column]), int(shares[column]))
            assert sure <= kept
            proposed = mpmath.mpf(int(shares[column])) * weight / total
            seen.append(proposed * kept / mpmath.exp(gap))
    assert max(seen) - min(seen) <= max(seen) * mpmath.mpf(10) ** -60


def test_what_the_quick_coin_does_not_settle_is_decided_with_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Fraction, Fraction]] = []

    def watched(entropy: Entropy, coin: Lazy, factor: Fraction, gamma: Fraction) -> bool:
        asked.append((factor, gamma))
        return True

    monkeypatch.setattr("privfcd.mechanisms.lazy.below", watched)
    table = exact(np.ones((2, 2), dtype=bool), 1.0)
    table.replace(np.array([[0.0, -1.0], [-500.0, -501.0]]))
    table._kept(1, 1, int(table._proposals(0.0)[0][1]), int(table._proposals(0.0)[1][1]), 0.0)
    assert len(asked) == 1 and asked[0][1] == 501


@pytest.mark.parametrize("source", [SecureNoise(), SimulatedNoise(3)])
@pytest.mark.parametrize("size", [2, 200, 500])
def test_real_sizes_and_far_winners(source: SimulatedNoise, size: int) -> None:
    off = ~np.eye(size, dtype=bool)
    table = selection_table(GumbelMax(0.1), off, source.stream(1))
    scores = np.zeros((size, size))
    scores[1, 0] = 100.0
    np.fill_diagonal(scores, 1e9)
    table.replace(scores)
    assert {table.select() for _ in range(20)} == {(1, 0)}
    scores[1] = 0.0
    table.replace_column(1, scores[1])
    places = [table.select() for _ in range(100)]
    assert all(column != row for column, row in places) and (size == 2 or len(set(places)) > 50)


def test_no_noise_takes_the_largest_and_other_mechanisms_see_all_candidates() -> None:
    scores = np.arange(16.0).reshape(D, D)
    stream = SimulatedNoise(1).stream(1)
    for mechanism in (GumbelMax(0.0), LaplaceNoisyMax(0.0)):
        table = selection_table(mechanism, OFF, stream)
        assert isinstance(table, MaxTable)
        table.replace(scores)
        assert table.select() == (3, 2), "the diagonal is no candidate"
        table.replace_column(0, np.full(D, 99.0))
        assert table.select() == (0, 1)
    flat = selection_table(LaplaceNoisyMax(1e-3), OFF, stream)
    assert isinstance(flat, FlatTable)
    flat.replace(scores)
    flat.replace_column(1, np.array([50.0, 99.0, 0.0, 0.0]))
    assert flat.select() == (1, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_are_refused(bad: float) -> None:
    for make in (exact, soft):
        table = make(OFF, 1.0)
        table.replace(np.zeros((D, D)))
        with pytest.raises(InvalidParameter, match="scores must be finite"):
            table.replace_column(0, np.array([0.0, bad, 0.0, 0.0]))
    with pytest.raises(InvalidParameter, match="at least one candidate in every column"):
        MaxTable(np.zeros((2, 2), dtype=bool))
    with pytest.raises(InvalidParameter, match="scale must be"):
        SecureNoise().stream().table(OFF, 0.0)
