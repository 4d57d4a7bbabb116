"""The operators of greedy equivalence search: insert, delete and turn, as their authors define them.

Insert and Delete: Chickering, Optimal structure identification with greedy search, JMLR 3 (2002), Theorems 15 and 17.
Turn: Hauser and Bühlmann, Characterization and greedy learning of interventional Markov equivalence classes, JMLR 13
(2012), Propositions 31 and 34.

An operator is listed with the families whose scores decide its gain. Whether a path forbids it is asked last, and for
the best ones only: by a search over masks, never by listing paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from privfcd.algorithms.scores import Family
from privfcd.graphs.orders import consistent_extension
from privfcd.graphs.pdag import Pdag, bits, is_dag

Kind = Literal["insert", "delete", "turn"]


@dataclass(frozen=True)
class Operator:
    """One move between equivalence classes.

    Attributes
    ----------
    kind : str
        What it does to x -> y (or x - y).
    x, y : int
        The edge's ends.
    nodes : int
        Mask: T of Insert, H of Delete, C of Turn.
    gained, lost : tuple of families
        The gain is the score of the first less that of the second.
    """

    kind: Kind
    x: int
    y: int
    nodes: int
    gained: tuple[Family, ...]
    lost: tuple[Family, ...]


def inserts(graph: Pdag, x: int, y: int) -> Iterator[Operator]:
    """Yield Insert(x, y, T) for x and y that are not adjacent; paths are not looked at."""
    shared = graph.neighbours[y] & graph.adjacent[x]
    free = graph.neighbours[y] & ~graph.adjacent[x]
    for clique in cliques(graph, shared, free):
        base = clique | graph.parents[y]
        yield Operator("insert", x, y, clique & free, ((y, base | 1 << x),), ((y, base),))


def deletes(graph: Pdag, x: int, y: int) -> Iterator[Operator]:
    """Yield Delete(x, y, H) for x -> y or x - y."""
    shared = graph.neighbours[y] & graph.adjacent[x]
    for kept in cliques(graph, 0, shared):
        base = (kept | graph.parents[y]) & ~(1 << x)
        yield Operator("delete", x, y, shared & ~kept, ((y, base),), ((y, base | 1 << x),))


def turns(graph: Pdag, x: int, y: int) -> Iterator[Operator]:
    """Yield Turn(x, y, C), which makes x -> y of y -> x or x - y; paths are not looked at."""
    bit_x, bit_y = 1 << x, 1 << y
    parents, neighbours = graph.parents, graph.neighbours
    if parents[x] & bit_y:
        shared = neighbours[y] & graph.adjacent[x]
        for clique in cliques(graph, shared, neighbours[y] & ~graph.adjacent[x]):
            base = clique | parents[y]
            yield Operator(
                "turn",
                x,
                y,
                clique,
                ((y, base | bit_x), (x, parents[x] & ~bit_y)),
                ((y, base), (x, parents[x])),
            )
        return
    common = neighbours[y] & neighbours[x]
    for clique in cliques(graph, 0, neighbours[y] & ~bit_x):
        if not clique & ~neighbours[x] or not _separated(graph, y, clique, common):
            continue
        base, with_x = clique | parents[y], (clique & neighbours[x]) | parents[x]
        yield Operator(
            "turn",
            x,
            y,
            clique,
            ((y, base | bit_x), (x, with_x)),
            ((y, base), (x, with_x | bit_y)),
        )


def blocked(graph: Pdag, operator: Operator) -> bool:
    """Say whether a semi-directed path from y to x forbids the operator."""
    x, y = operator.x, operator.y
    if operator.kind == "insert":
        stop = operator.nodes | (graph.neighbours[y] & graph.adjacent[x])
        return reaches(graph, y, x, stop)
    if operator.kind == "turn" and graph.parents[x] >> y & 1:
        return reaches(graph, y, x, operator.nodes | graph.neighbours[x], direct=False)
    return False


def apply(graph: Pdag, operator: Operator) -> Pdag | None:
    """Return a DAG of the class that the operator leads to; None where there is none, so that it is not valid."""
    x, y, nodes = operator.x, operator.y, operator.nodes
    if operator.kind == "turn":
        return _turned(graph, operator)
    columns = list(graph.entries())
    if operator.kind == "insert":
        columns[y] |= 1 << x
        for node in bits(nodes):
            columns[node] &= ~(1 << y)
    else:
        columns[y] &= ~(1 << x)
        columns[x] &= ~(1 << y)
        for node in bits(nodes):
            columns[y] &= ~(1 << node)
            columns[x] &= ~(1 << node)
    return consistent_extension(Pdag.from_entries(columns))


def _turned(graph: Pdag, operator: Operator) -> Pdag | None:
    """Turn y -> x in a DAG of the class where y's parents are the graph's and C, and x's are as scored."""
    x, y = operator.x, operator.y
    columns = list(graph.entries())
    for node, into in ((y, operator.lost[0][1]), (x, operator.lost[1][1])):
        for other in bits(graph.neighbours[node]):
            head, tail = (node, other) if into >> other & 1 else (other, node)
            columns[head] |= 1 << tail
            columns[tail] &= ~(1 << head)
    if columns[x] & columns[y] & (1 << x | 1 << y):
        return None
    dag = consistent_extension(Pdag.from_entries(columns))
    if dag is None:
        return None
    parents = list(dag.parents)
    parents[x] &= ~(1 << y)
    parents[y] |= 1 << x
    turned = Pdag(tuple(parents), dag.neighbours)
    return turned if is_dag(turned) else None


def cliques(graph: Pdag, core: int, free: int) -> Iterator[int]:
    """Yield every clique that is `core` and a subset of `free`; nothing where `core` is none itself."""
    for node in bits(core):
        if core & ~graph.adjacent[node] & ~(1 << node):
            return
        free &= graph.adjacent[node]
    stack = [(core, free)]
    while stack:
        clique, rest = stack.pop()
        yield clique
        for node in bits(rest):
            later = rest >> (node + 1) << (node + 1)
            stack.append((clique | 1 << node, later & graph.adjacent[node]))


def reaches(graph: Pdag, start: int, goal: int, stop: int, *, direct: bool = True) -> bool:
    """Say whether a path of edges -> and - leads from `start` to `goal` outside `stop`.

    With `direct` False the edge from start to goal itself does not count.
    """
    seen = stop | 1 << start
    first = (graph.children[start] | graph.neighbours[start]) & ~seen
    if not direct:
        first &= ~(1 << goal)
    front = first
    while front:
        if front >> goal & 1:
            return True
        seen |= front
        following = 0
        for node in bits(front):
            following |= graph.children[node] | graph.neighbours[node]
        front = following & ~seen
    return False


def _separated(graph: Pdag, y: int, clique: int, common: int) -> bool:
    """Say whether C ∩ N separates C - N from N - C among y's neighbours."""
    goal, within = common & ~clique, graph.neighbours[y] & ~(clique & common)
    front = seen = clique & ~common
    while front:
        if front & goal:
            return False
        following = 0
        for node in bits(front):
            following |= graph.neighbours[node]
        front = following & within & ~seen
        seen |= front
    return True
