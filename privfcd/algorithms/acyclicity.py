"""The smooth measure of acyclicity h(W) = tr exp(W∘W) - d, which is 0 exactly for the weights of a DAG.

Zheng, Aragam, Ravikumar and Xing 2018, Theorem 1. A closed walk stays inside one strongly connected component, so the
entries between components of a graph that W is confined to have no part in h: `CyclicEntries` leaves them out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

Array = NDArray[np.float64]


def acyclicity(weights: Array) -> tuple[float, Array]:
    """Return h and its gradient 2 exp(W∘W)' ∘ W, shape (d, d); h is inf and the gradient 0 where exp overflows."""
    h, walks = _closed_walks(weights)
    if not np.isfinite(h):
        return np.inf, np.zeros_like(weights)
    return h, 2 * walks.T * weights


class CyclicEntries:
    """The entries of a support that lie on one of its cycles, and h as a function of these entries alone.

    For every W that is zero outside the support, h(W) and its gradient are those of the values at `rows`, `cols`: exactly,
    with the exponential of the components' blocks in place of the whole matrix's.

    Parameters
    ----------
    support : ndarray of bool, shape (d, d)
        Where W may differ from zero.

    Attributes
    ----------
    rows, cols : ndarray of int, shape (m,)
        The entries.
    """

    def __init__(self, support: NDArray[np.bool_]) -> None:
        rows, cols = np.nonzero(support)
        graph = csr_array((np.ones(len(rows), dtype=np.int8), (rows, cols)), shape=support.shape)
        labels = connected_components(graph, directed=True, connection="strong")[1]
        cyclic = labels[rows] == labels[cols]
        rows, cols = rows[cyclic], cols[cyclic]
        # Two blocks: most supports have one large component and some small ones, which are cheapest together.
        nodes = np.unique(rows)
        largest = np.bincount(labels[nodes]).argmax() if len(nodes) else 0
        blocks = [part for part in (nodes[labels[nodes] == largest], nodes[labels[nodes] != largest]) if len(part)]
        place = np.zeros(len(support), dtype=np.intp)
        parts, self._blocks = [], []
        for block in blocks:
            place[block] = np.arange(len(block))
            chosen = np.flatnonzero(np.isin(rows, block))
            parts.append(chosen)
            self._blocks.append((len(block), place[rows[chosen]] * len(block) + place[cols[chosen]]))
        order = np.concatenate(parts) if parts else np.zeros(0, dtype=np.intp)
        self.rows, self.cols = rows[order], cols[order]

    def __len__(self) -> int:
        """Return m."""
        return len(self.rows)

    def evaluate(self, values: Array) -> tuple[float, Array]:
        """Return h and the walks back exp(W∘W)_ji for each entry (i, j), where W_ij = values.

        The gradient is 2 walks * values. h is inf and the walks 0 where exp overflows.
        """
        total, parts, first = 0.0, [], 0
        for size, positions in self._blocks:
            block = np.zeros(size * size)
            block[positions] = values[first : first + len(positions)]
            first += len(positions)
            h, walks = _closed_walks(block.reshape(size, size))
            total += h
            parts.append(walks.T.ravel()[positions])
        if not np.isfinite(total):
            return np.inf, np.zeros_like(values)
        return total, np.concatenate(parts) if parts else np.zeros(0)


def _closed_walks(weights: Array) -> tuple[float, Array]:
    """Return h(W) and exp(W∘W), or inf and anything where it overflows."""
    with np.errstate(all="ignore"):
        walks: Array = expm(weights * weights)
        h = float(np.trace(walks)) - len(weights)
    return (h if np.isfinite(h) and np.isfinite(walks).all() else np.inf), walks
