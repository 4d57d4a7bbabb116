"""Second moments of families of columns: against direct sums, and their sensitivity against neighbours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.data.family_moments import FamilyMoments
from privfcd.errors import InvalidParameter

FAMILIES = ((0, 2), (1, 2, 3), (3,))
NORMS = (1.5, 4.0, 0.7)


def test_unclipped_moments_are_those_of_the_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(30, 4)) * [1, 5, 0.1, 2]
    query = FamilyMoments(FAMILIES, (math.inf,) * 3, (0.0, 1.0, 0.0, -2.0))
    shifted = rows - [0, 1, 0, -2]
    answer = query.evaluate(rows, 25)
    assert answer.shape == (3 + 6 + 1,) and query.units == (1.0, 1.0, 1.0)
    for family, matrix in zip(FAMILIES, query.decode(answer), strict=True):
        own = shifted[:, family]
        np.testing.assert_allclose(matrix, own.T @ own / 25, rtol=1e-12)
        np.testing.assert_array_equal(matrix, matrix.T)
    assert query.sensitivity(25) == math.inf


def test_each_familys_rows_are_shortened_to_its_norm() -> None:
    rows = np.random.default_rng(1).normal(size=(40, 4)) * 3
    query = FamilyMoments(FAMILIES, NORMS)
    answer = query.evaluate(rows)
    assert query.units == tuple(norm**2 for norm in NORMS)
    for family, norm, matrix in zip(FAMILIES, NORMS, query.decode(answer), strict=True):
        own = rows[:, family]
        own = own * np.minimum(1, norm / np.linalg.norm(own, axis=1, keepdims=True))
        np.testing.assert_allclose(matrix, own.T @ own / 40, rtol=0, atol=norm**2 * 2.0**-19)


def test_the_answer_is_an_isometry_of_the_matrices_in_units_of_the_norms() -> None:
    rows = np.random.default_rng(2).normal(size=(40, 4)) * 3
    query = FamilyMoments(FAMILIES, NORMS)
    answer = query.evaluate(rows)
    scaled = [matrix / unit for matrix, unit in zip(query.decode(answer), query.units, strict=True)]
    assert np.linalg.norm(answer) == pytest.approx(math.hypot(*(float(np.linalg.norm(matrix)) for matrix in scaled)))


@given(st.integers(0, 10**6), st.sampled_from([1e-6, 1.0, 1e6, 1e150]))
def test_no_neighbour_is_further_than_the_sensitivity(seed: int, size: float) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(5, 4)) * size
    query = FamilyMoments(FAMILIES, NORMS)
    other = rows.copy()
    other[0] = rng.normal(size=4) * size * rng.choice([0, 1], size=4)
    moved = np.linalg.norm(query.evaluate(rows) - query.evaluate(other))
    assert moved <= query.sensitivity(5) and query.sensitivity(5) == pytest.approx(math.sqrt(6) / 5)
    removed = np.linalg.norm(query.evaluate(rows, 5) - query.evaluate(rows[1:], 5))
    assert removed <= query.sensitivity(5, ADD_OR_REMOVE_ONE) == pytest.approx(math.sqrt(3) / 5)


def test_the_sensitivity_is_attained() -> None:
    query = FamilyMoments(((0, 1), (2, 3)), (1.0, 2.0))
    one, other = np.array([[9.0, 0, 9, 0]]), np.array([[0, 9.0, 0, 9]])
    rest = np.ones((3, 4))
    first, second = (query.evaluate(np.vstack([row, rest])) for row in (one, other))
    assert np.linalg.norm(first - second) == pytest.approx(query.sensitivity(4, REPLACE_ONE), rel=1e-6)
    gone = query.evaluate(rest, 4)
    assert np.linalg.norm(first - gone) == pytest.approx(query.sensitivity(4, ADD_OR_REMOVE_ONE), rel=1e-6)


@pytest.mark.parametrize(
    ("families", "norms"),
    [((), ()), (((0, 1),), (1.0, 2.0)), (((0, 0),), (1.0,)), (((0, 4),), (1.0,)), (((),), (1.0,)), (((0, 1),), (0.0,))],
)
def test_what_cannot_be_asked(families: tuple[tuple[int, ...], ...], norms: tuple[float, ...]) -> None:
    with pytest.raises(InvalidParameter):
        FamilyMoments(families, norms).check(4)
    FamilyMoments(FAMILIES, NORMS).check(4)
    with pytest.raises(InvalidParameter, match="offset"):
        FamilyMoments(FAMILIES, NORMS, (1.0,)).check(4)
