"""Privacy curves on a grid: upper bounds that can be composed with each other and with Gaussians.

The privacy curve of a pair of laws (P, Q) is H(e) = sup over events E of P(E) - exp(e) Q(E), the least delta at e. As a
function of x = exp(e) it is convex, falls from 1 at x = 0, and is at least max(1 - x, 0). Every pair here is
symmetric, H(-e) = 1 - exp(-e) + exp(-e) H(e), so that a curve is known from its values at e >= 0.

**Between the nodes.** A `Curve` holds upper bounds at e = 0, h, 2h, ... A convex function lies below its chords, so
linear interpolation in exp(e) is an upper bound everywhere; beyond the last node the last value is one. What is
interpolated is the curve of a pair with losses on the grid, whose masses are second differences of the values
("connecting the dots": Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).

**Composition.** If the first of two independent pairs has the mass P_j at the loss l_j, the curve of both is
sum over j of P_j H(e - l_j), H being the second's. It is the same with the two exchanged, and it rises with H; so
upper bounds compose to upper bounds.

**Rounding.** Sums have non-negative terms, so their relative error is at most the number of terms times 2⁻⁵², by which
they are raised. The masses are differences; the error that the size of their terms allows is added to them.
Transforms (FFT) are not used: their errors are relative to the whole and would drown small deltas.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
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

    def raised(self, amount: float) -> Curve:
        """Return the curve with `amount` added at every node."""
        return Curve(self.step, self.values + amount) if amount else self

    def regrid(self, step: float, size: int) -> Curve:
        """Return the bound on nodes 0, step, ..., size * step: coarser or finer, and never below this one."""
        return Curve(step, self.at(np.linspace(0.0, step * size, size + 1)))

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


def with_gaussian(curve: Curve, variance: float) -> Callable[[float], float]:
    """Return the bound, as a function of epsilon, for the pair of `curve` and an independent Gaussian pair together."""
    if variance <= 0:
        return lambda epsilon: float(curve.at(np.array(epsilon)))
    masses, infinite = curve.masses()
    size = len(curve.values) - 1
    losses = curve.step * np.arange(-size, size + 1)
    rounding = 1 + EPS * (len(losses) + 8)

    def bound(epsilon: float) -> float:
        # the rounding of epsilon - loss moves the point to the left, where the curve is higher
        left = epsilon - 4 * EPS * (epsilon + losses[-1])
        return min(1.0, (float(masses @ gaussian_values(variance, left - losses)) + infinite) * rounding)

    return bound


def product(first: Curve, second: Curve, size: int) -> Curve:
    """Return the curve of two independent pairs together, on nodes 0, ..., size of their common grid."""
    masses, infinite = first.masses()
    reach = len(first.values) - 1
    values = np.convolve(masses, second.both_sides(reach, size + reach), "valid") + infinite
    values = np.maximum(values * (1 + EPS * (len(masses) + 16)), FLOOR)
    return Curve(first.step, np.minimum(values, 1.0))


def power(curve: Curve, count: int, size: int) -> Curve:
    """Return the curve of `count` independent copies of a pair, cut at node `size`: by repeated squaring."""
    answer, square = None, curve
    while True:
        if count % 2:
            answer = square if answer is None else _product_within(answer, square, size)
        count //= 2
        if not count:
            return answer if answer is not None else curve
        square = _product_within(square, square, size)


def laplace_curve(epsilon: float, cells: int) -> Curve:
    """Return the curve of Laplace noise of pure `epsilon`: 1 - exp((e - epsilon) / 2)."""
    step = epsilon / cells
    values = -np.expm1(np.minimum((step * np.arange(cells + 1) - epsilon) / 2 * (1 + 4 * EPS), 0.0)) * (1 + 4 * EPS)
    values[-1] = 0.0
    return Curve(step, values)


def response_curve(epsilon: float) -> Curve:
    """Return the curve of randomised response, which bounds that of any epsilon-DP release.

    Its losses are ±epsilon, so one cell is exact (Kairouz, Oh and Viswanath 2015).
    """
    return Curve(epsilon, np.array([math.tanh(epsilon / 2) * (1 + 4 * EPS), 0.0]))


def discrete_laplace_curve(parameter: float, sensitivity: int) -> Curve:
    """Return the curve of noise with P(x) ∝ exp(-parameter |x|) on the integers, for answers `sensitivity` apart.

    The losses are parameter * (sensitivity - 2 j), j = 0, ..., sensitivity: all on the grid, so it is exact.
    """
    j = np.arange(sensitivity + 1)
    masses = np.exp(-parameter * j) * -math.expm1(-parameter)
    masses[0], masses[-1] = 1.0, math.exp(-parameter * sensitivity)
    masses *= (1 + 8 * EPS) / (1 + math.exp(-parameter))
    gains = -np.expm1(np.minimum(parameter * (j[:, None] - sensitivity + 2 * j[None, :]), 0.0))
    values = gains @ masses * (1 + EPS * (sensitivity + 8))
    values[-1] = 0.0
    return Curve(parameter, values)


def _product_within(first: Curve, second: Curve, size: int) -> Curve:
    support = len(first.values) + len(second.values) - 2
    whole = first.values[-1] == 0 and second.values[-1] == 0
    answer = product(first, second, min(size, support))
    if whole and support <= size:
        answer.values[-1] = 0.0  # no loss lies beyond the sum of the largest ones
    return answer


def _mills(x: Array) -> Array:
    return np.asarray(_SQRT_HALF_PI * erfcx(x / math.sqrt(2)))
