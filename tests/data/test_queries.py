"""Queries: no neighbouring table moves an answer by more than its query says, whatever the rows are."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent, GreedyScores
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.queries import (
    ClippedGradient,
    ClippedMean,
    ColumnSquares,
    SecondMoments,
    shortened,
    summation_slack,
)
from privfcd.errors import ConvergenceFailure, InvalidParameter

D = 3
WEIGHTS = ((0.0, 1.5, -0.7), (0.2, 0.0, 2.0), (0.0, -1.0, 0.0))
PULL = ((0.0, 0.3, -0.2), (0.1, 0.0, 0.0), (-0.5, 0.2, 0.0))
CENTRE = (0.5, -1.0, 2.0)
DESCENT = GreedyDescent((1.0, 4.0, 9.0), clip=2.0, l1=0.1, ridge=1.0, noise_multiplier=1.0)
QUERIES = [
    ClippedMean((1.0, 2.0, 0.5)),
    ClippedMean((1e-30, 1e30, 1.0)),
    ColumnSquares((1.0, 4.0, 0.25)),
    ColumnSquares((1.0, 4.0, 0.25), CENTRE),
    SecondMoments(2.0),
    SecondMoments(2.0, CENTRE),
    SecondMoments(1e-40),
    ClippedGradient(WEIGHTS, (1.0, 2.0, 0.5)),
    ClippedGradient(WEIGHTS, (1.0, 2.0, 0.5), CENTRE),
    OctaveHistogram(D),
    GreedyScores(DESCENT, WEIGHTS, PULL),
]
ABSURD = [0.0, -0.0, 5e-324, -1e-310, 1e-160, 0.5, 1.0, -1.0, 2.0, -2.5, 1e3, -1e3, 1e150, -1e155]


def name_of(query: object) -> str:
    return f"{type(query).__name__}-{QUERIES.index(query)}"


def distance(query: object, first: np.ndarray, second: np.ndarray) -> float:
    """How far two answers are apart in the query's own norm."""
    gap = np.ravel(first - second)
    if not np.isfinite(gap).all():
        return math.inf
    return {
        "l1": lambda: float(np.abs(gap).sum()),
        "l2": lambda: float(np.linalg.norm(gap)),
        "linf": lambda: float(np.abs(gap).max()),
    }[query.norm]()  # type: ignore[attr-defined]


def ratio(query: object, rows: np.ndarray, other: np.ndarray) -> float:
    """Distance of the answers on `rows` and with row 0 replaced by `other`, over the claimed sensitivity."""
    neighbour = rows.copy()
    neighbour[0] = other
    with np.errstate(all="ignore"):
        apart = distance(query, query.evaluate(rows), query.evaluate(neighbour))  # type: ignore[attr-defined]
    return apart / query.sensitivity(len(rows), REPLACE_ONE)  # type: ignore[attr-defined]


def search(query: object, d: int, tries: int, seed: int = 0, pool: list[float] = ABSURD) -> float:
    """The largest ratio over random tables of absurd values, in which one random row is replaced."""
    rng = np.random.default_rng(seed)
    worst = 0.0
    for _ in range(tries):
        rows = rng.choice(pool, size=(int(rng.integers(2, 6)), d))
        if rng.random() < 0.3:
            rows = rows * rng.normal(size=rows.shape)
        other = -rows[0] if rng.random() < 0.3 else rng.choice(pool, size=d) * rng.choice([1.0, -1.0, 0.1])
        worst = max(worst, ratio(query, rows, other))
    return worst


@pytest.mark.parametrize("query", QUERIES, ids=name_of)
def test_no_absurd_record_moves_an_answer_by_more_than_is_claimed(query: object) -> None:
    worst = search(query, D, 1200)
    assert worst <= 1
    assert worst >= 0.2, "the search should come near the claim, or it tests nothing"


@settings(deadline=None, max_examples=60)
@given(st.data())
@pytest.mark.parametrize("query", QUERIES, ids=name_of)
def test_no_record_moves_an_answer_by_more_than_is_claimed(query: object, data: st.DataObject) -> None:
    numbers = st.floats(-1e120, 1e120) | st.sampled_from(ABSURD)
    n = data.draw(st.integers(2, 5))
    rows = data.draw(arrays(np.float64, (n, D), elements=numbers))
    other = data.draw(arrays(np.float64, (D,), elements=numbers))
    assert ratio(query, rows, other) <= 1


@pytest.mark.parametrize("query", QUERIES, ids=name_of)
def test_adding_a_record_moves_an_answer_by_no_more_than_is_claimed(query: object) -> None:
    """Under add-or-remove, sums are divided by one declared number, whatever the number of rows."""
    rng = np.random.default_rng(1)
    worst = 0.0
    for _ in range(400):
        rows = rng.choice(ABSURD, size=(int(rng.integers(2, 6)), D))
        n = int(rng.integers(1, 9))
        with_it, without = (query.evaluate(part, n) for part in (rows, rows[1:]))  # type: ignore[attr-defined]
        worst = max(worst, distance(query, with_it, without) / query.sensitivity(n, ADD_OR_REMOVE_ONE))  # type: ignore[attr-defined]
    assert 0.2 < worst <= 1


@pytest.mark.parametrize("n", [2, 5, 129, 4096, 100_000])
def test_rounding_in_long_sums_stays_within_the_claim(n: int) -> None:
    rng = np.random.default_rng(n)
    rows = rng.choice([1.0, -1.0], size=(n, D)) * np.array([10.0, 0.1, 1 / 3])
    rows[0] = [10.0, 0.1, 1 / 3]
    for query in (
        ClippedMean((0.1, 0.1, 1 / 3)),
        ColumnSquares((0.1, 0.01, 0.1)),
        ClippedGradient(WEIGHTS, (0.1, 0.1, 1 / 3)),
        SecondMoments(0.3),
    ):
        assert ratio(query, rows, -rows[0]) <= 1
        assert ratio(query, rows, np.array([-1e9, 1e9, -1e9])) <= 1
        assert 1 < summation_slack(n) < 1 + 1e-6


def test_claims_are_reached() -> None:
    """The claims are the least that is true, but for the allowance for rounding."""
    n = 4
    zeros = np.zeros((n, D))
    top, bottom = zeros.copy(), zeros.copy()
    top[0], bottom[0] = 9.0, -9.0
    assert ratio(ClippedMean((1.0, 2.0, 3.0)), top, bottom[0]) == pytest.approx(1, rel=1e-9)
    assert ratio(ColumnSquares((1.0, 2.0, 3.0)), top, zeros[0]) == pytest.approx(1, rel=1e-9)
    one, two = zeros.copy(), np.zeros(D)
    one[0, 0], two[1] = 5.0, 7.0
    assert ratio(SecondMoments(2.0), one, two) == pytest.approx(1, rel=1e-9)
    one[0], two = 1.0, np.full(D, 1000.0)
    assert ratio(OctaveHistogram(D), one, two) == pytest.approx(1, rel=1e-9)


def test_every_gradient_entry_reaches_its_own_claim() -> None:
    query = ClippedGradient(((0.0,) * D,) * D, (1.0, 2.0, 0.5))
    rows = np.full((4, D), 9.0)
    gap = np.abs(query.evaluate(rows) - query.evaluate(np.vstack([rows[:3], [9.0, -9.0, 9.0]])))
    limits = query.entry_sensitivity(4)
    for i, j in itertools.permutations(range(D), 2):
        moved = 1 in (i, j)
        assert gap[i, j] == pytest.approx(limits[i] if moved else 0.0, rel=1e-9)
    assert limits == pytest.approx([2 * 1.0 / 4, 2 * 2.0 / 4, 2 * 0.5 / 4], rel=1e-9)
    assert query.sensitivity(4) >= np.linalg.norm(gap)
    assert query.sensitivity(4) == pytest.approx(2 / 4 * math.sqrt((D - 1) * (1 + 4 + 0.25)), rel=1e-9)


@dataclass(frozen=True)
class ClipTheMean(ClippedGradient):
    """The seeded fault: the mean is clipped, not each record's part, and 2 C / n is claimed all the same."""

    name: ClassVar[str] = "gradient of the least-squares loss, clipped as a mean"

    def evaluate(self, rows: np.ndarray) -> np.ndarray:
        gradient = -rows.T @ (rows - rows @ np.array(self.weights)) / len(rows)
        np.fill_diagonal(gradient, 0.0)
        limits = np.array(self.clips)[:, None]
        return np.clip(gradient, -limits, limits)


def test_the_search_catches_a_clipped_mean() -> None:
    pool = [0.0, 0.5, 1.0, -1.0, 2.0, -2.5, 1e3, -1e3]
    assert search(ClippedGradient(WEIGHTS, (1.0, 2.0, 0.5)), D, 500, pool=pool) <= 1
    assert search(ClipTheMean(WEIGHTS, (1.0, 2.0, 0.5)), D, 500, pool=pool) > 1.5
    n = 1000
    rows = np.random.default_rng(0).normal(size=(n, D)) * 0.01
    assert ratio(ClipTheMean(((0.0,) * D,) * D, (1.0,) * D), rows, np.array([1e3, -1e3, 1e3])) > n / 4


def test_the_search_catches_claims_that_are_too_small() -> None:
    class HalfMean(ClippedMean):
        def sensitivity(self, n: int, relation: object = REPLACE_ONE) -> float:
            return super().sensitivity(n, ADD_OR_REMOVE_ONE)

    class ColumnMoments(SecondMoments):
        def evaluate(self, rows: np.ndarray) -> np.ndarray:
            clipped = np.clip(rows, -self.row_norm, self.row_norm)  # by column, where the row's norm is claimed
            return clipped.T @ clipped / len(rows)

    assert search(HalfMean((1.0, 2.0, 0.5)), D, 500) > 1.5
    assert search(ColumnMoments(2.0), D, 500) > 1.5


@settings(deadline=None, max_examples=40)
@given(
    arrays(np.float64, (5, D), elements=st.floats(-10, 10)),
    arrays(np.float64, (D, D), elements=st.floats(-3, 3)),
    st.lists(st.floats(0.01, 20), min_size=D, max_size=D),
)
def test_clipped_gradient_is_its_definition(rows: np.ndarray, weights: np.ndarray, clips: list[float]) -> None:
    query = ClippedGradient(tuple(map(tuple, weights)), tuple(clips), CENTRE)
    expected = np.zeros((D, D))
    for i, j in itertools.permutations(range(D), 2):
        for row in rows - np.array(CENTRE):
            residual = row[j] - sum(row[k] * weights[k, j] for k in range(D))
            expected[i, j] += min(max(-row[i] * residual, -clips[i]), clips[i]) / len(rows)
    np.testing.assert_allclose(query.evaluate(rows), expected, rtol=1e-9, atol=1e-9)


def test_without_clips_answers_are_the_closed_forms() -> None:
    rng = np.random.default_rng(3)
    rows, weights = rng.normal(size=(40, D)), np.array(WEIGHTS)
    shifted = rows - np.array(CENTRE)
    gradient = ClippedGradient(WEIGHTS, (math.inf,) * D, CENTRE).evaluate(rows)
    closed = -shifted.T @ (shifted - shifted @ weights) / 40
    np.fill_diagonal(closed, 0.0)
    np.testing.assert_allclose(gradient, closed, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ClippedMean((math.inf,) * D).evaluate(rows), rows.mean(axis=0), rtol=0, atol=11 * 2.0**-30)
    np.testing.assert_allclose(
        ColumnSquares((math.inf,) * D, CENTRE).evaluate(rows), (shifted**2).mean(axis=0), rtol=1e-12
    )
    np.testing.assert_allclose(
        SecondMoments(math.inf, CENTRE).evaluate(rows), shifted.T @ shifted / 40, rtol=1e-12, atol=1e-14
    )
    for query in (
        ClippedGradient(WEIGHTS, (math.inf,) * D),
        ClippedGradient(WEIGHTS, (1.0, math.inf, 1.0)),
        ClippedMean((1.0, math.inf, 1.0)),
        ColumnSquares((math.inf,) * D),
        SecondMoments(math.inf),
    ):
        assert query.sensitivity(10) == math.inf


def test_wide_bounds_do_not_change_answers() -> None:
    rows = np.random.default_rng(4).normal(size=(30, D))
    mean, squares = ClippedMean((9.0, 10.0, 11.0)), ColumnSquares((99.0, 100.0, 101.0))
    np.testing.assert_allclose(mean.decode(mean.evaluate(rows)), rows.mean(axis=0), rtol=0, atol=11 * 2.0**-30)
    np.testing.assert_allclose(squares.decode(squares.evaluate(rows)), (rows**2).mean(axis=0), rtol=0, atol=101 * 2.0**-30)
    np.testing.assert_allclose(SecondMoments(50.0).evaluate(rows), rows.T @ rows / 30, rtol=0, atol=50 * 2.0**-19)


@settings(deadline=None, max_examples=150)
@given(
    arrays(np.float64, (3, D), elements=st.floats(allow_nan=False, allow_infinity=False)),
    st.floats(1e-100, 1e100),
)
def test_shortened_rows_keep_their_direction_and_are_no_longer_than_the_norm(rows: np.ndarray, limit: float) -> None:
    short = shortened(rows, limit)
    assert np.isfinite(short).all()
    for before, after in zip(rows, short, strict=True):
        length = math.hypot(*after)
        assert length <= limit * (1 + 1e-15)
        if math.hypot(*before) <= limit * (1 - 1e-11):
            assert np.array_equal(before, after)
        else:
            assert length >= limit * (1 - 1e-11)
            scale = np.abs(before).max()
            np.testing.assert_allclose(after / limit, before / scale / math.hypot(*(before / scale)), atol=1e-11)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (ClippedMean((1.0, 2.0)), "each of the 3 columns, got 2"),
        (ClippedMean((1.0, 2.0, 0.0)), "bound must be .* got 0.0"),
        (ClippedMean((1.0, 2.0, math.nan)), "got nan"),
        (ClippedMean((1.0, 2.0, -math.inf)), "got -inf"),
        (ColumnSquares((1.0, 2.0, 3.0), (0.0, 0.0)), "offset must be 3 numbers of at most 1e50"),
        (ColumnSquares((1.0, 2.0, 3.0), (0.0, 0.0, math.inf)), "offset must be 3 numbers of at most 1e50"),
        (SecondMoments(0.0), "row_norm must be .* got 0.0"),
        (SecondMoments(math.nan), "row_norm must be"),
        (ClippedGradient(((0.0, 1.0), (0.0, 0.0)), (1.0, 1.0, 1.0)), r"shape \(3, 3\)"),
        (ClippedGradient(((0.0, math.nan, 0.0),) * 3, (1.0, 1.0, 1.0)), "weights must be finite"),
        (ClippedGradient(WEIGHTS, (1.0, 1.0)), "each of the 3 columns, got 2"),
        (OctaveHistogram(2), "d of the histogram must be 3"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value[:20],
)
def test_queries_refuse_what_does_not_fit(query: ClippedMean, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        query.check(D)


@pytest.mark.parametrize(
    ("row", "weight"),
    [((1e200, 0.0, 1e200), 1e200), ((1.7e308, 0.0, -1.7e308), 2.0)],
    ids=["adversarial weight", "ordinary weight, huge record"],
)
def test_no_finite_record_makes_the_clipped_gradient_nan(row: tuple[float, ...], weight: float) -> None:
    rows = np.random.default_rng(0).normal(size=(10, D))
    rows[0] = row
    query = ClippedGradient(((0.0, 0.0, weight), (0.0,) * D, (0.0,) * D), (1.0,) * D)
    assert np.isfinite(query.evaluate(rows)).all()
    assert ratio(query, rows, np.zeros(D)) <= 1


@pytest.mark.parametrize("weight", [1.0, 1e2, 1e4, 1e6, 1e8, 1e12, 1e15, 1e100])
def test_scores_keep_their_claim_at_large_public_weights_or_are_refused(weight: float) -> None:
    """Rounding beside large weights would move scores by more; a coordinator may send any."""
    weights = tuple(tuple(0.0 if i == j else weight for j in range(D)) for i in range(D))
    pull = tuple(tuple(-value for value in row) for row in weights)
    rng = np.random.default_rng(0)
    for query in (
        GreedyScores(GreedyDescent((1.0,) * D, 1.0, 0.1, 1.0, 1.0), weights, pull),
        GreedyScores(GreedyDescent((0.3, 2.0, 50.0), 0.01, 0.1, 0.5, 1.0), weights, pull),
    ):
        for _ in range(200):
            rows = rng.normal(size=(50, D)) * 10
            try:
                assert ratio(query, rows, rng.normal(size=D) * 10) <= 1
            except ConvergenceFailure:
                assert weight > 1e2, "ordinary weights are served"
                break


@pytest.mark.parametrize(
    ("query", "row"),
    [
        (OctaveHistogram(D), (0.0, 0.0, 0.0)),
        (ClippedGradient(WEIGHTS, (1.0,) * D), (1e200, 1e200, 1e200)),
        (GreedyScores(DESCENT, WEIGHTS, PULL), (1e200, 1e200, 1e200)),
    ],
    ids=["histogram, zeros", "gradient, huge", "scores, huge"],
)
def test_no_record_makes_a_query_warn(query: OctaveHistogram, row: tuple[float, ...]) -> None:
    rows = np.ones((5, D))
    rows[0] = row
    query.evaluate(rows)


@pytest.mark.parametrize("norm", [1e-200, 1e60, 1e200, 5e-324])
def test_constants_beyond_computing_are_refused(norm: float) -> None:
    for query in (
        SecondMoments(norm),
        ClippedMean((1.0, norm, 1.0)),
        ColumnSquares((1.0, norm, 1.0)),
        ClippedGradient(WEIGHTS, (1.0, norm, 1.0)),
    ):
        with pytest.raises(InvalidParameter, match=r"must be a number in \[1e-50, 1e50\], got"):
            query.check(D)
