"""The G² test of conditional independence on contingency tables, many at once.

G² = 2 sum N ln(N N_z / (N_xz N_yz)) is about chi-square where x and y are independent given z, with
sum over strata of (|X| - 1 - empty x-margins)(|Y| - 1 - empty y-margins) degrees of freedom, neither factor below 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincc, xlogy

from privfcd import checks
from privfcd.data.contingency import ContingencyTables, check_levels

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GSquared:
    """G² tests on counts that somebody answers.

    Parameters
    ----------
    levels : tuple of int
        Declared number of levels of each variable, the same for all parties.
    counts : callable
        Answers a `ContingencyTables` query.
    rows : int
        n.
    per_cell : float
        A test with fewer rows for each cell is not reliable and cannot say; 5 is usual.
    """

    levels: tuple[int, ...]
    counts: Callable[[ContingencyTables], Array]
    rows: int
    per_cell: float = 5.0

    def __post_init__(self) -> None:
        check_levels(self.levels, len(self.levels))
        checks.count("rows", self.rows)
        checks.non_negative("per_cell", self.per_cell)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.levels)

    def p_values(self, first: Indices, second: Indices, given: Indices) -> Array:
        """Return the p-value of each test; NaN where there are too few rows, 1 without degrees of freedom."""
        levels = np.array(self.levels, dtype=np.float64)
        cells = levels[first] * levels[second] * (levels[given].prod(axis=1) if given.shape[1] else 1.0)
        reliable = np.flatnonzero(self.rows / cells >= self.per_cell)
        answer = np.full(len(first), np.nan)
        query = ContingencyTables(self.levels, first[reliable], second[reliable], given[reliable])
        for places, counts in query.split(self.counts(query) if len(reliable) else np.empty(0)):
            statistic, degrees = g_squared(counts)
            answer[reliable[places]] = chi_square_tail(statistic, degrees)
        return answer


def g_squared(counts: Array) -> tuple[Array, Array]:
    """Return G² and its degrees of freedom for counts of shape (m, strata, |X|, |Y|)."""
    of_x, of_y = counts.sum(axis=3), counts.sum(axis=2)
    of_z = of_x.sum(axis=2)
    statistic = 2 * (
        _entropy_sum(counts).sum(axis=(1, 2, 3))
        - _entropy_sum(of_x).sum(axis=(1, 2))
        - _entropy_sum(of_y).sum(axis=(1, 2))
        + _entropy_sum(of_z).sum(axis=1)
    )
    free_x = np.maximum((of_x > 0).sum(axis=2) - 1, 0)
    free_y = np.maximum((of_y > 0).sum(axis=2) - 1, 0)
    return np.maximum(statistic, 0.0), (free_x * free_y).sum(axis=1).astype(np.float64)


def chi_square_tail(statistic: Array, degrees: Array) -> Array:
    """Return P(chi-square with `degrees` of freedom > statistic); 1 where degrees is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        tail = gammaincc(degrees / 2, statistic / 2)
    return np.where(degrees > 0, tail, 1.0)


def _entropy_sum(counts: Array) -> Array:
    return np.asarray(xlogy(counts, counts))
