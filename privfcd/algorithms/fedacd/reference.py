"""The order-dependent skeleton phase that the authors' program has: for comparison only.

Edges are removed at once, so that later tests of the same layer see them gone; ordered pairs (i, j) are visited with j in
the outer loop, and conditioning sets come from the neighbours of j alone. The result depends on the order of the variables.
"""

from __future__ import annotations

import itertools

import numpy as np

from privfcd.algorithms.constraint.skeleton import IndependenceTest, Skeleton


def run_reference_layer(skeleton: Skeleton, test: IndependenceTest, alpha: float, size: int) -> None:
    """Do what `run_layer` does, in the authors' order."""
    d = len(skeleton.adjacent)
    skeleton.layers += 1
    for j in range(d):
        for i in range(d):
            if not skeleton.adjacent[i, j]:
                continue
            others = [k for k in np.flatnonzero(skeleton.adjacent[:, j]).tolist() if k != i]
            if len(others) < size:
                continue
            sets = np.array(list(itertools.combinations(others, size)), dtype=np.int64)
            skeleton.tests += len(sets)
            ends = np.full(len(sets), i), np.full(len(sets), j)
            found = test.p_values(*ends, sets)
            skeleton.note(*ends, found)
            found = np.nan_to_num(found, nan=-1.0)
            best = int(np.argmax(found))
            if found[best] > alpha:
                pair = (min(i, j), max(i, j))
                skeleton.adjacent[i, j] = skeleton.adjacent[j, i] = False
                skeleton.separators[pair] = tuple(sets[best].tolist())
                skeleton.p_values[pair] = float(found[best])
