"""A quantile of one column, through a selection among points of a public grid.

The score of a grid point g says how evenly it splits the records (Smith 2011, "Privacy-preserving statistical estimation
with optimal convergence rates", for the exponential mechanism on ranks): with `below` records x <= g and `above` records
x > g, score(g) = -|(1 - level) below - level above| / n, 0 at a perfect split.

Theorem. One replaced record moves every score by at most 1 / n, one added or removed record by at most
max(level, 1 - level) / n.

Proof. A record at most g adds 1 - level to the difference inside |.|, one above g takes off level. Adding or removing
moves it by one of these, replacing by their sum at most, which is 1; |.| does not stretch distances. Attained: by a record
that crosses g.

The scores are not monotone. A record that moves from above all points to below all of them raises the difference at every
point, so that scores fall where it was positive and rise where it was negative: a selection costs eta = 2 D / b.

Scores are exact multiples of what is counted: no clipping is needed, and values of any size are safe.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.amounts import PlainNumbers
from privfcd.data.queries import Array, Kind, Norm


@dataclass(frozen=True)
class QuantileScores(PlainNumbers):
    """How evenly each point of a public grid splits a column; for `GumbelMax`, `PermuteAndFlip` or `LaplaceNoisyMax`.

    linf sensitivity 1 / n for a replaced record, max(level, 1 - level) / n for an added or removed one; not monotone.

    Parameters
    ----------
    column : int
        Position of the column, from 0.
    level : float
        Which quantile, in (0, 1): 0.5 is the median.
    grid : tuple of float
        Candidates, finite and increasing; public, never computed from the rows.
    """

    column: int
    level: float
    grid: tuple[float, ...]
    name: ClassVar[str] = "quantile of a column, scores of the points of a grid"
    norm: ClassVar[Norm] = "linf"
    kind: ClassVar[Kind] = "scores"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if checks.count("column", self.column, least=0) >= d:
            raise checks.refuse("column", self.column, f"below {d}, the table's number of columns")
        checks.fraction("level", self.level)
        grid = np.asarray(self.grid, dtype=np.float64)
        if grid.ndim != 1 or not grid.size or not np.isfinite(grid).all() or not (np.diff(grid) > 0).all():
            raise checks.refuse("grid", self.grid, "finite numbers in increasing order")

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; one score for each point of the grid, at most 0."""
        values = np.sort(rows[:, self.column])
        below = np.searchsorted(values, np.asarray(self.grid, dtype=np.float64), side="right")
        above = len(values) - below
        return np.asarray(-np.abs((1 - self.level) * below - self.level * above) / (n or len(rows)))

    def decode(self, pick: int) -> float:
        """Return the grid point that was selected."""
        return float(self.grid[pick])

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        moved = 1.0 if relation is REPLACE_ONE else max(self.level, 1 - self.level)
        # products and difference of numbers up to n are rounded to n ulp at most, in both neighbours
        return moved / n * (1 + 8 * (n + 1) * sys.float_info.epsilon / min(moved, 1.0))
