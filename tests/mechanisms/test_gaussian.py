"""The Gaussian mechanism: its law, its cost, and its edges."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.accounting import GaussianDpEvent, NonPrivateDpEvent, NoOpDpEvent, epsilon_of, gaussian_sigma
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Gaussian, NoiseStream, SecureNoise, SimulatedNoise

SIMULATED, SECURE = 1e-6 / 10, 1e-9
"""Levels: the first over all tests of one seeded file, the second so that a right sampler never fails a suite."""


@pytest.fixture(params=["simulated", "secure"])
def stream(request: pytest.FixtureRequest) -> NoiseStream:
    return SimulatedNoise(11).stream(1) if request.param == "simulated" else SecureNoise().stream()


@pytest.mark.parametrize("scale", [1e-8, 0.37, 3.73, 1e6])
def test_noise_of_the_simulated_source_is_normal_with_the_scale(scale: float) -> None:
    noisy = Gaussian(scale).release(np.full(50_000, 5.0), SimulatedNoise(3).stream(0))
    z = (noisy - 5.0) / scale
    assert stats.kstest(z, "norm").pvalue > SIMULATED
    assert stats.chi2.cdf(np.sum(z**2), z.size) == pytest.approx(0.5, abs=0.5 - SIMULATED)


def test_noise_of_the_secure_source_is_normal_with_the_scale() -> None:
    z = (Gaussian(2.5).release(np.full(2000, -7.0), SecureNoise().stream()) + 7.0) / 2.5
    assert stats.kstest(z, "norm").pvalue > SECURE
    assert SECURE < stats.chi2.cdf(np.sum(z**2), z.size) < 1 - SECURE


def test_coordinates_and_releases_have_noise_of_their_own(stream: NoiseStream) -> None:
    first, second = (Gaussian(1.0).release(np.zeros(300), stream) for _ in range(2))
    assert len(np.unique(np.concatenate([first, second]))) > 590
    assert stats.pearsonr(first, second).pvalue > SECURE
    assert stats.pearsonr(first[:-1], first[1:]).pvalue > SECURE


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 3)])
def test_the_answer_has_the_shape_of_the_value_and_leaves_it_alone(stream: NoiseStream, shape: tuple[int, ...]) -> None:
    value = np.ones(shape)
    noisy = Gaussian(1.0).release(value, stream)
    assert noisy.shape == shape
    assert noisy.dtype == np.float64
    assert np.array_equal(value, np.ones(shape))


def test_scale_0_returns_the_exact_value(stream: NoiseStream) -> None:
    value = np.array([0.1, -3.0, 1e300, 5e-324])
    noisy = Gaussian(0.0).release(value, stream)
    assert np.array_equal(noisy, value)
    assert noisy is not value


def test_the_event_carries_the_noise_multiplier() -> None:
    assert Gaussian(3.0).event(0.5) == GaussianDpEvent(6.0)
    assert (
        Gaussian(0.0).event(1.0)
        == Gaussian(1.0).event(math.inf)
        == Gaussian(0.0).event(math.inf)
        == NonPrivateDpEvent()
    )
    assert Gaussian(1.0).event(0.0) == Gaussian(0.0).event(0.0) == NoOpDpEvent()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(scale=st.floats(0.01, 100), sensitivity=st.floats(0.01, 100), more=st.floats(1.01, 3))
def test_more_noise_or_less_sensitivity_costs_less(scale: float, sensitivity: float, more: float) -> None:
    cost = epsilon_of(Gaussian(scale).event(sensitivity), 1e-6)
    assert epsilon_of(Gaussian(scale * more).event(sensitivity), 1e-6) < cost
    assert epsilon_of(Gaussian(scale).event(sensitivity * more), 1e-6) > cost


def test_the_true_delta_of_the_released_law_is_within_the_claim() -> None:
    """Balle and Wang's optimal event y > sigma² epsilon / D + D / 2, counted under both neighbours."""
    epsilon, delta = 0.5, 0.05
    sigma = gaussian_sigma(epsilon, delta)
    noise = SimulatedNoise(8).stream(0)
    one = Gaussian(sigma).release(np.ones(200_000), noise)
    zero = Gaussian(sigma).release(np.zeros(200_000), noise)
    threshold = sigma**2 * epsilon + 0.5
    gap = np.mean(one > threshold) - math.exp(epsilon) * np.mean(zero > threshold)
    assert gap == pytest.approx(delta, abs=0.006)


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0, True, "1", None, 1j, [1.0, 2.0], np.array([1.0]), 10**400])
def test_scales_that_are_no_amounts_are_refused_by_name(scale: Any) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        Gaussian(scale)


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, -math.inf], np.array([[math.nan]])])
def test_values_that_are_not_finite_are_refused_before_noise(stream: NoiseStream, value: Any) -> None:
    for scale in (1.0, 0.0):
        with pytest.raises(InvalidParameter, match="value"):
            Gaussian(scale).release(value, stream)


def test_the_mechanism_is_a_frozen_value() -> None:
    assert pickle.loads(pickle.dumps(Gaussian(2.0))) == Gaussian(2.0)
    with pytest.raises(AttributeError):
        Gaussian(2.0).scale = 0.0  # type: ignore[misc]
