"""Closed forms between the notions of differential privacy: pure, zCDP, Gaussian DP and (epsilon, delta).

Answers err on the safe side: an epsilon or a delta is never below the true one, a sigma never too small, a rho that
a target allows never too large. Every function is an evaluation of a formula at a point that was found numerically;
where the formula is an infimum any point is valid, and elsewhere the answer is evaluated again and moved until it
satisfies its target.

Sources: Balle and Wang 2018 (Gaussian), Dong, Roth and Su 2022 (Gaussian DP), Bun and Steinke 2016 and Canonne,
Kamath and Steinke 2020 (zCDP), Dwork and Roth 2014 (advanced composition).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from scipy.optimize import brentq

from privfcd import checks
from privfcd.accounting.gaussian_dp import log_delta
from privfcd.accounting.units import MOST_RELEASES

ROUNDING = 16 * sys.float_info.epsilon
"""Relative allowance for the rounding of a handful of floating-point operations."""


TINY = 1e-100
"""A rho below this is raised to it, which costs at most 1e-48 of epsilon, so that nothing underflows."""


def gdp_to_delta(mu: float, epsilon: float) -> float:
    """Return the delta of a mu-Gaussian-DP mechanism at `epsilon` (Dong, Roth and Su 2022, Corollary 2.13).

    Parameters
    ----------
    mu : float
        At least 0.
    epsilon : float
        At least 0.
    """
    mu = checks.non_negative("mu", mu, "up")
    epsilon = checks.non_negative("epsilon", epsilon, "down")
    return min(1.0, _exp_up(log_delta(mu, epsilon))) if mu else 0.0


def gdp_to_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon of a mu-Gaussian-DP mechanism at `delta`; inf at delta = 0 unless mu = 0.

    Parameters
    ----------
    mu : float
        At least 0.
    delta : float
        In [0, 1).
    """
    mu = checks.non_negative("mu", mu, "up")
    delta = checks.delta("delta", delta)
    if mu == 0:
        return 0.0
    if delta == 0:
        return math.inf
    if gdp_to_delta(mu, 0.0) <= delta:
        return 0.0
    target = math.log(delta)
    high = mu * mu / 2 + mu * math.sqrt(2 * max(-target, 1.0)) + mu
    while log_delta(mu, high) > target:
        high *= 2
    if log_delta(mu, 0.0) <= target:
        return _raise_until(mu * ROUNDING, lambda e: gdp_to_delta(mu, e) <= delta)
    epsilon = float(brentq(lambda e: log_delta(mu, e) - target, 0.0, high, xtol=1e-300, rtol=ROUNDING))
    return _raise_until(epsilon, lambda e: gdp_to_delta(mu, e) <= delta)


def gaussian_delta(sigma: float, epsilon: float, sensitivity: float = 1.0, count: int = 1) -> float:
    """Return the exact delta at `epsilon` of `count` Gaussian releases of scale `sigma`.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise; above 0.
    epsilon : float
        At least 0.
    sensitivity : float
        Of each answer, in l2 norm.
    count : int
        How many releases.
    """
    return gdp_to_delta(_total_mu(sigma, sensitivity, count), epsilon)


def gaussian_epsilon(sigma: float, delta: float, sensitivity: float = 1.0, count: int = 1) -> float:
    """Return the exact epsilon at `delta` of `count` Gaussian releases of scale `sigma`.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, in the units of `sensitivity`; above 0.
    delta : float
        In [0, 1).
    sensitivity : float
        l2 sensitivity of one release under the neighbouring relation.
    count : int
        How many releases, each with its own noise.
    """
    return gdp_to_epsilon(_total_mu(sigma, sensitivity, count), delta)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest scale of Gaussian noise that is (epsilon, delta)-DP, never too small.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1).
    sensitivity : float
        Of the answer, in l2 norm.

    Raises
    ------
    InvalidParameter
        delta is 0: no finite Gaussian noise is purely differentially private.
    """
    epsilon = checks.non_negative("epsilon", epsilon, "down")
    delta = checks.delta("delta", delta, zero=False)
    sensitivity = checks.non_negative("sensitivity", sensitivity, "up")
    if sensitivity == 0:
        return 0.0
    target = math.log(delta)

    def excess(log_sigma: float) -> float:
        return max(log_delta(math.exp(-log_sigma), epsilon) - target, -sys.float_info.max)

    low, high = -1.0, 1.0
    while excess(low) < 0:
        low *= 2
    while excess(high) > 0:
        high *= 2
    multiplier = math.exp(float(brentq(excess, low, high, xtol=1e-15, rtol=ROUNDING)))
    sigma = multiplier * sensitivity
    return _raise_until(
        sigma,
        lambda s: (
            gaussian_delta(s, epsilon, sensitivity) <= delta and gaussian_epsilon(s, delta, sensitivity) <= epsilon
        ),
    )


def zcdp_to_delta(rho: float, epsilon: float) -> float:
    """Return a delta such that rho-zCDP implies (epsilon, delta)-DP (Canonne, Kamath and Steinke 2020, Prop. 7).

    Parameters
    ----------
    rho : float
        At least 0.
    epsilon : float
        At least 0.
    """
    rho = checks.non_negative("rho", rho, "up")
    epsilon = checks.non_negative("epsilon", epsilon, "down")
    if rho == 0:
        return 0.0
    if rho - epsilon > 500:
        return 1.0
    if (epsilon - rho) / (2 * math.sqrt(rho)) > 100:
        return _up(0.0)  # exp(-(epsilon - rho)² / (4 rho)) is below the smallest double
    rho = max(rho, TINY)

    def slope(log_u: float) -> float:
        u = math.exp(log_u)
        return (2 * u + 1) * rho - epsilon - _log1p_inverse(u)

    low, high = -1.0, 1.0
    while slope(low) > 0:
        low *= 2
    while slope(high) < 0:
        high *= 2
    u = math.exp(float(brentq(slope, low, high)))
    # a = u + 1: log delta = u ((u + 1) rho - epsilon) + u log u - (u + 1) log(u + 1)
    terms = (u * (u + 1) * rho, -u * epsilon, -u * _log1p_inverse(u), -math.log1p(u))
    log_answer = math.fsum(terms) + ROUNDING * sum(abs(term) for term in terms)
    return min(1.0, _exp_up(log_answer))


def zcdp_to_epsilon(rho: float, delta: float, tight: bool = True) -> float:
    """Return an epsilon such that rho-zCDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    rho : float
        At least 0.
    delta : float
        In [0, 1]; at 0 the answer is inf (0 if rho is 0), at 1 it is 0.
    tight : bool
        Canonne, Kamath and Steinke 2020, Prop. 7; else rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016).
    """
    rho = checks.non_negative("rho", rho, "up")
    delta = checks.delta("delta", delta, one=True)
    if rho == 0:
        return 0.0
    rho = max(rho, TINY)
    if delta == 0:
        return math.inf
    log_inverse = -math.log(delta)
    if not tight:
        return _up((rho + 2 * math.sqrt(rho * log_inverse)) * (1 + ROUNDING))
    if log_inverse == 0:
        return 0.0
    # The derivative in u = a - 1 is rho - (log(1/delta) - log(1 + u)) / u², so its root is that of an increasing
    # function; any u > 0 gives a valid epsilon.
    high = math.sqrt(log_inverse / rho) * (1 + 1e-6)
    u = float(brentq(lambda x: rho * x * x + math.log1p(x) - log_inverse, 0.0, high, xtol=1e-300, rtol=ROUNDING))
    terms = ((u + 1) * rho, log_inverse / u, -_log1p_inverse(u), -math.log1p(u) / u)
    return max(0.0, math.fsum(terms) + ROUNDING * sum(abs(term) for term in terms))


def epsilon_to_zcdp(epsilon: float, delta: float, tight: bool = True) -> float:
    """Return the largest rho whose conversion at `delta` is at most `epsilon`; 0 at delta = 0.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In [0, 1).
    tight : bool
        Whether by the conversion of Canonne, Kamath and Steinke 2020, or by rho + 2 sqrt(rho log(1/delta)).
    """
    epsilon = checks.non_negative("epsilon", epsilon, "down")
    delta = checks.delta("delta", delta)
    if delta == 0 or (epsilon == 0 and not tight):
        return 0.0
    log_inverse = -math.log(delta)
    rho = epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
    rho *= epsilon / (math.sqrt(log_inverse + epsilon) + math.sqrt(log_inverse))
    if tight:
        low = math.log(rho) if rho > 0 else -700.0
        high = max(low, 0.0) + 1.0

        def excess(log_rho: float) -> float:
            return zcdp_to_epsilon(math.exp(log_rho), delta) - epsilon

        while excess(low) > 0:
            low -= 1.0
            if low < -740.0:
                return 0.0
        while excess(high) < 0:
            high += 1.0
        rho = math.exp(float(brentq(excess, low, high, xtol=1e-15, rtol=ROUNDING)))
    return _lower_until(rho, lambda r: zcdp_to_epsilon(r, delta, tight) <= epsilon)


def bounded_range_rho(eta: float) -> float:
    """Return the zCDP rho of one eta-bounded-range selection.

    The largest Kullback-Leibler divergence of an eta-bounded-range pair, log((e^eta - 1)/eta) - 1 + eta/(e^eta - 1)
    (Dong, Durfee and Rogers 2020), which no Rényi divergence of order alpha exceeds by more than the factor alpha;
    never above eta²/8.

    Parameters
    ----------
    eta : float
        The range: at least 0.
    """
    eta = checks.non_negative("eta", eta, "up")
    if eta == 0:
        return 0.0
    loose = _up(eta * eta / 8)
    if eta < 1e-2:
        return loose  # the two differ by less than a part in 10⁶, and the sharper one cancels
    # log((e^eta - 1)/eta) = eta + log(-expm1(-eta)/eta), which does not overflow
    terms = (eta, math.log(-math.expm1(-eta) / eta), -1.0, eta * math.exp(-eta) / -math.expm1(-eta))
    sharp = math.fsum(terms) + ROUNDING * sum(abs(term) for term in terms)
    return min(loose, sharp)


def laplace_rho(epsilon: float) -> float:
    """Return the zCDP rho of the Laplace mechanism with sensitivity / scale = `epsilon`: epsilon + e^-epsilon - 1.

    It is the Kullback-Leibler divergence of two Laplace laws, which no Rényi divergence of order alpha exceeds by
    more than the factor alpha; never above epsilon²/2.

    Parameters
    ----------
    epsilon : float
        Sensitivity / scale; at least 0.
    """
    epsilon = checks.non_negative("epsilon", epsilon, "up")
    if epsilon == 0:
        return 0.0
    loose = _up(epsilon * epsilon / 2)
    if epsilon < 1e-2:
        return loose
    return min(loose, epsilon + math.expm1(-epsilon) + ROUNDING * (1 + epsilon))


def pure_rho(epsilon: float) -> float:
    """Return the zCDP rho of any epsilon-DP mechanism: epsilon²/2 (Bun and Steinke 2016, Prop. 1.4).

    Parameters
    ----------
    epsilon : float
        At least 0.
    """
    epsilon = checks.non_negative("epsilon", epsilon, "up")
    if epsilon == 0:
        return 0.0
    return _up(epsilon * epsilon / 2)


def advanced_composition(epsilon: float, delta: float, count: int) -> float:
    """Return the epsilon at `delta` of `count` adaptive releases that are epsilon-DP each.

    sqrt(2 k log(1/delta)) epsilon + k epsilon (e^epsilon - 1) (Dwork and Roth 2014, Theorem 3.20), or k epsilon
    where that is smaller.

    Parameters
    ----------
    epsilon : float
        Of each release; at least 0.
    delta : float
        In (0, 1).
    count : int
        k, how many releases.
    """
    epsilon = checks.non_negative("epsilon", epsilon, "up")
    delta = checks.delta("delta", delta)
    count = checks.count("count", count, most=MOST_RELEASES)
    if epsilon == 0:
        return 0.0
    basic = count * epsilon
    if delta == 0 or epsilon > 700:
        return _up(basic)
    advanced = math.sqrt(2 * count * -math.log(delta)) * epsilon + count * epsilon * math.expm1(epsilon)
    return _up(min(basic, advanced * (1 + ROUNDING)))


def _total_mu(sigma: float, sensitivity: float, count: int) -> float:
    sigma = checks.positive("sigma", sigma, "down")
    sensitivity = checks.non_negative("sensitivity", sensitivity, "up")
    count = checks.count("count", count, most=MOST_RELEASES)
    return _up(math.sqrt(count) * sensitivity / sigma * (1 + sys.float_info.epsilon)) if sensitivity else 0.0


def _log1p_inverse(u: float) -> float:
    """Return log(1 + 1/u), also where 1/u overflows."""
    return math.log1p(u) - math.log(u) if u < 1 else math.log1p(1 / u)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _exp_up(log_value: float) -> float:
    return _up(math.exp(log_value) * (1 + ROUNDING)) if log_value < 1 else 1.0


def _raise_until(value: float, satisfied: Callable[[float], bool]) -> float:
    """Return the first of value, value (1 + 2⁻⁵²), value (1 + 2⁻⁵¹), ... that is `satisfied`."""
    step = sys.float_info.epsilon
    answer = value
    while not satisfied(answer):
        answer = _up(value * (1 + step))
        step *= 2
    return answer


def _lower_until(value: float, satisfied: Callable[[float], bool]) -> float:
    step = sys.float_info.epsilon
    answer = value
    while answer > 0 and not satisfied(answer):
        answer = max(0.0, math.nextafter(value * (1 - step), 0))
        step *= 2
        if step >= 1:
            return 0.0
    return answer
