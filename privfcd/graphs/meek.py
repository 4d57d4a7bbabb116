"""Meek's four orientation rules, to closure.

Meek, Causal inference and causal explanation with background knowledge (UAI 1995). For an undirected edge a - b the
rules give a -> b where

1. c -> a, and c and b are not adjacent (else a new v-structure);
2. a -> c -> b (else a cycle);
3. a - c -> b and a - d -> b, and c and d are not adjacent;
4. a - d -> c -> b, a and c are adjacent, and d and b are not adjacent.

Rules 1 to 3 complete the v-structures of a DAG to its CPDAG. With rule 4 they find every orientation that follows
from arrows of background knowledge too (Meek, theorem 4).
"""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import Pdag, as_pdag, bits


def meek_closure(graph: Pdag | ArrayLike, background: Iterable[tuple[int, int]] = ()) -> Pdag:
    """Return the graph with all orientations that Meek's rules give.

    Parameters
    ----------
    graph : Pdag or array of shape (p, p)
        `[i, j]` and `[j, i]` together are an undirected edge.
    background : iterable of (i, j)
        Known arrows i -> j, each on an edge that is undirected or has that direction already.

    Returns
    -------
    Pdag
        Same skeleton; existing arrows stay. Every new arrow is in all consistent extensions of the graph with the
        background. For a CPDAG with background arrows that some member of its class has, the result directs exactly
        what those members agree on (Meek, theorem 4). A graph without consistent extension is closed too, but which
        arrows it gets then depends on the order of the rules: see `consistent_extension`.

    Raises
    ------
    InvalidParameter
        A background arrow is against the graph's direction, or not on an edge.

    Examples
    --------
    >>> meek_closure([[0, 1, 0], [1, 0, 1], [0, 1, 0]], background=[(0, 1)]).directed_edges()
    [(0, 1), (1, 2)]
    """
    given = as_pdag(graph)
    adjacent = given.adjacent
    parents, children, neighbours = list(given.parents), list(given.children), list(given.neighbours)
    queue = {edge for edge in given.undirected_edges()} if any(parents) else set()

    def orient(a: int, b: int) -> None:
        parents[b] |= 1 << a
        children[a] |= 1 << b
        neighbours[a] &= ~(1 << b)
        neighbours[b] &= ~(1 << a)
        # Edges that the new arrow can decide: at its ends, and by rule 4 at common neighbours.
        for node in (a, b, *bits(neighbours[a] & adjacent[b])):
            queue.update((min(node, other), max(node, other)) for other in bits(neighbours[node]))

    def follows(a: int, b: int) -> bool:
        if parents[a] & ~adjacent[b] or children[a] & parents[b]:
            return True
        through = neighbours[a] & parents[b]
        if any(through & ~adjacent[c] & ~(1 << c) for c in bits(through)):
            return True
        middle = parents[b] & adjacent[a]
        return bool(middle) and any(children[d] & middle for d in bits(neighbours[a] & ~adjacent[b] & ~(1 << b)))

    for i, j in background:
        if not (0 <= i < given.p and 0 <= j < given.p and adjacent[i] >> j & 1):
            raise InvalidParameter(f"background must hold arrows on edges of the graph, got {(i, j)}")
        if children[j] >> i & 1:
            raise InvalidParameter(f"background must not be against a direction of the graph, got {(i, j)}")
        if neighbours[i] >> j & 1:
            orient(i, j)
    while queue:
        a, b = queue.pop()
        if not neighbours[a] >> b & 1:
            continue
        if follows(a, b):
            orient(a, b)
        elif follows(b, a):
            orient(b, a)
    return Pdag(tuple(parents), tuple(neighbours))
