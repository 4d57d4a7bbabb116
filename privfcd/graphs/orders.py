"""The DAGs that some precedences and forbidden colliders leave: one of them, all of them, what they agree on.

Many classes of DAGs over one skeleton are described by two kinds of constraints: arrows that are required, and
pairs of edges i - j - l that must not both point to j. A DAG is in such a class exactly when it orients the skeleton
along an order of the nodes in which i comes before j for each required i -> j, and j comes before i or before l for
each forbidden collider. Taken from the end of the order these are AND/OR precedence constraints (Möhring, Skutella
and Stork, Scheduling with AND/OR precedence constraints, SIAM J. Comput. 33, 2004): a node may be put last among
those that remain when no required child and no whole forbidden pair of it remains. What may be put last stays so
while others are put, so the greedy choice never has to be taken back: it finds an order where one exists. With the
forbidden pairs of a partially directed graph this is the algorithm of Dor and Tarsi (1992).

So the class is decided in polynomial time, an edge's direction is certain exactly when the class with the opposite
arrow is empty, and all members are listed with polynomial delay. No rule set has to be complete for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from privfcd.graphs.pdag import Pdag, as_dag, as_pdag, bits


@dataclass(frozen=True, eq=False)
class OrientationClass:
    """All acyclic orientations of a skeleton that keep some arrows and avoid some colliders; may be empty.

    Attributes
    ----------
    adjacent : tuple of p ints
        The skeleton: `adjacent[j]` is the mask of nodes that share an edge with j.
    after : tuple of p ints
        `after[i]` is the mask of nodes j for which i -> j is required; a part of `adjacent[i]`.
    apart : tuple of p dicts from int to int
        `apart[j][i]` is the mask of nodes l such that i -> j <- l is forbidden; holds with i and l exchanged.
    """

    adjacent: tuple[int, ...]
    after: tuple[int, ...]
    apart: tuple[dict[int, int], ...]

    def member(self, arrows: Iterable[tuple[int, int]] = ()) -> Pdag | None:
        """Return a DAG of the class that has the `arrows` (i, j) too, or None where there is none.

        Each of the `arrows` must lie on an edge of the skeleton.
        """
        after = list(self.after)
        for i, j in arrows:
            after[i] |= 1 << j
        return self._solve(after)

    def members(self) -> Iterator[Pdag]:
        """Yield every DAG of the class once. The time between two is polynomial; their number need not be."""
        edges = [(i, j) for i in range(len(self.after)) for j in bits(self.adjacent[i] >> (i + 1) << (i + 1))]
        first = self._solve(self.after)
        stack = [] if first is None else [(list(self.after), 0, first)]
        while stack:
            after, position, dag = stack.pop()
            while position < len(edges):
                i, j = edges[position]
                position += 1
                if after[i] >> j & 1 or after[j] >> i & 1:
                    continue
                if dag.children[i] >> j & 1:
                    tail, head = i, j
                else:
                    tail, head = j, i
                other = after.copy()
                other[head] |= 1 << tail
                turned = self._solve(other)
                if turned is not None:
                    stack.append((other, position, turned))
                after[tail] |= 1 << head
            yield dag

    def graph(self) -> Pdag | None:
        """Return what all members agree on, or None where there is no member.

        An edge is directed exactly when all members direct it so, and undirected where they differ.
        """
        base = self._solve(self.after)
        if base is None:
            return None
        after = list(self.after)
        turned = [0] * base.p  # turned[j]: parents i of j in `base` for which a member with j -> i is known
        for j in range(base.p):
            for i in bits(base.parents[j]):
                if after[i] >> j & 1 or turned[j] >> i & 1:
                    continue
                other = after.copy()
                other[j] |= 1 << i
                witness = self._solve(other)
                if witness is None:
                    after[i] |= 1 << j  # true for all members: keeping it shortens later searches
                    continue
                for node in range(base.p):
                    turned[node] |= base.parents[node] & witness.children[node]
        return Pdag.from_entries(
            base.parents[j] | sum(1 << i for i in bits(base.children[j]) if turned[i] >> j & 1) for j in range(base.p)
        )

    def contains(self, dag: Pdag | ArrayLike) -> bool:
        """Say whether a DAG is a member."""
        given = as_dag(dag)
        if given.adjacent != self.adjacent:
            return False
        for j, parents in enumerate(given.parents):
            if self.after[j] & ~given.children[j]:
                return False
            if any(parents >> i & 1 and parents & mask for i, mask in self.apart[j].items()):
                return False
        return True

    def _solve(self, after: Sequence[int]) -> Pdag | None:
        remaining = (1 << len(after)) - 1
        parents = [0] * len(after)
        stack = list(range(len(after)))
        while stack:
            node = stack.pop()
            if not remaining >> node & 1 or after[node] & remaining:
                continue
            if any(remaining >> i & 1 and mask & remaining for i, mask in self.apart[node].items()):
                continue
            remaining ^= 1 << node
            parents[node] = self.adjacent[node] & remaining
            stack.extend(bits(parents[node]))  # the only ones whose conditions this may have met
        return None if remaining else Pdag(tuple(parents), (0,) * len(after))


def extensions(graph: Pdag | ArrayLike) -> OrientationClass:
    """Return the class of the consistent extensions of a partially directed graph.

    They are the DAGs with its skeleton, its arrows and exactly its v-structures. For a CPDAG they are the Markov
    equivalence class.

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.
    """
    given = as_pdag(graph)
    apart: list[dict[int, int]] = []
    for j in range(given.p):
        pairs: dict[int, int] = {}
        for i in bits(given.neighbours[j]):
            for other in bits(given.adjacent[j] & ~given.adjacent[i] & ~(1 << i)):
                forbid(pairs, i, other)
        apart.append(pairs)
    return OrientationClass(given.adjacent, given.children, tuple(apart))


def forbid(pairs: dict[int, int], i: int, other: int) -> None:
    """Add the pair to the forbidden colliders of one node."""
    pairs[i] = pairs.get(i, 0) | 1 << other
    pairs[other] = pairs.get(other, 0) | 1 << i


def consistent_extension(graph: Pdag | ArrayLike) -> Pdag | None:
    """Return a DAG with the graph's skeleton, arrows and v-structures, or None where there is none.

    Dor and Tarsi, A simple algorithm to construct a consistent extension of a partially oriented graph (1992).

    Parameters
    ----------
    graph : Pdag or array of shape (d, d)
        Partially directed.

    Examples
    --------
    >>> dag = consistent_extension([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> dag is not None and len(dag.directed_edges())
    2
    """
    return extensions(graph).member()
