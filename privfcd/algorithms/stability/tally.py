"""Counts of edges over many runs, in memory that grows with the edges and not with d²."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOW, HIGH = 0.05, 0.95


@dataclass
class Tally:
    """What runs have found so far.

    Attributes
    ----------
    d : int
        Number of columns.
    runs : int
        How many were counted.
    """

    d: int
    runs: int = 0
    _directed: Array = field(init=False, repr=False)
    _adjacent: Array = field(init=False, repr=False)
    _seen: list[tuple[NDArray[np.int64], Array]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self._directed = np.zeros((self.d, self.d))
        self._adjacent = np.zeros((self.d, self.d))

    def add(self, adjacency: NDArray[np.bool_] | Array) -> None:
        """Count one run's matrix: [i, j] alone is i -> j, [i, j] and [j, i] together are i - j."""
        present = np.asarray(adjacency) != 0
        self._directed += present & ~present.T
        self._adjacent += present | present.T
        flat = np.flatnonzero(present)
        self._seen.append((flat, np.asarray(adjacency, dtype=np.float64).ravel()[flat]))
        self.runs += 1

    @property
    def frequency(self) -> Array:
        """Share of the runs with i -> j."""
        return self._directed / self.runs

    @property
    def adjacency(self) -> Array:
        """Share of the runs in which i and j are adjacent."""
        return self._adjacent / self.runs

    @property
    def edges(self) -> float:
        """Mean number of edges, an undirected one counted once."""
        return float(self._adjacent.sum()) / 2 / self.runs

    def quantiles(self) -> tuple[Array, Array]:
        """Return the 5 % and 95 % quantiles of each entry over the runs, 0 where a run has no edge."""
        places = np.unique(np.concatenate([flat for flat, _ in self._seen]))
        values = np.zeros((self.runs, len(places)))
        for run, (flat, weights) in enumerate(self._seen):
            values[run, np.searchsorted(places, flat)] = weights
        low, high = np.zeros(self.d**2), np.zeros(self.d**2)
        if len(places):
            low[places], high[places] = np.quantile(values, [LOW, HIGH], axis=0)
        return low.reshape(self.d, self.d), high.reshape(self.d, self.d)

    def largest(self) -> float:
        """Return the 95 % quantile over the runs of the largest size of a run's entries."""
        return float(np.quantile([np.abs(weights).max(initial=0.0) for _, weights in self._seen], HIGH))
