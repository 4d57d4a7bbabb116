"""The table of edges: weights, what the noise makes of them, and where they are in a target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from privfcd.drawing.edges import VERDICTS, drawn_edges
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.dag import is_acyclic
from privfcd.graphs.metrics import GraphMetrics, PdagMetrics, compare, compare_pdags
from privfcd.reports.html.wording import printable

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True)
class EdgeRow:
    """One edge of the graph; None is what is not known.

    Attributes
    ----------
    source, sink : str
        Its ends.
    directed : bool
    weight, low, high : float or None
        The weight, and the interval that the noise leaves of it.
    frequency, adjacency, noise_alone : float or None
        Shares of reruns or rounds, see `EdgeStability`: with this edge, with these ends adjacent, and on noise alone.
    verdict : str
        How it stands to the target, in words; empty without one.
    tested : bool
        False where no test could say anything of the edge.
    """

    source: str
    sink: str
    directed: bool
    weight: float | None
    low: float | None
    high: float | None
    frequency: float | None
    adjacency: float | None
    noise_alone: float | None
    verdict: str
    tested: bool = True


@dataclass(frozen=True)
class Comparison:
    """The graph against a target: numbers, the same against its class where edges are undirected, and what is missing.

    Of the target: how many pairs of variables it joins, and how many of these without a direction.
    """

    metrics: GraphMetrics
    classes: PdagMetrics | None
    missed: Sequence[tuple[str, str]]
    pairs: int
    undirected: int


def edge_rows(
    graph: nx.DiGraph[Any],
    stability: Any = None,
    target: nx.DiGraph[Any] | None = None,
    untested: Iterable[tuple[str, str]] = (),
) -> list[EdgeRow]:
    """Return the edges, the strongest first.

    Parameters
    ----------
    graph : networkx.DiGraph
        What was learnt.
    stability : EdgeStability, optional
        Of the fitted model.
    target : networkx.DiGraph, optional
        A graph to compare with.
    untested : iterable of (str, str)
        The model's `untested_`.
    """
    unsure = {frozenset(pair) for pair in untested}
    sure: dict[tuple[Any, Any], Mapping[str, Any]] = {}
    for row in () if stability is None else stability.rows(graph):
        sure[row["from"], row["to"]] = row
    rows = []
    for (source, sink), edge in drawn_edges(graph, target=target, missing=False).items():
        known = sure.get((source, sink)) or sure.get((sink, source)) or {}
        low, high, frequency, adjacency, alone = (
            _number(known.get(name)) for name in ("low", "high", "frequency", "adjacency", "noise_alone")
        )
        words = VERDICTS.get(edge.verdict, "")
        names = printable(source), printable(sink)
        tested = frozenset((source, sink)) not in unsure
        rows.append(EdgeRow(*names, edge.directed, edge.weight, low, high, frequency, adjacency, alone, words, tested))
    return sorted(rows, key=lambda row: (-abs(row.weight or 0.0), -(row.frequency or 0.0)))


def _number(value: Any) -> float | None:
    return None if value is None or value != value else float(value)


def against(target: nx.DiGraph[Any], graph: nx.DiGraph[Any]) -> Comparison:
    """Return the comparison; with the target's equivalence class too, where the graph leaves edges undirected.

    Raises
    ------
    InvalidParameter
        The graphs are on different variables, or one has a self-loop.
    """
    metrics = compare(target, graph)
    drawn = drawn_edges(graph, target=target).values()
    missed = [(printable(edge.source), printable(edge.target)) for edge in drawn if edge.verdict == "missing"]
    classes = None
    if any(data.get("undirected") for *_, data in graph.edges(data=True)):
        nodes = list(graph)
        true, found = ([[int(one.has_edge(i, j)) for j in nodes] for i in nodes] for one in (target, graph))
        if is_acyclic(true):
            classes = compare_pdags(dag_to_cpdag(true), found)
    pairs = {frozenset(ends) for ends in target.edges}
    undirected = {frozenset(ends) for *ends, data in target.edges(data=True) if data.get("undirected")}
    return Comparison(metrics, classes, missed, len(pairs), len(undirected))
