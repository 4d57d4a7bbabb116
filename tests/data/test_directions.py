"""Moments of directions and of multiplied rows: their definition, and sensitivities that a search attains, never beats."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation
from privfcd.audits import search_sensitivity
from privfcd.data.directions import DirectionMoments, LinearMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import AnalyticGaussian, SecureNoise, SimulatedNoise

RNG = np.random.default_rng(0)
LINEAR = RNG.normal(size=(3, 3)) + 2 * np.eye(3)
CENTRE = (0.5, -1.0, 2.0)
GRID = 2.0**-19
"""How far entries of moments may be from their definition, in units of the squared norm: records are on a grid."""
RELATIONS = [REPLACE_ONE, ADD_OR_REMOVE_ONE]


@pytest.mark.parametrize("offset", [None, CENTRE])
def test_definitions(offset: tuple[float, ...] | None) -> None:
    rows = RNG.normal(size=(40, 3)) * 3
    shifted = rows - (np.array(offset) if offset else 0.0)
    directions = np.array([row @ LINEAR / np.linalg.norm(row @ LINEAR) for row in shifted])
    expected = sum(np.outer(u, u) for u in directions) / 40
    np.testing.assert_allclose(DirectionMoments(LINEAR, offset).evaluate(rows), expected, rtol=0, atol=GRID)
    clipped = []
    for row in shifted:
        y = row @ LINEAR
        clipped.append(y if np.linalg.norm(y) <= 4 else y * 4 / np.linalg.norm(y))
    expected = sum(np.outer(y, y) for y in clipped) / 50
    np.testing.assert_allclose(LinearMoments(LINEAR, 4.0, offset).evaluate(rows, 50), expected, rtol=0, atol=16 * GRID)


@pytest.mark.parametrize("n", [None, 64])
def test_a_constant_brings_the_means_with_the_second_moments(n: int | None) -> None:
    rows = RNG.normal(size=(40, 3)) * 2 + 1
    joined = []
    for row in rows:
        y = row @ LINEAR
        joined.append(np.append(y * min(1.0, math.sqrt(24) / np.linalg.norm(y)), 1.0))
    expected = sum(np.outer(f, f) for f in joined) / (n or 40)
    expected[3, 3] = 1.0
    query = LinearMoments(LINEAR, 5.0, constant=True)
    query.check(3)
    np.testing.assert_allclose(query.evaluate(rows, n), expected, rtol=0, atol=25 * GRID)
    assert query.evaluate(rows, n)[3, 3] == 1.0
    assert query.sensitivity(40) == LinearMoments(LINEAR, 5.0).sensitivity(40)
    for stream in (SecureNoise().stream(), SimulatedNoise(1).stream(1)):
        noisy = AnalyticGaussian(0.5).release(query.exact(rows, 40), stream)
        assert noisy.matrix[3, 3] == 1.0 and noisy.noise_sd[3, 3] == 0.0
        assert np.array_equal(noisy.matrix, noisy.matrix.T)
        assert (noisy.matrix != query.evaluate(rows)).sum() == 15


def test_the_sensitivity_with_a_constant_is_attained() -> None:
    far = np.array([[1e3, 0.0, 0.0], [0.0, 1e3, 0.0], [-1.0, 1e3, 0.0]])
    query = LinearMoments(np.eye(3), 1.5, constant=True)
    y = np.array([math.sqrt(1.25), 0.0, 0.0])
    z = np.array([-1 / math.sqrt(1.25), math.sqrt(1.25 - 1 / 1.25), 0.0])  # y·z = -1: orthogonal with the constants
    rows = np.vstack([far, y])
    other = np.vstack([far, z])
    moved = np.linalg.norm(query.evaluate(rows) - query.evaluate(other))
    assert query.sensitivity(4) * (1 - 1e-5) <= moved <= query.sensitivity(4)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("offset", [None, CENTRE])
@pytest.mark.parametrize("kind", ["directions", "clipped", "constant", "octaves"])
def test_a_search_attains_the_sensitivity_and_never_beats_it(
    kind: str, offset: tuple[float, ...] | None, relation: NeighboringRelation
) -> None:
    query = {
        "directions": DirectionMoments(LINEAR, offset),
        "clipped": LinearMoments(LINEAR, 2.0, offset),
        "constant": LinearMoments(LINEAR, 2.0, offset, constant=True),
        "octaves": OctaveHistogram(3, offset),
    }[kind]
    report = search_sensitivity(query, 6, 3, bound=3.0, relation=relation, evaluations=1500, seed=1)
    assert report.ratio <= 1.0, report
    assert report.ratio >= 0.97, report


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.floats(-300, 300))
def test_no_row_counts_for_more_than_length_one(seed: int, exponent: float) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(size=(1, 3)) * 10.0 ** np.clip(exponent + rng.uniform(-8, 8, 3), -320, 300)
    for query, most in ((DirectionMoments(LINEAR), 1.0), (LinearMoments(LINEAR, 2.0), 4.0)):
        answer = query.evaluate(row)
        assert np.isfinite(answer).all() and np.trace(answer) <= most
        assert np.array_equal(answer, answer.T)


def test_rows_of_zeros_count_as_nothing() -> None:
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 2.0, 3.0]])
    assert np.trace(DirectionMoments(LINEAR).evaluate(rows)) == pytest.approx(0.5, abs=GRID)
    centred = DirectionMoments(LINEAR, (1.0, 2.0, 3.0)).evaluate(rows)
    assert np.trace(centred) == pytest.approx(0.5, abs=GRID)
    assert not LinearMoments(LINEAR, 1.0).evaluate(rows[:1]).any()


def test_directions_do_not_see_scale() -> None:
    rows = RNG.normal(size=(20, 3))
    scaled = rows * 10.0 ** RNG.uniform(-100, 100, size=(20, 1))
    query = DirectionMoments(LINEAR)
    np.testing.assert_allclose(query.evaluate(rows), query.evaluate(scaled), rtol=0, atol=GRID)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (DirectionMoments(np.eye(2)), "linear must have shape"),
        (DirectionMoments(np.full((3, 3), math.nan)), "linear must have shape"),
        (DirectionMoments(LINEAR, (1.0,)), "offset must be"),
        (LinearMoments(LINEAR, 0.0), "row_norm must be"),
        (LinearMoments(LINEAR, math.inf), "row_norm must be"),
        (LinearMoments(LINEAR, 1.0, constant=True), "row_norm must be above 1"),
        (LinearMoments(LINEAR, 2.0**21, constant=True), "row_norm must be above 1"),
        (LinearMoments(LINEAR, 2.0, constant=1), "constant must be True or False"),  # type: ignore[arg-type]
        (LinearMoments(LINEAR, 2.0, None, True, True), "constant must be False for differences"),
        (LinearMoments(np.full((3, 3), 1e60), 1.0), "linear must have"),
        (OctaveHistogram(3, (1.0,)), "offset must be"),
    ],
)
def test_refusals(query: DirectionMoments | LinearMoments, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        query.check(3)
