"""Bounds from a histogram of octaves: how large values and rows are, released once.

Each record falls, for each column, into one bin by floor(log2 |x_j|), and once more by the Euclidean norm of the row.
The grid is fixed and public, so that the answer tells nothing but counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.data.queries import Array, Kind, Norm

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
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if d != self.d:
            raise checks.refuse("d of the histogram", self.d, f"{d}, the table's number of columns")

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; shape (d + 1, bins), the rows' norms last; exact counts divided by n."""
        scale = np.abs(rows).max(axis=1, keepdims=True)
        safe = np.where(scale > 0, scale, 1.0)
        lengths = np.maximum(np.linalg.norm(rows / safe, axis=1, keepdims=True), 1.0)  # 0 only for a row of zeros
        log_norms = np.log2(lengths) + np.log2(safe)
        exponents = np.frexp(np.abs(rows))[1] - 1  # floor(log2 |x|), exactly
        exponents = np.where(rows == 0, LOWEST, exponents)
        norm_exponents = np.where(scale > 0, np.floor(log_norms), LOWEST)
        bins = np.clip(np.hstack([exponents, norm_exponents]), LOWEST, HIGHEST).astype(np.int64) - LOWEST
        size = HIGHEST - LOWEST + 1
        counts = np.stack([np.bincount(column, minlength=size) for column in bins.T])
        return counts / (n or len(rows))

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        moved = 2 if relation is REPLACE_ONE else 1
        return math.sqrt(moved * (self.d + 1)) / n * (1 + 1e-12)


def upper_bounds(shares: Array, noise_sd: float, tail: float = 0.01) -> NDArray[np.float64]:
    """Return for each noisy histogram a bound on |x| that few of its records exceed: a power of two.

    Post-processing of released shares. The bulk is found first, by the centred normal law (on a grid of quarter octaves of
    its scale) whose octaves have the largest inner product with the released shares: the noise in many empty octaves does
    not mislead it. From four of these scales down, shares are then added up until they pass `tail` plus three standard
    deviations of the noise in the sum; the bound is the upper end of the octave where this happens.

    Parameters
    ----------
    shares : ndarray of shape (m, bins)
        Released shares of records by octave.
    noise_sd : float
        Standard deviation of the noise in each share.
    tail : float
        Share of records that may lie above, in [0, 1).
    """
    log_scales, templates = _templates()
    fitted = log_scales[np.argmax(shares @ templates.T, axis=1)]
    bounds = np.empty(len(shares))
    for row, (histogram, log_scale) in enumerate(zip(shares, fitted, strict=True)):
        top = min(int(np.ceil(log_scale + 2)), HIGHEST + 1) - LOWEST  # bins below are under four scales
        above = np.cumsum(histogram[top - 1 :: -1])
        passed = above > tail + 3 * noise_sd * np.sqrt(np.arange(1, top + 1))
        steps = int(np.argmax(passed)) if passed.any() else 2
        bounds[row] = np.exp2(LOWEST + top - min(steps, 3))
    return bounds


def largest_noise(d: int) -> float:
    """Return the noise in each share above which the fit would often pick a scale that only noise suggests."""
    _, templates = _templates()
    length = float(np.linalg.norm(templates[len(templates) // 2]))
    return length / (math.sqrt(2 * math.log(len(templates) * d)) + 3)


@lru_cache(maxsize=1)
def _templates() -> tuple[Array, Array]:
    """Return log2 of the scales of the grid, and for each the shares of |x| by octave, shape (scales, bins)."""
    log_scales = np.arange(LOWEST + 4, HIGHEST - 1, 0.25)
    edges = np.arange(LOWEST, HIGHEST + 2, dtype=np.float64)[None, :] - log_scales[:, None]
    below = erf(np.exp2(edges) / math.sqrt(2))
    below[:, 0], below[:, -1] = 0.0, 1.0
    return log_scales, np.diff(below, axis=1)
