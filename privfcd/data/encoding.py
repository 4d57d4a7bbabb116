"""Discrete records as numbers: a public map of each record on its own, so that neighbours stay neighbours."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.data.contingency import check_levels, coded
from privfcd.data.queries import Array
from privfcd.errors import InvalidParameter

CONSTANT = "(constant)"
"""Name of the column that is 1 / 2 in every record: moments with it are means."""

CONSTANT_VALUE = 0.5


@dataclass(frozen=True)
class Centred:
    """Each number less a public one of its column, such as the middle of its declared range."""

    offset: tuple[float, ...]

    def check(self, d: int) -> None:
        """Raise InvalidParameter unless there is one number for each of `d` columns."""
        if len(self.offset) != d:
            raise InvalidParameter(f"offset must have one number for each of {d} columns, got {len(self.offset)}")

    def columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the same names."""
        return names

    def apply(self, rows: Array) -> Array:
        """Return the rows less the offset."""
        return rows - np.array(self.offset)


@dataclass(frozen=True)
class Contrasts:
    """Each discrete column as levels - 1 numbers, and one constant column at the end.

    Level k of L becomes the k-th corner of a simplex around 0, in an orthonormal basis: squared length 1 - 1/L for every
    level, so that every record has the same length and clipping cuts nothing. Second moments of the encoded columns
    hold all pairs of marginals. Values are rounded to declared levels first, those beyond the last count as the last.

    Parameters
    ----------
    levels : tuple of int
        Declared number of levels of each column.
    """

    levels: tuple[int, ...]

    def check(self, d: int) -> None:
        """Raise InvalidParameter unless the encoding fits `d` columns."""
        check_levels(self.levels, d)

    @property
    def row_norm(self) -> float:
        """The Euclidean length of every encoded record."""
        return math.sqrt(sum(1 - 1 / level for level in self.levels) + CONSTANT_VALUE**2)

    @property
    def blocks(self) -> tuple[NDArray[np.int64], ...]:
        """The encoded columns of each discrete column."""
        stops = np.cumsum([level - 1 for level in self.levels])
        return tuple(np.arange(stop - level + 1, stop) for stop, level in zip(stops.tolist(), self.levels, strict=True))

    @property
    def constant(self) -> int:
        """The place of the constant column."""
        return sum(level - 1 for level in self.levels)

    def columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the encoded columns."""
        made = [f"{name}:{k}" for name, level in zip(names, self.levels, strict=True) for k in range(1, level)]
        return (*made, CONSTANT)

    def apply(self, rows: Array) -> Array:
        """Return the encoded rows, shape (n, sum(levels - 1) + 1)."""
        codes = coded(rows, self.levels)
        parts = [corners(level)[code] for level, code in zip(self.levels, codes, strict=True)]
        return np.hstack([*parts, np.full((len(rows), 1), CONSTANT_VALUE)])


def corners(levels: int) -> Array:
    """Return the corners of a simplex around 0, one for each level, in an orthonormal basis, shape (levels, levels - 1)."""
    basis = np.zeros((levels, levels - 1))
    for k in range(1, levels):
        basis[:k, k - 1] = 1.0
        basis[k, k - 1] = -k
        basis[:, k - 1] /= math.sqrt(k * (k + 1))
    return basis
