"""Curves against definitions: mpmath for Gaussians, convexity for what lies between nodes."""

from __future__ import annotations

import math

import mpmath
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting.curves import Curve, gaussian_values
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


@LAWS
@given(st.floats(0.05, 3.0), st.integers(1, 6), st.floats(0, 1.2))
def test_between_nodes_a_curve_is_the_chord(eta: float, count: int, share: float) -> None:
    curve = selection_curve(eta, count, math.inf)
    epsilon = share * eta * count
    left = min(int(epsilon / curve.step), len(curve.values) - 1)
    assert value(curve, epsilon) <= curve.values[left] * (1 + 1e-12)
    assert value(curve, epsilon) >= curve.values[min(left + 1, len(curve.values) - 1)]
