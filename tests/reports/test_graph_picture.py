"""Pictures of graphs: written in every format, whatever the names."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest

from privfcd.reports import draw_graph

SIGNS = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


def graph() -> nx.DiGraph:
    made = nx.DiGraph()
    made.add_nodes_from(["a", "b", "c", "d", "alone"])
    made.add_weighted_edges_from([("a", "b", 1.5), ("b", "c", -0.4), ("a", "c", 0.0), ("c", "d", 2.0), ("a", "d", 1)])
    return made


@pytest.mark.parametrize("suffix", list(SIGNS))
def test_pictures_are_of_the_format_that_the_suffix_says(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"graph{suffix}"
    draw_graph(graph(), path, title="A title")
    assert path.read_bytes().startswith(SIGNS[suffix]) and path.stat().st_size > 1000


def test_edges_are_coloured_by_the_target(tmp_path: Path) -> None:
    from privfcd.reports.graph_picture import PLAIN, REVERSED, RIGHT, WRONG

    target = nx.DiGraph([("a", "b"), ("c", "b"), ("d", "a"), ("b", "d")])  # with a cycle, as the Sachs target
    target.add_nodes_from(graph())
    path = tmp_path / "graph.svg"
    draw_graph(graph(), path, target=target)
    text = path.read_text()
    assert all(colour in text for colour in (RIGHT, REVERSED, WRONG)) and PLAIN not in text
    for label in ("in the target", "reversed", "not in the target"):
        assert label in text
    draw_graph(graph(), path)
    assert PLAIN in path.read_text() and RIGHT not in path.read_text()


@pytest.mark.parametrize("nodes", [[], ["a"], [f"v{k}" for k in range(60)]], ids=len)
def test_graphs_without_edges_can_be_drawn(tmp_path: Path, nodes: list[str]) -> None:
    empty = nx.DiGraph()
    empty.add_nodes_from(nodes)
    draw_graph(empty, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 500


def test_drawing_leaves_matplotlibs_state_alone(tmp_path: Path) -> None:
    import matplotlib
    from matplotlib import pyplot

    backend, figures = matplotlib.get_backend(), pyplot.get_fignums()
    draw_graph(graph(), tmp_path / "graph.png")
    assert matplotlib.get_backend() == backend and pyplot.get_fignums() == figures


@pytest.mark.parametrize("name", ["conc[mg/L]", "50 %", "a_b^c", "cost in $", "ŝ µ", "<b>&"])
def test_names_are_texts_and_not_markup(tmp_path: Path, name: str) -> None:
    named = nx.DiGraph([(name, "y")])
    draw_graph(named, tmp_path / "graph.svg")
    draw_graph(named, tmp_path / "graph.png")


def test_dollars_are_dollars(tmp_path: Path) -> None:
    draw_graph(nx.DiGraph([("$\\fr$", "price $ per $")]), tmp_path / "graph.png")


def test_a_folder_that_is_not_there_is_refused_by_name(tmp_path: Path) -> None:
    from privfcd.errors import PrivfcdError

    try:
        draw_graph(graph(), tmp_path / "nowhere" / "graph.png")
    except PrivfcdError:
        return


def test_titles_are_texts_and_not_mathematics(tmp_path: Path) -> None:
    draw_graph(graph(), tmp_path / "graph.svg", title="$\\fr$ per $")


def test_graphs_that_cannot_be_drawn_are_refused(tmp_path: Path) -> None:
    from privfcd.errors import InvalidParameter

    with pytest.raises(InvalidParameter, match="graph must be acyclic"):
        draw_graph(nx.DiGraph([("a", "b"), ("b", "a")]), tmp_path / "graph.png")
    with pytest.raises(InvalidParameter, match=r"must be a file that ends in \.png"):
        draw_graph(graph(), tmp_path / "graph.doc")
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(InvalidParameter, match="cannot be written"):
        draw_graph(graph(), tmp_path / "taken.png")
    assert [path.name for path in tmp_path.iterdir()] == ["taken.png"], "nothing is left behind"


def test_weights_of_zero_can_be_drawn(tmp_path: Path) -> None:
    zero = nx.DiGraph()
    zero.add_edge("a", "b", weight=0.0)
    draw_graph(zero, tmp_path / "graph.png")
