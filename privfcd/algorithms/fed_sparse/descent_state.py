"""Proximal greedy coordinate descent from one update to the next: weights, scores of all coordinates, and what is best.

The loss is that of `losses`, plus a public quadratic with gradient pull + ridge B, plus l1 |B|_1. The score of (i, j) is
sqrt(M_i) |prox(B_ij - g_ij / M_i) - B_ij|, how far a full step would move it. An update changes the scores of one column.
Matrices are kept transposed: row j belongs to the weights into variable j.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse.descent_gradients import DescentGradient, MomentGradient
from privfcd.mechanisms.staged import Mask, SelectionTable

Array = NDArray[np.float64]


def scores_of(weights: Array, gradient: Array, smoothness: Array, l1: float) -> Array:
    """Return sqrt(M_i) |soft(B_ij - g_ij / M_i, l1 / M_i) - B_ij|, i along the last axis."""
    moved = weights - gradient / smoothness
    limit = l1 / smoothness
    moved -= np.minimum(np.maximum(moved, -limit), limit)
    moved -= weights
    np.abs(moved, out=moved)
    moved *= np.sqrt(smoothness)
    return np.asarray(moved)


class DescentState:
    """Weights, gradient and scores.

    Parameters
    ----------
    smoothness : ndarray of shape (d,)
        M_i.
    l1, ridge : float
        Of the penalty, and of the public quadratic.
    """

    def __init__(self, smoothness: Array, l1: float, ridge: float) -> None:
        self._smoothness, self._l1, self._ridge = smoothness, l1, ridge
        self.candidates: Mask = ~np.eye(len(smoothness), dtype=bool)

    def start(
        self, weights: Array, pull: Array, data: DescentGradient, table: Callable[[Mask], SelectionTable]
    ) -> None:
        """Begin at `weights`, shape (d, d), not transposed; `table` makes the table that selections are drawn from."""
        self._weights = weights.T.copy()
        self._pull = np.ascontiguousarray(pull.T)
        self._data = data
        data.start(self._weights)
        self._table = table(self.candidates)
        self._table.replace(self.scores)

    @property
    def weights(self) -> Array:
        """B, shape (d, d)."""
        return self._weights.T.copy()

    @property
    def scores(self) -> Array:
        """The scores of all (i, j), transposed; those of the diagonal mean nothing."""
        gradient = self._data.gradient + self._public(slice(None))
        return scores_of(self._weights, gradient, self._smoothness, self._l1)

    def weight(self, i: int, j: int) -> float:
        """Return B_ij."""
        return float(self._weights[j, i])

    def select(self) -> tuple[int, int]:
        """Return the coordinate (i, j) that the table selects."""
        j, i = self._table.select()
        return i, j

    def data_gradient(self, i: int, j: int) -> float:
        """Return the data's part of the gradient entry."""
        return float(self._data.gradient[j, i])

    def pull(self, i: int, j: int) -> float:
        """Return the constant part of the public gradient entry."""
        return float(self._pull[j, i])

    def public_gradient(self, i: int, j: int) -> float:
        """Return the public part of the gradient entry."""
        return float(self._pull[j, i]) + self._ridge * float(self._weights[j, i])

    def move(self, i: int, j: int, value: float) -> None:
        """Set B_ij, and bring column j up to date."""
        own = self._weights[j]
        if own[i] == value:
            return
        own[i] = value
        self._data.move(i, j, own)
        gradient = self._data.gradient[j] + self._public(j)
        self._table.replace_column(j, scores_of(own, gradient, self._smoothness, self._l1))

    def _public(self, columns: slice | int) -> Array:
        return np.asarray(self._pull[columns] + self._ridge * self._weights[columns])

    def descend(self, data: MomentGradient, loop: Callable[..., None], step: float, updates: int) -> Array:
        """Do `updates` exact greedy updates at once, and return B, shape (d, d); the next round must `start` again."""
        data.descend(loop, self._weights, self._pull, self._smoothness, self._l1, self._ridge, step, updates)
        return self.weights
