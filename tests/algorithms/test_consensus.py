"""The coordinator's step against numerical gradients and a generic optimiser."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import check_grad, minimize

from privfcd.algorithms import consensus
from privfcd.algorithms.consensus import consensus_step
from privfcd.graphs.dag import is_acyclic, project_to_dag

D = 4


def problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    support = (rng.random((D, D)) < 0.7) & ~np.eye(D, dtype=bool)
    average = rng.normal(size=(D, D))
    return average, support, average * support * 0.5


def objective(flat: np.ndarray, average: np.ndarray, support: np.ndarray, alpha: float, rho1: float, w: float) -> float:
    weights = np.zeros((D, D))
    weights[support] = flat
    h = float(np.trace(expm(weights * weights))) - D
    return alpha * h + rho1 / 2 * h * h + w / 2 * float(((weights - average)[support] ** 2).sum())


@pytest.mark.parametrize("seed", range(6))
def test_the_step_is_as_good_as_a_generic_optimiser(seed: int) -> None:
    average, support, start = problem(seed)
    alpha, rho1, weight = 0.5, 10.0, 8.0
    weights, h = consensus_step(start, average, support, alpha, rho1, weight)
    assert not weights[~support].any()
    assert h == pytest.approx(float(np.trace(expm(weights * weights))) - D, abs=1e-9)
    constants = (average, support, alpha, rho1, weight)
    value = objective(weights[support], *constants)
    generic = minimize(objective, start[support], args=constants, method="BFGS", options={"gtol": 1e-7})
    assert value <= generic.fun * (1 + 1e-4) + 1e-6, "from the same start"
    assert value <= objective(start[support], *constants)
    slope = np.array(
        [
            (objective(weights[support] + step, *constants) - objective(weights[support] - step, *constants)) / 2e-6
            for step in np.eye(int(support.sum())) * 1e-6
        ]
    )
    assert np.abs(slope).max() < 0.05, "stationary"


def test_its_gradient_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    average, support, start = problem(9)
    seen: list[tuple[object, np.ndarray]] = []

    def watched(function: object, x0: np.ndarray, **options: object) -> object:
        seen.append((function, x0))
        return minimize(function, x0, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(consensus, "minimize", watched)
    consensus_step(start, average, support, 0.7, 3.0, 2.0)
    function, x0 = seen[0]
    rng = np.random.default_rng(0)
    for point in (x0, rng.normal(size=x0.size), np.zeros(x0.size)):
        assert check_grad(lambda x: function(x)[0], lambda x: function(x)[1], point) < 1e-4 * (1 + np.abs(point).max())  # type: ignore[operator]
        value, _ = function(point)  # type: ignore[operator]
        assert value == pytest.approx(objective(point, average, support, 0.7, 3.0, 2.0), rel=1e-10)


def test_an_acyclic_average_is_kept_and_a_cyclic_one_bent() -> None:
    average = np.triu(np.random.default_rng(1).normal(size=(D, D)), 1)
    weights, h = consensus_step(average, average, average != 0, 5.0, 1000.0, 8.0)
    np.testing.assert_allclose(weights, average, atol=1e-6)
    assert abs(h) < 1e-9
    cyclic = average + np.tril(np.full((D, D), 0.4), -1)
    before = float(np.trace(expm(cyclic * cyclic))) - D
    _, after = consensus_step(cyclic, cyclic, cyclic != 0, 0.0, 1000.0, 1.0)
    assert 0 <= after < before / 10


def test_nothing_supported_gives_nothing() -> None:
    weights, h = consensus_step(np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3), dtype=bool), 1.0, 1000.0, 1.0)
    assert not weights.any() and h == 0


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 100.0, 1e8, 1e100]))
def test_whatever_the_average_the_result_is_finite_and_projects_to_a_dag(seed: int, size: float) -> None:
    average, support, start = problem(seed)
    weights, h = consensus_step(start, average * size, support, 1.0, 1000.0, 8.0)
    assert np.isfinite(weights).all() and math.isfinite(h)
    assert is_acyclic(project_to_dag(weights, 0.3).weights)
