"""Lower bounds on rho of zero-concentrated differential privacy, from a variational formula.

For every function g of the output and every order a > 1 (Birrell, Dupuis, Katsoulakis, Rey-Bellet and Wang 2021)

    D_a(P || Q) >= a / (a - 1) log E_P exp((a - 1) g) - log E_Q exp(a g),

with equality at g = log dP/dQ; as a -> 1 the first term is E_P g (Donsker and Varadhan 1983). rho-zCDP means
D_a <= rho a for all a > 1 and both orders of the tables, so each of these, divided by a, bounds rho from below.

The pilot runs choose the direction, the order and where g, the log-likelihood ratio, is cut off. On the other runs the
two means are of numbers in a fixed interval, for which empirical Bernstein bounds hold at half the level each (Maurer
and Pontil 2009, Theorem 4). No model of the mechanism is assumed: a wrong g only loses tightness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.audits.estimators import PILOT, checked_scores, pilot_size

Array = NDArray[np.float64]

ORDERS = (1.0, 1.5, 2.0, 4.0, 8.0)
"""Orders that the pilot chooses among; 1 stands for the limit."""

_CUTS = 5
_CAPS = (1.0, 4.0, 8.0)
_MOST_PILOT = 50_000
_LARGEST_EXPONENT = 500.0


@dataclass(frozen=True)
class RenyiBound:
    """A certified lower bound on rho, and what it was found with.

    Attributes
    ----------
    rho : float
        At least 0.
    order : float
        Of the Rényi divergence; 1 is the Kullback-Leibler divergence.
    divergence : float
        Certified lower bound on the divergence of that order; may be below 0.
    numerator : int
        Which table's law comes first, 0 or 1.
    cut : (float, float)
        Where the log-likelihood ratio (that table over the other) was cut off.
    confidence : float
    """

    rho: float
    order: float
    divergence: float
    numerator: int
    cut: tuple[float, float]
    confidence: float


def zcdp_bound(
    log_ratios0: ArrayLike, log_ratios1: ArrayLike, confidence: float = 0.95, pilot: float = PILOT
) -> RenyiBound:
    """Return a lower bound on rho that holds with probability `confidence`.

    Parameters
    ----------
    log_ratios0, log_ratios1 : array of shape (runs,)
        Log-likelihood ratios, table 1 over table 0, of independent runs on table 0 and on table 1. Approximate or
        learnt ones are valid too, and lose tightness only. The runs that they were learnt from must not be among them.
    confidence, pilot : float
        In (0, 1); `pilot` is the share of the runs that chooses order and cut.
    """
    alpha = 1 - checks.fraction("confidence", confidence)
    scores = checked_scores("log_ratios0", log_ratios0), checked_scores("log_ratios1", log_ratios1)
    size = pilot_size(scores, pilot)
    best: tuple[float, float, int, tuple[float, float]] = (-math.inf, 1.0, 1, (-1.0, 1.0))
    for numerator in (1, 0):
        first, second = _oriented(scores, numerator, slice(min(size, _MOST_PILOT)))
        for cut in _cuts(first, second):
            for order in ORDERS:
                if order * max(map(abs, cut)) > _LARGEST_EXPONENT:
                    continue
                value = _certified(np.clip(first, *cut), np.clip(second, *cut), cut, order, alpha) / order
                if value > best[0]:
                    best = (value, order, numerator, cut)
    _, order, numerator, cut = best
    first, second = _oriented(scores, numerator, slice(size, None))
    divergence = _certified(np.clip(first, *cut), np.clip(second, *cut), cut, order, alpha)
    return RenyiBound(max(0.0, divergence / order), order, divergence, numerator, cut, confidence)


def bernstein_width(values: Array, spread: float, level: float) -> float:
    """Return by how much the mean of independent `values`, from an interval of width `spread`, may be off to one side.

    It is more at most a share `level` of the time.
    """
    n = len(values)
    log = math.log(2 / level)
    return math.sqrt(2 * float(values.var(ddof=1)) * log / n) + 7 * spread * log / (3 * (n - 1))


def _oriented(scores: tuple[Array, Array], numerator: int, part: slice) -> tuple[Array, Array]:
    sign = 1.0 if numerator == 1 else -1.0
    return sign * scores[numerator][part], sign * scores[1 - numerator][part]


def _cuts(first: Array, second: Array) -> list[tuple[float, float]]:
    low, high = np.sort(second), np.sort(first)
    places = np.unique(np.rint(np.geomspace(1, max(len(low) / 3, 1), _CUTS)).astype(int))
    cuts = set()
    for below in low[places - 1]:
        for above in high[-places]:
            ends = max(float(below), -_LARGEST_EXPONENT), min(float(above), _LARGEST_EXPONENT)
            cuts.add(ends)
    for cap in _CAPS:  # evidence beyond what so few runs can certify is worth nothing
        if low[0] < cap and high[-1] > -cap:
            cuts.add((max(float(low[0]), -cap), min(float(high[-1]), cap)))
    return sorted(cut for cut in cuts if cut[0] < cut[1])


def _certified(first: Array, second: Array, cut: tuple[float, float], order: float, alpha: float) -> float:
    """Return a lower bound on the divergence of `order`, given g on either table's runs, cut off at `cut`."""
    low, high = cut
    scaled = np.exp(order * (second - high))  # in [exp(a (low - high)), 1]
    bottom = float(scaled.mean()) + bernstein_width(scaled, -math.expm1(order * (low - high)), alpha / 2)
    below = math.log(min(bottom, 1.0)) + order * high
    if order == 1:
        return float(first.mean()) - bernstein_width(first, high - low, alpha / 2) - below
    steep = np.exp((order - 1) * (first - high))
    top = float(steep.mean()) - bernstein_width(steep, -math.expm1((order - 1) * (low - high)), alpha / 2)
    if top <= 0:
        return -math.inf
    return order / (order - 1) * (math.log(top) + (order - 1) * high) - below
