"""The coordinator's step of the federated augmented Lagrangian: weights near the parties' average, and acyclic.

Minimises alpha h(W) + rho1/2 h(W)² + weight/2 ‖W - A‖² over the entries of a support (Ng and Zhang 2022, with the
constraint of Zheng et al. 2018).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from privfcd.algorithms.acyclicity import acyclicity
from privfcd.errors import ConvergenceFailure

Array = NDArray[np.float64]

_HUGE = 1e300


def consensus_step(
    start: Array, average: Array, support: NDArray[np.bool_], alpha: float, rho1: float, weight: float
) -> tuple[Array, float]:
    """Return the new W, zero outside `support`, and h(W).

    Parameters
    ----------
    start : ndarray of shape (d, d)
        The previous W. Zero is a stationary point of h, so a warm start matters.
    average : ndarray of shape (d, d)
        A.
    support : ndarray of bool, shape (d, d)
        Where W may differ from zero.
    alpha, rho1 : float
        Multiplier and penalty of h.
    weight : float
        P rho2.

    Raises
    ------
    ConvergenceFailure
        No finite point was found.
    """
    index = np.flatnonzero(support.ravel())
    flat = np.zeros(start.size)
    if not len(index):
        return flat.reshape(start.shape), 0.0
    target = average.ravel()[index]

    def objective(values: Array) -> tuple[float, Array]:
        flat[index] = values
        h, gradient = acyclicity(flat.reshape(start.shape))
        gap = values - target
        value = alpha * h + rho1 / 2 * h * h + weight / 2 * float(gap @ gap)
        if not np.isfinite(value):
            return _HUGE, np.zeros_like(values)
        return value, (alpha + rho1 * h) * gradient.ravel()[index] + weight * gap

    answer = minimize(objective, start.ravel()[index], jac=True, method="L-BFGS-B")
    weights = np.zeros(start.size)
    weights[index] = answer.x
    h, _ = acyclicity(weights.reshape(start.shape))
    if not np.isfinite(h):
        raise ConvergenceFailure(f"the coordinator's step ended at weights with h = {h}: {answer.message}")
    return weights.reshape(start.shape), h
