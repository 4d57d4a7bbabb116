"""NOTEARS-ADMM (Fed-BNSL; Ng and Zhang 2022) written plainly: an oracle for tests, and the yardstick of `bench learning`.

Nothing here is clever, on purpose: matrices are dense, exp(W∘W) is computed in full at every evaluation, the l1 penalty is
handled by two halves of each weight, and the coordinator's L-BFGS runs with SciPy's defaults. It shares no code with the
estimators that it is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.optimize import minimize

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PortResult:
    """What a run came to.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        W after the last round; neither thresholded nor projected to a DAG.
    h : list of float
        Acyclicity after each round.
    evaluations : int
        How many times h and its gradient were computed.
    """

    weights: Array
    h: list[float]
    evaluations: int


def notears_admm(
    moments: Sequence[Array],
    rounds: int = 100,
    l1: float = 0.01,
    rho1: float = 1000.0,
    rho2: float = 1.0,
    growth1: float = 1.0,
    growth2: float = 1.0,
) -> PortResult:
    """Run NOTEARS-ADMM on the parties' second moments.

    Parameters
    ----------
    moments : sequence of ndarray of shape (d, d)
        X'X / n of each party.
    rounds : int
        T.
    l1 : float
        Weight of ‖W‖₁ against the sum of the parties' losses.
    rho1, rho2 : float
        Penalties of the acyclicity and of the consensus; the defaults are those of Fassy et al. 2025, B.3.2.
    growth1, growth2 : float
        Factors by which they grow after each round: 1, constant, as in Fassy et al.
    """
    d, parties = len(moments[0]), len(moments)
    consensus = np.zeros((d, d))
    duals = [np.zeros((d, d)) for _ in moments]
    alpha, history, evaluations = 0.0, [], 0
    for _ in range(rounds):
        local = [
            np.linalg.solve(matrix + rho2 * np.eye(d), rho2 * consensus - dual + matrix)
            for matrix, dual in zip(moments, duals, strict=True)
        ]
        average = np.mean(local, axis=0) + np.mean(duals, axis=0) / rho2
        consensus, h, count = _consensus(consensus, average, alpha, rho1, parties * rho2, l1)
        alpha += rho1 * h
        duals = [dual + rho2 * (own - consensus) for dual, own in zip(duals, local, strict=True)]
        rho1, rho2 = rho1 * growth1, rho2 * growth2
        history.append(h)
        evaluations += count
    return PortResult(consensus, history, evaluations)


def _consensus(
    start: Array, average: Array, alpha: float, rho1: float, weight: float, l1: float
) -> tuple[Array, float, int]:
    """Minimise alpha h + rho1/2 h² + weight/2 ‖W - A‖² + l1 ‖W‖₁ over matrices with an empty diagonal."""
    d = len(start)

    def objective(halves: Array) -> tuple[float, Array]:
        weights = (halves[: d * d] - halves[d * d :]).reshape(d, d)
        with np.errstate(all="ignore"):
            exponential = expm(weights * weights)
            h = float(np.trace(exponential)) - d
            gap = weights - average
            value = alpha * h + rho1 / 2 * h * h + weight / 2 * float((gap * gap).sum()) + l1 * float(halves.sum())
            slope = ((alpha + rho1 * h) * 2 * exponential.T * weights + weight * gap).ravel()
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e300, np.zeros_like(halves)
        return value, np.concatenate([slope + l1, l1 - slope])

    halves = np.concatenate([np.maximum(start, 0).ravel(), np.maximum(-start, 0).ravel()])
    empty = np.eye(d, dtype=bool).ravel()
    bounds = [(0.0, 0.0) if diagonal else (0.0, None) for diagonal in np.concatenate([empty, empty])]
    answer = minimize(objective, halves, jac=True, method="L-BFGS-B", bounds=bounds)
    weights = (answer.x[: d * d] - answer.x[d * d :]).reshape(d, d)
    return weights, float(np.trace(expm(weights * weights))) - d, int(answer.nfev)
