"""A party's step of Fed-BNSL: its B for the consensus W and the multipliers beta.

Both minimise f(B) = tr((I - B)'S(I - B)) / 2 + tr(beta'(B - W)) + rho2/2 ‖B - W‖², S the second moments, whose gradient is
H B - R with H = S + rho2 I and R = S + rho2 W - beta. They see nothing of the rows but S.

- Closed form (Ng and Zhang 2022; the paper's equation 10): B = H⁻¹R, its diagonal free. S is factored once.
- Frank-Wolfe (Jaggi 2013; the paper's C.1): each column of B, its diagonal 0, is confined to an l1 ball of radius r,
  which is the lasso of one variable on the others in its constrained form. A step takes a column towards the ball's
  vertex ±r e_i that the gradient favours, and goes as far as f falls: it makes one more entry of a column non-zero.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

Array = NDArray[np.float64]


class LocalSolver(Protocol):
    """Finds B for W and beta."""

    def solve(self, consensus: Array, dual: Array) -> Array:
        """Return B, shape (d, d)."""


class ClosedForm:
    """The exact minimum.

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        S, positive semidefinite.
    rho2 : float
        Above 0.
    """

    def __init__(self, moments: Array, rho2: float) -> None:
        self._moments = moments
        self._rho2 = rho2
        # not by Cholesky: rounding can leave eigenvalues of a large S below -rho2
        values, self._vectors = eigh(moments)
        self._inverse = 1 / (np.maximum(values, 0.0) + rho2)

    def solve(self, consensus: Array, dual: Array) -> Array:
        """See `LocalSolver.solve`; the diagonal is free."""
        pull = self._moments + self._rho2 * consensus - dual
        return np.asarray(self._vectors @ (self._inverse[:, None] * (self._vectors.T @ pull)))


class FrankWolfe:
    """A number of Frank-Wolfe steps from W, every column in its own l1 ball.

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        S, positive semidefinite.
    rho2 : float
        Above 0.
    radius : float
        Of the balls.
    steps : int
        How many, for each column.
    """

    def __init__(self, moments: Array, rho2: float, radius: float, steps: int) -> None:
        self._moments = moments
        self._rho2 = rho2
        self._curvature = moments + rho2 * np.eye(len(moments))
        self._radius = radius
        self._steps = steps

    def solve(self, consensus: Array, dual: Array) -> Array:
        """See `LocalSolver.solve`; the diagonal is 0. Columns of W that lie outside the ball are shortened to it first."""
        d, radius, curvature = len(consensus), self._radius, self._curvature
        every = np.arange(d)
        norms = np.abs(consensus).sum(axis=0)
        weights = consensus * (radius / np.maximum(norms, radius))
        pull = self._moments + self._rho2 * consensus - dual
        product = curvature @ weights
        for _ in range(self._steps):
            gradient = product - pull
            open_to = np.abs(gradient)
            np.fill_diagonal(open_to, -1.0)
            best = open_to.argmax(axis=0)
            height = -np.copysign(radius, gradient[best, every])
            direction = -weights
            direction[best, every] += height
            bend = curvature[:, best] * height - product
            fall = -(gradient * direction).sum(axis=0)
            curve = (direction * bend).sum(axis=0)
            length = np.clip(fall / np.maximum(curve, np.finfo(float).tiny), 0.0, 1.0)
            weights += length * direction
            product += length * bend
        return weights

    def gap(self, weights: Array, consensus: Array, dual: Array) -> Array:
        """Return for each column how far f is above its minimum at most (the Frank-Wolfe gap), shape (d,)."""
        gradient = self._curvature @ weights - (self._moments + self._rho2 * consensus - dual)
        np.fill_diagonal(gradient, 0.0)
        return np.asarray((gradient * weights).sum(axis=0) + self._radius * np.abs(gradient).max(axis=0))
