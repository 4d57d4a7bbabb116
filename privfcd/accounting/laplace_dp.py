"""k-fold Laplace noise, by the tight accountant."""

from __future__ import annotations

import math

from dp_accounting import LaplaceDpEvent

from privfcd import checks
from privfcd.accounting.tight import tight_epsilon
from privfcd.accounting.units import MOST_RELEASES
from privfcd.amounts import decimal, float_down, float_up


def laplace_epsilon(scale: float, delta: float, sensitivity: float = 1.0, count: int = 1) -> float:
    """Return an upper bound on the epsilon at `delta` of `count` releases with Laplace noise, within 0.1 %.

    Parameters
    ----------
    scale : float
        Scale b of the noise (its standard deviation is sqrt(2) b), in the units of `sensitivity`.
    delta : float
        In [0, 1); at 0 the answer is count * sensitivity / scale.
    sensitivity : float
        l1 sensitivity of one release under the neighbouring relation.
    count : int
        How many releases.
    """
    scale = checks.positive("scale", scale, "down")
    delta = checks.delta("delta", delta)
    sensitivity = checks.non_negative("sensitivity", sensitivity, "up")
    count = checks.count("count", count, most=MOST_RELEASES)
    epsilon = float_up(decimal(sensitivity) / decimal(scale))
    if math.isinf(epsilon):
        return math.inf
    if delta == 0 or epsilon == 0:
        return math.nextafter(count * epsilon, math.inf) if epsilon else 0.0
    if count == 1:  # 1 - exp((e - epsilon) / 2)
        return max(0.0, math.nextafter(epsilon + 2 * math.log1p(-delta), math.inf))
    return tight_epsilon(0.0, (), [(LaplaceDpEvent(float_down(1 / decimal(epsilon))), count)], delta)
