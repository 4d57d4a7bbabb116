"""Fisher's z on moments that know their noise, and the stable skeleton."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.algorithms.constraint import FisherZ, stable_skeleton
from privfcd.algorithms.constraint.skeleton import layer_tests
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm


def names(d: int) -> tuple[str, ...]:
    return tuple(f"x{index}" for index in range(d))


def moments_of(rows: np.ndarray, noise: tuple[NoiseTerm, ...] = ()) -> Moments:
    rows = rows - rows.mean(axis=0)
    return Moments(rows.T @ rows / len(rows), len(rows), names(rows.shape[1]), noise)


def regression_residual(rows: np.ndarray, target: int, given_: list[int]) -> np.ndarray:
    if not given_:
        return rows[:, target]
    return rows[:, target] - rows[:, given_] @ np.linalg.lstsq(rows[:, given_], rows[:, target], rcond=None)[0]


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(0, 3))
def test_partial_correlations_are_those_of_residuals(seed: int, size: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(60, 6)) @ rng.normal(size=(6, 6))
    rows -= rows.mean(axis=0)
    i, j, *z = rng.permutation(6)[: size + 2].tolist()
    found, effective = FisherZ(moments_of(rows)).correlations(np.array([i]), np.array([j]), np.array([z], dtype=int))
    expected = stats.pearsonr(regression_residual(rows, i, z), regression_residual(rows, j, z)).statistic
    assert found[0] == pytest.approx(expected, abs=1e-9)
    assert effective[0] == pytest.approx(60)


def test_p_values_are_uniform_where_the_null_holds() -> None:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2000):
        common = rng.normal(size=200)
        rows = np.column_stack([common + rng.normal(size=200), common - rng.normal(size=200), common])
        found.append(FisherZ(moments_of(rows)).p_values(np.array([0]), np.array([1]), np.array([[2]]))[0])
    assert stats.kstest(found, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("kind", ["isotropic", "carried", "by entry", "by entry, carried"])
def test_effective_rows_know_the_noise(kind: str) -> None:
    """The spread of noisy partial correlations, against the delta method's."""
    rng = np.random.default_rng(1)
    root = np.array([[1.0, 0, 0, 0], [0.7, 1, 0, 0], [0.5, 0.5, 1, 0], [0.3, 0, 0.8, 1]])
    truth = root @ root.T
    carry = np.eye(4) + 0.4 * rng.normal(size=(4, 4))
    upper = np.triu(rng.uniform(0.5, 1.5, size=(4, 4)))
    sd = 0.01 * (upper + np.triu(upper, 1).T)
    term = {
        "isotropic": NoiseTerm(0.012),
        "carried": NoiseTerm(0.012, carry),
        "by entry": NoiseTerm(sd),
        "by entry, carried": NoiseTerm(sd, carry),
    }[kind]
    plain = np.full((4, 4), 0.012 / np.sqrt(2)) if term.isotropic else sd.copy()
    if term.isotropic:
        np.fill_diagonal(plain, 0.012)
    test = (np.array([0, 0]), np.array([1, 3]), np.array([[2], [2]]))
    big = 10**9
    _, effective = FisherZ(Moments(truth, big, names(4), (term,))).correlations(*test)
    found = []
    for _ in range(3000):
        noise = np.triu(rng.normal(size=(4, 4)) * plain)
        noise = noise + np.triu(noise, 1).T
        if term.carry is not None:
            noise = term.carry @ noise @ term.carry.T
        found.append(FisherZ(Moments(truth + (noise + noise.T) / 2, big, names(4))).correlations(*test)[0])
    z = np.arctanh(np.array(found))
    np.testing.assert_allclose(1 / z.var(axis=0), effective, rtol=0.12)


def test_a_residual_below_its_noise_cannot_be_tested() -> None:
    matrix = np.array([[1.0, 0.2, 0.999], [0.2, 1.0, 0.2], [0.999, 0.2, 1.0]])
    exact, noisy = Moments(matrix, 1000, names(3)), Moments(matrix, 1000, names(3), (NoiseTerm(0.05),))
    test = (np.array([0, 0]), np.array([1, 1]), np.array([[2], [2]]))
    assert np.isfinite(FisherZ(exact).p_values(*test)).all()
    assert np.isnan(FisherZ(noisy).p_values(*test)).all()
    assert stable_skeleton(FisherZ(noisy), 0.01).adjacent[0, 2]


@settings(max_examples=20)
@given(st.integers(0, 500))
def test_the_skeleton_does_not_depend_on_the_order_of_the_variables(seed: int) -> None:
    _, parts = linear_gaussian(8, parties=1, rows=300, seed=seed, edges=12)
    order = np.random.default_rng(seed).permutation(8)
    one = stable_skeleton(FisherZ(moments_of(parts[0])), 0.05)
    other = stable_skeleton(FisherZ(moments_of(parts[0][:, order])), 0.05)
    np.testing.assert_array_equal(one.adjacent[np.ix_(order, order)], other.adjacent)
    for (i, j), p in other.p_values.items():
        pair = tuple(sorted((int(order[i]), int(order[j]))))
        assert one.p_values[pair] == pytest.approx(p, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_population_moments_give_the_true_skeleton(seed: int) -> None:
    weights, _ = linear_gaussian(7, parties=1, rows=10, seed=seed, edges=9)
    inverse = np.linalg.inv(np.eye(7) - weights)
    covariance = inverse.T @ inverse
    found = stable_skeleton(FisherZ(Moments((covariance + covariance.T) / 2, 10**12, names(7))), 1e-6, None)
    np.testing.assert_array_equal(found.adjacent, (weights != 0) | (weights.T != 0))
    for (i, j), separator in found.separators.items():
        assert i < j and i not in separator and j not in separator


def test_a_layer_lists_every_set_of_either_end_once() -> None:
    rng = np.random.default_rng(5)
    adjacent = np.triu(rng.random((7, 7)) < 0.6, 1)
    adjacent |= adjacent.T
    for size in range(4):
        first, second, sets = layer_tests(adjacent, size)
        listed = [(int(i), int(j), tuple(z)) for i, j, z in zip(first, second, sets.tolist(), strict=True)]
        expected = {
            (i, j, z)
            for i, j in itertools.combinations(range(7), 2)
            if adjacent[i, j]
            for end, other in ((i, j), (j, i))
            for z in itertools.combinations([k for k in range(7) if adjacent[end, k] and k != other], size)
        }
        assert len(listed) == len(set(listed)) and set(listed) == expected


@pytest.mark.parametrize("seed", range(6))
def test_the_skeleton_is_that_of_an_independent_library(seed: int) -> None:
    pc = pytest.importorskip("causallearn.search.ConstraintBased.PC").pc
    _, parts = linear_gaussian(15, parties=1, rows=2000, seed=seed, edges=20)
    other = pc(parts[0], 0.01, "fisherz", True, 0, -1, show_progress=False).G.graph != 0
    ours = stable_skeleton(FisherZ(moments_of(parts[0])), 0.01, None)
    np.testing.assert_array_equal(ours.adjacent, other)


@pytest.mark.parametrize(
    ("alpha", "max_cond_vars", "name"), [(0.0, 3, "alpha"), (1.5, 3, "alpha"), (0.01, -1, "max_cond_vars")]
)
def test_bad_levels_are_refused(alpha: float, max_cond_vars: int, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        stable_skeleton(FisherZ(moments_of(np.random.default_rng(0).normal(size=(9, 3)))), alpha, max_cond_vars)
    with pytest.raises(InvalidParameter, match="moments"):
        FisherZ(np.eye(3))  # type: ignore[arg-type]
