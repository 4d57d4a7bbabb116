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
from privfcd.data.integer_sums import block_rows
from privfcd.data.pairs import blocks, check_differences, moved_by, share
from privfcd.data.queries import Array, IntegerQuery, Kind, Norm, centred, check_offset
from privfcd.mechanisms import Exact
from privfcd.moments.octaves import BINS, HIGHEST, LOWEST, largest_noise, upper_bounds

__all__ = ["BINS", "HIGHEST", "LOWEST", "OctaveHistogram", "largest_noise", "upper_bounds"]

_ROUNDED = 1 + 2.0**-50


@dataclass(frozen=True)
class OctaveHistogram(IntegerQuery):
    """Counts of records by octave of |x_j|, for each column, and of the row's norm, divided by n.

    One replaced record moves one count up and one down in each of the d + 1 histograms: l2 sensitivity
    sqrt(2 (d + 1)) / n; an added or removed one sqrt(d + 1) / n. With `only` k columns there are k + 1 histograms.

    Parameters
    ----------
    d : int
        Number of columns.
    offset : tuple of float, optional
        Public vector that is taken off every row first.
    differences : bool
        Whether rows are differences of records instead, see `pairs`; twice the sensitivity. Tables ask such queries of their
        rows in a secret order.
    only : tuple of int, optional
        The places of the columns that have a histogram, such as those without a declared range; all by default. The rows'
        norms are those of all columns.
    """

    d: int
    offset: tuple[float, ...] | None = None
    differences: bool = False
    only: tuple[int, ...] | None = None
    name: ClassVar[str] = "histogram of octaves of the values and the rows' norms"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if d != self.d:
            raise checks.refuse("d of the histogram", self.d, f"{d}, the table's number of columns")
        check_offset(self.offset, d)
        check_differences(self.differences, self.offset)
        for place in self.only or ():
            checks.count("only", place, least=0, most=d - 1)
        if self.only is not None and len(set(self.only)) < len(self.only):
            raise checks.refuse("only", self.only, "different places of columns")

    @property
    def histograms(self) -> int:
        """How many histograms there are, that of the norms included."""
        return 1 + (self.d if self.only is None else len(self.only))

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (histograms, bins), the rows' norms last; counts divided by n."""
        counts = np.zeros(self.histograms * BINS, np.int64)
        first, terms = np.arange(self.histograms)[:, None] * BINS - LOWEST, 0
        kept = slice(None) if self.only is None else [*self.only, self.d]
        for block in blocks(rows, self.differences, block_rows(self.d)):
            octaves = np.clip(_octaves(centred(block, self.offset))[kept], LOWEST, HIGHEST)
            counts += np.bincount((octaves + first).ravel(), minlength=len(counts))
            terms += len(block)
        return Exact(counts.reshape(-1, BINS), share(self.differences) / n, terms)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        moved = 2 if relation is REPLACE_ONE else 1
        return math.sqrt(moved * self.histograms) / n * moved_by(self.differences, relation) * _ROUNDED


def _octaves(rows: Array) -> NDArray[np.int64]:
    """Return floor(log2 |x|) of every value and of the rows' norms, shape (d + 1, m); `LOWEST` for 0."""
    columns = np.ascontiguousarray(rows.T)
    octaves = np.full((len(columns) + 1, columns.shape[1]), LOWEST, dtype=np.int64)
    exponents = np.frexp(columns)[1]
    np.copyto(octaves[:-1], exponents - 1, where=columns != 0)
    largest = np.frexp(np.abs(columns).max(axis=0))[1]
    squares = np.zeros(columns.shape[1])
    for column in np.ldexp(columns, -largest):  # in their order, so that a record's octave is a function of it alone
        squares += column * column
    # |x| = 2^largest sqrt(squares), and floor(log2(s) / 2) is half the exponent of s, rounded down
    np.copyto(octaves[-1], largest + (np.frexp(squares)[1] - 1) // 2, where=squares > 0)
    return octaves
