"""Pictures of graphs: written in every format, whatever the names."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import pytest

from privfcd.drawing import draw_graph, graph_svg
from privfcd.drawing.picture import painted
from privfcd.drawing.svg import LIGHT

SIGNS = {".png": b"\x89PNG", ".svg": b"<svg", ".pdf": b"%PDF"}


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
    target = nx.DiGraph([("a", "b"), ("c", "b"), ("d", "a"), ("b", "d"), ("alone", "a")])  # with a cycle, as Sachs
    target.add_nodes_from(graph())
    path = tmp_path / "graph.svg"
    draw_graph(graph(), path, target=target)
    text = path.read_text()
    assert all(f'stroke="{LIGHT[verdict]}"' in text for verdict in ("right", "reversed", "wrong", "missing"))
    assert f'stroke="{LIGHT["edge"]}"' not in text
    for label in ("in the target (1)", "reversed (2)", "not in the target (2)", "only in the target (2)"):
        assert f">{label}</text>" in text
    draw_graph(graph(), path)
    plain = path.read_text()
    assert f'stroke="{LIGHT["edge"]}"' in plain and f'stroke="{LIGHT["right"]}"' not in plain


def test_everything_of_the_drawing_is_painted() -> None:
    """Each shape and text of the SVG is in Matplotlib's figure: none of a kind that the painter does not know."""
    target = nx.DiGraph([("a", "b"), ("c", "b"), ("d", "a"), ("b", "d"), ("alone", "a")])
    target.add_edges_from([("c", "d"), ("d", "c")], undirected=True)
    target.add_nodes_from(graph())
    text = graph_svg(graph(), target=target, title="T", stability={("a", "b"): 0.5})
    (axes,) = painted(text).axes
    tags = [element.tag.rpartition("}")[2] for element in ElementTree.fromstring(text).iter()]
    unseen = text.count("pg-touch") - 1 + text.count('class="pg-paper"')  # one is in the style sheet
    shapes = sum(tags.count(kind) for kind in ("path", "polygon", "circle", "rect")) - unseen
    assert set(tags) == {"svg", "title", "desc", "style", "g", "path", "polygon", "circle", "rect", "text"}
    assert len(axes.patches) == shapes > 20
    assert len(axes.texts) == tags.count("text") and "T" in [shown.get_text() for shown in axes.texts]


def test_stability_is_drawn_and_written(tmp_path: Path) -> None:
    path = tmp_path / "graph.svg"
    draw_graph(graph(), path, stability={("a", "b"): 0.5, ("b", "c"): 1.0})
    text = path.read_text()
    assert 'opacity="0.65"' in text and ">the fainter, the less stable (%)</text>" in text
    draw_graph(graph(), path)
    assert 'opacity="0.65"' not in path.read_text()


def test_undirected_edges_and_cycles_are_drawn(tmp_path: Path) -> None:
    made = nx.DiGraph([("a", "b"), ("b", "c"), ("c", "a")])
    made.add_edge("c", "d", undirected=True)
    made.add_edge("d", "c", undirected=True)
    draw_graph(made, tmp_path / "graph.svg")
    assert ">direction not determined</text>" in (tmp_path / "graph.svg").read_text()


def test_names_fit_their_boxes() -> None:
    """The estimate of widths, held against Matplotlib's own font; names in capitals and with wide letters too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from privfcd.drawing.labels import text_width

    figure = Figure(dpi=72)
    renderer = FigureCanvasAgg(figure).get_renderer()
    for name in (
        "p44/42",
        "systolic_pressure_mmHg",
        "CVP",
        "WWW_MMM@%",
        "illicit",
        "Größe µ",
        "a_b^c 1234567890",
        "ЖШЩЮ давление",
    ):
        shown = figure.text(0, 0, name, fontsize=13, parse_math=False).get_window_extent(renderer).width
        assert shown <= text_width(name, 13) * 1.02 + 1 <= shown * 1.6 + 8, name


@pytest.mark.parametrize("nodes", [[], ["a"], [f"v{k}" for k in range(60)]], ids=len)
def test_graphs_without_edges_can_be_drawn(tmp_path: Path, nodes: list[str]) -> None:
    empty = nx.DiGraph()
    empty.add_nodes_from(nodes)
    draw_graph(empty, tmp_path / "empty.png")
    assert (tmp_path / "empty.png").stat().st_size > 200


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

    with pytest.raises(InvalidParameter, match="from a node to itself"):
        draw_graph(nx.DiGraph([("a", "a")]), tmp_path / "graph.png")
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
