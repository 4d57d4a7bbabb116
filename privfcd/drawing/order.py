"""Which layer each node is in, and the order within layers, with few crossings of edges.

Every edge is a line from an upper layer to a lower one; a longer line passes the layers between through dummy nodes, so
that layers are lists of nodes 0 .. n - 1 and every line joins neighbouring layers. Finding the fewest crossings is NP-hard
for two layers already (Garey and Johnson 1983). Sweeps down and up sort each layer by the mean place of the neighbours above
or below (the barycentre heuristic: Sugiyama, Tagawa and Toda 1981), then neighbours in a layer change places while that
helps (Gansner et al. 1993). Several starts, a fixed number of sweeps, and the best order of all is kept, the start among
them: so the result is never worse than the order that was given.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import networkx as nx

from privfcd import checks

Layers = list[list[int]]
Links = Sequence[Sequence[int]]

_SWEEPS, _STARTS = 10, 12
_SMALL, _MEDIUM, _LARGE = 200, 1500, 6000  # edges, a long one counted in each layer: the more, the less is tried


@dataclass(frozen=True)
class Line:
    """One edge to be drawn: it goes down from node `top` to node `bottom`.

    Attributes
    ----------
    source, target : str
        The ends as in the graph; an undirected edge's in the order of drawing.
    kind : str
        "directed", "undirected", or "extra" for an edge that the graph does not have.
    upward : bool
        Whether the arrow points up: the edge closes a directed cycle, or is an extra one.
    """

    source: str
    target: str
    kind: str
    upward: bool = False

    @property
    def top(self) -> str:
        """The end in the upper layer."""
        return self.target if self.upward else self.source

    @property
    def bottom(self) -> str:
        """The end in the lower layer."""
        return self.source if self.upward else self.target


def downward(graph: nx.DiGraph[str], extra: Iterable[tuple[str, str]] = ()) -> list[Line]:
    """Return all edges as lines of an acyclic graph; independent of the order in which nodes and edges were added.

    Undirected edges follow an order of the directed ones. Where directed edges form a cycle, few of them are turned
    round (the greedy order of Eades, Lin and Smyth 1993; for an acyclic graph it turns none).
    """
    loops = sorted(node for node in graph if graph.has_edge(node, node))
    if loops:
        raise checks.refuse("graph", loops[0], "without edges from a node to itself")
    arrows = sorted((i, j) for i, j, data in graph.edges(data=True) if not data.get("undirected"))
    linked = {(i, j) if i < j else (j, i) for i, j, data in graph.edges(data=True) if data.get("undirected")}
    place = {node: k for k, node in enumerate(_greedy_order(sorted(graph), arrows))}
    lines = [Line(i, j, "directed", upward=place[i] > place[j]) for i, j in arrows]
    lines += [Line(*((i, j) if place[i] < place[j] else (j, i)), "undirected") for i, j in sorted(linked)]
    drawn: nx.DiGraph[Any] = nx.DiGraph([(line.top, line.bottom) for line in lines])
    drawn.add_nodes_from(graph)
    for i, j in sorted(set(extra)):
        line = Line(i, j, "extra", upward=nx.has_path(drawn, j, i))
        drawn.add_edge(line.top, line.bottom)
        lines.append(line)
    return lines


def _greedy_order(nodes: list[str], arrows: list[tuple[str, str]]) -> list[str]:
    into: dict[str, set[str]] = {node: set() for node in nodes}
    out: dict[str, set[str]] = {node: set() for node in nodes}
    for i, j in arrows:
        out[i].add(j)
        into[j].add(i)
    left: list[str] = []
    right: list[str] = []
    waiting = list(nodes)
    while waiting:
        node = next((v for v in waiting if not into[v]), None)
        chosen = left
        if node is None:
            node = next((v for v in waiting if not out[v]), None)
            chosen = right if node is not None else left
        if node is None:
            node = max(waiting, key=lambda v: len(out[v]) - len(into[v]))
        chosen.append(node)
        waiting.remove(node)
        for child in out[node]:
            into[child].discard(node)
        for parent in into[node]:
            out[parent].discard(node)
    return left + right[::-1]


def layer_numbers(nodes: list[str], lines: Iterable[Line]) -> dict[str, int]:
    """Return each node's layer: lines go down by at least one, and are short as far as moving single nodes can make them."""
    above: dict[str, list[str]] = {node: [] for node in nodes}
    below: dict[str, list[str]] = {node: [] for node in nodes}
    for line in lines:
        below[line.top].append(line.bottom)
        above[line.bottom].append(line.top)
    waiting = {node: len(above[node]) for node in nodes}
    order = [node for node in nodes if not waiting[node]]
    layer = dict.fromkeys(nodes, 0)
    for node in order:  # grows while it is read
        for end in below[node]:
            layer[end] = max(layer[end], layer[node] + 1)
            waiting[end] -= 1
            if not waiting[end]:
                order.append(end)
    for _ in range(8):
        moved = False
        for node in reversed(order):
            if len(below[node]) > len(above[node]):
                lowest = min(layer[end] for end in below[node]) - 1
                moved, layer[node] = moved or layer[node] != lowest, lowest
        for node in order:
            if len(above[node]) > len(below[node]):
                highest = max(layer[end] for end in above[node]) + 1
                moved, layer[node] = moved or layer[node] != highest, highest
        if not moved:
            break
    rank = {number: k for k, number in enumerate(sorted(set(layer.values())))}
    return {node: rank[number] for node, number in layer.items()}


def crossings(layers: Sequence[Sequence[int]], below: Links) -> int:
    """Return the number of pairs of edges that cross; `below[v]` are v's neighbours in the next layer."""
    total = 0
    for upper, lower in pairwise(layers):
        place = {node: k for k, node in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            ends = sorted(place[end] for end in below[node])
            for end in ends:  # edges from earlier nodes that end further right
                total += len(seen) - bisect_right(seen, end)
            for end in ends:
                insort(seen, end)
    return total


def ordered(layers: Sequence[Sequence[int]], above: Links, below: Links) -> Layers:
    """Return the layers in an order with few crossings.

    Parameters
    ----------
    layers : sequence of sequences of int
        Nodes by layer, in a plain order.
    above, below : sequence of sequences of int
        Each node's neighbours in the layer before and in the layer after.
    """
    plain = [list(layer) for layer in layers]
    best, fewest = plain, crossings(plain, below)
    size = sum(map(len, below))
    for current in _starts(plain, below, size):
        if not fewest:
            break
        for sweep in range(_SWEEPS if size <= _LARGE else 4):
            _sort_by_neighbours(current, above if sweep % 2 == 0 else below, down=sweep % 2 == 0)
            if size <= _LARGE:
                _swap_neighbours(current, above, below)
            number = crossings(current, below)
            if number < fewest:
                best, fewest = [list(layer) for layer in current], number
    return best


def _starts(plain: Layers, below: Links, size: int) -> list[Layers]:
    if size > _LARGE:
        return [[list(layer) for layer in plain]]
    depth = {node: k for k, layer in enumerate(plain) for node in layer}
    searched: Layers = [[] for _ in plain]
    seen: set[int] = set()
    for root in (node for layer in plain for node in layer):
        waiting = [root]
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                searched[depth[node]].append(node)
                waiting += reversed(below[node])
    starts = [[list(layer) for layer in plain], searched, [layer[::-1] for layer in searched]]
    if size > _MEDIUM:
        return starts[1:2]
    if size <= _SMALL:
        generator = random.Random(0)  # its own: the same starts each time
        starts += [[generator.sample(layer, len(layer)) for layer in plain] for _ in range(_STARTS - len(starts))]
    return starts


def _sort_by_neighbours(layers: Layers, links: Links, *, down: bool) -> None:
    """Sort each layer by the mean place of its nodes' neighbours in the layer before it; others keep their places."""
    order = range(1, len(layers)) if down else range(len(layers) - 2, -1, -1)
    for k in order:
        place = {node: i for i, node in enumerate(layers[k - 1 if down else k + 1])}
        linked = [node for node in layers[k] if links[node]]
        linked.sort(key=lambda node: sum(place[end] for end in links[node]) / len(links[node]))
        following = iter(linked)
        layers[k] = [next(following) if links[node] else node for node in layers[k]]


def _swap_neighbours(layers: Layers, above: Links, below: Links) -> None:
    """Exchange neighbours in a layer while that takes away crossings, at most a few times over."""
    for _ in range(4):
        improved = False
        for k, layer in enumerate(layers):
            up = {node: i for i, node in enumerate(layers[k - 1])} if k else {}
            down = {node: i for i, node in enumerate(layers[k + 1])} if k + 1 < len(layers) else {}
            ends = [(sorted(up[e] for e in above[node]), sorted(down[e] for e in below[node])) for node in layer]
            for i in range(len(layer) - 1):
                one, other = ends[i], ends[i + 1]
                gain = sum(_pairs(one[s], other[s]) - _pairs(other[s], one[s]) for s in (0, 1))
                if gain > 0:
                    layer[i], layer[i + 1] = layer[i + 1], layer[i]
                    ends[i], ends[i + 1] = other, one
                    improved = True
        if not improved:
            return


def _pairs(left: list[int], right: list[int]) -> int:
    """Return how many edges of two nodes cross where `left` are the ends of the left one; both sorted."""
    return sum(bisect_left(right, end) for end in left)
