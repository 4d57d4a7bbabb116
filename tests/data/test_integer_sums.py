"""Integer sums: the same bits in any order, block or layout, from a map of each record alone, checked in whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation
from privfcd.data.box_moments import BoxMoments
from privfcd.data.directions import DirectionMoments, LinearMoments, linear_on_grid
from privfcd.data.family_moments import FamilyMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.integer_sums import Grid, PublicMatrix, of_length, on_grid
from privfcd.data.queries import ClippedMean, ColumnSquares, IntegerQuery, SecondMoments
from privfcd.mechanisms import Exact, SecureNoise, SimulatedNoise

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
        SecondMoments(4.0),
        SecondMoments(2e-3, tuple(range(d))),
        ClippedMean(tuple(np.linspace(0.5, 3, d).tolist())),
        ColumnSquares((3.0,) * d, tuple(range(d))),
        BoxMoments(tuple(np.geomspace(1e-3, 1e3, d).tolist())),
        FamilyMoments(((0, 1), (2, 1, 3)), (2.0, 3.0)),
    ]


def bits(query: IntegerQuery, rows: np.ndarray) -> list[int]:
    return [int(number) for number in query.exact(rows, len(rows)).numbers.ravel()]


@pytest.mark.parametrize("index", range(len(queries())))
def test_order_blocks_layout_and_position_make_no_difference(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    query, rows = queries()[index], table(3000)
    query.check(D)
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
        for module in ("directions", "histogram", "queries", "box_moments", "family_moments"):
            monkeypatch.setattr(f"privfcd.data.{module}.block_rows", lambda d, size=size: size)
        assert bits(query, rows) == expected
    parts = [query.exact(part, 3000) for part in np.split(rows, [1, 2, 700, 2999])]
    total = parts[4] + parts[2] + (parts[0] + parts[3]) + parts[1]
    assert [int(number) for number in total.numbers.ravel()] == expected and total.terms == 3000
    assert np.array_equal(np.asarray(total), query.evaluate(rows))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(ABSURD, min_size=D, max_size=D), min_size=1, max_size=4), st.integers(0, len(queries()) - 1))
def test_a_record_adds_the_same_wherever_it_stands(rows: list[list[float]], index: int) -> None:
    query, others = queries()[index], table(100)
    own = np.array(rows)
    alone = query.exact(own, 100).numbers
    for place in (0, 1, 50, 100):
        joined = np.insert(others, place, own, axis=0)
        assert np.array_equal(query.exact(joined, 100).numbers - query.exact(others, 100).numbers, alone)


@settings(max_examples=80, deadline=None)
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


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.one_of(ABSURD, st.floats(-5, 5)), min_size=D, max_size=D), min_size=3, max_size=5),
    st.integers(0, len(queries()) - 1),
    st.sampled_from([REPLACE_ONE, ADD_OR_REMOVE_ONE]),
)
def test_one_record_moves_whole_numbers_by_no_more_than_is_claimed(
    rows: list[list[float]], index: int, relation: NeighboringRelation
) -> None:
    """In rational numbers, for a claim without any allowance for rounding."""
    query, own = queries()[index], np.array(rows)
    n = len(own) - 1
    first, second = query.exact(own[:-1], n), query.exact(own[1:] if relation is REPLACE_ONE else own[1:-1], n)
    units = np.broadcast_to(np.asarray(first.unit), first.shape)
    moved = first.numbers.astype(object) - second.numbers.astype(object)
    square = sum(Fraction(int(m)) ** 2 * Fraction(float(u)) ** 2 for m, u in zip(moved.ravel(), units.ravel(), strict=True))
    assert square <= Fraction(query.sensitivity(n, relation)) ** 2


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_no_claim_grows_with_the_number_of_rows(relation: NeighboringRelation) -> None:
    for query in queries():
        one = query.sensitivity(1, relation)
        for n in (1000, 10**7, 10**8, 2**53):
            assert query.sensitivity(n, relation) * n == pytest.approx(one, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 2.0**30, 2.0**60, 2.0**72])
def test_noise_on_sums_of_many_digits_has_its_law_and_loses_none_of_them(scale: float) -> None:
    large = 2**80 + 2**40 + 12345
    numbers = np.array([large, -large, 7] * 300, dtype=object)
    exact = Exact(numbers, 0.25, 1)
    plain = np.array([float(number) for number in numbers.tolist()]) * 0.25
    assert np.array_equal(exact.noisy(lambda low, scales: low, scale), plain), "no digit is lost on the way"
    noisy = SecureNoise().stream().gaussian(exact, scale)
    if scale >= 2.0**30:  # below, doubles of this size are coarser than the noise
        z = (noisy - plain) / scale
        assert abs(z.mean()) < 6 / 30 and abs(z.std() - 1) < 6 / math.sqrt(1800)
    assert np.array_equal(SimulatedNoise(1).stream().gaussian(exact, 0.0), plain)


def test_noise_does_not_see_how_a_sum_is_cut() -> None:
    """S + noise is rounded by one function: numbers that differ by a multiple of the cut differ by it afterwards too."""
    for add in (lambda low, scales: np.rint(low + 0.3 * scales), lambda low, scales: np.rint(low - 1e3 * scales)):
        for number in (0, 1, 2**52 - 1, 2**52, -(2**52), 2**53 + 1, 2**60 + 5):
            low, high = (Exact(np.array([n], dtype=object), 1.0, 1).noisy(add, 1.0) for n in (number, number + 2**53))
            assert high[0] == float(int(low[0]) + 2**53)


def test_sums_beyond_64_bits_become_pythons_integers() -> None:
    part = Exact(np.array([2**62, -(2**62)]), 1.0, 1)
    total = part + part + part
    assert total.numbers.tolist() == [3 * 2**62, -3 * 2**62] and total.terms == 3


def test_threads_make_no_difference() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    rows, found = table(6000, 60), []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads):
            found.append([bits(query, rows) for query in queries(60)])
    assert found[0] == found[1]
