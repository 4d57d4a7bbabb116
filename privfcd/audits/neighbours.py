"""Neighbouring tables for the sensitivity search, and where their rows come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import ADD_OR_REMOVE_ONE, NeighboringRelation

Array = NDArray[np.float64]

FAR = (1e3, 1e6)
"""How far outside the box rows are tried, as multiples of it."""


@dataclass
class Neighbours:
    """A table, the record that changes, and what it is replaced by."""

    rows: Array
    index: int
    other: Array

    def copy(self) -> Neighbours:
        return Neighbours(self.rows.copy(), self.index, self.other.copy())

    def tables(self, relation: NeighboringRelation, null: Array | None) -> tuple[Array, Array]:
        """Return the table and its neighbour; a removed record leaves the row `null` behind, or none."""
        if relation is ADD_OR_REMOVE_ONE and null is None:
            return self.rows, np.concatenate((self.rows[: self.index], self.rows[self.index + 1 :]))
        neighbour = self.rows.copy()
        neighbour[self.index] = self.other if null is None else null
        return self.rows, neighbour


class Rows:
    """Where rows and their coordinates are taken from: a box of declared values, and far outside it."""

    def __init__(self, low: Array, high: Array, outside: bool, rng: np.random.Generator) -> None:
        self.rng = rng
        self.d = len(low)
        self._low, self._high = low, high
        self._outside = outside
        self._factors = (1.0, *(FAR if outside else ()))

    def keep_inside(self, state: Neighbours) -> None:
        """Move what left the box back into it, unless rows outside are wanted."""
        if not self._outside:
            np.clip(state.rows, self._low, self._high, out=state.rows)
            np.clip(state.other, self._low, self._high, out=state.other)

    def one(self) -> Array:
        """A corner, one coordinate or some coordinates of one, or a point of the box; perhaps far out."""
        kind = int(self.rng.integers(5))
        row = np.where(self.rng.random(self.d) < 0.5, self._low, self._high)
        if kind == 1:
            row = row * (np.arange(self.d) == self.rng.integers(self.d))
        elif kind == 2:
            row = row * (self.rng.random(self.d) < 0.5)
        elif kind == 3:
            row = self.rng.uniform(self._low, self._high)
        factor = self.factor()
        return row if factor == 1 else row * factor

    def factor(self) -> float:
        """1 for most rows, else one of the far factors."""
        if len(self._factors) == 1 or self.rng.random() < 0.6:
            return 1.0
        return self._factors[1 + int(self.rng.integers(len(self._factors) - 1))]

    def background(self, n: int) -> Array:
        """All zeros, one row repeated, one row and its negative, or rows of their own."""
        kind = int(self.rng.integers(4))
        row = self.one()
        if kind == 0:
            return np.zeros((n, self.d))
        if kind == 3:
            return np.stack([self.one() for _ in range(n)])
        signs = np.where(np.arange(n) % 2, -1.0, 1.0) if kind == 2 else np.ones(n)
        return np.outer(signs, row)

    def values(self, column: int, now: float) -> list[float]:
        """What one coordinate is tried at: zero, ends of the box and far out, and two near its value `now`."""
        ends = [float(self._low[column]), float(self._high[column])]
        steps = (ends[1] - ends[0]) * np.exp(self.rng.uniform(-7, 0, size=2)) * self.rng.permutation([-1.0, 1.0])
        near = (min(max(now, ends[0]), ends[1]) + steps).tolist()
        return [0.0, *(end * factor for end in ends for factor in self._factors), *near]
