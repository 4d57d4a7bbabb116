"""h(W) = tr exp(W∘W) - d: zero for DAGs, positive with a cycle, and its gradient."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd.algorithms.acyclicity import CyclicEntries, acyclicity


def walks(weights: np.ndarray) -> float:
    """The definition: closed walks of length k, weighted by 1 / k!."""
    squares, power, total = weights * weights, np.eye(len(weights)), 0.0
    for k in range(1, 80):
        power = power @ squares / k
        total += float(np.trace(power))
    return total


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (4, 4), elements=st.floats(-1.5, 1.5)))
def test_value_and_gradient_are_those_of_the_definition(weights: np.ndarray) -> None:
    h, gradient = acyclicity(weights)
    assert math.isclose(h, walks(weights), rel_tol=1e-9, abs_tol=1e-9)
    step = 1e-5
    for place in np.ndindex(4, 4):
        shift = np.zeros((4, 4))
        shift[place] = step
        slope = (walks(weights + shift) - walks(weights - shift)) / (2 * step)
        assert math.isclose(gradient[place], slope, rel_tol=1e-4, abs_tol=1e-4)


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (5, 5), elements=st.floats(-3, 3)), st.permutations(range(5)))
def test_dags_have_zero_and_cycles_do_not(weights: np.ndarray, order: list[int]) -> None:
    dag = np.triu(weights, 1)[np.ix_(order, order)]
    assert abs(acyclicity(dag)[0]) < 1e-8
    cycle = dag.copy()
    first, last = order.index(0), order.index(1)
    cycle[first, last], cycle[last, first] = 1.0, 0.5
    assert acyclicity(cycle)[0] > 0.2


def test_overflow_gives_infinity_and_no_gradient() -> None:
    for size in (30.0, 1e10, 1e160, 1e200):
        h, gradient = acyclicity(np.full((3, 3), size))
        assert h == math.inf and gradient.shape == (3, 3) and not gradient.any()
    h, gradient = acyclicity(np.triu(np.full((3, 3), 10.0), 1))
    assert abs(h) < 1e-6 and np.isfinite(gradient).all()


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_the_zero_set_is_the_dags_by_enumeration(d: int) -> None:
    """All graphs of up to 3 nodes with self-loops, all of 4 without."""
    places = [place for place in np.ndindex(d, d) if d < 4 or place[0] != place[1]]
    for edges in itertools.product([False, True], repeat=len(places)):
        weights = np.zeros((d, d))
        for place, present in zip(places, edges, strict=True):
            weights[place] = 0.5 if present else 0.0
        reach = weights != 0
        for middle in range(d):
            reach |= np.outer(reach[:, middle], reach[middle])
        acyclic = not reach.diagonal().any()
        h, gradient = acyclicity(weights)
        assert (abs(h) < 1e-12) == acyclic
        assert acyclic or h > 1e-4
        entries = CyclicEntries(weights != 0)
        assert (len(entries) == 0) == acyclic
        if acyclic:
            assert not gradient[weights != 0].any()


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.sampled_from([0.05, 0.15, 0.3, 0.8]))
def test_the_cyclic_entries_are_the_whole_problem(seed: int, d: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    support = rng.random((d, d)) < density
    weights = np.where(support, rng.normal(size=(d, d)), 0.0)
    entries = CyclicEntries(support)
    values = weights[entries.rows, entries.cols]
    h, walks = entries.evaluate(values)
    whole, gradient = acyclicity(weights)
    assert math.isclose(h, whole, rel_tol=1e-9, abs_tol=1e-9)
    reduced = np.zeros((d, d))
    reduced[entries.rows, entries.cols] = 2 * walks * values
    np.testing.assert_allclose(reduced, gradient, rtol=1e-9, atol=1e-9 * max(1.0, h))
    assert len(set(zip(entries.rows.tolist(), entries.cols.tolist(), strict=True))) == len(entries)


def test_overflow_of_the_cyclic_entries() -> None:
    entries = CyclicEntries(np.ones((3, 3), dtype=bool))
    h, walks = entries.evaluate(np.full(9, 1e10))
    assert h == math.inf and walks.shape == (9,) and not walks.any()
    assert CyclicEntries(np.zeros((3, 3), dtype=bool)).evaluate(np.zeros(0))[0] == 0
