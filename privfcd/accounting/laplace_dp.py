"""Upper bounds for k-fold Laplace noise, from its exact privacy-loss distribution.

One Laplace release with e = sensitivity / scale has the privacy loss e with probability 1/2, -e with probability
exp(-e)/2 and a density exp((l - e)/2)/4 between (Dwork and Roth 2014, Section 3.3). The loss is rounded up to a
grid, which can only raise the epsilon, and convolved k times by FFT. The grid law is tilted exponentially before the
FFT, so that the rounding errors of the transform are relative to the tail that is read off and not to the bulk; what
is left of them is bounded and added.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from dp_accounting import LaplaceDpEvent
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.signal import lfilter

from privfcd import checks
from privfcd.accounting.tight import tight_epsilon
from privfcd.accounting.units import MOST_RELEASES
from privfcd.amounts import decimal, float_down, float_up

_CELLS = 2**13
"""Grid cells over one release's losses, at most; fewer when the composition would not fit `_LENGTH`."""
_MOST = 10**5
"""Beyond so many releases the grid would be too coarse to help."""

_LENGTH = 2**20
"""The longest grid for the composed loss."""


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
    direct = tight_epsilon(0.0, (), [(LaplaceDpEvent(float_down(1 / decimal(epsilon))), count)], delta)
    return min(direct, composed_epsilon(epsilon, delta, count)) if count <= _MOST else direct


def composed_epsilon(epsilon: float, delta: float, count: int) -> float:
    """Return an upper bound on the epsilon at `delta` of `count` Laplace releases of `epsilon` each.

    Above the true value by at most the grid's spacing times about sqrt(count), and never above count * epsilon.
    """
    pure = math.nextafter(count * epsilon, math.inf)
    if delta == 0 or epsilon == 0:
        return pure
    if count == 1:
        return max(0.0, math.nextafter(epsilon + 2 * math.log1p(-delta), math.inf)) if delta < 1 else 0.0
    cells = max(2, min(_CELLS, _LENGTH // (2 * count)))
    step = epsilon / cells
    losses, masses = _grid_law(epsilon, cells)
    tilt = _best_tilt(losses, masses, count, delta)
    log_mean = _log_moment(losses, masses, tilt)
    tilted = masses * np.exp(tilt * losses - log_mean)
    length = 1 << (count * (len(losses) - 1)).bit_length()
    padded = np.zeros(length)
    padded[: len(tilted)] = tilted
    composed = np.fft.irfft(np.fft.rfft(padded) ** count, length)
    # FFT errors: each entry is off by at most about k log2(length) ulp of the total mass, which is 1
    error = 8 * sys.float_info.epsilon * count * math.log2(length)
    composed = np.maximum(composed, 0) + error
    support = step * (np.arange(length, dtype=np.float64) - count * cells)
    answer = _epsilon_at(support, composed, tilt, count * log_mean, delta, step)
    return min(pure, max(0.0, answer))


def _grid_law(epsilon: float, cells: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return grid losses -epsilon ... epsilon and the masses of the loss rounded up to the grid."""
    losses = epsilon * (np.arange(2 * cells + 1) / cells - 1)
    below = 0.5 * np.exp((losses - epsilon) / 2)  # P(loss <= l) for l < epsilon
    masses = np.diff(below, prepend=0.0)
    masses[-1] += 0.5
    return losses, masses


def _log_moment(losses: NDArray[np.float64], masses: NDArray[np.float64], tilt: float) -> float:
    shifted = tilt * losses
    top = float(shifted.max())
    return top + math.log(float(masses @ np.exp(shifted - top)))


def _best_tilt(losses: NDArray[np.float64], masses: NDArray[np.float64], count: int, delta: float) -> float:
    """Return the tilt that makes the Chernoff bound on epsilon smallest, not so large that doubles overflow.

    Any tilt is valid; this one puts the bulk of the tilted law where the answer lies.
    """
    largest = math.log(30 / losses[-1])

    def chernoff(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        return (count * _log_moment(losses, masses, tilt) - math.log(delta)) / tilt

    return math.exp(float(minimize_scalar(chernoff, bounds=(largest - 20, largest), method="bounded").x))


def _epsilon_at(
    support: NDArray[np.float64],
    tilted: NDArray[np.float64],
    tilt: float,
    log_scale: float,
    delta: float,
    step: float,
) -> float:
    """Return the smallest grid epsilon whose hockey-stick divergence is at most `delta`, refined within its cell."""
    # delta(e) = sum over l > e of m(l) (1 - exp(e - l)) with m(l) = tilted(l) exp(log_scale - tilt l). Between
    # neighbouring grid points it falls by (1 - a) F, F(e) = sum over l >= e of m(l) exp(e - l), a = exp(-step):
    # only positive terms are added, so the small tail keeps its relative accuracy.
    start = int(np.argmax(support >= -step / 2))
    support, log_weights = support[start:], np.log(tilted[start:]) + log_scale - tilt * support[start:]
    weights = np.exp(np.minimum(log_weights - math.log(delta), 600.0))  # in units of delta
    decay = math.exp(-step)
    discounted = lfilter([1.0], [1.0, -decay], weights[::-1])[::-1]
    after = np.append(np.cumsum(discounted[:0:-1])[::-1], 0.0)
    rounding = 1 + 8 * len(support) * sys.float_info.epsilon
    curve = -math.expm1(-step) * after * rounding
    first = int(np.argmax(curve <= 1))
    if first == 0:
        return max(0.0, float(support[0]))
    # the curve is convex, so the chord lies above it
    share = (curve[first - 1] - 1) / (curve[first - 1] - curve[first])
    return float(support[first - 1] + step * min(1.0, share + 1e-12))
