"""The gradient on a given support, released as one vector: for refitting weights whose places are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.algorithms.fed_sparse.descent_gradients import RowGradient
from privfcd.algorithms.fed_sparse.losses import SQUARED, Loss, checked_loss
from privfcd.amounts import PlainNumbers
from privfcd.data.fused import kernels
from privfcd.data.queries import Array, Kind, Norm, check_offset
from privfcd.data.row_sums import blocked_slack
from privfcd.errors import InvalidParameter


@dataclass(frozen=True)
class SupportGradient(PlainNumbers):
    """The gradient of a loss by the weights that are not 0, each record's part of entry (i, j) clipped to clips_i.

    The answer is in units of the clips: every entry is the mean of numbers in [-1, 1], so that one replaced record moves
    the vector by at most 2 sqrt(entries) / n in l2 norm, an added or removed one by half of that.

    Parameters
    ----------
    weights : tuple of tuples of float
        B, shape (d, d), finite, its diagonal 0, and not 0 everywhere. Public, as its support is.
    clips : tuple of float
        One for each row i, above 0; inf for no clipping (unit 1, and an unbounded sensitivity).
    offset : tuple of float, optional
        Taken off the rows first.
    loss : Loss
        The squared loss by default.
    fast : bool, optional
        Whether loops over records are compiled (numba); by default where it is installed.
    """

    weights: tuple[tuple[float, ...], ...]
    clips: tuple[float, ...]
    offset: tuple[float, ...] | None = None
    loss: Loss = SQUARED
    fast: bool | None = None
    name: ClassVar[str] = "gradient on a support, clipped by record"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if len(self.clips) != d:
            raise checks.refuse("clips", self.clips, f"{d} numbers above 0")
        for clip in self.clips:
            if clip != math.inf:
                checks.moderate("clip", clip)
        check_offset(self.offset, d)
        checked_loss(self.loss)
        kernels(self.fast)
        if np.shape(self.weights) != (d, d) or not np.isfinite(self._matrix).all():
            raise checks.refuse("weights", np.shape(self.weights), f"finite and of shape ({d}, {d})")
        if not self._matrix.any() or np.diag(self._matrix).any():
            raise InvalidParameter("weights must have an entry that is not 0, and none on the diagonal")

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; shape (entries,), in the order of `numpy.nonzero(weights)`."""
        weights = self._matrix
        d = len(weights)
        offset = np.zeros(d) if self.offset is None else np.array(self.offset)
        data = RowGradient(rows, offset, np.array(self.clips), n or len(rows), self.loss, kernels(self.fast))
        data.compute(np.ascontiguousarray(weights.T), np.flatnonzero(weights.any(axis=0)))
        places = np.nonzero(weights)
        return np.asarray(data.gradient.T[places] / self._units[places[0]])

    def decode(self, answer: Array) -> Array:
        """Return the gradient as a matrix in its own units, shape (d, d), 0 off the support."""
        places = np.nonzero(self._matrix)
        gradient = np.zeros(self._matrix.shape)
        gradient[places] = answer * self._units[places[0]]
        return gradient

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        if math.inf in self.clips:
            return math.inf
        width = 2.0 if relation is REPLACE_ONE else 1.0
        entries = int(np.count_nonzero(self._matrix))
        return width * math.sqrt(entries) / n * blocked_slack(n)

    @property
    def _matrix(self) -> Array:
        return np.array(self.weights, dtype=np.float64)

    @property
    def _units(self) -> Array:
        clips = np.array(self.clips)
        return np.where(np.isinf(clips), 1.0, clips)
