"""The coordinator's step of the federated augmented Lagrangian: weights near the parties' average, and acyclic.

Minimises alpha h(W) + rho1/2 h(W)² + weight/2 ‖W - A‖² + l1 ‖W‖₁ over the entries of a support (Ng and Zhang 2022, with
the constraint of Zheng et al. 2018) by L-BFGS, on a smaller problem that is equivalent:

- h depends on |W| only and rises with it, so no minimiser has an entry of the sign opposite to A's, and there the l1
  penalty is linear: completing the square, the problem is the one without it for soft(A, l1 / weight) in place of A, on
  the entries where that is not zero.
- Entries on no cycle of the support have no part in h, and are A's (`CyclicEntries`).
- With c = alpha + rho1 h, a minimiser is W_ij = weight A_ij / (weight + 2 c exp(W∘W)_ji). The denominator spans orders of
  magnitude; variables are scaled by its square root at the start, and L-BFGS then needs a few evaluations, not hundreds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from privfcd.algorithms.acyclicity import CyclicEntries
from privfcd.errors import ConvergenceFailure

Array = NDArray[np.float64]

TOLERANCE = 1e-3
"""When a round's descent stops. On instances with seeds 1, 100, 400 and from 1000 on, tolerances of 1e-5 and less took
longer and ended in worse graphs (Fed-Sparse-BNSL, d = 20: SHD 2.3 against 1.5); from 3e-3 to 3e-4 they were alike."""

_HUGE = 1e300

MOST_WEIGHT = 1e12
"""Weights beyond this come of a run that has diverged, or of an attack: no private round is asked or answered with them."""


class Duals:
    """The mean of the parties' dual variables beta_p = sum over rounds of rho2 (B_p - W), for those who are still there.

    Parameters
    ----------
    parties, d : int
        How many parties and columns.
    rho2 : float
        Of the run.

    Attributes
    ----------
    mean : ndarray of shape (d, d)
        Of beta_p over the parties.
    """

    def __init__(self, parties: int, d: int, rho2: float) -> None:
        self._rho2 = rho2
        self._sums = np.zeros((parties, d, d))
        self._consensus = np.zeros((d, d))
        self.mean = np.zeros((d, d))

    def keep(self, places: Sequence[int]) -> None:
        """Leave out all parties but those at these places: each kept a dual of its own, whose mean is another one."""
        if len(places) < len(self._sums):
            self._sums = self._sums[list(places)]
            self.mean = self._rho2 * (self._sums.mean(axis=0) - self._consensus)

    def step(self, local: Array, consensus: Array) -> None:
        """Do a round's step for the parties' B, shape (parties, d, d), and W."""
        self._sums += local
        self._consensus += consensus
        self.mean += self._rho2 * (local.mean(axis=0) - consensus)


def check_size(weights: Array) -> None:
    """Raise ConvergenceFailure for weights beyond `MOST_WEIGHT`, or not finite."""
    if not (np.abs(weights) <= MOST_WEIGHT).all():
        raise ConvergenceFailure(f"weights are larger than {MOST_WEIGHT:g}: the run has diverged, or an answer was made up")


def consensus_step(
    start: Array,
    average: Array,
    support: NDArray[np.bool_],
    alpha: float,
    rho1: float,
    weight: float,
    l1: float = 0.0,
    tolerance: float = TOLERANCE,
) -> tuple[Array, float]:
    """Return the new W, zero outside `support`, and h(W).

    Parameters
    ----------
    start : ndarray of shape (d, d)
        The previous W, the point of departure: the problem has several minima. It is first brought between 0 and A.
    average : ndarray of shape (d, d)
        A.
    support : ndarray of bool, shape (d, d)
        Where W may differ from zero.
    alpha, rho1 : float
        Multiplier and penalty of h.
    weight : float
        P rho2, above 0.
    l1 : float
        Weight of ‖W‖₁, at least 0.
    tolerance : float
        Stop when an iteration lowers the objective by at most this share of it (of 1, where it is below 1).

    Raises
    ------
    ConvergenceFailure
        A is not finite on the support, or no finite point was found.
    """
    target = np.where(support, average, 0.0)
    if not np.isfinite(target).all():
        raise ConvergenceFailure("the parties' average is not finite")
    target = np.sign(target) * np.maximum(np.abs(target) - l1 / weight, 0.0)
    weights = target.copy()
    entries = CyclicEntries(target != 0)
    if not len(entries):
        return weights, 0.0
    places = entries.rows, entries.cols
    goal = target[places]

    first = np.clip(start[places], np.minimum(goal, 0.0), np.maximum(goal, 0.0))
    h, walks = entries.evaluate(first)
    if not np.isfinite(h):
        # any matrix of norm at most 1 will do; zero would not, because the gradient of h vanishes there
        first /= np.abs(first).max()
        first /= np.linalg.norm(first)
        h, walks = entries.evaluate(first)
    scale = 1 / np.sqrt(weight + 2 * max(alpha + rho1 * h, 0.0) * walks)

    def objective(scaled: Array) -> tuple[float, Array]:
        values = scaled * scale
        h, walks = entries.evaluate(values)
        gap = values - goal
        with np.errstate(over="ignore", invalid="ignore"):
            value = alpha * h + rho1 / 2 * h * h + weight / 2 * float(gap @ gap)
            slope = (2 * (alpha + rho1 * h) * walks * values + weight * gap) * scale
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return _HUGE, np.zeros_like(scaled)
        return value, slope

    answer = minimize(
        objective,
        first / scale,
        jac=True,
        method="L-BFGS-B",
        options={"ftol": tolerance, "gtol": min(tolerance, 1e-5) * weight**0.5},
    )
    values = answer.x * scale
    h, _ = entries.evaluate(values)
    if not (np.isfinite(h) and np.isfinite(values).all()):
        raise ConvergenceFailure(f"the coordinator's step ended at weights with h = {h}: {answer.message}")
    weights[places] = values
    return weights, h
