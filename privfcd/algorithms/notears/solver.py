"""NOTEARS for second moments (Zheng, Aragam, Ravikumar and Xing 2018).

Minimises F(W) = tr((I - W)'S(I - W)) / 2 + l1 ‖W‖₁ subject to h(W) = 0 and a diagonal of 0: for S = X'X / n the first
part is ‖X - XW‖² / (2n), so the rows are not needed. The augmented Lagrangian F + rho/2 h² + alpha h is minimised from the
last W; rho grows tenfold until h falls to a quarter, then alpha += rho h.

The minimisation is by L-BFGS-B on problems that are small and well scaled:

- An entry at 0 is held there by l1 unless |S(I - W)|_ij > l1: h has no slope at 0. So only the other entries are variables,
  each with its sign fixed, where l1 is linear; an entry that reaches 0 may change its sign in the next descent.
- Entries on no cycle have no part in h (`CyclicEntries`).
- Entry (i, j) has curvature S_ii + 2 (alpha + rho h) exp(W∘W)_ji, apart from a part of rank one. It spans many orders of
  magnitude at the end; variables are scaled by its square root at the start of a descent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from privfcd.algorithms.acyclicity import CyclicEntries
from privfcd.errors import ConvergenceFailure

Array = NDArray[np.float64]

_HUGE = 1e300
_PROGRESS = 0.25
_GROWTH = 10.0
_TOLERANCE = 1e-7
_SUPPORTS = 20
_SLACK = 1.02
"""An entry at 0 calls for another descent only if F falls there faster than by this multiple of l1."""


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


def lagrangian_step(
    moments: Array, start: Array, alpha: float, rho: float, l1: float, tolerance: float = 1e-9
) -> tuple[Array, float]:
    """Return the W, with a diagonal of 0, that minimises F + rho/2 h² + alpha h locally from `start`, and h(W).

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        S.
    start : ndarray of shape (d, d)
        The point of departure.
    alpha, rho, l1 : float
        Multiplier and penalty of h, and the weight of ‖W‖₁.
    tolerance : float
        A descent stops when an iteration lowers the objective by at most this share of it (of 1, where it is below 1).

    Raises
    ------
    ConvergenceFailure
        No finite point was found.
    """
    weights, h = start, np.inf
    signs = _signs(moments, weights, l1)
    for _ in range(_SUPPORTS):
        weights, h = _descend(moments, weights, signs, alpha, rho, l1, tolerance)
        if l1 == 0 or not _signs(moments, weights, _SLACK * l1)[weights == 0].any():
            break
        signs = _signs(moments, weights, l1)
    return weights, h


def _signs(moments: Array, weights: Array, l1: float) -> Array:
    """Return the signs that entries may have: their own, and that in which F falls from 0; 0 for those that stay 0.

    Without a penalty nothing keeps an entry from crossing 0, and 1 marks that it is free.
    """
    if l1 == 0:
        return 1.0 - np.eye(len(weights))
    pull = moments @ (np.eye(len(weights)) - weights)
    signs = np.where(weights != 0, np.sign(weights), np.sign(pull) * (np.abs(pull) > l1))
    np.fill_diagonal(signs, 0.0)
    return signs


def _descend(
    moments: Array, start: Array, signs: Array, alpha: float, rho: float, l1: float, tolerance: float
) -> tuple[Array, float]:
    """Minimise over matrices whose entries have these signs, or are 0; return one, and its h."""
    entries = CyclicEntries(signs != 0)
    rest = signs != 0
    rest[entries.rows, entries.cols] = False
    rows, cols = (np.concatenate(pair) for pair in zip((entries.rows, entries.cols), np.nonzero(rest), strict=True))
    m = len(entries)
    if not len(rows):
        return np.zeros_like(start), 0.0
    h, walks = entries.evaluate(start[rows, cols][:m])
    curvature = moments[rows, rows]
    if np.isfinite(h):
        curvature[:m] += 2 * max(alpha + rho * h, 0.0) * walks
    scale = signs[rows, cols] / np.sqrt(np.where(curvature > 0, curvature, 1.0))
    penalty = l1 * np.abs(scale)
    weights, identity = np.zeros_like(start), np.eye(len(start))

    def objective(scaled: Array) -> tuple[float, Array]:
        values = scaled * scale
        weights[rows, cols] = values
        h, walks = entries.evaluate(values[:m])
        gap = identity - weights
        pull = moments @ gap
        with np.errstate(over="ignore", invalid="ignore"):
            value = float((gap * pull).sum()) / 2 + rho / 2 * h * h + alpha * h + float(penalty @ scaled)
            slope = -pull[rows, cols]
            slope[:m] += 2 * (rho * h + alpha) * walks * values[:m]
            slope = slope * scale + penalty
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return _HUGE, np.zeros_like(scaled)
        return value, slope

    answer = minimize(
        objective,
        start[rows, cols] / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0 if l1 else None, None)] * len(rows),
        options={"ftol": tolerance, "gtol": 1e-6 * float(np.trace(moments) / len(moments)) ** 0.5},
    )
    values = answer.x * scale
    weights[rows, cols] = values
    h, _ = entries.evaluate(values[:m])
    if not (np.isfinite(h) and np.isfinite(values).all()):
        raise ConvergenceFailure(f"NOTEARS ended at weights with h = {h}: {answer.message}")
    return weights, h


def solve(
    moments: Array,
    *,
    l1: float,
    max_iter: int,
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
    max_iter : int
        Of the multiplier.
    h_tolerance, rho_max : float
        Ends when h is at most, or rho at least, this.
    on_step : callable, optional
        Called after every step that moves the multiplier.
    """
    began = time.perf_counter()
    weights, h, alpha, rho = np.zeros_like(moments), np.inf, 0.0, 1.0
    steps: list[OuterStep] = []
    for number in range(1, max_iter + 1):
        while True:
            found, new_h = lagrangian_step(moments, weights, alpha, rho, l1, _TOLERANCE)
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
