"""The privacy curve of Gaussian noise, in log space and with small relative error everywhere.

delta(epsilon) = Φ(mu/2 - epsilon/mu) - e^epsilon Φ(-mu/2 - epsilon/mu) (Balle and Wang 2018, Theorem 8) is a
difference of nearly equal numbers when mu is small. With x = epsilon/mu - mu/2 and the Mills ratio
R(x) = Φ(-x)/φ(x) it equals φ(x) (R(x) - R(x + mu)), and R(x) - R(x + mu) is the integral of 1 - t R(t) over
[x, x + mu], whose integrand is positive: no cancellation is left.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from scipy.special import erfcx, log_ndtr

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_EPSILON = 2 * sys.float_info.epsilon
_SPECIAL = 2e-13
"""Relative error that is allowed to erfcx and the quadrature."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)


def log_delta(mu: float, epsilon: float) -> float:
    """Return an upper bound on log delta of a mu-Gaussian-DP mechanism at `epsilon`; -inf for mu = 0.

    It is above the true value by the rounding of what it is computed from, and no more than that.
    """
    if mu == 0:
        return -math.inf
    ratio = epsilon / mu
    if math.isinf(ratio):
        return -math.inf
    x = ratio - mu / 2
    if x < -30 and mu > 1e4:
        return float(log_ndtr(-x))  # the second term is lost in rounding; without it this is still a bound
    if x < -30:
        # Φ(-x) is 1 to the last bit; the second term is what is left
        first, second = float(log_ndtr(-x)), epsilon + float(log_ndtr(-x - mu))
        rounding = _EPSILON * (abs(second) + epsilon + 4)
        return min(0.0, first + math.log1p(-math.exp(second - first)) + rounding)
    rounding = _EPSILON * (2 * (abs(x) + 1) * (ratio + mu + 1) + x * x) + _SPECIAL
    difference = _mills(x) - _mills(x + mu) if mu > 0.5 and x < 4 * mu else _mills_drop(x, mu)
    return -0.5 * x * x - _LOG_SQRT_2PI + math.log(difference) + rounding


def _mills(x: float) -> float:
    return _SQRT_HALF_PI * float(erfcx(x / math.sqrt(2)))


def _mills_drop(x: float, mu: float) -> float:
    """Return R(x) - R(x + mu) for small mu by 24-point Gauss-Legendre quadrature."""
    t = x + mu * 0.5 * (_NODES + 1)
    return float(mu * 0.5 * (_WEIGHTS @ _mills_slope(t)))


def _mills_slope(t: np.ndarray) -> np.ndarray:
    """Return -R'(t) = 1 - t R(t); for large t by its asymptotic series, where the difference cancels."""
    near = np.minimum(t, 60.0)
    direct = 1 - near * _SQRT_HALF_PI * erfcx(near / math.sqrt(2))
    far = np.maximum(t, 20.0) ** -2.0
    series = far * (1 - far * (3 - far * (15 - far * (105 - far * (945 - far * 10395)))))
    return np.where(t < 40, direct, series)
