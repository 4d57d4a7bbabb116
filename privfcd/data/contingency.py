"""Contingency tables of discrete columns: counts of pairs within the strata of a conditioning set, many at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.amounts import PlainNumbers
from privfcd.data.queries import Array, Kind, Norm
from privfcd.errors import InvalidParameter

Indices = NDArray[np.int64]

MOST_CELLS = 2**24
"""A single table with more cells than this is refused."""

_BLOCK = 2**22


@dataclass(frozen=True)
class Group:
    """Tables of one shape.

    Attributes
    ----------
    places : ndarray of int
        Which of the query's tables they are.
    shape : tuple of int
        Strata, levels of the first and of the second variable.
    start, stop : int
        Where their counts are in the answer.
    """

    places: Indices
    shape: tuple[int, int, int]
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class ContingencyTables(PlainNumbers):
    """Counts of (first, second) in every stratum of `given`, for m tables.

    A record counts in one cell of each table. One replaced record moves two cells of each by 1: l2 sensitivity
    sqrt(2 m); an added or removed one moves one: sqrt(m). A value is rounded to the nearest declared level, and those
    beyond the last count as the last: whatever the record, it counts once.

    Parameters
    ----------
    levels : tuple of int
        Declared number of levels of each column; values are 0, 1, ..., levels - 1.
    first, second : ndarray of int, shape (m,)
        Columns.
    given : ndarray of int, shape (m, l)
        Columns of the conditioning sets.
    """

    levels: tuple[int, ...]
    first: Indices
    second: Indices
    given: Indices
    name: ClassVar[str] = "contingency tables of declared levels"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        check_levels(self.levels, d)
        m = len(self.first)
        if len(self.second) != m or self.given.ndim != 2 or len(self.given) != m:
            raise InvalidParameter(
                f"first, second and given must be as long as each other, got {m}, {len(self.second)}, {len(self.given)}"
            )
        for name, columns in (("first", self.first), ("second", self.second), ("given", self.given)):
            if columns.size and not (columns.min() >= 0 and columns.max() < d):
                raise checks.refuse(name, [int(columns.min()), int(columns.max())], f"columns from 0 to {d - 1}")
        bits = np.log2(np.array(self.levels, dtype=np.float64))  # products of whole numbers could wrap around
        cells = bits[self.first] + bits[self.second] + bits[self.given].sum(axis=1)
        if cells.size and cells.max() > math.log2(MOST_CELLS) + 1e-9:
            raise checks.refuse("the cells of one table", f"2^{cells.max():.1f}", f"at most {MOST_CELLS}")

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The tables by shape, in the order of the answer."""
        levels = np.array(self.levels, dtype=np.int64)
        strata = levels[self.given].prod(axis=1) if self.given.shape[1] else np.ones(len(self.first), np.int64)
        shapes = np.column_stack([strata, levels[self.first], levels[self.second]])
        found, which = np.unique(shapes, axis=0, return_inverse=True)
        groups, start = [], 0
        for index, shape in enumerate(found.tolist()):
            places = np.flatnonzero(which.ravel() == index)
            stop = start + len(places) * math.prod(shape)
            groups.append(Group(places, (shape[0], shape[1], shape[2]), start, stop))
            start = stop
        return tuple(groups)

    def split(self, answer: Array) -> Iterator[tuple[Indices, Array]]:
        """Yield the places of tables of one shape with their counts, shape (tables, strata, levels, levels)."""
        for group in self.groups:
            yield group.places, answer[group.start : group.stop].reshape(len(group.places), *group.shape)

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; counts, not divided by n, all tables of one shape after each other."""
        codes = coded(rows, self.levels)
        parts = [self._counts(codes, group) for group in self.groups]
        return np.concatenate(parts) if parts else np.empty(0)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        return math.sqrt((2 if relation is REPLACE_ONE else 1) * len(self.first))

    def _counts(self, codes: Indices, group: Group) -> Array:
        levels = np.array(self.levels, dtype=np.int64)
        _, of_first, of_second = group.shape
        cells = math.prod(group.shape)
        step = max(1, _BLOCK // max(codes.shape[1], cells))
        answer = np.empty((len(group.places), cells))
        for start in range(0, len(group.places), step):
            places = group.places[start : start + step]
            sets = self.given[places]
            code = np.zeros((len(places), codes.shape[1]), np.int64)
            for column in range(sets.shape[1]):
                code = code * levels[sets[:, column], None] + codes[sets[:, column]]
            code = (code * of_first + codes[self.first[places]]) * of_second + codes[self.second[places]]
            code += np.arange(len(places))[:, None] * cells
            answer[start : start + len(places)] = np.bincount(code.ravel(), minlength=len(places) * cells).reshape(
                -1, cells
            )
        return answer.ravel()


def coded(rows: Array, levels: tuple[int, ...]) -> Indices:
    """Return the rows as levels, shape (d, n): rounded, and kept within the declared levels."""
    last = np.array(levels, dtype=np.float64) - 1
    return np.ascontiguousarray(np.clip(np.rint(rows), 0.0, last).T.astype(np.int64))


def check_levels(levels: tuple[int, ...], d: int) -> None:
    """Raise InvalidParameter unless `levels` has a number of at least 1 for each of `d` columns."""
    if len(levels) != d:
        raise InvalidParameter(f"levels must have one number for each of {d} columns, got {len(levels)}")
    for value in levels:
        checks.count("levels", value)
