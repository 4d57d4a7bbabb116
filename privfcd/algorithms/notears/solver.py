"""NOTEARS for second moments (Zheng, Aragam, Ravikumar and Xing 2018).

Minimises F(W) = tr((I - W)'S(I - W)) / 2 + l1 ‖W‖₁ subject to h(W) = 0 and a diagonal of 0: for S = X'X / n the first
part is ‖X - XW‖² / (2n), so the rows are not needed. The augmented Lagrangian F + rho/2 h² + alpha h is minimised by
L-BFGS-B over W = U - V, U, V >= 0, from the last W; rho grows tenfold until h falls to a quarter, then alpha += rho h.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from privfcd.algorithms.acyclicity import acyclicity
from privfcd.errors import ConvergenceFailure

Array = NDArray[np.float64]

_HUGE = 1e300
_PROGRESS = 0.25
_GROWTH = 10.0


@dataclass(frozen=True, eq=False)
class OuterStep:
    """One minimisation of the augmented Lagrangian.

    Attributes
    ----------
    number : int
        1, 2, ...
    weights : ndarray of shape (d, d)
        W.
    h : float
        Its acyclicity.
    alpha, rho : float
        Multiplier and penalty that it was found with.
    loss : float
        F(W).
    seconds : float
        Since the solver began.
    """

    number: int
    weights: Array
    h: float
    alpha: float
    rho: float
    loss: float
    seconds: float


def penalised_loss(moments: Array, weights: Array, l1: float) -> float:
    """Return F(W)."""
    gap = np.eye(len(weights)) - weights
    return float((gap * (moments @ gap)).sum()) / 2 + l1 * float(np.abs(weights).sum())


def lagrangian_step(moments: Array, start: Array, alpha: float, rho: float, l1: float) -> tuple[Array, float]:
    """Return the W, with a diagonal of 0, that minimises F + rho/2 h² + alpha h locally from `start`, and h(W).

    Raises
    ------
    ConvergenceFailure
        No finite point was found.
    """
    d = len(moments)
    index = np.flatnonzero(~np.eye(d, dtype=np.bool_).ravel())
    flat = np.zeros(d * d)

    def objective(halves: Array) -> tuple[float, Array]:
        flat[index] = halves[: len(index)] - halves[len(index) :]
        weights = flat.reshape(d, d)
        h, bend = acyclicity(weights)
        gap = np.eye(d) - weights
        pushed = moments @ gap
        value = float((gap * pushed).sum()) / 2 + rho / 2 * h * h + alpha * h + l1 * float(halves.sum())
        if not np.isfinite(value):
            return _HUGE, np.zeros_like(halves)
        slope = ((rho * h + alpha) * bend - pushed).ravel()[index]
        return value, np.concatenate([slope + l1, l1 - slope])

    first = start.ravel()[index]
    halves = np.concatenate([np.maximum(first, 0.0), np.maximum(-first, 0.0)])
    answer = minimize(objective, halves, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(halves))
    weights = np.zeros(d * d)
    weights[index] = answer.x[: len(index)] - answer.x[len(index) :]
    h, _ = acyclicity(weights.reshape(d, d))
    if not np.isfinite(h):
        raise ConvergenceFailure(f"NOTEARS ended at weights with h = {h}: {answer.message}")
    return weights.reshape(d, d), h


def solve(
    moments: Array,
    *,
    l1: float,
    max_iterations: int,
    h_tolerance: float,
    rho_max: float,
    on_step: Callable[[OuterStep], None] | None = None,
) -> list[OuterStep]:
    """Return the steps of the augmented Lagrangian from W = 0; the last one's weights are the answer.

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        S, positive semidefinite.
    l1 : float
        At least 0.
    max_iterations : int
        Of the multiplier.
    h_tolerance, rho_max : float
        Ends when h is at most, or rho at least, this.
    on_step : callable, optional
        Called after every step that moves the multiplier.
    """
    began = time.perf_counter()
    weights, h, alpha, rho = np.zeros_like(moments), np.inf, 0.0, 1.0
    steps: list[OuterStep] = []
    for number in range(1, max_iterations + 1):
        while True:
            found, new_h = lagrangian_step(moments, weights, alpha, rho, l1)
            if new_h <= _PROGRESS * h or rho >= rho_max:
                break
            rho *= _GROWTH
        weights, h = found, new_h
        loss = penalised_loss(moments, weights, l1)
        step = OuterStep(number, weights, h, alpha, rho, loss, time.perf_counter() - began)
        steps.append(step)
        if on_step is not None:
            on_step(step)
        if h <= h_tolerance or rho >= rho_max:
            break
        alpha += rho * h
    return steps
