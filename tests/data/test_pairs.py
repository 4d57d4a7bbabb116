"""Differences of records: which pairs, what one record moves, and that means and skewness leave no trace."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd import Budget, PrivateTable, SecureNoise, SimulatedNoise
from privfcd.accounting import ADD_OR_REMOVE_ONE
from privfcd.data.directions import DirectionMoments, LinearMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.pairs import MOVED, SHIFTS, blocks, in_secret_order
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import AnalyticGaussian
from privfcd.mechanisms.orders import random_order

LINEAR = np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [0.25, 0.0, 1.0]])
QUERIES = [
    DirectionMoments(LINEAR, differences=True),
    LinearMoments(LINEAR, 2.0, differences=True),
    OctaveHistogram(3, differences=True),
]
SIZES = st.sampled_from([0.0, 5e-324, 1e-200, 1e-3, 1.0, 3.5, 1e9, 1e200, 1.7e308])
VALUES = st.builds(lambda size, sign: sign * size, SIZES, st.sampled_from([-1.0, 1.0]))


def pairs_of(n: int) -> list[tuple[int, int]]:
    """Return all pairs, read off rows that are single marks."""
    found: list[tuple[int, int]] = []

    for row in np.concatenate(list(blocks(np.eye(n), True, 3))):
        plus, minus = np.flatnonzero(row > 0), np.flatnonzero(row < 0)
        found.append((int(plus[0]), int(minus[0])) if plus.size else (-1, -1))
    return found


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 17])
def test_each_record_is_in_at_most_two_pairs_of_each_shift(n: int) -> None:
    found = pairs_of(n)
    assert len(found) == SHIFTS * n
    for shift in range(SHIFTS):
        part = found[shift * n : (shift + 1) * n]
        for record in range(n):
            assert sum(record in pair for pair in part) <= MOVED
    if n > 2 * SHIFTS:
        assert len({frozenset(pair) for pair in found}) == SHIFTS * n, "no pair twice"


def test_moments_are_the_mean_over_all_pairs() -> None:
    rows = np.random.default_rng(0).normal(5.0, 2.0, (23, 3))
    expected = np.zeros((3, 3))
    for first, second in pairs_of(23):
        y = (rows[first] - rows[second]) @ LINEAR
        expected += np.outer(y, y) / (y @ y) / (SHIFTS * 23)
    np.testing.assert_allclose(DirectionMoments(LINEAR, differences=True).evaluate(rows), expected, rtol=0, atol=1e-6)
    wide = LinearMoments(LINEAR, 1e3, differences=True).evaluate(rows)
    brute = [np.outer(y, y) / 2 for i, j in pairs_of(23) for y in [(rows[i] - rows[j]) @ LINEAR]]
    np.testing.assert_allclose(wide, np.mean(brute, axis=0), rtol=0, atol=1e-2)  # records are on a grid of 1e3 2^-20
    counts = OctaveHistogram(3, differences=True).evaluate(rows)
    np.testing.assert_allclose(counts.sum(axis=1), 1.0)


def test_what_is_added_to_all_records_leaves_no_trace() -> None:
    rows = np.random.default_rng(1).normal(size=(40, 3))
    moved = rows + np.array([1e3, -7.0, 64.0])
    for query in QUERIES[:2]:
        np.testing.assert_allclose(query.evaluate(moved), query.evaluate(rows), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
@given(data=st.data(), n=st.integers(1, 12))
def test_one_replaced_record_moves_no_more_than_is_claimed(
    query: DirectionMoments, data: st.DataObject, n: int
) -> None:
    rows = data.draw(arrays(np.float64, (n, 3), elements=VALUES))
    other = rows.copy()
    other[data.draw(st.integers(0, n - 1))] = data.draw(arrays(np.float64, 3, elements=VALUES))
    before, after = query.evaluate(rows), query.evaluate(other)
    assert np.isfinite(before).all()
    assert np.linalg.norm(after - before) <= query.sensitivity(n)


def test_the_claim_is_reached() -> None:
    n = 50
    rows = np.random.default_rng(2).normal(size=(n, 3)) * 1e-6
    other = rows.copy()
    rows[7], other[7] = [1e6, 0.0, 0.0], [0.0, 1e6, 0.0]
    identity = DirectionMoments(np.eye(3), differences=True)
    moved = np.linalg.norm(identity.evaluate(rows) - identity.evaluate(other))
    assert moved == pytest.approx(2 * math.sqrt(2) / n, rel=3e-6)
    assert moved == pytest.approx(identity.sensitivity(n), rel=1e-6)
    assert identity.sensitivity(n) == pytest.approx(2 * DirectionMoments(np.eye(3)).sensitivity(n), rel=1e-9)
    rows[7], other[7] = [1e9, 1e9, 1e9], [1e18, 1e18, 1e18]
    histogram = OctaveHistogram(3, differences=True)
    moved = np.linalg.norm(histogram.evaluate(rows) - histogram.evaluate(other))
    assert moved == pytest.approx(histogram.sensitivity(n), rel=1e-9)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: type(query).__name__)
def test_refusals(query: DirectionMoments) -> None:
    query.check(3)
    with pytest.raises(InvalidParameter, match="differences must be False where a record is added or removed"):
        query.sensitivity(10, ADD_OR_REMOVE_ONE)
    for offset, wrong, message in (
        (None, 1, "differences must be True or False"),
        ((0.0, 0.0, 0.0), True, "offset must be left out"),
    ):
        made = DirectionMoments(LINEAR, offset, wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidParameter, match=message):
            made.check(3)


def rows_seen(table: PrivateTable, monkeypatch: pytest.MonkeyPatch, query: DirectionMoments) -> np.ndarray:
    """Return the rows that a query is asked of, by a table."""
    seen: list[np.ndarray] = []
    monkeypatch.setattr(DirectionMoments, "exact", lambda self, rows, n: seen.append(rows.copy()) or np.eye(3))
    table.release(query, AnalyticGaussian(1.0))
    return seen[0]


def test_tables_ask_in_a_secret_order_that_is_new_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.arange(300.0).reshape(100, 3)
    for noise in (SecureNoise(), SimulatedNoise(3)):
        table = PrivateTable(rows, noise=noise, budget=Budget(rho=1e9))
        first, second = (rows_seen(table, monkeypatch, QUERIES[0]) for _ in range(2))
        for seen in (first, second):
            assert not np.array_equal(seen, rows)
            np.testing.assert_array_equal(seen[np.argsort(seen[:, 0])], rows)
        assert not np.array_equal(first, second)
        np.testing.assert_array_equal(rows_seen(table, monkeypatch, DirectionMoments(LINEAR)), rows)
    again, other = (PrivateTable(rows, noise=SimulatedNoise(s), budget=Budget(rho=1e9), name="x") for s in (3, 4))
    same = PrivateTable(rows, noise=SimulatedNoise(3), budget=Budget(rho=1e9), name="x")
    orders = [rows_seen(table, monkeypatch, QUERIES[0]) for table in (again, same, other)]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert not np.array_equal(orders[0], orders[2])


def test_secret_orders_are_uniform() -> None:
    counts = Counter(tuple(random_order(4).tolist()) for _ in range(24_000))
    assert len(counts) == 24 and sum((count - 1000) ** 2 / 1000 for count in counts.values()) < 70  # chi² of 23, 1e-6
    assert random_order(0).shape == (0,) and random_order(1).tolist() == [0]


def test_equal_words_are_drawn_again() -> None:
    words = iter([[5, 5, 1], [7, 3, 5]])

    class Few:
        def uint64(self, size: int) -> np.ndarray:
            return np.array(next(words), dtype=np.uint64)

    assert random_order(3, Few()).tolist() == [1, 2, 0]  # type: ignore[arg-type]


def test_a_sorted_table_is_as_good_as_any_other() -> None:
    rows = np.random.default_rng(4).normal(size=(2000, 3))
    rows = rows[np.argsort(rows[:, 0])]
    query = DirectionMoments(np.eye(3), differences=True)
    assert query.evaluate(rows)[0, 0] < 0.01, "neighbours in a sorted table hardly differ in what it is sorted by"
    for source in (SecureNoise(), SimulatedNoise(1)):
        mixed = query.evaluate(in_secret_order(rows, query, source, (1, 2)))
        assert mixed[0, 0] == pytest.approx(1 / 3, abs=0.04)


def test_independent_skewed_columns_have_no_dependence_in_their_directions() -> None:
    rows = np.random.default_rng(3).exponential(size=(60_000, 4))
    paired = DirectionMoments(np.eye(4), differences=True).evaluate(rows)
    alone = DirectionMoments(np.eye(4), (1.0,) * 4).evaluate(rows)
    off = ~np.eye(4, dtype=bool)
    assert np.abs(paired[off]).max() < 0.005 < 0.012 < np.abs(alone[off]).min()
