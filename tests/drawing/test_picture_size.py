"""Graphs that are too large for a picture are refused at once, and reports go without one."""

from __future__ import annotations

from itertools import combinations, pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from privfcd.algorithms.equal_variance import EqualVarianceSearch
from privfcd.algorithms.results import store_graph, store_privacy, store_released
from privfcd.drawing import draw_graph
from privfcd.drawing import picture as graph_picture
from privfcd.drawing.layers import MOST_LINES, MOST_NODES, MOST_STEPS, PictureTooLarge, layered
from privfcd.drawing.order import downward, layer_numbers
from privfcd.drawing.svg import graph_svg
from privfcd.errors import InvalidParameter
from privfcd.graphs import write_graph
from privfcd.reports import report_html


def path(nodes: int) -> nx.DiGraph[str]:
    return nx.DiGraph(pairwise(f"v{k:04d}" for k in range(nodes)))


def long_lines(nodes: int) -> nx.DiGraph[str]:
    """A path, and lines from its first nodes to its last ones."""
    graph = path(nodes)
    names = sorted(graph)
    graph.add_edges_from((one, other) for one in names[:14] for other in names[-14:])
    return graph


def refused(graph: nx.DiGraph[str], words: str) -> None:
    for draw in (graph_svg, lambda graph: draw_graph(graph, "picture.png")):
        with pytest.raises(InvalidParameter, match=words):
            draw(graph)


def test_too_many_nodes_lines_or_steps_are_refused_at_once_and_said() -> None:
    many: nx.DiGraph[str] = nx.DiGraph()
    many.add_nodes_from(f"v{k}" for k in range(50_000))
    refused(many, r"at most 1,000 nodes to be drawn, got 50,000.*graph.subgraph\(names\), or write it with write_graph")
    refused(nx.DiGraph(combinations([f"v{k}" for k in range(500)], 2)), "at most .* edges to be drawn, got 124,750")
    refused(nx.DiGraph(combinations([f"v{k}" for k in range(100)], 2)), "at most 4,000 lines to be drawn, got 4,950")
    refused(long_lines(200), "at most 15,000 steps from layer to layer along its lines")


def test_the_limits_are_on_what_is_counted() -> None:
    graph = long_lines(90)
    lines = downward(graph)
    layer = layer_numbers(sorted(graph), lines)
    steps = sum(layer[line.bottom] - layer[line.top] for line in lines)
    assert MOST_STEPS * 0.9 < steps <= MOST_STEPS and len(graph) <= MOST_NODES and len(lines) <= MOST_LINES
    layered(graph)
    with pytest.raises(PictureTooLarge):
        layered(long_lines(100))


def fitted(graph: nx.DiGraph[str], names: list[str]) -> EqualVarianceSearch:
    model = EqualVarianceSearch()
    store_graph(model, np.asarray(nx.to_numpy_array(graph, names)), 0.0, names)
    store_privacy(model, None)
    store_released(model)
    return model


def test_of_very_many_variables_those_with_edges_are_drawn() -> None:
    graph = path(12)
    names = [f"v{k:04d}" for k in range(1000)]
    graph.add_nodes_from(names)
    page = report_html(fitted(graph, names))
    assert (
        page.count("<svg") >= 1
        and "Graph of 12 variables" in page
        and "Not drawn: 988 variables without edges." in page
    )
    missing = nx.DiGraph([("v0500", "v0501")])
    missing.add_nodes_from(names)
    page = report_html(fitted(graph, names), target=missing)
    assert "Graph of 14 variables" in page and "Not drawn: 986 variables" in page
    few = fitted(path(12), names[:12])
    assert "Not drawn" not in report_html(few)
    empty = report_html(fitted(nx.empty_graph(names, create_using=nx.DiGraph), names))
    assert "too large to be drawn here" in empty


@pytest.mark.parametrize("graph", [path(1001), long_lines(110)], ids=["many nodes", "long lines"])
def test_a_report_goes_without_the_picture_and_lists_the_edges(graph: nx.DiGraph[str], tmp_path: Path) -> None:
    names = sorted(graph)
    model = fitted(graph, names)
    page = report_html(model)
    assert "too large to be drawn here" in page and names[-1] in page
    assert "too many to draw here" in model._repr_html_()
    write_graph(model.causal_graph_, tmp_path / "graph.graphml")


def test_a_wide_picture_has_fewer_pixels_an_inch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.image import imread

    graph = path(12)
    draw_graph(graph, tmp_path / "sharp.png")
    monkeypatch.setattr(graph_picture, "_MOST_PIXELS", 1e5)
    draw_graph(graph, tmp_path / "coarse.png")
    sharp, coarse = (imread(tmp_path / name).shape for name in ("sharp.png", "coarse.png"))
    assert sharp[0] * sharp[1] > 2e5 and 0.9e5 < coarse[0] * coarse[1] <= 1.1e5
    assert sharp[0] / sharp[1] == pytest.approx(coarse[0] / coarse[1], rel=0.02)
