"""All sets of neighbours that separate a pair: what the majority rule for v-structures counts.

Colombo and Maathuis (2014, section 3.4): one separating set is one sample's word; how many of all of them hold a variable
is steadier. A skeleton phase stops at the first sets that separate a pair, so that these tests are made anew, on the final
edges.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.constraint.orientation import unshielded_triples
from privfcd.algorithms.constraint.skeleton import IndependenceTest

Indices = NDArray[np.int64]

_BLOCK = 100_000
"""How many tests are asked for at once."""


def separating_sets(
    adjacent: NDArray[np.bool_], test: IndependenceTest, alpha: float, max_cond_vars: int
) -> dict[tuple[int, int], tuple[int, Indices]]:
    """Return for each pair of an unshielded triple how many sets separate it, and how many of these hold each variable.

    Parameters
    ----------
    adjacent : ndarray of bool, shape (d, d)
        Symmetric.
    test : IndependenceTest
    alpha : float
        A set separates a pair where the p-value is above.
    max_cond_vars : int
        Sets of 0 to so many neighbours of either end are tested.

    Returns
    -------
    dict
        (i, j), i < j, to (number of sets, ndarray of int, shape (d,)); pairs that no set separates are left out.
    """
    d = len(adjacent)
    neighbours = [np.flatnonzero(row).tolist() for row in adjacent]
    pairs = sorted({(i, j) for i, j, _ in unshielded_triples(adjacent)})
    many: dict[tuple[int, int], int] = {}
    holding: dict[tuple[int, int], Indices] = {}
    for size in range(max_cond_vars + 1):
        tests = (
            (*pair, *chosen)
            for pair in pairs
            # a set of neighbours of both ends is one test, not two
            for chosen in sorted({sets for end in pair for sets in itertools.combinations(neighbours[end], size)})
        )
        while block := list(itertools.islice(tests, _BLOCK)):
            asked = np.array(block, dtype=np.int64)
            found = np.nan_to_num(test.p_values(asked[:, 0], asked[:, 1], asked[:, 2:]), nan=-1.0)
            for i, j, *given in asked[found > alpha].tolist():
                many[i, j] = many.get((i, j), 0) + 1
                holding.setdefault((i, j), np.zeros(d, dtype=np.int64))[given] += 1
    return {pair: (many[pair], holding[pair]) for pair in many}
