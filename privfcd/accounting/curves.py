"""Privacy curves on a grid, and the Gaussian one in closed form: upper bounds.

The privacy curve of a pair of laws (P, Q) is H(e) = sup over events E of P(E) - exp(e) Q(E), the least delta at e. As a
function of x = exp(e) it is convex, falls from 1 at x = 0, and is at least max(1 - x, 0). Every pair here is
symmetric, H(-e) = 1 - exp(-e) + exp(-e) H(e), so that a curve is known from its values at e >= 0.

**Between the nodes.** A `Curve` holds upper bounds at e = 0, h, 2h, ... A convex function lies below its chords, so
linear interpolation in exp(e) is an upper bound everywhere; beyond the last node the last value is one. What is
interpolated is the curve of a pair with losses on the grid, whose masses are second differences of the values
("connecting the dots": Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).

**Rounding.** The masses are differences; the error that the size of their terms allows is added to them.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

EPS = sys.float_info.epsilon
FLOOR = 1e-307
"""Curves never report less than this where the truth may be above 0; products below it have lost their last bits."""

_SQRT_HALF_PI = math.sqrt(math.pi / 2)
_INVERSE_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
_ERFCX = 2e-13
"""Relative error allowed to scipy's erfcx, of which 1e-13 is promised."""


@dataclass(frozen=True)
class Curve:
    """Upper bounds on a symmetric pair's privacy curve.

    Attributes
    ----------
    step : float
        Grid spacing h in nats, above 0.
    values : ndarray
        `values[i]` bounds the curve at e = i * step; not increasing, each in [0, 1].
    """

    step: float
    values: Array

    def nodes(self) -> Array:
        """Return the epsilons of the nodes."""
        return np.asarray(self.step * np.arange(len(self.values)), dtype=np.float64)

    def both_sides(self, left: int, right: int) -> Array:
        """Return the bounds at nodes -left, ..., right, by symmetry and by the last value beyond the last node."""
        size = max(left, right) + 1
        ahead = self.values[:size]
        if size > len(ahead):
            ahead = np.concatenate([ahead, np.full(size - len(ahead), self.values[-1])])
        behind = self.step * np.arange(left, 0, -1)
        mirrored = -np.expm1(-behind) + np.exp(-behind) * ahead[left:0:-1]
        return np.concatenate([mirrored, ahead[: right + 1]])

    def at(self, epsilons: Array) -> Array:
        """Return the bounds at any `epsilons` of at least 0."""
        position = epsilons / self.step
        last = len(self.values) - 1
        index = np.minimum(position, last - 1).astype(int)
        share = np.expm1(np.minimum(epsilons - index * self.step, self.step)) / math.expm1(self.step)
        # the rounding of the difference moves the point to the left, where the curve is higher
        share = np.clip(share - 8 * EPS * (position + 1) * (self.step + 1), 0.0, 1.0)
        between = self.values[index] + share * (self.values[index + 1] - self.values[index])
        return np.asarray(np.where(position >= last, self.values[-1], between * (1 + 8 * EPS * (self.step + 1))))

    def masses(self) -> tuple[Array, float]:
        """Return upper bounds on P's masses at the losses -n h, ..., n h, and its mass at an infinite loss."""
        ahead = self.both_sides(1, len(self.values))
        before, here, after = ahead[:-2], ahead[1:-1], ahead[2:]
        to_left, to_right = -1 / math.expm1(-self.step), 1 / math.expm1(self.step)
        exact = (before - here) * to_left - (here - after) * to_right
        error = 4 * EPS * ((before + here) * to_left + (here + after) * to_right)
        positive = np.maximum(exact, 0) + error
        mirrored = positive[:0:-1] * np.exp(-self.step * np.arange(len(positive) - 1, 0, -1)) * (1 + 4 * EPS)
        return np.concatenate([mirrored, positive]), float(self.values[-1])


def gaussian_values(variance: float, epsilons: Array) -> Array:
    """Return upper bounds on the curve of a Gaussian pair, any epsilon.

    Parameters
    ----------
    variance : float
        mu² of the pair N(0, 1), N(mu, 1): the variance of its privacy loss. At 0 the pair is trivial.
    epsilons : ndarray
        Also below 0.
    """
    distance = np.abs(epsilons)
    if variance <= 0:
        ahead = np.zeros_like(distance)
    else:
        mu = math.sqrt(variance)
        x = distance / mu - mu / 2
        y = distance / mu + mu / 2
        far = np.maximum(x, -5.0)
        density = _INVERSE_SQRT_2PI * np.exp(-0.5 * x * x)
        first, second = _mills(far), _mills(y)
        tail = density * np.maximum(first - second + _ERFCX * (first + second), 0.0)
        bulk = ndtr(-x) - density * second * (1 - 2 * _ERFCX) + 8 * EPS
        rounding = 1 + EPS * (x * x + 4 * np.abs(x) * mu + 16)
        ahead = np.minimum(np.where(x < -5, bulk, tail * rounding), 1.0)
    below = epsilons < 0
    if not np.any(below):
        return np.asarray(ahead)
    return np.where(below, (-np.expm1(-distance) + np.exp(-distance) * ahead) * (1 + 8 * EPS), ahead)


def _mills(x: Array) -> Array:
    return np.asarray(_SQRT_HALF_PI * erfcx(x / math.sqrt(2)))
