"""Conversions against 50-digit arithmetic that was written from the definitions: never below, and hardly above."""

from __future__ import annotations

import random

import mpmath as mp
import pytest

from privfcd.accounting import (
    bounded_range_rho,
    gaussian_epsilon,
    gaussian_sigma,
    gdp_to_delta,
    laplace_rho,
    zcdp_to_delta,
    zcdp_to_epsilon,
)


def gdp_delta_50(mu: float, epsilon: float) -> mp.mpf:
    with mp.workdps(60):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def zcdp_delta_50(rho: float, epsilon: float) -> mp.mpf:
    """The smallest CKS20 bound over alpha: the logarithm is convex in alpha, so its slope is bisected."""
    with mp.workdps(50):
        r, e = mp.mpf(rho), mp.mpf(epsilon)

        def log_bound(a: mp.mpf) -> mp.mpf:
            return (a - 1) * (a * r - e) - mp.log(a - 1) + a * mp.log1p(-1 / a)

        low, high = mp.mpf(10) ** -40, mp.mpf(10) ** 20
        for _ in range(240):
            middle = mp.sqrt(low * high)
            if (2 * middle + 1) * r - e + mp.log(middle / (1 + middle)) > 0:
                high = middle
            else:
                low = middle
        return min(mp.mpf(1), mp.exp(log_bound(1 + low)))


def zcdp_epsilon_50(rho: float, delta: float) -> mp.mpf:
    """The smallest CKS20 epsilon over alpha, by golden-section search in log(alpha - 1)."""
    with mp.workdps(50):
        r, d = mp.mpf(rho), mp.mpf(delta)

        def bound(x: mp.mpf) -> mp.mpf:
            u = mp.exp(x)
            return (1 + u) * r + (mp.log(1 / d) + (1 + u) * mp.log(u / (1 + u)) - mp.log(u)) / u

        low, high = mp.mpf(-30), mp.mpf(50)
        golden = (mp.sqrt(5) - 1) / 2
        for _ in range(140):
            left, right = high - golden * (high - low), low + golden * (high - low)
            if bound(left) < bound(right):
                high = right
            else:
                low = left
        return max(mp.mpf(0), bound((low + high) / 2))


def test_gdp_to_delta_agrees_with_50_digits() -> None:
    draw = random.Random(1)
    for _ in range(250):
        mu = 10 ** draw.uniform(-4, 2)
        epsilon = max(0.0, mu * (draw.uniform(-6, 12) + mu / 2))
        truth = gdp_delta_50(mu, epsilon)
        if truth > 1e-300:
            assert gdp_to_delta(mu, epsilon) == pytest.approx(float(truth), rel=1e-11)


def test_gaussian_sigma_never_overspends_and_wastes_nothing_by_50_digits() -> None:
    draw = random.Random(2)
    for _ in range(120):
        epsilon, delta = 10 ** draw.uniform(-4, 3), 10 ** draw.uniform(-15, -0.05)
        sigma = gaussian_sigma(epsilon, delta)
        assert gdp_delta_50(1 / mp.mpf(sigma), epsilon) <= delta
        assert gdp_delta_50(1 / (mp.mpf(sigma) * (1 - mp.mpf("1e-9"))), epsilon) > delta


def test_gaussian_epsilon_never_underreports_and_wastes_nothing_by_50_digits() -> None:
    draw = random.Random(3)
    for _ in range(120):
        sigma, delta = 10 ** draw.uniform(-2, 3), 10 ** draw.uniform(-15, -0.05)
        epsilon = gaussian_epsilon(sigma, delta)
        assert gdp_delta_50(1 / mp.mpf(sigma), epsilon) <= delta
        if epsilon > 0:
            assert gdp_delta_50(1 / mp.mpf(sigma), epsilon * (1 - 1e-9)) > delta


def test_zcdp_to_delta_is_rounded_up_from_the_best_alpha_by_50_digits() -> None:
    draw = random.Random(4)
    for _ in range(200):
        rho, epsilon = 10 ** draw.uniform(-6, 2), 10 ** draw.uniform(-3, 2.3)
        truth = zcdp_delta_50(rho, epsilon)
        if truth < 1e-290:
            continue
        answer = zcdp_to_delta(rho, epsilon)
        assert truth <= answer <= truth * (1 + mp.mpf("1e-9"))


def test_zcdp_to_epsilon_is_rounded_up_from_the_best_alpha_by_50_digits() -> None:
    draw = random.Random(5)
    for _ in range(50):
        rho, delta = 10 ** draw.uniform(-6, 2), 10 ** draw.uniform(-15, -0.05)
        truth = zcdp_epsilon_50(rho, delta)
        answer = zcdp_to_epsilon(rho, delta)
        assert truth <= answer <= truth * (1 + mp.mpf("1e-9")) + mp.mpf("1e-15")


@pytest.mark.parametrize("eta", [1e-3, 5e-3, 9.9e-3, 1.01e-2, 0.05, 0.3, 1.0, 2.0, 5.0, 10.0, 40.0])
def test_no_renyi_divergence_of_a_bounded_range_pair_exceeds_alpha_rho(eta: float) -> None:
    """Two-outcome pairs with losses t and t - eta, which are the worst; alpha -> 1 is the divergence of rho."""
    with mp.workdps(60):
        e, rho, best = mp.mpf(eta), bounded_range_rho(eta), mp.mpf(0)
        orders = [1 + mp.mpf(10) ** (mp.mpf(k) / 2) for k in range(-24, 9, 2)]
        for i in range(1, 80):
            t = e * i / 80
            p = (1 - mp.exp(t - e)) / (1 - mp.exp(-e))
            for a in orders:
                moment = p * mp.exp((a - 1) * t) + (1 - p) * mp.exp((a - 1) * (t - e))
                best = max(best, mp.log(moment) / (a - 1) / a)
        assert best <= rho <= best * mp.mpf("1.001")
        assert rho <= eta * eta / 8 * (1 + 1e-15)


@pytest.mark.parametrize("epsilon", [1e-3, 9.9e-3, 1.01e-2, 0.1, 1.0, 3.0, 10.0, 50.0])
def test_no_renyi_divergence_of_laplace_noise_exceeds_alpha_rho(epsilon: float) -> None:
    """Mironov 2017, Table II, in 60 digits."""
    with mp.workdps(60):
        e, rho, best = mp.mpf(epsilon), laplace_rho(epsilon), mp.mpf(0)
        for k in range(-48, 25):
            a = 1 + mp.mpf(10) ** (mp.mpf(k) / 4)
            moment = a / (2 * a - 1) * mp.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.exp(-a * e)
            best = max(best, mp.log(moment) / (a - 1) / a)
        assert best <= rho <= best * mp.mpf("1.005")
        assert rho <= epsilon * epsilon / 2 * (1 + 1e-15)


# --- what went wrong once ------------------------------------------------------------------------------------------


def test_gdp_to_delta_is_never_below_the_truth() -> None:
    for mu, epsilon in ((262.5732691754347, 38114.75782308228), (283.0267712844972, 42023.90370066721)):
        assert gdp_to_delta(mu, epsilon) >= gdp_delta_50(mu, epsilon)
