"""The skeleton phase of the stable PC algorithm (Colombo and Maathuis 2014): independent of the order of variables.

Neighbour sets are frozen at the start of a layer, and all tests of a layer are asked at once, so that a batched test, or a
party behind a message, answers them together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks

Array = NDArray[np.float64]
Indices = NDArray[np.int64]


class IndependenceTest(Protocol):
    """Tests many triples (i, j, Z) at once."""

    @property
    def d(self) -> int:
        """The number of variables."""

    def p_values(self, first: Indices, second: Indices, given: Indices) -> Array:
        """Return a p-value for each test, NaN where the test cannot say."""


@dataclass
class Skeleton:
    """A skeleton, and what separated the pairs that it lacks.

    Attributes
    ----------
    adjacent : ndarray of bool, shape (d, d)
        Symmetric.
    separators : dict
        For each removed pair (i, j), i < j, the conditioning set with the largest p-value.
    p_values : dict
        That p-value.
    tests : int
        How many tests were made.
    layers : int
        How many layers were run.
    """

    adjacent: NDArray[np.bool_]
    separators: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    p_values: dict[tuple[int, int], float] = field(default_factory=dict)
    tests: int = 0
    layers: int = 0

    @classmethod
    def complete(cls, d: int) -> Skeleton:
        """Return the complete graph on `d` variables."""
        return cls(~np.eye(d, dtype=np.bool_))


def layer_tests(adjacent: NDArray[np.bool_], size: int) -> tuple[Indices, Indices, Indices]:
    """Return all tests of one layer: every adjacent pair i < j, given every set of `size` neighbours of either end.

    Sets are sorted and listed once for each pair.
    """
    d = len(adjacent)
    neighbours = [np.flatnonzero(row) for row in adjacent]
    firsts, seconds, sets = [], [], []
    for i in range(d):
        for j in neighbours[i]:
            if j < i:
                continue
            chosen = _subsets(neighbours[i], int(j), neighbours[j], i, size)
            firsts.append(np.full(len(chosen), i))
            seconds.append(np.full(len(chosen), j))
            sets.append(chosen)
    if not firsts:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty((0, size), np.int64)
    return np.concatenate(firsts), np.concatenate(seconds), np.concatenate(sets)


def _subsets(of_i: Indices, j: int, of_j: Indices, i: int, size: int) -> Indices:
    if size == 0:
        return np.empty((1, 0), np.int64)
    found = [
        np.array(list(itertools.combinations(pool.tolist(), size)), dtype=np.int64)
        for pool in (of_i[of_i != j], of_j[of_j != i])
        if len(pool) >= size
    ]
    if not found:
        return np.empty((0, size), np.int64)
    return found[0] if len(found) == 1 else np.unique(np.concatenate(found), axis=0)


def run_layer(skeleton: Skeleton, test: IndependenceTest, alpha: float, size: int) -> None:
    """Test every edge of `skeleton` given sets of `size` neighbours, and remove those found independent, at once.

    A pair is removed where some p-value is above alpha; the set with the largest one (the first in order, among equal
    ones) is its separator. A test that cannot say leaves the edge.
    """
    first, second, given = layer_tests(skeleton.adjacent, size)
    skeleton.layers += 1
    skeleton.tests += len(first)
    if not len(first):
        return
    found = np.nan_to_num(test.p_values(first, second, given), nan=-1.0)
    pairs = first * len(skeleton.adjacent) + second
    starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
    for start, stop in itertools.pairwise([*starts.tolist(), len(pairs)]):
        best = start + int(np.argmax(found[start:stop]))
        if found[best] > alpha:
            i, j = int(first[best]), int(second[best])
            skeleton.adjacent[i, j] = skeleton.adjacent[j, i] = False
            skeleton.separators[i, j] = tuple(given[best].tolist())
            skeleton.p_values[i, j] = float(found[best])


def stable_skeleton(test: IndependenceTest, alpha: float = 0.01, largest: int | None = 3) -> Skeleton:
    """Return the skeleton of the stable PC algorithm.

    Parameters
    ----------
    test : IndependenceTest
        Answers all tests of a layer at once.
    alpha : float
        Level of the tests, in (0, 1).
    largest : int, optional
        Size of the largest conditioning set; None for no limit.
    """
    check_levels(alpha, largest)
    skeleton = Skeleton.complete(test.d)
    for size in range(test.d - 1 if largest is None else largest + 1):
        if int(skeleton.adjacent.sum(axis=1).max(initial=0)) - 1 < size:
            break
        run_layer(skeleton, test, alpha, size)
    return skeleton


def check_levels(alpha: float, largest: int | None) -> None:
    """Raise InvalidParameter unless `alpha` and `largest` are what `stable_skeleton` takes."""
    checks.fraction("alpha", alpha)
    if largest is not None:
        checks.count("largest", largest, least=0)
