"""Integer sums: the same bits in any order, block or layout, from a map of each record alone, checked in whole numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.data import integer_sums
from privfcd.data.directions import DirectionMoments, LinearMoments, linear_on_grid
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.integer_sums import Grid, PublicMatrix, of_length, on_grid
from privfcd.data.queries import IntegerQuery

D = 5
SIZES = [0.0, 5e-324, 1e-310, 1e-200, 1e-3, 1.0, 3.5, 1e9, 1e200, 1.7e308]
ABSURD = st.builds(lambda size, sign: sign * size, st.sampled_from(SIZES), st.sampled_from([-1.0, 1.0]))


def matrix(d: int = D, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(d, d)) * 2.0 ** rng.integers(-20, 20, size=(d, 1))


def table(n: int, d: int = D, seed: int = 1) -> np.ndarray:
    """Rows of ordinary and absurd sizes, most of them near a clip of norm 4."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d)) * 2
    rows[::17] *= 10.0 ** rng.uniform(-320, 300, size=(len(rows[::17]), 1))
    rows[::23, 0] = rng.choice(SIZES, size=len(rows[::23]))
    return rows


def queries(d: int = D) -> list[IntegerQuery]:
    linear = matrix(d)
    return [
        DirectionMoments(linear),
        LinearMoments(linear, 4.0),
        LinearMoments(np.eye(d), 3.7, tuple(range(d))),
        LinearMoments(linear, 4.0, constant=True),
        OctaveHistogram(d),
    ]


def bits(query: IntegerQuery, rows: np.ndarray) -> list[int]:
    return [int(number) for number in query.exact(rows, len(rows)).numbers.ravel()]


@pytest.mark.parametrize("index", range(len(queries())))
def test_order_blocks_layout_and_position_make_no_difference(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query, rows = queries()[index], table(3000)
    expected = bits(query, rows)
    rng = np.random.default_rng(2)
    readonly = rows.copy()
    readonly.setflags(write=False)
    wide = np.zeros((6000, 2 * D))
    wide[::2, ::2] = rows
    layouts = [rows[rng.permutation(3000)], rows[::-1], np.asfortranarray(rows), readonly, wide[::2, ::2]]
    for layout in layouts:
        assert bits(query, layout) == expected
    for size in (1, 7, 64, 1000, 4096):
        monkeypatch.setattr(integer_sums, "_CACHED", size * D)
        monkeypatch.setattr("privfcd.data.directions.block_rows", lambda d, size=size: size)
        assert bits(query, rows) == expected
    parts = [query.exact(part, 3000) for part in np.split(rows, [1, 2, 700, 2999])]
    total = parts[4] + parts[2] + (parts[0] + parts[3]) + parts[1]
    assert [int(number) for number in total.numbers.ravel()] == expected and total.terms == 3000
    assert np.array_equal(np.asarray(total), query.evaluate(rows))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(ABSURD, min_size=D, max_size=D), min_size=1, max_size=4), st.integers(0, 4))
def test_a_record_adds_the_same_wherever_it_stands(rows: list[list[float]], index: int) -> None:
    query, others = queries()[index], table(100)
    own = np.array(rows)
    alone = query.exact(own, 100).numbers
    for place in (0, 1, 50, 100):
        joined = np.insert(others, place, own, axis=0)
        assert np.array_equal(query.exact(joined, 100).numbers - query.exact(others, 100).numbers, alone)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.lists(st.one_of(ABSURD, st.floats(-10, 10)), min_size=D, max_size=D), min_size=1, max_size=5),
    st.one_of(st.floats(1e-50, 1e50), st.sampled_from([1.0, 2.0, 3.0, 0.7, 1.4])),
)
def test_no_record_is_longer_than_the_norm_in_whole_numbers(rows: list[list[float]], norm: float) -> None:
    grid, vectors = Grid(norm), np.array(rows)
    assert 0.7 * 2**20 <= norm * 2.0**grid.power <= 1.4 * 2**20 + 1e-6
    assert grid.most <= 2**41 and 4096 * grid.most <= 2**53
    for whole in (on_grid(vectors, grid.power, grid.most), of_length(vectors, grid.most)):
        for row, before in zip(whole.tolist(), vectors.tolist(), strict=True):
            assert sum(int(number) ** 2 for number in row) <= Fraction(norm) ** 2 * Fraction(4) ** grid.power
            assert any(row) or max(map(abs, before)) < 2.0**-grid.power
    short = vectors[np.abs(vectors).max(axis=1) <= norm / 3]
    error = np.abs(on_grid(short, grid.power, grid.most) * 2.0**-grid.power - short)
    assert (error <= 2.0 ** -grid.power / 2 * (1 + 1e-9)).all()


@pytest.mark.parametrize("d", [1, 2, 3, 20, 200])
def test_the_public_matrix_is_close_and_rounding_it_again_changes_nothing(d: int) -> None:
    for seed in range(5):
        linear = matrix(d, seed)
        rounded = linear_on_grid(linear)
        assert np.array_equal(linear_on_grid(rounded), rounded)
        columns = np.abs(linear).max(axis=0)
        rows = np.abs(linear / columns).max(axis=1, keepdims=True)
        assert (np.abs(rounded - linear) <= d * 2.0**-26 * rows * columns).all()
    skewed = np.array([[1.0, 0.0], [1e9, 1.0]])  # columns of other sizes lose nothing
    assert np.array_equal(linear_on_grid(skewed), skewed)
    assert not linear_on_grid(np.zeros((3, 3))).any()


@pytest.mark.parametrize("d", [1, 3, 20, 200])
def test_products_are_those_of_the_rounded_record_and_matrix_exactly(d: int) -> None:
    """Against rational numbers: the record on 24 bits below its own power of two, times the rounded matrix."""
    linear = matrix(d)[:, : min(d, 4)]
    rows = table(6, d)
    made = PublicMatrix(linear)
    vectors, powers = made.times(rows)
    close = rows[np.abs(rows).max(axis=1) < 1e100] @ made.matrix
    scale = np.abs(rows[np.abs(rows).max(axis=1) < 1e100]) @ np.abs(made.matrix)
    found = np.ldexp(vectors, powers)[np.abs(rows).max(axis=1) < 1e100]
    assert (np.abs(found - close) <= d * 2.0**-22 * scale.max(axis=1, keepdims=True) + 1e-290).all()


def test_threads_make_no_difference() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rows, found = table(6000, 60), []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            found.append([bits(query, rows) for query in queries(60)])
    assert found[0] == found[1]
