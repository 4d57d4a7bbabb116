"""Bounds from a histogram of octaves: how large values and rows are, released once.

Each record falls, for each column, into one bin by floor(log2 |x_j|), and once more by the Euclidean norm of the row.
The grid is fixed and public, so that the answer tells nothing but counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.data.queries import Array, Norm

LOWEST, HIGHEST = -40, 40
"""Octaves of the grid: |x| below 2^-39 falls into the lowest bin, |x| of 2^40 and more into the highest."""


@dataclass(frozen=True)
class OctaveHistogram:
    """Counts of records by octave of |x_j|, for each column, and of the row's norm, divided by n.

    One replaced record moves one count up and one down in each of the d + 1 histograms: l2 sensitivity
    sqrt(2 (d + 1)) / n; an added or removed one sqrt(d + 1) / n.

    Parameters
    ----------
    d : int
        Number of columns.
    """

    d: int
    name: ClassVar[str] = "histogram of octaves of the values and the rows' norms"
    norm: ClassVar[Norm] = "l2"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if d != self.d:
            raise checks.refuse("d of the histogram", self.d, f"{d}, the table's number of columns")

    def evaluate(self, rows: Array) -> Array:
        """See `Query.evaluate`; shape (d + 1, bins), the rows' norms last; exact counts divided by n."""
        scale = np.abs(rows).max(axis=1, keepdims=True)
        safe = np.where(scale > 0, scale, 1.0)
        log_norms = np.log2(np.linalg.norm(rows / safe, axis=1, keepdims=True)) + np.log2(safe)
        exponents = np.frexp(np.abs(rows))[1] - 1  # floor(log2 |x|), exactly
        exponents = np.where(rows == 0, LOWEST, exponents)
        norm_exponents = np.where(scale > 0, np.floor(log_norms), LOWEST)
        bins = np.clip(np.hstack([exponents, norm_exponents]), LOWEST, HIGHEST).astype(np.int64) - LOWEST
        size = HIGHEST - LOWEST + 1
        counts = np.stack([np.bincount(column, minlength=size) for column in bins.T])
        return counts / len(rows)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        moved = 2 if relation is REPLACE_ONE else 1
        return math.sqrt(moved * (self.d + 1)) / n * (1 + 1e-12)


def upper_bounds(shares: Array, noise_sd: float, tail: float) -> NDArray[np.float64]:
    """Return for each noisy histogram a power of two that about `tail` of its records exceed.

    Post-processing of released shares. From the top, the octaves' shares are added up until they pass `tail` plus four
    standard deviations of the noise in that sum; the bound is the upper end of the octave where this happens. A
    histogram in which nothing passes gets the lowest bound of the grid.

    Parameters
    ----------
    shares : ndarray of shape (m, bins)
        Released shares of records by octave.
    noise_sd : float
        Standard deviation of the noise in each share.
    tail : float
        Share of records that may lie above, in [0, 1).
    """
    from_top = np.cumsum(shares[:, ::-1], axis=1)
    steps = np.arange(1, shares.shape[1] + 1)
    passed = from_top > tail + 4 * noise_sd * np.sqrt(steps)
    first = np.where(passed.any(axis=1), passed.argmax(axis=1), shares.shape[1] - 1)
    return np.exp2(HIGHEST - first + 1.0)
