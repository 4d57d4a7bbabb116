"""The analytic Gaussian mechanism for covariances: symmetric noise, and the sensitivity by brute force."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from privfcd.accounting import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    gaussian_epsilon,
)
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import (
    AnalyticGaussian,
    NoiseStream,
    NoisyCovariance,
    SecureNoise,
    SimulatedNoise,
    covariance_sensitivity,
)

SIMULATED, SECURE = 1e-6 / 10, 1e-9
"""Levels: the first over all tests of one seeded file, the second so that a right sampler never fails a suite."""


@pytest.fixture(params=["simulated", "secure"])
def stream(request: pytest.FixtureRequest) -> NoiseStream:
    return SimulatedNoise(14).stream(1) if request.param == "simulated" else SecureNoise().stream()


def chi_square(noise: NDArray[np.float64], sd: float) -> float:
    return float(stats.chi2.cdf(np.sum((noise / sd) ** 2), noise.size))


# --- the noise ----------------------------------------------------------------------------------------------------


def test_the_variance_is_s_squared_on_the_diagonal_and_half_of_it_off_it(stream: NoiseStream) -> None:
    value, scale = np.diag([1.0, 2.0, 3.0]) + 0.5, 1.7
    runs = 400 if stream.secure else 20_000
    level = SECURE if stream.secure else SIMULATED
    noise = np.array([AnalyticGaussian(scale).release(value, stream).matrix - value for _ in range(runs)])
    for i, j in itertools.combinations_with_replacement(range(3), 2):
        sd = scale if i == j else scale / math.sqrt(2)
        assert level < chi_square(noise[:, i, j], sd) < 1 - level
        assert stats.kstest(noise[:, i, j] / sd, "norm").pvalue > level


def test_the_triangles_are_equal_to_the_last_bit(stream: NoiseStream) -> None:
    for size in (1, 2, 7, 30):
        made = AnalyticGaussian(0.3).release(np.eye(size), stream)
        assert np.array_equal(made.matrix, made.matrix.T)
        upper = made.matrix[np.triu_indices(size, 1)]
        assert len(np.unique(upper)) >= upper.size - 8  # secure noise lies on a grid, where two may be equal


def test_in_isometric_coordinates_the_noise_is_independent_with_one_scale() -> None:
    """Diagonal, and sqrt(2) times the upper triangle: the Frobenius norm becomes the Euclidean one."""
    stream, scale = SimulatedNoise(15).stream(0), 2.0
    upper = np.triu_indices(4)
    weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2))
    noise = np.array([AnalyticGaussian(scale).release(np.zeros((4, 4)), stream).matrix[upper] for _ in range(5000)])
    z = noise * weights / scale
    assert SIMULATED < chi_square(z, 1.0) < 1 - SIMULATED
    correlations = np.corrcoef(z.T)[np.triu_indices(10, 1)]
    assert np.abs(correlations).max() * math.sqrt(5000) < stats.norm.isf(SIMULATED / 45)


def test_the_noise_law_travels_with_the_matrix(stream: NoiseStream) -> None:
    made = AnalyticGaussian(2.0).release(np.eye(3), stream)
    expected = np.full((3, 3), math.sqrt(2))
    np.fill_diagonal(expected, 2.0)
    assert made.noise_sd == pytest.approx(expected, rel=1e-15)
    assert made.scale == 2.0


def test_scale_0_returns_the_exact_matrix(stream: NoiseStream) -> None:
    value = np.array([[2.0, 0.1], [0.1, 1e-300]])
    made = AnalyticGaussian(0.0).release(value, stream)
    assert np.array_equal(made.matrix, value)
    assert not made.noise_sd.any()


# --- its cost -----------------------------------------------------------------------------------------------------


def test_the_event_is_that_of_gaussian_noise_at_the_frobenius_sensitivity() -> None:
    assert AnalyticGaussian(3.0).event(0.5) == GaussianDpEvent(6.0)
    assert AnalyticGaussian(0.0).event(1.0) == AnalyticGaussian(1.0).event(math.inf) == NonPrivateDpEvent()
    assert AnalyticGaussian(1.0).event(0.0) == NoOpDpEvent()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(epsilon=st.floats(0.01, 50), delta=st.floats(-12, -1).map(lambda x: 10.0**x), sensitivity=st.floats(1e-6, 1e3))
def test_the_calibrated_scale_keeps_its_target_and_wastes_nothing(
    epsilon: float, delta: float, sensitivity: float
) -> None:
    scale = AnalyticGaussian.calibrated(epsilon, delta, sensitivity).scale
    assert gaussian_epsilon(scale, delta, sensitivity) <= epsilon * (1 + 1e-12)
    assert gaussian_epsilon(scale * (1 - 1e-6), delta, sensitivity) > epsilon


# --- the sensitivity ----------------------------------------------------------------------------------------------


def second_moments(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    return rows.T @ rows / len(rows)


def row(draw: np.random.Generator, d: int, norm: float) -> NDArray[np.float64]:
    """A row of norm at most `norm`: mostly at the edge, sparse, or at random inside."""
    direction = draw.normal(size=d) * (draw.random(d) < draw.choice([0.3, 1.0]))
    length = float(np.linalg.norm(direction))
    return direction / length * norm * draw.choice([1.0, draw.random()]) if length else direction


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_of_neighbours_differs_by_more_than_the_sensitivity(seed: int) -> None:
    draw = np.random.default_rng(seed)
    for _ in range(500):
        d, n, norm = int(draw.integers(1, 7)), int(draw.integers(1, 6)), 10.0 ** draw.uniform(-3, 3)
        rows = np.array([row(draw, d, norm) for _ in range(n)])
        neighbour = rows.copy()
        neighbour[draw.integers(n)] = row(draw, d, norm)
        moved = np.linalg.norm(second_moments(rows) - second_moments(neighbour))
        assert moved <= covariance_sensitivity(norm, n) * (1 + 1e-12)
        added = np.linalg.norm(np.outer(x := row(draw, d, norm), x)) / n  # n is public and stays
        assert added <= covariance_sensitivity(norm, n, ADD_OR_REMOVE_ONE) * (1 + 1e-12)


@pytest.mark.parametrize(("norm", "n"), [(2.0, 1), (0.5, 7), (100.0, 1000)])
def test_the_sensitivity_is_attained_by_orthogonal_rows_of_full_norm(norm: float, n: int) -> None:
    rows = np.zeros((n, 2))
    rows[0] = [norm, 0.0]
    neighbour = rows.copy()
    neighbour[0] = [0.0, norm]
    moved = np.linalg.norm(second_moments(rows) - second_moments(neighbour))
    assert moved == pytest.approx(covariance_sensitivity(norm, n, REPLACE_ONE), rel=1e-12)
    removed = np.linalg.norm(second_moments(rows))
    assert removed == pytest.approx(covariance_sensitivity(norm, n, ADD_OR_REMOVE_ONE), rel=1e-12)


def test_the_published_sensitivity() -> None:
    assert covariance_sensitivity(2.0, 1) == pytest.approx(5.656854249492381, rel=1e-15)
    assert covariance_sensitivity(0.0, 5) == 0


# --- post-processing and refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_the_projection_is_the_nearest_positive_semidefinite_matrix(floor: float) -> None:
    draw = np.random.default_rng(3)
    for _ in range(20):
        root = draw.normal(size=(5, 5))
        made = NoisyCovariance(root + root.T, 0.4)
        projected = made.positive_semidefinite(floor)
        assert np.array_equal(projected.matrix, projected.matrix.T)
        assert np.linalg.eigvalsh(projected.matrix).min() >= floor - 1e-12
        distance = np.linalg.norm(projected.matrix - made.matrix)
        values = np.linalg.eigvalsh(made.matrix)
        assert distance == pytest.approx(np.linalg.norm(np.minimum(values - floor, 0)), abs=1e-12)
        assert projected.scale == made.scale
        again = projected.positive_semidefinite(floor)
        assert again.matrix == pytest.approx(projected.matrix, abs=1e-12)


@pytest.mark.parametrize(
    "value", [[[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0], 3.0, np.ones((2, 3)), [[math.nan]], [[math.inf, 0], [0, 1]]]
)
def test_values_that_are_no_symmetric_finite_matrix_are_refused_by_name(stream: NoiseStream, value: Any) -> None:
    with pytest.raises(InvalidParameter, match="value"):
        AnalyticGaussian(1.0).release(value, stream)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, True, "1", None, [1.0]])
def test_arguments_that_are_no_amounts_are_refused_by_name(bad: Any) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        AnalyticGaussian(bad)
    with pytest.raises(InvalidParameter, match="row_norm"):
        covariance_sensitivity(bad, 3)
    with pytest.raises(InvalidParameter, match="n must"):
        covariance_sensitivity(1.0, bad)
    with pytest.raises(InvalidParameter, match="sensitivity"):
        AnalyticGaussian.calibrated(1.0, 1e-6, bad)


def test_no_rows_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="n must"):
        covariance_sensitivity(1.0, 0)


# --- what went wrong once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["replace_one", None, 2])
def test_a_relation_that_is_none_is_refused_by_name(relation: Any) -> None:
    with pytest.raises(InvalidParameter, match="relation"):
        covariance_sensitivity(2.0, 1, relation)


def test_a_norm_whose_square_overflows_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="row_norm"):
        covariance_sensitivity(1e200, 3)
