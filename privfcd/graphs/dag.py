"""Directed graphs as weight matrices: cycles, the projection to a DAG, and the way to and from networkx.

Everywhere in privfcd `matrix[i, j]` is the weight of the edge i -> j, and 0 means that there is no edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from privfcd.checks import non_negative, real, refuse
from privfcd.errors import InvalidParameter

Edge = tuple[int, int, float]


@dataclass(frozen=True, eq=False)
class DagProjection:
    """An acyclic weight matrix, and what was dropped to get there.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        The weights that stay; acyclic.
    dropped_small : tuple of (i, j, weight)
        Edges i -> j with absolute weight at most the threshold, by rising absolute weight, then i, then j.
    dropped_for_cycles : tuple of (i, j, weight)
        Edges above the threshold that were dropped because they lay on a cycle, in the order of dropping.
    """

    weights: NDArray[np.float64]
    dropped_small: tuple[Edge, ...]
    dropped_for_cycles: tuple[Edge, ...]


def square_matrix(name: str, value: ArrayLike) -> NDArray[np.float64]:
    """Return a fresh float64 copy of a square, finite, real matrix; InvalidParameter names `name`."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise refuse(name, type(value).__name__, "a square matrix of finite numbers") from None
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise InvalidParameter(f"{name} must be a square matrix of at least 1 x 1, got shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise InvalidParameter(f"{name} must hold real numbers, got dtype {array.dtype}")
    matrix = np.array(array, dtype=np.float64, order="C")
    bad = np.argwhere(~np.isfinite(matrix))
    if bad.size:
        i, j = (int(k) for k in bad[0])
        raise InvalidParameter(f"{name} must hold finite numbers, got {matrix[i, j]} at [{i}, {j}]")
    return matrix


def is_acyclic(matrix: ArrayLike) -> bool:
    """Say whether the graph of the non-zero entries has no directed cycle.

    Parameters
    ----------
    matrix : array of shape (d, d)
        `matrix[i, j]` non-zero is the edge i -> j. A non-zero diagonal entry is a cycle of length one.

    Raises
    ------
    InvalidParameter
        `matrix` is not a square matrix of finite numbers.
    """
    present = square_matrix("matrix", matrix) != 0
    if present.diagonal().any():
        return False
    return bool(_components(present).max() + 1 == present.shape[0])


def find_cycle(matrix: ArrayLike) -> list[int] | None:
    """Return one directed cycle, or None where there is none.

    Parameters
    ----------
    matrix : array of shape (d, d)
        `matrix[i, j]` non-zero is the edge i -> j.

    Returns
    -------
    list of int or None
        Nodes [a, b, ..., z], each once, with the edges a -> b -> ... -> z -> a. A self-loop is [a]. The
        search goes through nodes in rising order, so the same matrix always gives the same cycle.

    Raises
    ------
    InvalidParameter
        `matrix` is not a square matrix of finite numbers.
    """
    present = square_matrix("matrix", matrix) != 0
    successors = [np.flatnonzero(row).tolist() for row in present]
    finished = [False] * len(successors)
    for root in range(len(successors)):
        if finished[root]:
            continue
        path, position = [root], {root: 0}
        pending = [iter(successors[root])]
        while pending:
            following = next(pending[-1], None)
            if following is None:
                node = path.pop()
                del position[node]
                finished[node] = True
                pending.pop()
            elif following in position:
                return path[position[following] :]
            elif not finished[following]:
                position[following] = len(path)
                path.append(following)
                pending.append(iter(successors[following]))
    return None


def project_to_dag(weights: ArrayLike, threshold: float) -> DagProjection:
    """Drop small weights, then the smallest weights that lie on a cycle, until the graph is acyclic.

    First every edge with |weight| <= `threshold` goes. Then the edge of smallest |weight| *among those that
    lie on a cycle* goes, again and again until no cycle is left. Edges on no cycle stay, however small: the
    plainer rule, which raises the threshold until the graph is acyclic, keeps a subset of what is kept here.
    Edges are ordered by (|weight|, i, j), so the answer is deterministic; an edge above the threshold is
    dropped just when it closes a cycle with edges that come after it in that order. A self-loop is a cycle of
    length one. What is kept need not be the most that could be: an edge whose every cycle was broken later by
    the loss of a stronger edge is not brought back.

    Parameters
    ----------
    weights : array of shape (d, d)
        `weights[i, j]` is the weight of i -> j. It is not changed.
    threshold : float
        At least 0; in the units of the weights.

    Returns
    -------
    DagProjection
        The weights that stay and what was dropped, for which reason.

    Raises
    ------
    InvalidParameter
        `weights` is not a square matrix of finite numbers, or `threshold` is negative or not finite.
    """
    matrix = square_matrix("weights", weights)
    limit = non_negative("threshold", threshold)
    small = _by_rising_weight(matrix, (matrix != 0) & (np.abs(matrix) <= limit))
    matrix[np.abs(matrix) <= limit] = 0.0
    present = matrix != 0
    labels = _components(present)
    fresh = int(labels.max()) + 1
    dropped: list[Edge] = []
    # One pass is enough: dropping edges makes no new cycle, so an edge that was passed over stays off cycles.
    for i, j, weight in _by_rising_weight(matrix, present):
        if labels[i] != labels[j]:
            continue
        dropped.append((i, j, weight))
        present[i, j] = False
        if i == j or (present[i] & present[:, j]).any():  # i still reaches j: no component changes
            continue
        members = np.flatnonzero(labels == labels[i])
        labels[members] = fresh + _components(present[np.ix_(members, members)])
        fresh += members.size
    matrix[~present] = 0.0
    return DagProjection(matrix, tuple(small), tuple(dropped))


def to_networkx(weights: ArrayLike, columns: Sequence[str]) -> nx.DiGraph[str]:
    """Return the graph of the non-zero weights, with all nodes in order and the edge attribute `weight`.

    Parameters
    ----------
    weights : array of shape (d, d)
        `weights[i, j]` is the weight of the edge columns[i] -> columns[j].
    columns : sequence of d different names
        The nodes' names.

    Raises
    ------
    InvalidParameter
        `weights` is not a square matrix of finite numbers, or `columns` are not d different non-empty texts.
    """
    matrix = square_matrix("weights", weights)
    names = _names(columns)
    if len(names) != matrix.shape[0]:
        raise InvalidParameter(f"columns must be {matrix.shape[0]} names, one a node, got {len(names)}")
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    for i, j in np.argwhere(matrix):
        graph.add_edge(names[i], names[j], weight=float(matrix[i, j]))
    return graph


def from_networkx(graph: nx.DiGraph[str], columns: Sequence[str]) -> NDArray[np.float64]:
    """Return the weight matrix of a directed graph, with rows and columns in the order of `columns`.

    Parameters
    ----------
    graph : networkx.DiGraph
        An edge without the attribute `weight` has weight 1.
    columns : sequence of str
        All of the graph's nodes, each once.

    Returns
    -------
    ndarray of shape (d, d)
        `[i, j]` is the weight of columns[i] -> columns[j].

    Raises
    ------
    InvalidParameter
        `graph` is not a plain directed graph, its nodes are not `columns`, or a weight is 0 or not a finite
        number (a matrix cannot tell an edge of weight 0 from no edge).
    """
    plain_digraph("graph", graph)
    names = _names(columns)
    place = {name: k for k, name in enumerate(names)}
    missing = [name for name in names if name not in graph]
    extra = [node for node in graph if node not in place]
    if missing or extra:
        raise InvalidParameter(f"columns must be the graph's nodes; not nodes: {missing}, not named: {extra}")
    matrix = np.zeros((len(names), len(names)))
    for source, target, value in graph.edges(data="weight", default=1.0):
        label = f"weight of {source!r} -> {target!r}"
        weight = real(label, value)
        if weight == 0:
            raise refuse(label, value, "other than 0, which a matrix reads as no edge")
        matrix[place[source], place[target]] = weight
    return matrix


def plain_digraph(name: str, graph: object) -> nx.DiGraph[Any]:
    """Return `graph` if it is a directed networkx graph without parallel edges, or raise InvalidParameter."""
    if not isinstance(graph, nx.DiGraph) or graph.is_multigraph():
        raise refuse(name, type(graph).__name__, "a networkx.DiGraph")
    return graph


def _names(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise refuse("columns", columns, "a sequence of names")
    names = list(columns)
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise refuse("columns", wrong[0], "non-empty texts")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise refuse("columns", name, "different names (this one comes twice)")
        seen.add(name)
    return names


def _components(present: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the strongly connected components from 0 and return each node's number."""
    labels = connected_components(present.astype(np.int8), directed=True, connection="strong")[1]
    return np.asarray(labels, dtype=np.int64)


def _by_rising_weight(matrix: NDArray[np.float64], chosen: NDArray[np.bool_]) -> list[Edge]:
    rows, cols = np.nonzero(chosen)
    values = matrix[rows, cols]
    order = np.lexsort((cols, rows, np.abs(values)))
    return [(int(rows[k]), int(cols[k]), float(values[k])) for k in order]
