"""What a drawing says about each edge: weight, sign, how often it is found again, and how it stands to a target."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import networkx as nx

from privfcd import checks
from privfcd.graphs.dag import plain_digraph
from privfcd.graphs.interchange import share

Verdict = Literal["plain", "right", "open", "reversed", "wrong", "missing"]

VERDICTS: dict[Verdict, str] = {
    "right": "in the target",
    "open": "adjacent in the target, direction open",
    "reversed": "reversed",
    "wrong": "not in the target",
    "missing": "only in the target",
}


@dataclass(frozen=True)
class DrawnEdge:
    """One line of a drawing.

    Attributes
    ----------
    source, target : str
        Its ends.
    directed : bool
        Whether it has an arrowhead.
    weight : float or None
        The attribute `weight`, if it has one.
    stability : float or None
        A share in [0, 1], if one is known.
    verdict : str
        "plain" without a target; else "right", "open" (adjacent in both, directed in one), "reversed", "wrong", "missing".
    """

    source: str
    target: str
    directed: bool
    weight: float | None
    stability: float | None
    verdict: Verdict

    @property
    def negative(self) -> bool:
        """Whether the weight is below 0."""
        return self.weight is not None and self.weight < 0

    def words(self) -> str:
        """Return the edge in words."""
        text = f"{self.source} {'→' if self.directed else '–'} {self.target}"
        notes = []
        if self.weight is not None:
            notes.append(f"weight {self.weight:.4g}")
        if not self.directed and self.verdict != "missing":
            notes.append("direction not determined")
        if self.stability is not None:
            notes.append(f"stability {share(self.stability)}")
        if self.verdict != "plain":
            notes.append(VERDICTS[self.verdict])
        return f"{text}: {', '.join(notes)}" if notes else text


def drawn_edges(
    graph: nx.DiGraph[str],
    *,
    stability: Mapping[tuple[str, str], float] | None = None,
    target: nx.DiGraph[str] | None = None,
    missing: bool = True,
) -> dict[tuple[str, str], DrawnEdge]:
    """Return the lines to draw by their ends; an undirected edge has one entry, its ends sorted.

    Parameters
    ----------
    graph : networkx.DiGraph
        Two arcs with the attribute `undirected` are one edge.
    stability : mapping of (str, str) to float, optional
        Shares in [0, 1] by (cause, effect); an undirected edge may be named either way. Edges without a share have none;
        pairs that are no edge are ignored.
    target : networkx.DiGraph, optional
        What the edges are compared with. Nodes that only it has are not drawn.
    missing : bool
        Whether the target's edges between nodes that are not adjacent in the graph are listed too.

    Raises
    ------
    InvalidParameter
        Not plain DiGraphs, an undirected edge that is one arc only, a weight that is not a finite number, or a share that
        is not in [0, 1].
    """
    given = _checked("graph", graph)
    truth = None if target is None else _checked("target", target)
    shares = {} if stability is None else dict(stability)
    for pair, value in shares.items():
        if not 0 <= checks.real(f"stability of {pair!r}", value, "a share in [0, 1]") <= 1:
            raise checks.refuse(f"stability of {pair!r}", value, "a share in [0, 1]")
    edges = {}
    for i, j, data in given.edges(data=True):
        directed = not data.get("undirected")
        if not directed and i > j:
            continue
        weight = data.get("weight")
        if weight is not None:
            weight = checks.real(f"weight of {i!r} -> {j!r}", weight)
        known = shares.get((i, j))
        if not directed and known is None:
            known = shares.get((j, i))
        verdict: Verdict = "plain" if truth is None else _verdict(i, j, directed, truth)
        edges[i, j] = DrawnEdge(i, j, directed, weight, None if known is None else float(known), verdict)
    if truth is not None and missing:
        for i, j, data in truth.edges(data=True):
            drawn = i in given and j in given and i != j and not given.has_edge(i, j) and not given.has_edge(j, i)
            if drawn and not (data.get("undirected") and i > j):
                edges[i, j] = DrawnEdge(i, j, not data.get("undirected"), None, None, "missing")
    return edges


def _checked(name: str, graph: object) -> nx.DiGraph[str]:
    found = plain_digraph(name, graph)
    for i, j, data in found.edges(data=True):
        back = found.edges[j, i] if found.has_edge(j, i) else {}
        if data.get("undirected") and not back.get("undirected"):
            raise checks.refuse(name, (i, j), "a graph whose undirected edges are two arcs, both with `undirected`")
    return found


def _verdict(i: str, j: str, directed: bool, truth: nx.DiGraph[str]) -> Verdict:
    forth, back = truth.has_edge(i, j), truth.has_edge(j, i)
    if not forth and not back:
        return "wrong"
    without_direction = bool(truth.edges[(i, j) if forth else (j, i)].get("undirected"))
    if directed == without_direction:
        return "open"
    return "right" if forth or not directed else "reversed"


def largest_weight(edges: Mapping[tuple[str, str], DrawnEdge]) -> float:
    """Return the largest |weight|; 0 where all weights are 0, or all are 1, as of a graph that was a matrix of 0 and 1."""
    weights = {edge.weight for edge in edges.values() if edge.weight is not None}
    return 0.0 if weights == {1.0} else max(map(abs, weights), default=0.0)


def line_width(edge: DrawnEdge, largest: float) -> float:
    """Return the width of an edge's line in pixels, by |weight| relative to the largest."""
    if edge.verdict == "missing":
        return 1.2
    if edge.weight is None or largest == 0 or not math.isfinite(largest):
        return 1.8
    return 1.0 + 3.0 * abs(edge.weight) / largest


def opacity(edge: DrawnEdge) -> float:
    """Return how opaque an edge is drawn: fully, or by its stability from 0.3 to 1."""
    return 1.0 if edge.stability is None else 0.3 + 0.7 * edge.stability
