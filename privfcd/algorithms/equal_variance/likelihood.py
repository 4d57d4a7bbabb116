"""The likelihood of noisy moments under linear equations with one error variance, all entries at once.

The model says S = Sigma(B, c) + error with Sigma = c T' T, T = (I - B)^-1, and the error's law is that of M^(1/2) E M^(1/2)
with E_ii ~ N(0, 2) and E_ij ~ N(0, 1): noise L E L' is of this form, and so is sampling with M = Sigma / sqrt(n). Minus
the log-likelihood is tr[(M^-1 (S - Sigma))²] / 4. It weighs every direction by what is known of it, which regressions one
by one cannot: where the noise in one variable is large, the others still tell its place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from privfcd.algorithms.equal_variance.law import Array, Law


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters and their value.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        B, acyclic.
    variance : float
        c.
    value : float
        Minus the log-likelihood; half of a chi-square of d (d + 1) / 2 degrees, less the parameters, if all is right.
    """

    weights: Array
    variance: float
    value: float


class Likelihood:
    """Minus the log-likelihood, with M fixed.

    Parameters
    ----------
    law : Law
        With noise. Its terms are added up in M: (a + b)² >= a² + b² makes the law of several terms a little too wide.
    weights : ndarray of shape (d, d)
        Where Sigma is taken for the sampling part of M.
    variance : float
        The same.
    """

    def __init__(self, law: Law, weights: Array, variance: float) -> None:
        d = len(law.matrix)
        through = np.linalg.inv(np.eye(d) - weights)
        spread = sum(law.spreads, variance / np.sqrt(law.rows) * through.T @ through)
        spread += 1e-12 * np.trace(spread) / d * np.eye(d)
        self._root = solve_triangular(cholesky(spread, lower=True), np.eye(d), lower=True)
        white = self._root @ law.matrix @ self._root.T
        self._white = (white + white.T) / 2

    def fitted(self, start: Point, support: NDArray[np.bool_], steps: int) -> Point:
        """Return the best weights on an acyclic `support`, after `steps` of L-BFGS at most."""
        place = np.nonzero(support)

        def value(x: Array) -> tuple[float, Array]:
            weights = np.zeros(support.shape)
            weights[place] = x[:-1]
            variance = float(np.exp(x[-1]))
            with np.errstate(over="ignore", invalid="ignore"):
                amount, slopes, inner = self._slopes(weights, variance)
            answer = np.append(slopes[place], inner)
            if not (np.isfinite(amount) and np.isfinite(answer).all()):  # a step of the line search went far out
                return float(np.finfo(float).max) / 1e10, np.zeros_like(x)
            return amount, answer

        first = np.append(start.weights[place], np.log(start.variance))
        limits = [(None, None)] * (len(first) - 1) + [(first[-1] - 2, first[-1] + 2)]
        found = minimize(
            value, first, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": steps, "maxcor": 20}
        )
        weights = np.zeros(support.shape)
        weights[place] = found.x[:-1]
        return Point(weights, float(np.exp(found.x[-1])), float(found.fun))

    def _slopes(self, weights: Array, variance: float) -> tuple[float, Array, float]:
        """Return the value, and its slopes in every weight and in log c."""
        through = np.linalg.inv(np.eye(len(weights)) - weights)
        image = self._root @ through.T
        residual = self._white - variance * (image @ image.T)
        turned = residual @ image
        slopes = -variance * (through.T @ (turned.T @ self._root) @ through.T)
        return (
            float((residual * residual).sum() / 4),
            np.asarray(slopes),
            float(-variance / 2 * (turned * image).sum()),
        )

    def gains(self, point: Point) -> Array:
        """Return by how much one more weight, at each place, would lower the value: slope² / (2 information)."""
        _, slopes, _ = self._slopes(point.weights, point.variance)
        along, across = self._directions(point)
        information = np.outer((across * across).sum(axis=0), (along * along).sum(axis=0)) + (across.T @ along) ** 2
        return np.asarray(slopes**2 / (2 * point.variance**2 * information))

    def deviations(self, point: Point) -> tuple[tuple[NDArray[np.int64], ...], Array]:
        """Return the places of the weights, and their standard deviations."""
        place = np.nonzero(point.weights)
        along, across = self._directions(point)
        a, b = along[:, place[1]], across[:, place[0]]
        information = point.variance**2 * ((a.T @ a) * (b.T @ b) + (a.T @ b) * (b.T @ a))
        image = self._root @ np.linalg.inv(np.eye(len(point.weights)) - point.weights).T
        scale = point.variance**2 * ((image.T @ a) * (image.T @ b)).sum(axis=0)
        own = point.variance**2 / 2 * ((image.T @ image) ** 2).sum()
        information -= np.outer(scale, scale) / own
        return place, np.sqrt(np.maximum(np.diag(np.linalg.pinv(information, hermitian=True)), 0))

    def _directions(self, point: Point) -> tuple[Array, Array]:
        """Return a_j and b_i: the model's slope in weight [i, j] is c (a_j b_i' + b_i a_j')."""
        through = np.linalg.inv(np.eye(len(point.weights)) - point.weights)
        along = self._root @ through.T
        return along, along @ through
