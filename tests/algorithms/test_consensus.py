"""The coordinator's step against a plain optimiser of the same objective, and the laws of its optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.optimize import minimize

from privfcd.algorithms.acyclicity import CyclicEntries
from privfcd.algorithms.consensus import consensus_step
from privfcd.errors import ConvergenceFailure
from privfcd.graphs.dag import is_acyclic, project_to_dag

Array = np.ndarray
TIGHT = 1e-14


def problem(seed: int, d: int = 4, density: float = 0.7) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    support = (rng.random((d, d)) < density) & ~np.eye(d, dtype=bool)
    average = rng.normal(size=(d, d))
    return average, support, average * support * 0.5


def exact_h(weights: Array) -> float:
    return float(np.trace(expm(weights * weights))) - len(weights)


def objective(weights: Array, average: Array, support: Array, alpha: float, rho1: float, w: float, l1: float) -> float:
    h = exact_h(weights)
    gap = (weights - average)[support]
    return alpha * h + rho1 / 2 * h * h + w / 2 * float(gap @ gap) + l1 * float(np.abs(weights).sum())


def plain(start: Array, average: Array, support: Array, alpha: float, rho1: float, w: float, l1: float) -> Array:
    """Dense L-BFGS on all entries of the support, each in two halves."""
    size = int(support.sum())

    def weights_of(halves: Array) -> Array:
        weights = np.zeros(support.shape)
        weights[support] = halves[:size] - halves[size:]
        return weights

    def function(halves: Array) -> tuple[float, Array]:
        weights = weights_of(halves)
        walks = expm(weights * weights)
        h = float(np.trace(walks)) - len(weights)
        slope = ((alpha + rho1 * h) * 2 * walks.T * weights + w * (weights - average))[support]
        gap = (weights - average)[support]
        value = alpha * h + rho1 / 2 * h * h + w / 2 * float(gap @ gap) + l1 * float(halves.sum())
        return value, np.concatenate([slope + l1, l1 - slope])

    first = np.concatenate([np.maximum(start[support], 0), np.maximum(-start[support], 0)])
    answer = minimize(
        function,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * len(first),
        options={"ftol": TIGHT, "gtol": 1e-9, "maxiter": 5000, "maxfun": 10_000},
    )
    return weights_of(answer.x)


@pytest.mark.parametrize("l1", [0.0, 2.0])
@pytest.mark.parametrize(("d", "density"), [(4, 0.7), (8, 0.5), (15, 0.2)])
def test_the_optimum_is_no_worse_than_a_plain_optimisers(d: int, density: float, l1: float) -> None:
    lower, worse = 0, 0
    for seed in range(12):
        average, support, start = problem(seed, d, density)
        constants = (average, support, 0.5, 20.0, 8.0, l1)
        weights, h = consensus_step(start, average, support, 0.5, 20.0, 8.0, l1, TIGHT)
        assert not weights[~support].any()
        assert h == pytest.approx(exact_h(weights), abs=1e-9)
        ours, theirs = objective(weights, *constants), objective(plain(start, *constants), *constants)
        assert ours <= objective(start, *constants)
        lower += ours < theirs * (1 - 1e-6)
        worse += ours > theirs * (1 + 1e-6)
    # there are several minima, and each optimiser falls into the nearer one
    assert worse <= lower + 3


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0.3, 0.7, 1.0]))
def test_the_optimum_satisfies_the_subgradient_conditions(seed: int, l1: float, density: float) -> None:
    alpha, rho1, weight = 0.7, 10.0, 8.0
    average, support, start = problem(seed, 6, density)
    weights, h = consensus_step(start, average, support, alpha, rho1, weight, l1, TIGHT)
    walks = expm(weights * weights).T
    slope = 2 * (alpha + rho1 * h) * walks * weights + weight * (weights - average)
    present = support & (weights != 0)
    assert np.abs(slope + l1 * np.sign(weights))[present].max(initial=0) < 1e-3
    assert (np.abs(slope[support & (weights == 0)]) <= l1 + 1e-12).all()
    assert (weights * average >= 0).all() and (np.abs(weights) <= np.abs(average) + 1e-12).all()


def test_the_l1_penalty_is_the_plain_problem_for_a_softened_average() -> None:
    average, support, start = problem(3, 7, 0.6)
    softened = np.sign(average) * np.maximum(np.abs(average) - 2.0 / 8.0, 0)
    penalised = consensus_step(start, average, support, 1.0, 10.0, 8.0, 2.0, TIGHT)
    shifted = consensus_step(start, softened, support, 1.0, 10.0, 8.0, 0.0, TIGHT)
    np.testing.assert_array_equal(penalised[0], shifted[0])


def test_entries_on_no_cycle_are_the_averages() -> None:
    average, support, start = problem(5, 12, 0.12)
    weights, _ = consensus_step(start, average, support, 1.0, 1000.0, 8.0, tolerance=TIGHT)
    cyclic = np.zeros_like(support)
    entries = CyclicEntries(support)
    cyclic[entries.rows, entries.cols] = True
    assert 0 < cyclic.sum() < support.sum()
    np.testing.assert_array_equal(weights[support & ~cyclic], average[support & ~cyclic])
    whole = plain(start, average, support, 1.0, 1000.0, 8.0, 0.0)
    constants = (average, support, 1.0, 1000.0, 8.0, 0.0)
    assert objective(weights, *constants) <= objective(whole, *constants) * (1 + 1e-6)


def test_an_acyclic_average_is_kept_and_a_cyclic_one_bent() -> None:
    average = np.triu(np.random.default_rng(1).normal(size=(4, 4)), 1)
    weights, h = consensus_step(average, average, average != 0, 5.0, 1000.0, 8.0)
    np.testing.assert_array_equal(weights, average)
    assert h == 0
    cyclic = average + np.tril(np.full((4, 4), 0.4), -1)
    _, after = consensus_step(cyclic, cyclic, cyclic != 0, 0.0, 1000.0, 1.0)
    assert 0 <= after < exact_h(cyclic) / 10


def test_a_looser_step_goes_at_least_part_of_the_way() -> None:
    for seed in range(10):
        average, support, start = problem(seed, 10, 0.4)
        constants = (average, support, 0.5, 1000.0, 8.0, 0.0)
        loose, _ = consensus_step(start, average, support, 0.5, 1000.0, 8.0)
        tight, _ = consensus_step(start, average, support, 0.5, 1000.0, 8.0, tolerance=TIGHT)
        values = [objective(weights, *constants) for weights in (start, loose, tight)]
        assert values[1] < values[0] and values[1] < 1.2 * values[2]


def test_nothing_supported_gives_nothing() -> None:
    weights, h = consensus_step(np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3), dtype=bool), 1.0, 1000.0, 1.0)
    assert not weights.any() and h == 0
    small = np.full((3, 3), 0.1)
    weights, h = consensus_step(small, small, ~np.eye(3, dtype=bool), 1.0, 1000.0, 1.0, l1=0.2)
    assert not weights.any() and h == 0


def test_a_start_that_overflows_is_left() -> None:
    far = np.full((3, 3), 100.0)
    support = ~np.eye(3, dtype=bool)
    weights, h = consensus_step(far, far, support, 0.0, 1000.0, 8.0, tolerance=1e-12)
    assert math.isfinite(h) and exact_h(weights) == pytest.approx(h)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000), st.sampled_from([1.0, 100.0, 1e8, 1e100]))
def test_whatever_the_average_the_result_is_finite_and_projects_to_a_dag(seed: int, size: float) -> None:
    average, support, start = problem(seed)
    weights, h = consensus_step(start, average * size, support, 1.0, 1000.0, 8.0)
    assert np.isfinite(weights).all() and math.isfinite(h)
    assert is_acyclic(project_to_dag(weights, 0.3).weights)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_average_that_is_not_finite_is_refused(bad: float) -> None:
    average, support, start = problem(0)
    average[support] = bad
    with pytest.raises(ConvergenceFailure, match="not finite"):
        consensus_step(start, average, support, 1.0, 1000.0, 8.0)
    average[support] = 1.0
    average[~support] = bad
    consensus_step(start, average, support, 1.0, 1000.0, 8.0)
