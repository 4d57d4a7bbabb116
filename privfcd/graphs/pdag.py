"""Partially directed graphs as bit masks: the type, its v-structures, skeleton, and mutilation.

Convention of matrices, everywhere in `privfcd.graphs`: `matrix[i, j]` alone is the edge i -> j; `matrix[i, j]` and
`matrix[j, i]` together are the undirected edge i - j. Inside, a set of nodes is a Python int whose bit i says that
node i is in it, so that set algebra over 100 nodes is one machine operation or two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd.checks import count
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import square_matrix


@dataclass(frozen=True)
class Pdag:
    """A graph with directed and undirected edges, at most one edge between two nodes. Immutable and hashable.

    A DAG is a `Pdag` without undirected edges and without directed cycles; a CPDAG is one that stands for a
    Markov equivalence class. Directed cycles are legal here; `is_dag`, `is_cpdag` and `consistent_extension` say more.

    Attributes
    ----------
    parents : tuple of p ints
        `parents[j]` is the mask of nodes i with i -> j.
    neighbours : tuple of p ints
        `neighbours[j]` is the mask of nodes i with i - j.
    children : tuple of p ints
        `children[i]` is the mask of nodes j with i -> j; follows from `parents`.
    adjacent : tuple of p ints
        The union of the three.

    Raises
    ------
    InvalidParameter
        The masks are not such a graph.

    Examples
    --------
    >>> graph = Pdag.from_edges(3, directed=[(0, 2)], undirected=[(0, 1)])
    >>> graph.matrix().astype(int).tolist()
    [[0, 1, 1], [1, 0, 0], [0, 0, 0]]
    """

    parents: tuple[int, ...]
    neighbours: tuple[int, ...]
    children: tuple[int, ...] = field(init=False, repr=False, compare=False)
    adjacent: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        p = len(self.parents)
        if len(self.neighbours) != p or p == 0:
            raise InvalidParameter(f"parents and neighbours must be p >= 1 masks, got {p} and {len(self.neighbours)}")
        children = [0] * p
        for j, (into, linked) in enumerate(zip(self.parents, self.neighbours, strict=True)):
            if into < 0 or linked < 0 or (into | linked) >> p or (into | linked) >> j & 1:
                raise InvalidParameter(f"masks of node {j} must hold other nodes below {p} only")
            for i in bits(into):
                children[i] |= 1 << j
            for i in bits(linked):
                if not self.neighbours[i] >> j & 1:
                    raise InvalidParameter(f"neighbours must be symmetric, got {i} - {j} in one mask only")
        for j in range(p):
            if self.parents[j] & children[j] or (self.parents[j] | children[j]) & self.neighbours[j]:
                raise InvalidParameter(f"two nodes must have at most one edge, got two at node {j}")
        object.__setattr__(self, "children", tuple(children))
        joined = (a | b | c for a, b, c in zip(self.parents, children, self.neighbours, strict=True))
        object.__setattr__(self, "adjacent", tuple(joined))

    @classmethod
    def from_matrix(cls, matrix: ArrayLike) -> Pdag:
        """Return the graph of the non-zero entries; both [i, j] and [j, i] are one undirected edge."""
        return cls._from_boolean(square_matrix("matrix", matrix) != 0, "matrix")

    @classmethod
    def _from_boolean(cls, present: NDArray[np.bool_], name: str) -> Pdag:
        loops = np.flatnonzero(present.diagonal())
        if loops.size:
            raise InvalidParameter(f"{name} must have no self-loop, got one at node {int(loops[0])}")
        return cls.from_entries([_mask(column) for column in present.T])

    @classmethod
    def from_entries(cls, into: Iterable[int]) -> Pdag:
        """Return the graph whose matrix has the columns `into`: bit i of into[j] is the entry [i, j]."""
        columns = list(into)
        rows = [0] * len(columns)
        for j, column in enumerate(columns):
            for i in bits(column):
                rows[i] |= 1 << j
        both = tuple(column & row for column, row in zip(columns, rows, strict=True))
        return cls(tuple(column & ~shared for column, shared in zip(columns, both, strict=True)), both)

    @classmethod
    def from_edges(
        cls, p: int, directed: Iterable[tuple[int, int]] = (), undirected: Iterable[tuple[int, int]] = ()
    ) -> Pdag:
        """Return the graph on p nodes with the edges i -> j of `directed` and i - j of `undirected`."""
        size = count("p", p)
        parents, neighbours = [0] * size, [0] * size
        for name, pairs in (("directed", directed), ("undirected", undirected)):
            for i, j in pairs:
                if not (0 <= i < size and 0 <= j < size):
                    raise InvalidParameter(f"{name} must join nodes from 0 to {size - 1}, got {(i, j)}")
                if name == "directed":
                    parents[j] |= 1 << i
                else:
                    neighbours[j] |= 1 << i
                    neighbours[i] |= 1 << j
        return cls(tuple(parents), tuple(neighbours))

    @property
    def p(self) -> int:
        """Number of nodes."""
        return len(self.parents)

    def matrix(self) -> NDArray[np.bool_]:
        """Return the (p, p) boolean matrix in the module's convention."""
        present = np.zeros((self.p, self.p), dtype=np.bool_)
        for j in range(self.p):
            for i in bits(self.parents[j] | self.neighbours[j]):
                present[i, j] = True
        return present

    def directed_edges(self) -> list[tuple[int, int]]:
        """Return the pairs (i, j) with i -> j, in rising order of j, then i."""
        return [(i, j) for j in range(self.p) for i in bits(self.parents[j])]

    def undirected_edges(self) -> list[tuple[int, int]]:
        """Return the pairs (i, j), i < j, with i - j, in rising order."""
        return [(i, j) for i in range(self.p) for j in bits(self.neighbours[i] >> (i + 1) << (i + 1))]

    def entries(self) -> tuple[int, ...]:
        """Return the matrix's columns as masks, the argument of `from_entries`."""
        return tuple(a | b for a, b in zip(self.parents, self.neighbours, strict=True))


def bits(mask: int) -> Iterator[int]:
    """Yield the nodes of a mask in rising order."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def as_pdag(graph: Pdag | ArrayLike, name: str = "graph") -> Pdag:
    """Return `graph` as a `Pdag`; a matrix is read in the module's convention, whatever its weights."""
    if isinstance(graph, Pdag):
        return graph
    return Pdag._from_boolean(square_matrix(name, graph) != 0, name)


def same_nodes(first: Pdag, other: Pdag, name: str) -> Pdag:
    """Return `other`, or raise InvalidParameter where it has not as many nodes as `first`."""
    if first.p != other.p:
        raise InvalidParameter(f"{name} must have {first.p} nodes, got {other.p}")
    return other


def topological_order(graph: Pdag | ArrayLike) -> list[int] | None:
    """Return an order in which every directed edge goes forward, or None where there is a directed cycle.

    Undirected edges say nothing about the order.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    given = as_pdag(graph)
    waiting = [mask.bit_count() for mask in given.parents]
    order = [node for node, number in enumerate(waiting) if number == 0]
    for node in order:  # grows while it is read
        for child in bits(given.children[node]):
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order if len(order) == given.p else None


def is_dag(graph: Pdag | ArrayLike) -> bool:
    """Say whether all edges are directed and there is no directed cycle.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    given = as_pdag(graph)
    return not any(given.neighbours) and topological_order(given) is not None


def as_dag(graph: Pdag | ArrayLike, name: str = "dag") -> Pdag:
    """Return `graph` as a `Pdag`; InvalidParameter where it is not a DAG."""
    given = as_pdag(graph, name)
    if not is_dag(given):
        raise InvalidParameter(f"{name} must be a DAG: no undirected edge and no directed cycle")
    return given


def skeleton(graph: Pdag | ArrayLike) -> Pdag:
    """Return the graph with every edge undirected.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    given = as_pdag(graph)
    return Pdag((0,) * given.p, given.adjacent)


def v_structures(graph: Pdag | ArrayLike) -> frozenset[tuple[int, int, int]]:
    """Return the triples (i, j, k), i < j, with i -> k <- j and no edge between i and j.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    given = as_pdag(graph)
    found = []
    for k, parents in enumerate(given.parents):
        for i in bits(parents):
            apart = parents & ~given.adjacent[i]
            found += [(i, j, k) for j in bits(apart >> (i + 1) << (i + 1))]
    return frozenset(found)


def with_arrows(graph: Pdag, arrows: Iterable[tuple[int, int]]) -> Pdag:
    """Return the graph with each (i, j) of `arrows`, one of its edges, as i -> j."""
    columns = list(graph.entries())
    for i, j in arrows:
        columns[j] |= 1 << i
        columns[i] &= ~(1 << j)
    return Pdag.from_entries(columns)


def mutilate(dag: Pdag | ArrayLike, targets: Iterable[int]) -> Pdag:
    """Return the DAG without the edges into `targets`: what a structural intervention leaves.

    Parameters
    ----------
    dag : Pdag or array of shape (d, d)
        Directed, without cycles.
    targets : iterable of int
        Nodes.

    Raises
    ------
    InvalidParameter
        `dag` is not a DAG, or a target is not one of its nodes.
    """
    given = as_dag(dag)
    cut = node_mask("targets", targets, given.p)
    parents = (0 if cut >> j & 1 else mask for j, mask in enumerate(given.parents))
    return Pdag(tuple(parents), given.neighbours)


def node_mask(name: str, nodes: Iterable[int], p: int) -> int:
    """Return the mask of some nodes; InvalidParameter where one is not in 0 .. p - 1."""
    mask = 0
    for node in nodes:
        if isinstance(node, bool | np.bool_) or not isinstance(node, int | np.integer) or not 0 <= node < p:
            raise InvalidParameter(f"{name} must be nodes from 0 to {p - 1}, got {node!r}")
        mask |= 1 << int(node)
    return mask


def _mask(column: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(column, bitorder="little").tobytes(), "little")


def pdag_to_networkx(graph: Pdag, columns: Sequence[str]) -> nx.DiGraph[str]:
    """Return the graph with `columns` as nodes; an undirected edge is two arcs with the attribute `undirected` True."""
    made: nx.DiGraph[str] = nx.DiGraph()
    made.add_nodes_from(columns)
    made.add_edges_from((columns[i], columns[j], {"undirected": False}) for i, j in graph.directed_edges())
    for i, j in graph.undirected_edges():
        made.add_edge(columns[i], columns[j], undirected=True)
        made.add_edge(columns[j], columns[i], undirected=True)
    return made
