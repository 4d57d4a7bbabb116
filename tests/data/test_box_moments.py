"""Second moments in a box: the sensitivity is the largest distance that an independent search finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, Budget, NeighboringRelation
from privfcd.audits import search_sensitivity
from privfcd.data import BoxMoments, PrivateTable, SecondMoments, box_sensitivity
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import AnalyticGaussian, SimulatedNoise


def largest_distance(bounds: tuple[float, ...], starts: int = 25) -> float:
    """Gradient ascent over pairs of points of the box, from random starts."""
    rng, d = np.random.default_rng(1), len(bounds)
    ends = np.array(bounds * 2)

    def minus(z: np.ndarray) -> float:
        return -float(np.sum((np.outer(z[:d], z[:d]) - np.outer(z[d:], z[d:])) ** 2))

    found = [minimize(minus, rng.uniform(-ends, ends), bounds=[(-end, end) for end in ends]).fun for _ in range(starts)]
    return math.sqrt(-min(found))


@pytest.mark.parametrize(
    "bounds",
    [
        (1.0,),
        (1.0, 1.0),
        (1.0, 1.9),
        (1.0, 3.0),
        (1.0, 1.0, 1.0),
        (1.0, 1.5, 2.0),
        (0.2, 0.3, 5.0),
        (1.0, 2.0, 3.0, 4.0),
    ],
)
def test_sensitivity_is_exact(bounds: tuple[float, ...]) -> None:
    assert box_sensitivity(bounds) == pytest.approx(largest_distance(bounds), rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=14), st.integers(0, 2**32 - 1))
def test_no_pair_of_points_is_further_apart(bounds: list[float], seed: int) -> None:
    rng, ends = np.random.default_rng(seed), np.array(bounds)
    claimed, total = box_sensitivity(tuple(bounds)), float(np.sum(ends**2))
    assert total <= claimed * (1 + 1e-9) and claimed <= math.sqrt(2) * total * (1 + 1e-9)
    for _ in range(30):
        x, y = (ends * np.clip(rng.uniform(-2, 2, len(ends)), -1, 1) for _ in range(2))
        assert np.linalg.norm(np.outer(x, x) - np.outer(y, y)) <= claimed


def test_known_shapes() -> None:
    assert box_sensitivity((3.0,)) == pytest.approx(9.0)
    assert box_sensitivity((1.0,) * 4) == pytest.approx(math.sqrt(2) * 4)
    assert box_sensitivity((1.0,) * 3) == pytest.approx(4.0)
    assert box_sensitivity((2.0,) * 13) == pytest.approx(math.sqrt(2) * 52)
    assert box_sensitivity((1e-50, 1e50)) == pytest.approx(1e100)


@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_the_search_comes_to_the_claim_and_not_beyond(relation: NeighboringRelation) -> None:
    bounds = (1.0, 1.5, 2.0)
    report = search_sensitivity(BoxMoments(bounds), 5, 3, low=[-1, -1.5, -2], high=bounds, relation=relation)
    assert report.verdict == "consistent"
    assert report.ratio > 0.999


def test_clipping_is_by_column_and_a_box_is_no_worse_than_its_ball() -> None:
    rows = np.array([[0.5, 100.0], [-3.0, 1.0]])
    clipped = np.array([[0.5, 2.0], [-1.0, 1.0]])
    assert np.allclose(BoxMoments((1.0, 2.0)).evaluate(rows), clipped.T @ clipped / 2)
    assert np.allclose(BoxMoments((1.0, 2.0), offset=(0.5, 0.0)).evaluate(rows)[0], [0.5, -0.5])
    box, ball = BoxMoments((1.0, 2.0)), SecondMoments(math.sqrt(5))
    for relation in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
        assert box.sensitivity(7, relation) <= ball.sensitivity(7, relation) * (1 + 1e-9)


def test_release_through_a_table() -> None:
    rows = np.random.default_rng(0).normal(size=(400, 2))
    table = PrivateTable(rows, budget=Budget(rho=1.0), noise=SimulatedNoise(1))
    query = BoxMoments((3.0, 3.0))
    answer = table.release(query, AnalyticGaussian(query.sensitivity(400)))
    assert np.abs(answer.matrix - query.evaluate(rows)).max() < 6 * query.sensitivity(400)


def test_bad_bounds_are_refused() -> None:
    for bounds in ((1.0,), (1.0, 0.0), (1.0, math.inf), (1.0, math.nan), (1.0, -1.0)):
        with pytest.raises(InvalidParameter, match="bound"):
            BoxMoments(bounds).check(2)
    with pytest.raises(InvalidParameter, match="offset"):
        BoxMoments((1.0, 1.0), offset=(1.0,)).check(2)
