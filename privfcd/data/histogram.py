"""Bounds from a histogram of octaves: how large values and rows are, released once.

Each record falls, for each column, into one bin by floor(log2 |x_j|), and once more by the Euclidean norm of the row.
The grid is fixed and public, so that the answer tells nothing but counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.amounts import PlainNumbers
from privfcd.data.pairs import check_differences, moved_by, over_pairs
from privfcd.data.queries import Array, Kind, Norm, centred, check_centre, rounding_slack
from privfcd.moments.octaves import BINS, HIGHEST, LOWEST, largest_noise, upper_bounds

__all__ = ["BINS", "HIGHEST", "LOWEST", "OctaveHistogram", "largest_noise", "upper_bounds"]


@dataclass(frozen=True)
class OctaveHistogram(PlainNumbers):
    """Counts of records by octave of |x_j|, for each column, and of the row's norm, divided by n.

    One replaced record moves one count up and one down in each of the d + 1 histograms: l2 sensitivity
    sqrt(2 (d + 1)) / n; an added or removed one sqrt(d + 1) / n.

    Parameters
    ----------
    d : int
        Number of columns.
    centre : tuple of float, optional
        Public vector that is taken off every row first.
    differences : bool
        Whether rows are differences of records instead, see `pairs`; twice the sensitivity. Tables ask such queries of their
        rows in a secret order.
    """

    d: int
    centre: tuple[float, ...] | None = None
    differences: bool = False
    name: ClassVar[str] = "histogram of octaves of the values and the rows' norms"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if d != self.d:
            raise checks.refuse("d of the histogram", self.d, f"{d}, the table's number of columns")
        check_centre(self.centre, d)
        check_differences(self.differences, self.centre)

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; shape (d + 1, bins), the rows' norms last; exact counts divided by n."""
        return over_pairs(rows, self.differences, self._counts) / (n or len(rows))

    def _counts(self, rows: Array) -> Array:
        rows = centred(rows, self.centre)
        scale = np.abs(rows).max(axis=1, keepdims=True)
        safe = np.where(scale > 0, scale, 1.0)
        lengths = np.maximum(np.linalg.norm(rows / safe, axis=1, keepdims=True), 1.0)  # 0 only for a row of zeros
        log_norms = np.log2(lengths) + np.log2(safe)
        exponents = np.frexp(np.abs(rows))[1] - 1  # floor(log2 |x|), exactly
        exponents = np.where(rows == 0, LOWEST, exponents)
        norm_exponents = np.where(scale > 0, np.floor(log_norms), LOWEST)
        bins = np.clip(np.hstack([exponents, norm_exponents]), LOWEST, HIGHEST).astype(np.int64) - LOWEST
        return np.stack([np.bincount(column, minlength=BINS) for column in bins.T]).astype(np.float64)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        moved = 2 if relation is REPLACE_ONE else 1
        return math.sqrt(moved * (self.d + 1)) / n * moved_by(self.differences, relation) * rounding_slack(n, 1)
