"""Fixed laws on a grid: sums over outcomes in many digits, and laws."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting.lattice import Lattice, Law
from privfcd.accounting.pairs import buckets_law, discrete_laplace_law, laplace_law, law_of_curve, response_law
from privfcd.accounting.selections import selection_curve

LAWS = settings(max_examples=60, deadline=None, derandomize=True)
EPSILONS = st.floats(-3, 0.7).map(lambda x: 10.0**x)
Atoms = dict[mpmath.mpf, mpmath.mpf]


def curve_of_gaussian(variance: float, epsilon: mpmath.mpf) -> mpmath.mpf:
    if variance == 0:
        return max(mpmath.mpf(0), 1 - mpmath.exp(epsilon))
    mu = mpmath.sqrt(mpmath.mpf(variance))
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)


def response(epsilon: float) -> Atoms:
    e = mpmath.mpf(epsilon)
    return {e: 1 / (1 + mpmath.exp(-e)), -e: 1 / (1 + mpmath.exp(e))}


def buckets(noise: float, size: int) -> Atoms:
    other = mpmath.mpf(noise) / size
    right = 1 - mpmath.mpf(noise) + other
    e = mpmath.log(right / other)
    return {e: right, mpmath.mpf(0): 1 - right - other, -e: other}


def discrete(parameter: float, sensitivity: int) -> Atoms:
    a, found = mpmath.mpf(parameter), {}
    for x in range(-3000, 3001):
        loss = a * (abs(x - sensitivity) - abs(x))
        found[loss] = found.get(loss, 0) + mpmath.tanh(a / 2) * mpmath.exp(-a * abs(x))
    return found


def composed(parts: list[Atoms], variance: float, epsilon: float) -> mpmath.mpf:
    """E[G(epsilon - l)] outcome by outcome."""
    total = mpmath.mpf(0)
    for outcome in itertools.product(*(part.items() for part in parts)):
        mass = mpmath.fprod(one for _, one in outcome)
        total += mass * curve_of_gaussian(variance, mpmath.mpf(epsilon) - mpmath.fsum(loss for loss, _ in outcome))
    return total


@LAWS
@given(st.lists(EPSILONS, min_size=1, max_size=5), st.sampled_from([0.0, 0.01, 1.0, 9.0]), st.floats(0, 1.2))
def test_unequal_responses_with_gaussian_noise(epsilons: list[float], variance: float, share: float) -> None:
    with mpmath.workdps(40):
        epsilon = share * (sum(epsilons) + 5 * math.sqrt(variance))
        bound = Lattice([(response_law(e), 1) for e in epsilons], variance).bound(epsilon)
        exact = composed([response(e) for e in epsilons], variance, epsilon)
        assert bound >= exact
        # what is lost: 1e-4 of the sum or of the deviation, in epsilon
        lost = 1e-4 * (sum(epsilons) + math.sqrt(variance))
        near = composed([response(e) for e in epsilons], variance, epsilon - lost)
        assert bound <= near * (1 + mpmath.mpf(1e-6)) + mpmath.mpf(10) ** -14


@pytest.mark.parametrize("count", [1, 2, 5, 13, 200, 4096])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 2.0])
def test_equal_responses_are_binomial(count: int, epsilon: float) -> None:
    grid = Lattice([(response_law(epsilon), count)], 0.0)
    with mpmath.workdps(60):
        e = mpmath.mpf(epsilon)
        right = 1 / (1 + mpmath.exp(-e))
        masses = [mpmath.binomial(count, k) * right**k * (1 - right) ** (count - k) for k in range(count + 1)]
        for share in (0.0, 0.4, 0.9, 0.999):
            target = mpmath.mpf(share * epsilon * count)
            losses = [e * (2 * k - count) for k in range(count + 1)]
            terms = [mass * (1 - mpmath.exp(target - at)) for at, mass in zip(losses, masses, strict=True) if at > target]
            exact = mpmath.fsum(terms)
            bound = grid.bound(float(target))
            assert bound >= exact * (1 - mpmath.mpf(1e-50))
            if exact > 1e-280:
                assert bound <= exact * (1 + mpmath.mpf(1e-6)) + mpmath.mpf(1e-15) * (share == 0)


@pytest.mark.parametrize("noise,size", [(0.3, 3), (0.9, 10), (1e-6, 4)])
def test_buckets(noise: float, size: int) -> None:
    epsilon = math.log1p(size * (1 - noise) / noise)
    grid = Lattice([(buckets_law(epsilon, noise, size), 3)], 0.0)
    with mpmath.workdps(40):
        for at in (0.0, 0.3, 0.7, 0.99):
            exact = composed([buckets(noise, size)] * 3, 0.0, at * 3 * epsilon)
            assert (
                exact * (1 - mpmath.mpf(1e-12))
                <= grid.bound(at * 3 * epsilon)
                <= exact * (1 + mpmath.mpf(1e-6)) + 1e-14
            )


@pytest.mark.parametrize("parameter,sensitivity", [(0.05, 1), (0.3, 4), (1.0, 7)])
def test_discrete_laplace_is_exact(parameter: float, sensitivity: int) -> None:
    law = discrete_laplace_law(parameter, sensitivity)
    grid = Lattice([(law, 1)], 0.0)
    with mpmath.workdps(40):
        atoms = discrete(parameter, sensitivity)
        for at in (0.0, 0.2, 0.6, 0.95):
            exact = composed([atoms], 0.0, at * parameter * sensitivity)
            assert (
                exact * (1 - mpmath.mpf(1e-9))
                <= grid.bound(at * parameter * sensitivity)
                <= exact * (1 + mpmath.mpf(1e-9))
            )


@LAWS
@given(EPSILONS, st.integers(2, 64), st.floats(0, 1.1))
def test_laplace_lies_above_its_curve_and_near_it(epsilon: float, cells: int, share: float) -> None:
    bound = Lattice([(laplace_law(epsilon, cells), 1)], 0.0).bound(share * epsilon)
    exact = max(0.0, -math.expm1((share - 1) * epsilon / 2))
    assert exact * (1 - 1e-15) <= bound <= exact + (epsilon / cells) ** 2 + 1e-13


@LAWS
@given(EPSILONS, st.integers(1, 20), EPSILONS, st.integers(1, 20), st.floats(0.0, 4.0), st.floats(0, 1))
def test_more_releases_and_more_noise_only_raise(
    one: float, often: int, other: float, times: int, variance: float, share: float
) -> None:
    laws = [(laplace_law(one, 64), often)]
    epsilon = share * (one * often + 4 * math.sqrt(variance))
    alone = Lattice(laws, variance).bound(epsilon)
    assert Lattice([*laws, (response_law(other), times)], variance).bound(epsilon) >= alone * (1 - 1e-9)
    assert Lattice(laws, variance + 0.1).bound(epsilon) >= alone * (1 - 1e-9) - 1e-14
    assert Lattice(laws, variance).bound(epsilon * 1.001) <= alone * (1 + 1e-9)


@pytest.mark.parametrize("delta", [1e-100, 1e-60, 1e-12, 1e-3])
def test_the_tail_keeps_its_relative_accuracy(delta: float) -> None:
    """400 small responses beside 30 wider ones, against the two binomials in 60 digits."""
    grid = Lattice([(response_law(0.1), 400), (response_law(0.5), 30)], 0.0)
    epsilon = grid.epsilon(delta, 1e3)
    assert 0.999 * delta <= grid.bound(epsilon) <= delta
    with mpmath.workdps(60):
        laws = []
        for e, count in ((mpmath.mpf(0.1), 400), (mpmath.mpf(0.5), 30)):
            right = 1 / (1 + mpmath.exp(-e))
            masses = [mpmath.binomial(count, k) * right**k * (1 - right) ** (count - k) for k in range(count + 1)]
            laws.append([(e * (2 * k - count), mass) for k, mass in enumerate(masses)])
        for at in (epsilon, epsilon * (1 - 2e-5)):
            pairs = [(one + two, p * q) for one, p in laws[0] for two, q in laws[1] if one + two > at]
            exact = mpmath.fsum(mass * (1 - mpmath.exp(at - loss)) for loss, mass in pairs)
            assert exact <= delta if at == epsilon else exact >= delta


def test_a_cut_curve_is_still_a_bound() -> None:
    whole, cut = selection_curve(0.5, 6, math.inf), selection_curve(0.5, 6, 1.0)
    for epsilon in (0.0, 0.5, 0.9, 2.0):
        bounds = [Lattice([(law_of_curve(curve, 1.0), 1)], 0.3).bound(epsilon) for curve in (whole, cut)]
        assert bounds[1] >= bounds[0] * (1 - 1e-12)
        values = [Lattice([(law_of_curve(curve, 1.0), 1)], 0.0).bound(epsilon) for curve in (whole, cut)]
        assert values[0] >= float(whole.at(np.array(epsilon))) * (1 - 1e-12)


def test_infinite_losses_are_counted_once_for_each_release() -> None:
    law = response_law(0.5)
    broken = Law(law.origin, law.step, law.masses * (1 - 1e-3), law.spread, 1e-3)
    assert Lattice([(broken, 3)], 0.0).bound(10.0) == pytest.approx(3e-3, rel=1e-9)
