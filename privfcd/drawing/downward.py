"""Every edge of a graph as a line from an upper layer to a lower one, and each node's layer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import networkx as nx

from privfcd import checks


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
