"""h(W) = tr exp(W∘W) - d: zero for DAGs, positive with a cycle, and its gradient."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd.algorithms.acyclicity import acyclicity


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
