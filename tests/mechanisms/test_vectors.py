"""Vectors with a sensitivity for each coordinate."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.accounting import Budget, epsilon_of, gaussian_sigma
from privfcd.data import ClippedMean, PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Gaussian, GaussianVector, Laplace, LaplaceVector, SecureNoise, SimulatedNoise

KINDS = [(GaussianVector, stats.norm), (LaplaceVector, stats.laplace)]


@pytest.mark.parametrize(("make", "law"), KINDS)
@pytest.mark.parametrize("noise", [SimulatedNoise(4), SecureNoise()])
def test_each_coordinate_has_noise_in_proportion(make: Any, law: Any, noise: Any) -> None:
    mechanism = make(2.0, (1.0, 1e-3, 1e6, 0.0))
    value = np.array([1.0, 2.0, 3.0, 4.0])
    noisy = mechanism.release(np.broadcast_to(value, (20_000, 4)), noise.stream()) - value
    assert (noisy[:, 3] == 0).all()
    for column, unit in zip(noisy.T[:3], mechanism.sensitivities[:3], strict=True):
        assert stats.kstest(column / (2.0 * unit), law.cdf).pvalue > 1e-6 / 12
    assert abs(np.corrcoef(noisy[:, 0], noisy[:, 1])[0, 1]) < 6 / math.sqrt(20_000)


@settings(deadline=None)
@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8), st.floats(0.1, 10), st.data())
def test_the_charge_covers_every_movement_within_the_sensitivities(
    sensitivities: list[float], scale: float, data: st.DataObject
) -> None:
    shares = data.draw(st.lists(st.floats(-1, 1), min_size=len(sensitivities), max_size=len(sensitivities)))
    units = np.array(sensitivities)
    moved = np.array(shares) * units
    gaussian, laplace = GaussianVector(scale, tuple(sensitivities)), LaplaceVector(scale, tuple(sensitivities))
    assert np.linalg.norm(moved / gaussian.scales) * gaussian.event().noise_multiplier <= 1 + 1e-12
    assert np.abs(moved / laplace.scales).sum() * laplace.event().noise_multiplier <= 1 + 1e-12


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 100), st.floats(1e-300, 0.1))
def test_one_coordinate_costs_what_a_number_costs(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta)
    assert GaussianVector(sigma, (3.0,)).event().noise_multiplier == pytest.approx(
        Gaussian(sigma).event(1.0).noise_multiplier, rel=1e-12
    )
    assert epsilon_of(LaplaceVector(1 / epsilon, (3.0,)).event(), 0.0, "pure") == pytest.approx(epsilon)
    assert LaplaceVector(2.0, (1.0, 1.0)).event() == Laplace(2.0).event(2.0)


def test_a_tighter_joint_bound_is_cheaper_and_a_looser_one_changes_nothing() -> None:
    assert GaussianVector(1.0, (1.0,) * 4, joint=1.0).event() == Gaussian(1.0).event(1.0)
    assert GaussianVector(1.0, (1.0,) * 4, joint=9.0).event() == GaussianVector(1.0, (1.0,) * 4).event()
    assert LaplaceVector(1.0, (1.0, 0.0), joint=5.0).event() == Laplace(1.0).event(1.0)


def test_degenerate_costs() -> None:
    for make, _ in KINDS:
        assert isinstance(make(1.0, (0.0, 0.0)).event(), NoOpDpEvent)
        assert isinstance(make(1.0, (1.0,)).event(0.0), NoOpDpEvent)
        assert isinstance(make(0.0, (1.0,)).event(), NonPrivateDpEvent)


@pytest.mark.parametrize(("make", "law"), KINDS)
def test_bad_input_is_refused(make: Any, law: Any) -> None:
    for sensitivities in ((), 1.0, ((1.0,),), (-1.0,), (math.nan,), (math.inf,), "ab"):
        with pytest.raises(InvalidParameter, match="sensitivit"):
            make(1.0, sensitivities)
    with pytest.raises(InvalidParameter, match="scale"):
        make(-1.0, (1.0,))
    with pytest.raises(InvalidParameter, match="scale times"):
        make(1e-200, (1e-200,))
    with pytest.raises(InvalidParameter, match="joint"):
        make(1.0, (1.0,), joint=-1.0)
    with pytest.raises(InvalidParameter, match="2 coordinates"):
        make(1.0, (1.0, 1.0)).release([1.0], SecureNoise().stream())


def test_a_table_refuses_it_because_an_l2_bound_says_nothing_about_coordinates() -> None:
    table = PrivateTable(np.zeros((5, 2)), budget=Budget(rho=1.0))
    with pytest.raises(InvalidParameter, match="coordinates"):
        table.release(ClippedMean((1.0, 1.0)), GaussianVector(1.0, (1.0, 1.0)))
