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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation, calibrate
from privfcd.amounts import PlainNumbers
from privfcd.data.private import PrivateTable
from privfcd.data.queries import Array, Kind, Norm
from privfcd.ledger import PlanPart
from privfcd.mechanisms import GumbelMax

POINTS = 257


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


def quantiles(
    table: PrivateTable,
    column: str,
    levels: Sequence[float] = (0.25, 0.5, 0.75),
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    grid: ArrayLike | None = None,
) -> tuple[float, ...]:
    """Return quantiles of one column, each selected among the points of a public grid.

    All levels together cost (epsilon, delta), under the table's neighbouring relation, and are charged before a row is read.

    Parameters
    ----------
    table : PrivateTable
        An open table gives the best points of the grid and charges a non-private release.
    column : str
        Its name.
    levels : sequence of float
        Which quantiles, each in (0, 1).
    epsilon : float, optional
        Required for a table with a budget.
    delta : float
        In [0, 1).
    grid : array-like of shape (points,), optional
        Candidates: finite, increasing, in the column's own unit, never computed from the rows. By default 257 points at
        equal distances between minus and plus the column's declared bound.

    Returns
    -------
    tuple of float
        One point of the grid for each level, in the order of the levels, and never falling where the levels rise.

    Raises
    ------
    InvalidParameter
        The column is unknown, a level or point is outside what is accepted, or there are neither bounds nor a grid. Nothing
        was charged.
    BudgetExceeded
        The selections do not fit; no row was read.

    References
    ----------
    Smith, "Privacy-preserving statistical estimation with optimal convergence rates", STOC 2011.

    Examples
    --------
    >>> import numpy as np
    >>> import privfcd as pf
    >>> table = pf.PrivateTable(np.arange(1000.0)[:, None], ["days"], budget=pf.Budget(epsilon=1.0))
    >>> median, = pf.data.quantiles(table, "days", [0.5], epsilon=1.0, grid=np.arange(0, 1000, 10))
    >>> bool(400 < median < 600)
    True
    """
    checks.instance("table", table, PrivateTable, "a PrivateTable: PrivateTable(rows, bounds=..., budget=Budget(...))")
    if column not in table.columns:
        raise checks.refuse("column", column, "one of " + ", ".join(map(repr, table.columns)))
    place = table.columns.index(column)
    if not len(levels):
        raise checks.refuse("levels", levels, "at least one number in (0, 1)")
    if grid is None:
        if table.bounds is None:
            raise checks.refuse("grid", grid, "candidates in increasing order, for the table declares no bounds")
        grid = np.linspace(-table.bounds[place], table.bounds[place], POINTS)
    points = tuple(np.asarray(grid, dtype=np.float64).ravel().tolist())
    wanted = [QuantileScores(place, level, points) for level in levels]
    for query in wanted:
        query.check(table.n_columns)
    if table.open:
        picked = [table.select(query, GumbelMax(0.0)) for query in wanted]
    else:
        if epsilon is None:
            raise checks.refuse("epsilon", epsilon, "a number above 0, for the table has a budget")
        unit = calibrate(epsilon, delta, selections=len(wanted)).selection_scale
        assert unit is not None
        scale = unit * max(query.sensitivity(table.n_rows, table.relation) for query in wanted)
        plan = [
            PlanPart(f"{k}: quantile of {column!r} at level {query.level:g}", table.event(query, GumbelMax(scale)), 1)
            for k, query in enumerate(wanted, 1)
        ]
        reservation = table.ledger.reserve(plan, f"quantiles of {column!r}", delta=delta)
        picked = [
            table.select(query, GumbelMax(scale), label=part.label, reservation=reservation)
            for query, part in zip(wanted, plan, strict=True)
        ]
        reservation.close("released")
    found = np.array([query.decode(pick) for query, pick in zip(wanted, picked, strict=True)])
    order = np.argsort(levels, kind="stable")
    found[order] = np.maximum.accumulate(found[order])  # post-processing: quantiles rise with their level
    return tuple(found.tolist())
