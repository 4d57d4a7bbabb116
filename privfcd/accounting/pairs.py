"""The worst pairs of single releases, as laws of the privacy loss on a grid of their own (see `lattice.Law`).

Under P, the worst of two neighbouring inputs. All but those that are given as numbers are symmetric: exchanging P and Q
gives the same law.
"""

from __future__ import annotations

import math

import numpy as np

from privfcd.accounting.curves import EPS, Curve
from privfcd.accounting.lattice import Law

_UP = 1 + 8 * EPS


def response_law(epsilon: float) -> Law:
    """Return randomised response's law, which bounds that of any epsilon-DP release: losses ±epsilon (Kairouz, Oh and
    Viswanath 2015)."""
    right = 1 / (1 + math.exp(-epsilon))
    masses = np.array([math.exp(-epsilon) * right, right]) * _UP
    return Law(-epsilon, 2 * epsilon, masses, epsilon**2)


def buckets_law(epsilon: float, noise: float, buckets: int) -> Law:
    """Return the law of randomised response over more than two buckets, one answer replaced by another.

    With a = 1 - noise + noise / buckets for the true bucket and b = noise / buckets for each other, the losses are
    epsilon = log(a / b), 0 and -epsilon with masses a, 1 - a - b and b.
    """
    other = noise / buckets
    right = 1 - noise + other
    masses = np.array([other, other * (buckets - 2), right]) * _UP
    return Law(-epsilon, epsilon, masses, epsilon**2)


def laplace_law(epsilon: float, cells: int) -> Law:
    """Return the law of Laplace noise of pure `epsilon`, at -epsilon, ..., epsilon in steps of epsilon / cells.

    Its curve is H(e) = 1 - exp((e - epsilon) / 2) for |e| <= epsilon. Connecting its values at the nodes gives, with
    x = exp((l - epsilon) / 2) and h the step, the masses x tanh(h/4) between the ends, 1 / (1 + exp(-h/2)) at epsilon, and
    the mirrored exp(-epsilon) / (1 + exp(-h/2)) at -epsilon: all positive, so that no difference is taken.
    """
    step = epsilon / cells
    x = np.exp((step * np.arange(2 * cells + 1) - 2 * epsilon) / 2)
    masses = x * math.tanh(step / 4)
    masses[-1] = 1 / (1 + math.exp(-step / 2))
    masses[0] = math.exp(-epsilon) * masses[-1]
    return Law(-epsilon, step, masses * (1 + 8 * EPS * (1 + epsilon)), epsilon**2)


def discrete_laplace_law(parameter: float, sensitivity: int) -> Law:
    """Return the law of noise with P(x) ∝ exp(-parameter |x|) on the integers, for answers `sensitivity` apart.

    The losses are parameter * (sensitivity - 2 j), j = 0, ..., sensitivity, with the masses tanh(parameter / 2)
    exp(-parameter j) between the ends, which also carry all that lies beyond them.
    """
    j = np.arange(sensitivity, -1, -1)
    masses = np.exp(-parameter * j) * math.tanh(parameter / 2)
    top = 1 / (1 + math.exp(-parameter))
    masses[-1], masses[0] = top, top * math.exp(-parameter * sensitivity)
    epsilon = parameter * sensitivity
    return Law(-epsilon, 2 * parameter, masses * (1 + 8 * EPS * (1 + epsilon)), epsilon**2)


def law_of_curve(curve: Curve, spread: float) -> Law:
    """Return a law whose curve is nowhere below `curve`."""
    masses, infinite = curve.masses()
    size = len(curve.values) - 1
    return Law(-size * curve.step, curve.step, masses, spread, infinite)
