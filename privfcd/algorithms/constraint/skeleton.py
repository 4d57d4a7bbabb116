"""The skeleton phase of the stable PC algorithm (Colombo and Maathuis 2014): independent of the order of variables.

Neighbour sets are frozen at the start of a layer, and all tests of a layer are asked at once, so that a batched test, or a
party behind a message, answers them together.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import lru_cache
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
    asked, silent : ndarray of int, shape (d, d)
        Of each pair, how many tests were made, and how many of them could not say; symmetric.
    """

    adjacent: NDArray[np.bool_]
    separators: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    p_values: dict[tuple[int, int], float] = field(default_factory=dict)
    tests: int = 0
    layers: int = 0
    asked: Indices = field(init=False)
    silent: Indices = field(init=False)

    def __post_init__(self) -> None:
        self.asked = np.zeros(self.adjacent.shape, dtype=np.int64)
        self.silent = np.zeros(self.adjacent.shape, dtype=np.int64)

    @classmethod
    def complete(cls, d: int) -> Skeleton:
        """Return the complete graph on `d` variables."""
        return cls(~np.eye(d, dtype=np.bool_))

    def note(self, first: Indices, second: Indices, found: Array) -> None:
        """Count tests of pairs in `asked`, and those whose p-values are NaN in `silent`."""
        for counts, these in ((self.asked, np.ones(len(found), np.bool_)), (self.silent, np.isnan(found))):
            np.add.at(counts, (first[these], second[these]), 1)
            np.add.at(counts, (second[these], first[these]), 1)


def layer_tests(adjacent: NDArray[np.bool_], size: int) -> tuple[Indices, Indices, Indices]:
    """Return all tests of one layer: every adjacent pair i < j, given every set of `size` neighbours of either end.

    Sets are sorted and listed once for each pair; tests are in the order of i, j and the set.
    """
    d = len(adjacent)
    if size == 0:
        first, second = np.nonzero(np.triu(adjacent, 1))
        return first, second, np.empty((len(first), 0), np.int64)
    listed = [_tests_at(node, np.flatnonzero(adjacent[node]), size) for node in range(d)]
    tests = np.concatenate([np.empty((0, size + 2), np.int64), *listed])
    if d ** (size + 2) < 2**63:  # the numbers of a test as digits of one number: much faster to sort
        digits = d ** np.arange(size + 1, -1, -1, dtype=np.int64)
        codes = np.unique(tests @ digits)
        tests = codes[:, None] // digits % d
    else:
        tests = np.unique(tests, axis=0)
    return tests[:, 0], tests[:, 1], tests[:, 2:]


def _tests_at(node: int, neighbours: Indices, size: int) -> Indices:
    """Return the tests of `node` and each neighbour, given sets of its other neighbours, shape (tests, 2 + size)."""
    many = len(neighbours)
    if many - 1 < size:
        return np.empty((0, size + 2), np.int64)
    others = neighbours[np.nonzero(~np.eye(many, dtype=np.bool_))[1].reshape(many, many - 1)]
    sets = others[:, _choices(many - 1, size)]
    answer = np.empty((*sets.shape[:2], size + 2), np.int64)
    answer[:, :, 0] = np.minimum(node, neighbours)[:, None]
    answer[:, :, 1] = np.maximum(node, neighbours)[:, None]
    answer[:, :, 2:] = sets
    return answer.reshape(-1, size + 2)


@lru_cache(maxsize=64)
def _choices(many: int, size: int) -> Indices:
    return np.array(list(itertools.combinations(range(many), size)), dtype=np.int64).reshape(-1, size)


def run_layer(skeleton: Skeleton, test: IndependenceTest, alpha: float, size: int) -> None:
    """Test every edge of `skeleton` given sets of `size` neighbours, and remove those found independent, at once.

    A pair is removed where some p-value is above alpha; the set with the largest one (the first in order, among equal
    ones) is its separator. A test that cannot say leaves the edge, and is counted in `Skeleton.silent`.
    """
    first, second, given = layer_tests(skeleton.adjacent, size)
    skeleton.layers += 1
    skeleton.tests += len(first)
    if not len(first):
        return
    found = test.p_values(first, second, given)
    skeleton.note(first, second, found)
    found = np.nan_to_num(found, nan=-1.0)
    pairs = first * len(skeleton.adjacent) + second
    starts = np.flatnonzero(np.r_[True, pairs[1:] != pairs[:-1]])
    stops = np.r_[starts[1:], len(pairs)]
    for group in np.flatnonzero(np.maximum.reduceat(found, starts) > alpha).tolist():
        best = int(starts[group]) + int(np.argmax(found[starts[group] : stops[group]]))
        i, j = int(first[best]), int(second[best])
        skeleton.adjacent[i, j] = skeleton.adjacent[j, i] = False
        skeleton.separators[i, j] = tuple(given[best].tolist())
        skeleton.p_values[i, j] = float(found[best])


def stable_skeleton(test: IndependenceTest, alpha: float = 0.01, max_cond_vars: int | None = 3) -> Skeleton:
    """Return the skeleton of the stable PC algorithm.

    Parameters
    ----------
    test : IndependenceTest
        Answers all tests of a layer at once.
    alpha : float
        Level of the tests, in (0, 1).
    max_cond_vars : int, optional
        Size of the largest conditioning set; None for no limit.
    """
    check_levels(alpha, max_cond_vars)
    skeleton = Skeleton.complete(test.d)
    for size in range(test.d - 1 if max_cond_vars is None else max_cond_vars + 1):
        if int(skeleton.adjacent.sum(axis=1).max(initial=0)) - 1 < size:
            break
        run_layer(skeleton, test, alpha, size)
    return skeleton


def check_levels(alpha: float, max_cond_vars: int | None) -> None:
    """Raise InvalidParameter unless `alpha` and `max_cond_vars` are what `stable_skeleton` takes."""
    checks.fraction("alpha", alpha)
    if max_cond_vars is not None:
        checks.count("max_cond_vars", max_cond_vars, least=0)
