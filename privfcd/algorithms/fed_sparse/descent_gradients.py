"""The data's part of the gradient, kept up to date while one weight at a time changes.

Both classes hold it transposed: row j of `gradient` is the gradient by the weights into variable j, shape (d, d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse.losses import Loss
from privfcd.data.fused import Kernels
from privfcd.data.row_sums import clipped_sums, finite, predictions

Array = NDArray[np.float64]

_GROUP = 16
"""Variables whose slopes are held at a time, (16, n) numbers."""


class DescentGradient(Protocol):
    """What a descent needs of the data."""

    gradient: Array

    def start(self, weights: Array) -> None:
        """Compute the gradient at `weights`, transposed, shape (d, d); a new array, that the caller keeps up to date."""

    def move(self, i: int, j: int, weights: Array) -> None:
        """Bring row j up to date after weight (i, j) changed; `weights` are all those into j, shape (d,)."""


class RowGradient:
    """Means over records of clipped products, O(n d) for a variable; variables whose weights stay are not redone.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Contiguous; not copied.
    offset : ndarray of shape (d,)
        Taken off the rows.
    limits : ndarray of shape (d,)
        C_i; inf for no clipping.
    n : int
        The public number that sums are divided by.
    loss : Loss
        Whose slopes are taken.
    kernels : Kernels, optional
        Compiled loops.
    """

    def __init__(self, rows: Array, offset: Array, limits: Array, n: int, loss: Loss, kernels: Kernels | None) -> None:
        self._rows, self._offset, self._limits = np.ascontiguousarray(rows), offset, limits
        self._n, self._loss, self._kernels = n, loss, kernels
        d = rows.shape[1]
        self.gradient = np.zeros((d, d))
        self._weights: Array | None = None

    def start(self, weights: Array) -> None:
        """See `DescentGradient.start`."""
        before = self._weights
        known = before is not None and before is not weights
        changed = (weights != before).any(axis=1) if known else np.ones(len(weights), dtype=bool)
        self.compute(weights, np.flatnonzero(changed))

    def move(self, i: int, j: int, weights: Array) -> None:
        """See `DescentGradient.move`."""
        assert self._weights is not None
        self._weights[j] = weights
        self._refresh(np.array([j]))

    def compute(self, weights: Array, variables: NDArray[np.intp]) -> None:
        """Compute the rows of some variables only, at `weights`, transposed."""
        self._weights = weights
        for first in range(0, len(variables), _GROUP):
            self._refresh(variables[first : first + _GROUP])

    def _refresh(self, variables: NDArray[np.intp]) -> None:
        assert self._weights is not None
        slopes = np.empty((len(variables), len(self._rows)))
        with np.errstate(over="ignore", invalid="ignore"):
            for place, j in enumerate(variables.tolist()):
                predicted = predictions(self._rows, self._offset, self._weights[j], self._kernels)
                slopes[place] = self._loss.slope(self._rows[:, j] - self._offset[j], predicted)
        sums = clipped_sums(self._rows, self._offset, finite(slopes), self._limits, self._kernels)
        self.gradient[variables] = sums / self._n


class MomentGradient:
    """The unclipped gradient S B - S of the squared loss from second moments S; an update costs O(d).

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        Symmetric.
    """

    def __init__(self, moments: Array) -> None:
        self._moments = moments
        self.gradient = np.zeros(moments.shape)
        self._weights = np.zeros(moments.shape)

    def start(self, weights: Array) -> None:
        """See `DescentGradient.start`."""
        self._weights[:] = weights
        self.gradient = weights @ self._moments - self._moments

    def move(self, i: int, j: int, weights: Array) -> None:
        """See `DescentGradient.move`."""
        change = weights[i] - self._weights[j, i]
        self._weights[j, i] = weights[i]
        self.gradient[j] += self._moments[i] * change

    def descend(
        self,
        loop: Callable[..., None],
        weights: Array,
        pull: Array,
        smoothness: Array,
        l1: float,
        ridge: float,
        step: float,
        updates: int,
    ) -> None:
        """Do `updates` exact greedy updates of `weights`, transposed and in place, by a compiled loop."""
        loop(weights, self.gradient, pull, self._moments, smoothness, l1, ridge, step, updates)
        self._weights[:] = weights
