"""A picture of a graph, drawn in layers so that edges point down. Needs Matplotlib (extra `plot`)."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.reports.files import write_whole

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.figure import Figure

RIGHT, REVERSED, WRONG, PLAIN = "#1b7837", "#e08214", "#b2182b", "#35618f"


def draw_graph(
    graph: nx.DiGraph[str], path: str | os.PathLike[str], *, target: nx.DiGraph[str] | None = None, title: str = ""
) -> None:
    """Draw an acyclic graph, or the graph of an equivalence class, into a PNG, SVG or PDF file.

    Parameters
    ----------
    graph : networkx.DiGraph
        Acyclic; `weight` on the edges sets their width. Two arcs with the attribute `undirected` are one line
        without an arrowhead, and may be part of cycles.
    path : path
        File to write; its suffix chooses the format.
    target : networkx.DiGraph, optional
        Colours edges as right, reversed or not in the target.
    title : str
        Written above.

    Raises
    ------
    InvalidParameter
        The graph has a cycle, there is no such folder, or the file cannot be written.
    """
    import networkx as nx

    shown = _one_way(graph)
    layers = [sorted(layer) for layer in nx.topological_generations(shown)]
    place = {
        node: (index - (len(layer) - 1) / 2 + 0.23 * (depth % 2), -float(depth))
        for depth, layer in enumerate(layers)
        for index, node in enumerate(layer)
    }
    widest = max((len(layer) for layer in layers), default=1)
    figure = new_figure((max(5.0, 1.5 * widest), max(3.5, 1.3 * len(layers))))
    from matplotlib.patches import FancyArrowPatch

    axes = figure.add_subplot()
    largest = max((abs(weight) for *_, weight in shown.edges(data="weight", default=1.0)), default=1.0) or 1.0
    for source, sink, attributes in shown.edges(data=True):
        weight = attributes.get("weight", 1.0)
        bend = 0.0 if place[source][1] - place[sink][1] == 1 else 0.18
        axes.add_patch(
            FancyArrowPatch(
                place[source],
                place[sink],
                arrowstyle="-" if attributes.get("undirected") else "-|>",
                mutation_scale=14,
                shrinkA=16,
                shrinkB=16,
                connectionstyle=f"arc3,rad={bend}",
                linewidth=0.8 + 2.4 * abs(weight) / largest,
                color=_colour(source, sink, target),
            )
        )
    for node, (x, y) in place.items():
        axes.text(
            x, y, node, ha="center", va="center", fontsize=10, parse_math=False,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": "#555555"},
        )  # fmt: skip
    _frame(axes, place.values())
    if target is not None:
        for label, colour in (("in the target", RIGHT), ("reversed", REVERSED), ("not in the target", WRONG)):
            axes.plot([], [], color=colour, label=label)
        axes.legend(loc="lower right", fontsize=8, frameon=False)
    if title:
        axes.set_title(title, fontsize=11, parse_math=False)
    save_figure(figure, path)


def _one_way(graph: nx.DiGraph[str]) -> nx.DiGraph[str]:
    """Return the graph with each undirected edge as one arc along an order of the directed ones."""
    import networkx as nx

    directed: nx.DiGraph[str] = nx.DiGraph()
    directed.add_nodes_from(graph)
    directed.add_edges_from((i, j, data) for i, j, data in graph.edges(data=True) if not data.get("undirected"))
    if not nx.is_directed_acyclic_graph(directed):
        raise checks.refuse("graph", graph, "acyclic")
    order = {node: place for place, node in enumerate(nx.lexicographical_topological_sort(directed))}
    for i, j, data in graph.edges(data=True):
        if data.get("undirected") and order[i] < order[j]:
            directed.add_edge(i, j, **data)
    return directed


def new_figure(size: tuple[float, float]) -> Figure:
    """Return an empty figure of `size` inches, without touching pyplot's state."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InvalidParameter("a picture needs Matplotlib: pip install 'privfcd[plot]'") from error
    return Figure(figsize=size, layout="constrained")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure, whole or not at all, in the format that the suffix says."""
    kind = Path(path).suffix.lower().removeprefix(".")
    if kind not in figure.canvas.get_supported_filetypes():
        raise checks.refuse("path", os.fspath(path), "a file that ends in .png, .svg or .pdf")
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=150)
    write_whole(path, picture.getvalue())


def _colour(source: str, sink: str, target: nx.DiGraph[str] | None) -> str:
    if target is None:
        return PLAIN
    if target.has_edge(source, sink):
        return RIGHT
    return REVERSED if target.has_edge(sink, source) else WRONG


def _frame(axes: Any, places: Iterable[tuple[float, float]]) -> None:
    points = list(places) or [(0.0, 0.0)]
    xs, ys = [x for x, _ in points], [y for _, y in points]
    axes.set_xlim(min(xs) - 0.8, max(xs) + 0.8)
    axes.set_ylim(min(ys) - 0.6, max(ys) + 0.6)
    axes.set_axis_off()
