"""The Laplace mechanism: its law, its cost, and its edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.accounting import LaplaceDpEvent, NonPrivateDpEvent, NoOpDpEvent, epsilon_of
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Laplace, NoiseStream, SecureNoise, SimulatedNoise

SIMULATED, SECURE = 1e-6 / 10, 1e-9
"""Levels: the first over all tests of one seeded file, the second so that a right sampler never fails a suite."""


@pytest.fixture(params=["simulated", "secure"])
def stream(request: pytest.FixtureRequest) -> NoiseStream:
    return SimulatedNoise(12).stream(1) if request.param == "simulated" else SecureNoise().stream()


@pytest.mark.parametrize("scale", [1e-8, 0.37, 3.73, 1e6])
def test_noise_of_the_simulated_source_is_laplace_with_the_scale(scale: float) -> None:
    noisy = Laplace(scale).release(np.full(50_000, 5.0), SimulatedNoise(4).stream(0))
    z = (noisy - 5.0) / scale
    assert stats.kstest(z, "laplace").pvalue > SIMULATED
    # |z| is exponential, so twice their sum is chi-square
    assert SIMULATED < stats.chi2.cdf(2 * np.sum(np.abs(z)), 2 * z.size) < 1 - SIMULATED


def test_noise_of_the_secure_source_is_laplace_with_the_scale() -> None:
    z = (Laplace(2.5).release(np.full(2000, -7.0), SecureNoise().stream()) + 7.0) / 2.5
    assert stats.kstest(z, "laplace").pvalue > SECURE
    assert SECURE < stats.chi2.cdf(2 * np.sum(np.abs(z)), 2 * z.size) < 1 - SECURE


def test_coordinates_and_releases_have_noise_of_their_own(stream: NoiseStream) -> None:
    first, second = (Laplace(1.0).release(np.zeros(300), stream) for _ in range(2))
    assert len(np.unique(np.concatenate([first, second]))) > 590
    assert stats.spearmanr(first, second).pvalue > SECURE
    assert stats.spearmanr(first[:-1], first[1:]).pvalue > SECURE


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)])
def test_the_answer_has_the_shape_of_the_value_and_leaves_it_alone(stream: NoiseStream, shape: tuple[int, ...]) -> None:
    value = np.ones(shape)
    assert Laplace(1.0).release(value, stream).shape == shape
    assert np.array_equal(value, np.ones(shape))


@pytest.mark.parametrize("scale", [1e-4, 1e-300, 5e-324])
def test_tiny_scales_do_not_overflow_or_wrap(stream: NoiseStream, scale: float) -> None:
    for value in (2.0**62, -1e300, 0.0):
        noisy = float(Laplace(scale).release(value, stream))
        assert math.isfinite(noisy)
        assert abs(noisy - value) <= 1e3 * scale + 1e-15 * abs(value)
    try:
        assert float(Laplace(scale).release(2**62, stream)) == pytest.approx(2.0**62, rel=1e-15)
    except InvalidParameter as error:  # secure noise takes no integers beyond 2^53
        assert "2^53" in str(error)


def test_scale_0_returns_the_exact_value(stream: NoiseStream) -> None:
    value = np.array([0.1, -3.0, 1e300, 5e-324])
    assert np.array_equal(Laplace(0.0).release(value, stream), value)


def test_the_event_carries_the_noise_multiplier() -> None:
    assert Laplace(3.0).event(0.5) == LaplaceDpEvent(6.0)
    assert Laplace(0.0).event(1.0) == Laplace(1.0).event(math.inf) == NonPrivateDpEvent()
    assert Laplace(1.0).event(0.0) == Laplace(0.0).event(0.0) == NoOpDpEvent()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(scale=st.floats(0.01, 100), sensitivity=st.floats(0.01, 100), more=st.floats(1.01, 3))
def test_more_noise_or_less_sensitivity_costs_less(scale: float, sensitivity: float, more: float) -> None:
    cost = epsilon_of(Laplace(scale).event(sensitivity), 0.0)
    assert cost == pytest.approx(sensitivity / scale, rel=1e-12)
    assert epsilon_of(Laplace(scale * more).event(sensitivity), 0.0) < cost
    assert epsilon_of(Laplace(scale).event(sensitivity * more), 0.0) > cost


def test_the_density_ratio_of_l1_neighbours_is_at_most_the_claim() -> None:
    draw = np.random.default_rng(5)
    for _ in range(50):
        answer, shift = draw.normal(size=4), draw.laplace(size=4)
        shift /= np.abs(shift).sum()  # l1 distance 1
        points = answer + 5 * draw.normal(size=(500, 4))
        loss = (np.abs(points - answer - shift).sum(1) - np.abs(points - answer).sum(1)) / 0.7
        assert np.abs(loss).max() <= 1 / 0.7 + 1e-12
        assert 1 / Laplace(0.7).event(1.0).noise_multiplier == pytest.approx(1 / 0.7, rel=1e-15)


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0, True, "1", None, 1j, [1.0, 2.0], np.array([1.0]), 10**400])
def test_scales_that_are_no_amounts_are_refused_by_name(scale: Any) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        Laplace(scale)


@pytest.mark.parametrize("value", [math.nan, math.inf, [1.0, -math.inf]])
def test_values_that_are_not_finite_are_refused_before_noise(stream: NoiseStream, value: Any) -> None:
    with pytest.raises(InvalidParameter, match="value"):
        Laplace(1.0).release(value, stream)
