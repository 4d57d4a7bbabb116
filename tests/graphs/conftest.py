"""Graphs by brute force: every DAG on few nodes, random ones, and orientations by listing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

Matrix = NDArray[np.bool_]


def _acyclic(matrix: Matrix) -> bool:
    power = matrix.astype(int)
    for _ in range(len(matrix)):
        if np.trace(power):
            return False
        power = power @ matrix
    return True


def _every_dag(p: int) -> list[Matrix]:
    found = []
    pairs = list(combinations(range(p), 2))
    for states in product((0, 1, 2), repeat=len(pairs)):
        matrix = np.zeros((p, p), dtype=np.bool_)
        for (i, j), state in zip(pairs, states, strict=True):
            if state:
                matrix[(i, j) if state == 1 else (j, i)] = True
        if _acyclic(matrix):
            found.append(matrix)
    return found


def _orientations(matrix: Matrix) -> Iterator[Matrix]:
    """Yield every acyclic way to direct the undirected edges of a matrix."""
    both = [(i, j) for i, j in np.argwhere(matrix & matrix.T) if i < j]
    for flips in product((False, True), repeat=len(both)):
        directed = matrix.copy()
        for (i, j), flip in zip(both, flips, strict=True):
            directed[(i, j) if flip else (j, i)] = False
        if _acyclic(directed):
            yield directed


@pytest.fixture(scope="session")
def every_dag() -> Callable[[int], list[Matrix]]:
    """All DAGs on p nodes, as matrices: 1, 3, 25, 543 for p = 1 to 4."""
    known: dict[int, list[Matrix]] = {}

    def dags(p: int) -> list[Matrix]:
        if p not in known:
            known[p] = _every_dag(p)
        return known[p]

    return dags


@pytest.fixture(scope="session")
def orientations() -> Callable[[Matrix], Iterator[Matrix]]:
    return _orientations


@pytest.fixture(scope="session")
def random_dag() -> Callable[[int, float, np.random.Generator], Matrix]:
    """A DAG in a random order of its nodes, of the given mean number of neighbours."""

    def draw(p: int, degree: float, generator: np.random.Generator) -> Matrix:
        upper = np.triu(generator.random((p, p)) < degree / max(p - 1, 1), 1)
        order = generator.permutation(p)
        return upper[np.ix_(order, order)]

    return draw
