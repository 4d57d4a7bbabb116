"""Curves against definitions: mpmath for Gaussians, sums over outcomes for discrete pairs."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting.curves import (
    Curve,
    discrete_laplace_curve,
    gaussian_values,
    laplace_curve,
    power,
    product,
    response_curve,
    with_gaussian,
)
from privfcd.accounting.selections import selection_curve

LAWS = settings(max_examples=60, deadline=None, derandomize=True)


def exact_gaussian(variance: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        mu, e = mpmath.sqrt(mpmath.mpf(variance)), mpmath.mpf(epsilon)

        def phi(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.erfc(-x / mpmath.sqrt(2)) / 2

        return phi(mu / 2 - e / mu) - mpmath.exp(e) * phi(-mu / 2 - e / mu)


def value(curve: Curve, epsilon: float) -> float:
    return float(curve.at(np.array(epsilon)))


@LAWS
@given(st.floats(-6, 3).map(lambda x: 10.0**x), st.floats(-30, 35))
def test_gaussian_values_are_above_and_near(variance: float, deviations: float) -> None:
    epsilon = variance / 2 + deviations * math.sqrt(variance)
    bound = float(gaussian_values(variance, np.array([epsilon]))[0])
    exact = exact_gaussian(variance, epsilon)
    assert bound >= exact or exact < 1e-300
    assert bound <= exact * (1 + 1e-10 / min(1.0, math.sqrt(variance)) * (1 + deviations * deviations)) + 1e-15 * (
        deviations < 0
    )


def composed(first: dict[float, float], second: dict[float, float]) -> dict[float, float]:
    total: dict[float, float] = {}
    for (a, p), (b, q) in itertools.product(first.items(), second.items()):
        total[a + b] = total.get(a + b, 0.0) + p * q
    return total


def delta(losses: dict[float, float], epsilon: float) -> float:
    return sum(mass * max(0.0, -math.expm1(epsilon - loss)) for loss, mass in losses.items())


def response(epsilon: float) -> dict[float, float]:
    right = 1 / (1 + math.exp(-epsilon))
    return {epsilon: right, -epsilon: 1 - right}


def discrete(parameter: float, sensitivity: int) -> dict[float, float]:
    norm = math.tanh(parameter / 2)
    losses: dict[float, float] = {}
    for x in range(-4000, 4001):
        loss = parameter * (abs(x - sensitivity) - abs(x))
        losses[loss] = losses.get(loss, 0.0) + norm * math.exp(-parameter * abs(x))
    return losses


@pytest.mark.parametrize("parameter,sensitivity", [(0.05, 1), (0.3, 4), (1.0, 7)])
def test_discrete_laplace_is_exact(parameter: float, sensitivity: int) -> None:
    curve = discrete_laplace_curve(parameter, sensitivity)
    losses = discrete(parameter, sensitivity)
    for index, bound in enumerate(curve.values):
        exact = delta(losses, parameter * index)
        assert exact - 1e-12 <= bound <= exact + 1e-12


@pytest.mark.parametrize("count", [1, 2, 5, 13])
def test_powers_of_randomised_response_are_exact(count: int) -> None:
    curve = power(response_curve(0.3), count, 100)
    losses = {0.0: 1.0}
    for _ in range(count):
        losses = composed(losses, response(0.3))
    for index, bound in enumerate(curve.values):
        exact = delta(losses, 0.3 * index)
        assert exact - 1e-15 <= bound <= exact * (1 + 1e-9) + 1e-13


def test_products_do_not_depend_on_the_order() -> None:
    first, second = laplace_curve(0.8, 16), selection_curve(0.4, 2, math.inf, 8)
    assert first.step == second.step
    one, other = product(first, second, 40), product(second, first, 40)
    assert np.allclose(one.values, other.values, rtol=1e-11, atol=1e-300)
    assert np.all(one.values[: len(first.values)] >= first.values * (1 - 1e-12))


def test_laplace_interpolation_is_above_the_law() -> None:
    curve = laplace_curve(1.5, 8)
    for epsilon in np.linspace(0, 1.6, 200):
        assert value(curve, epsilon) >= max(0.0, -math.expm1((epsilon - 1.5) / 2))


@LAWS
@given(st.floats(0.05, 3.0), st.floats(0.01, 9.0), st.floats(0.0, 8.0))
def test_with_gaussian_is_the_sum_over_outcomes(loss: float, variance: float, epsilon: float) -> None:
    bound = with_gaussian(response_curve(loss), variance)(epsilon)
    exact = sum(mass * exact_gaussian(variance, epsilon - at) for at, mass in response(loss).items())
    assert exact <= bound <= exact * (1 + 1e-6) + 1e-13


def test_a_cut_curve_is_still_a_bound() -> None:
    whole = selection_curve(0.5, 6, math.inf)
    cut = selection_curve(0.5, 6, 1.0)
    for epsilon in (0.0, 0.5, 0.9, 2.0):
        assert with_gaussian(cut, 0.3)(epsilon) >= with_gaussian(whole, 0.3)(epsilon) * (1 - 1e-12)


@LAWS
@given(st.floats(0.01, 0.7), st.integers(1, 30))
def test_regridding_only_raises(step: float, size: int) -> None:
    curve = selection_curve(0.5, 4, math.inf)
    other = curve.regrid(step, size)
    for epsilon in np.linspace(0, 2.2, 50):
        assert value(other, epsilon) >= value(curve, epsilon) * (1 - 1e-13)
