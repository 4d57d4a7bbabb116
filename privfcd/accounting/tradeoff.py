"""What a release means for somebody who attacks it.

**An attacker** decides from everything that was released which of two neighbouring tables was used. With a false positive
rate of at most a, every (epsilon, delta) that holds bounds the true positive rate b twice (Wasserman and Zhou 2010; Kairouz,
Oh and Viswanath 2015): b <= exp(epsilon) a + delta, and 1 - a <= exp(epsilon) (1 - b) + delta. The least over all epsilon is
the trade-off curve; over some of them it is an upper bound on it.
"""

from __future__ import annotations

import math

from dp_accounting import DpEvent

from privfcd import checks
from privfcd.accounting.conversions import gaussian_sigma, gdp_to_epsilon
from privfcd.accounting.tight import TightAccountant

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
