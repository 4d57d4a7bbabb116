"""The octave histogram: where values fall, and the bounds that follow from noisy counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.data.histogram import HIGHEST, LOWEST, OctaveHistogram, largest_noise, upper_bounds

BINS = HIGHEST - LOWEST + 1


def octave(value: float) -> int:
    """Bin of |value| by comparison with powers of two: no logarithm, no rounding."""
    size = abs(value)
    place = 0
    while place < BINS - 1 and size >= math.ldexp(1.0, LOWEST + place + 1):
        place += 1
    return place


@settings(deadline=None, max_examples=80)
@given(arrays(np.float64, (4, 2), elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_every_value_is_counted_once_in_its_octave(rows: np.ndarray) -> None:
    shares = OctaveHistogram(2).evaluate(rows)
    assert shares.shape == (3, BINS)
    assert (shares * 4 == np.round(shares * 4)).all() and (shares >= 0).all()
    assert shares.sum(axis=1) == pytest.approx(1)
    for column in range(2):
        expected = np.bincount([octave(value) for value in rows[:, column]], minlength=BINS) / 4
        assert np.array_equal(shares[column], expected)


@pytest.mark.parametrize("power", [-39, -38, -1, 0, 1, 17, 38, 39])
def test_octaves_begin_at_powers_of_two(power: int) -> None:
    edge = math.ldexp(1.0, power)
    below = math.nextafter(edge, 0)
    first = OctaveHistogram(1).evaluate(np.array([[edge], [below]]))[0]
    assert first[power - LOWEST] == 0.5 and first[power - LOWEST - 1] == 0.5


def test_norms_are_counted_last_and_do_not_overflow() -> None:
    rows = np.array([[3.0, 4.0], [1e308, 1e308], [5e-324, 5e-324], [-2.0, 0.0]])
    norms = OctaveHistogram(2).evaluate(rows)[2]
    assert norms[octave(5.0)] == norms[BINS - 1] == norms[0] == norms[octave(2.0)] == 0.25


def test_shares_are_of_the_public_number_of_rows() -> None:
    rows = np.array([[1.0], [3.0]])
    assert OctaveHistogram(1).evaluate(rows, 8)[0].sum() == 0.25


@pytest.mark.parametrize("scale", [1e-9, 0.03, 1.0, 3.0, 700.0, 1e9])
@pytest.mark.parametrize("law", ["normal", "laplace", "lognormal", "exponential"])
def test_bounds_hold_most_records_and_are_not_far_above_them(law: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    rows = getattr(rng, law)(size=(4000, 2)) * np.array([scale, 5 * scale])
    shares = OctaveHistogram(2).evaluate(rows)
    for sd in (0.0, 1e-3, 5e-3):
        bounds = upper_bounds(shares + rng.normal(scale=sd, size=shares.shape), sd)[:2]
        assert all(math.frexp(bound)[0] == 0.5 for bound in bounds), "powers of two"
        above = (np.abs(rows) > bounds).mean(axis=0)
        assert (above < (0.2 if law == "lognormal" else 0.06)).all()
        assert (bounds < 8 * np.quantile(np.abs(rows), 0.99, axis=0)).all()


def test_bounds_move_with_the_columns_unit() -> None:
    rows = np.random.default_rng(1).normal(size=(500, 1))
    plain, larger = (upper_bounds(OctaveHistogram(1).evaluate(rows * unit), 0.0)[0] for unit in (1.0, 8.0))
    assert larger == 8 * plain


@pytest.mark.parametrize("sd", [0.0, 0.1, 10.0])
def test_whatever_the_shares_bounds_are_on_the_grid(sd: float) -> None:
    rng = np.random.default_rng(2)
    for shares in (np.zeros((3, BINS)), rng.normal(size=(3, BINS)) * 1e9, -np.ones((3, BINS)), np.eye(BINS)):
        bounds = upper_bounds(shares, sd)
        assert bounds.shape == (len(shares),)
        assert ((bounds >= 2.0**LOWEST) & (bounds <= 2.0 ** (HIGHEST + 1))).all()


@pytest.mark.parametrize("d", [2, 20, 200])
def test_below_the_largest_noise_bounds_are_rarely_wrong(d: int) -> None:
    rng = np.random.default_rng(3)
    shares = np.tile(OctaveHistogram(1).evaluate(rng.normal(size=(20_000, 1)))[0], (d, 1))
    sd = largest_noise(d)
    assert 0 < sd < 1

    def wrong(noise: float) -> np.ndarray:
        bounds = upper_bounds(shares + rng.normal(scale=noise, size=shares.shape), noise)
        return (bounds < 0.5) | (bounds > 16)

    assert np.mean([wrong(sd).any() for _ in range(40)]) < 0.15
    assert np.mean([wrong(10 * sd).mean() for _ in range(20)]) > 0.2, "beyond it a run has to be refused"


@pytest.mark.parametrize("relation", [REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE])
@pytest.mark.parametrize("only", [(), (2,), (0, 3)])
def test_a_histogram_of_some_columns_is_that_part_of_all_and_moves_less(only: tuple[int, ...], relation: Any) -> None:
    rows = np.random.default_rng(1).normal(size=(50, 4)) * [1, 8, 64, 0.01]
    whole, part = OctaveHistogram(4).exact(rows, 50), OctaveHistogram(4, only=only).exact(rows, 50)
    np.testing.assert_array_equal(part.numbers, whole.numbers[[*only, 4]])
    query = OctaveHistogram(4, only=only)
    other = rows.copy()
    other[0] = [1e6, 1e6, 1e6, 1e6]
    other = other if relation is REPLACE_ONE else other[1:]
    moved = (query.exact(rows, 50).numbers - query.exact(other, 50).numbers) / 50
    assert float(np.linalg.norm(moved)) == pytest.approx(query.sensitivity(50, relation))
