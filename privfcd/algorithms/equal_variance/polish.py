"""Edges added, dropped and turned by the likelihood of all moments at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.equal_variance.law import Array
from privfcd.algorithms.equal_variance.likelihood import Likelihood, Point

Edge = tuple[int, int]
Change = tuple[float, tuple[Edge, ...], tuple[Edge, ...]]
"""An estimate of what it gains, edges to drop, edges to add."""


def polished(likelihood: Likelihood, start: Point, tau: float, tries: int, steps: int = 30) -> Point:
    """Change the graph while minus the log-likelihood + tau² / 2 for each edge falls.

    Parameters
    ----------
    start : Point
        Acyclic weights; those that are 0 are no edges.
    tau : float
        Standard deviations that an edge is worth.
    tries : int
        Changes that are fitted at most.
    steps : int
        Of each fit.
    """
    price = tau * tau / 2
    support = start.weights != 0
    best = likelihood.fitted(start, support, 4 * steps)
    refused: set[tuple[bytes, tuple[Edge, ...], tuple[Edge, ...]]] = set()
    while tries > 0:
        for _, dropped, added in _changes(likelihood, best, support, price):
            key = support.tobytes(), dropped, added
            if key in refused:
                continue
            if tries <= 0:
                break
            tries -= 1
            changed = support.copy()
            for edge in dropped:
                changed[edge] = False
            for edge in added:
                changed[edge] = True
            point = likelihood.fitted(best, changed, steps)
            if point.value + price * changed.sum() < best.value + price * support.sum() - 1e-6:
                best, support = point, changed
                break
            refused.add(key)
        else:
            break
    return likelihood.fitted(best, support, 4 * steps)


def ancestors(support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which variable (row) has a path to which (column)."""
    paths = support.copy()
    for _ in range(max(1, int(np.ceil(np.log2(max(len(support), 2)))))):
        further = paths | ((paths.astype(np.float32) @ paths.astype(np.float32)) > 0)
        if np.array_equal(further, paths):
            break
        paths = further
    return np.asarray(paths)


def _changes(likelihood: Likelihood, point: Point, support: NDArray[np.bool_], price: float) -> list[Change]:
    """Return changes that keep the graph acyclic, those first that seem to gain most."""
    d = len(support)
    paths = ancestors(support)
    gains = likelihood.gains(point)
    changes: list[Change] = []
    free = ~support & ~paths.T & ~np.eye(d, dtype=np.bool_)
    for i, j in zip(*np.nonzero(free & (gains > price)), strict=True):
        changes.append((float(gains[i, j] - price), (), ((int(i), int(j)),)))
    place, sds = likelihood.deviations(point)
    worth = _worth(point.weights[place], sds)
    for i, j, loss in zip(*place, worth, strict=True):
        edge = int(i), int(j)
        if loss < 2 * price:
            changes.append((float(price - loss), (edge,), ()))
        if not (paths[i] & support[:, j]).any():  # no other path from i to j
            changes.append((float(gains[j, i] - loss), (edge,), ((int(j), int(i)),)))
        # another parent of j, or of i, in the place of i
        for k in np.argsort(-np.where(free[:, j], gains[:, j], 0.0))[:2]:
            if free[k, j] and gains[k, j] > price / 2:
                changes.append((float(gains[k, j] - loss), (edge,), ((int(k), int(j)),)))
    changes.sort(key=lambda change: -change[0])
    return changes


def _worth(weights: Array, sds: Array) -> Array:
    return np.asarray((weights / np.maximum(sds, 1e-300)) ** 2 / 2)
