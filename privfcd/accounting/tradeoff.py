"""What a release means for somebody who attacks it, and for a person with several rows.

**An attacker** decides from everything that was released which of two neighbouring tables was used. With a false positive
rate of at most a, every (epsilon, delta) that holds bounds the true positive rate b twice (Wasserman and Zhou 2010; Kairouz,
Oh and Viswanath 2015): b <= exp(epsilon) a + delta, and 1 - a <= exp(epsilon) (1 - b) + delta. The least over all epsilon is
the trade-off curve; over some of them it is an upper bound on it.

**A group of k rows** is a path of k neighbours. Gaussian noise: the answers differ by k sensitivities, so mu becomes k mu,
exactly. Laplace noise and pure epsilons: k epsilon. Ranges of losses add up to k eta. zCDP: k² rho (Bun and Steinke 2016,
Proposition 1.9). (epsilon, delta): k epsilon and delta (1 + exp(epsilon) + ... + exp((k - 1) epsilon)).
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, ZCDpEvent

from privfcd import checks
from privfcd.accounting.conversions import gaussian_sigma, gdp_to_epsilon
from privfcd.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent, compose, leaves, simple
from privfcd.accounting.tight import TightAccountant
from privfcd.amounts import decimal, float_down, float_up

_DELTAS = (0.5, 0.2, 0.1, 0.03, 0.01, 3e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-14, 1e-20)


def true_positive_rate(event: DpEvent, false_positive_rate: float = 0.01) -> float:
    """Return an upper bound on how often an attacker is right who is wrong so often.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        All that is released, under one neighbouring relation (a replaced record).
    false_positive_rate : float
        In [0, 1]: how often the attacker may name a record that is not in the table.

    Returns
    -------
    float
        At most 1; `false_positive_rate` itself where nothing is released.

    Examples
    --------
    >>> from privfcd.accounting import GaussianDpEvent
    >>> round(true_positive_rate(GaussianDpEvent(1.0), 0.01), 3)
    0.092
    """
    rate = checks.delta("false_positive_rate", false_positive_rate, one=True, towards="up")
    accountant = TightAccountant().compose(event)
    best = 1.0
    tried = {accountant.get_epsilon(delta) for delta in _DELTAS} | {accountant.get_epsilon(0.0), 0.0}
    finite = sorted(epsilon for epsilon in tried if math.isfinite(epsilon))
    largest = finite[-1]
    for epsilon in [*finite, *(largest * step / 48 for step in range(49))]:
        delta = accountant.get_delta(epsilon)
        ahead = math.exp(min(epsilon, 700.0)) * rate + delta
        behind = 1 - math.exp(-epsilon) * max(0.0, 1 - rate - delta)
        best = min(best, max(ahead, rate) * (1 + 1e-12), max(behind, rate) + 1e-12)
    return min(best, 1.0)


def tradeoff(event: DpEvent, false_positive_rate: float) -> float:
    """Return a lower bound on an attacker's false negative rate: the trade-off function.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        All that is released, under one neighbouring relation (a replaced record).
    false_positive_rate : float
        In [0, 1].
    """
    return max(0.0, 1.0 - true_positive_rate(event, false_positive_rate))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu for which mu-Gaussian DP implies (epsilon, delta)-DP, rounded down.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1).
    """
    mu = math.nextafter(1 / gaussian_sigma(epsilon, delta), 0)
    while gdp_to_epsilon(mu, delta) > checks.positive("epsilon", epsilon, "down"):
        mu *= 1 - 1e-15
    return mu


def group_event(event: DpEvent, rows: int) -> DpEvent:
    """Return what the same releases cost a person who has up to `rows` rows in the table.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The cost for one row.
    rows : int
        k, at least 1.

    Raises
    ------
    InvalidParameter
        The event holds a release for which no price of a group is known here.

    Examples
    --------
    >>> from privfcd.accounting import GaussianDpEvent
    >>> group_event(GaussianDpEvent(6.0), 3)
    GaussianDpEvent(noise_multiplier=2.0)
    """
    rows = checks.count("rows", rows, most=10**9)
    if rows == 1:
        return simple(event)
    return compose([(_group(leaf, rows), count) for leaf, count in leaves(event)])


def _group(leaf: DpEvent, rows: int) -> DpEvent:
    match leaf:
        case NonPrivateDpEvent():
            return leaf
        case GaussianDpEvent() | LaplaceDpEvent():
            multiplier = leaf.noise_multiplier
            return type(leaf)(float_down(decimal(multiplier) / rows) if math.isfinite(multiplier) else multiplier)
        case BoundedRangeDpEvent():
            return BoundedRangeDpEvent(_times(leaf.eta, Fraction(rows)))
        case ZCDpEvent():
            return ZCDpEvent(_times(leaf.rho, Fraction(rows) ** 2))
        case EpsilonDeltaDpEvent():
            return EpsilonDeltaDpEvent(_times(leaf.epsilon, Fraction(rows)), _group_delta(leaf, rows))
    raise checks.refuse("event", leaf, "Gaussian or Laplace noise, selections, zCDP or (epsilon, delta) events")


def _times(value: float, factor: Fraction) -> float:
    return float_up(decimal(value) * factor) if math.isfinite(value) else value


def _group_delta(leaf: EpsilonDeltaDpEvent, rows: int) -> float:
    """Return delta (exp(k epsilon) - 1) / (exp(epsilon) - 1), rounded up and at most 1."""
    if leaf.delta == 0:
        return 0.0
    if rows * leaf.epsilon > 700:
        return 1.0
    terms = math.expm1(rows * leaf.epsilon) / math.expm1(leaf.epsilon) if leaf.epsilon > 1e-12 else rows * (1 + 1e-3)
    return min(1.0, leaf.delta * terms * (1 + 1e-12))
