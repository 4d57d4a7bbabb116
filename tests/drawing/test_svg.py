"""The SVG of a graph: well-formed whatever the names, self-contained, and it says what the edges are."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.drawing.edges import drawn_edges, line_width, opacity
from privfcd.drawing.svg import DARK, LIGHT, graph_svg
from privfcd.errors import InvalidParameter
from privfcd.graphs.interchange import share

UNICODE = st.characters(exclude_categories=["Cs"])
SVG = "{http://www.w3.org/2000/svg}"
HARD = [
    "<script>alert(1)</script>",
    "a\"b'c",
    "&amp;",
    "x" * 200,
    "😀",
    "a\nb",
    "\x00\x07",
    "]]>",
    "</style>",
    "Größe µ",
]


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)


def titles(text: str) -> list[str]:
    return [element.text or "" for element in parsed(text).iter(f"{SVG}title")]


def words(text: str) -> list[str]:
    return [element.text or "" for element in parsed(text).iter(f"{SVG}text")]


def graph() -> nx.DiGraph:
    made: nx.DiGraph = nx.DiGraph()
    made.add_weighted_edges_from([("a", "b", 1.5), ("b", "c", -0.4), ("a", "c", 0.0)])
    made.add_edge("c", "d", undirected=True)
    made.add_edge("d", "c", undirected=True)
    return made


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.one_of(st.sampled_from(HARD), st.text(UNICODE, min_size=1, max_size=30)), min_size=1, max_size=6, unique=True
    )
)
def test_any_names_make_well_formed_xml_and_stay_texts(names: list[str]) -> None:
    made: nx.DiGraph = nx.DiGraph()
    made.add_nodes_from(names)
    nx.add_path(made, names, weight=-1.0)
    text = graph_svg(made, title=names[0], target=made, stability=dict.fromkeys(made.edges, 0.5))
    root = parsed(text)
    allowed = {"svg", "title", "desc", "style", "rect", "g", "path", "polygon", "circle", "text"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= allowed
    assert all(not key.startswith("on") and "href" not in key for element in root.iter() for key in element.attrib)


def test_names_are_shown_whole_in_tooltips() -> None:
    long = "x" * 200
    text = graph_svg(nx.DiGraph([(long, "<b>&")]))
    assert long in titles(text) and any(len(shown) < 40 and "…" in shown for shown in words(text))
    assert "<b>&" in words(text)


def test_it_is_self_contained_and_shares_a_page() -> None:
    text = graph_svg(graph(), title="T", target=graph())
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    for barred in (" id=", "url(", "@import", "@font-face", "<script", "href", "<image", "foreignObject"):
        assert barred not in text
    assert graph_svg(graph(), title="T", target=graph()) == text


def test_it_is_accessible_and_scales() -> None:
    root = parsed(graph_svg(graph(), title="My graph"))
    assert root.get("role") == "img" and root.get("aria-label") == "My graph"
    assert root[0].tag == f"{SVG}title" and root[0].text == "My graph"
    assert root[1].tag == f"{SVG}desc" and "a → b: weight 1.5" in str(root[1].text)
    assert "c – d: direction not determined" in str(root[1].text) and "4 variables, 4 edges." in str(root[1].text)
    assert "max-width:100%" in str(root.get("style"))
    _, _, width, height = map(float, str(root.get("viewBox")).split())
    assert float(str(root.get("width"))) == width and height > 100
    assert parsed(graph_svg(graph())).get("aria-label") == "Graph of 4 variables"
    assert parsed(graph_svg(graph(), width=300)).get("width") == "300"
    assert parsed(graph_svg(graph(), width="100%")).get("width") == "100%"


def test_weights_set_width_dash_and_text() -> None:
    edges = drawn_edges(graph())
    assert line_width(edges["a", "b"], 1.5) > line_width(edges["b", "c"], 1.5) > line_width(edges["a", "c"], 1.5) > 0
    text = graph_svg(graph())
    assert "a → b: weight 1.5" in titles(text) and {"1.5", "−0.4", "0"} <= set(words(text))
    assert {"positive weight", "negative weight", "direction not determined"} <= set(words(text))
    assert "1.5" not in words(graph_svg(graph(), weights=False))
    assert "positive weight" not in words(graph_svg(graph(), legend=False))
    dashed = [
        g for g in parsed(text).iter(f"{SVG}g") if any(p.get("stroke-dasharray") for p in g.findall(f"{SVG}path"))
    ]
    named = [g.findtext(f"{SVG}title") for g in dashed]
    assert [name for name in named if name] == ["b → c: weight -0.4"]


def test_weights_that_are_all_one_are_not_written() -> None:
    made = nx.DiGraph()
    made.add_weighted_edges_from([("a", "b", 1.0), ("b", "c", 1)])
    assert set(words(graph_svg(made))) == {"a", "b", "c"}
    assert "100 %" in words(graph_svg(made, stability={("a", "b"): 1.0}))
    assert "a → b: weight 1" in titles(graph_svg(made))


def test_undirected_edges_have_no_arrowhead_and_directed_ones_do() -> None:
    heads = {
        g.findtext(f"{SVG}title"): len(g.findall(f"{SVG}polygon"))
        for g in parsed(graph_svg(graph())).iter(f"{SVG}g")
        if g.findtext(f"{SVG}title")
    }
    assert heads["a → b: weight 1.5"] == 1 and heads["c – d: direction not determined"] == 0
    assert len(heads) == 4


def test_stability_is_seen_and_said() -> None:
    shares = {("a", "b"): 1.0, ("b", "c"): 0.0, ("d", "c"): 0.25, ("nobody", "a"): 0.5}
    edges = drawn_edges(graph(), stability=shares)
    assert (edges["a", "b"].stability, edges["c", "d"].stability, edges["a", "c"].stability) == (1.0, 0.25, None)
    assert opacity(edges["a", "b"]) == 1 > opacity(edges["c", "d"]) > opacity(edges["b", "c"]) >= 0.3
    text = graph_svg(graph(), stability=shares)
    assert "c – d: direction not determined, stability 25 %" in titles(text)
    assert "1.5 (100 %)" in words(text) and any("less stable" in shown for shown in words(text))
    assert [share(value) for value in (0.0, 0.001, 0.5, 0.999, 1.0)] == ["0 %", "< 1 %", "50 %", "> 99 %", "100 %"]


def test_edges_are_judged_by_the_target() -> None:
    made = nx.DiGraph([("a", "b"), ("c", "b"), ("a", "d"), ("d", "e")])
    made.add_edge("e", "f", undirected=True)
    made.add_edge("f", "e", undirected=True)
    target = nx.DiGraph([("a", "b"), ("b", "c"), ("e", "f"), ("a", "c"), ("x", "a")])
    target.add_edge("d", "e", undirected=True)
    target.add_edge("e", "d", undirected=True)
    target.add_edge("f", "b", undirected=True)
    target.add_edge("b", "f", undirected=True)
    found = {ends: edge.verdict for ends, edge in drawn_edges(made, target=target).items()}
    assert found == {
        ("a", "b"): "right",
        ("c", "b"): "reversed",
        ("a", "d"): "wrong",
        ("d", "e"): "open",
        ("e", "f"): "open",
        ("a", "c"): "missing",
        ("b", "f"): "missing",
    }
    text = graph_svg(made, target=target)
    for label in ("in the target (1)", "reversed (1)", "not in the target (1)", "only in the target (2)"):
        assert label in words(text)
    assert "adjacent in the target, direction open (2)" in words(text)
    assert "a → c: only in the target" in titles(text)
    assert not any("only in the target" in title for title in titles(graph_svg(made, target=target, missing=False)))
    same = {edge.verdict for edge in drawn_edges(target, target=target).values()}
    assert same == {"right"}


def test_cycles_of_a_target_are_drawn() -> None:
    cyclic = nx.DiGraph([("a", "b"), ("b", "a"), ("b", "c"), ("c", "a")])
    assert len([t for t in titles(graph_svg(cyclic)) if "→" in t]) == 4
    empty: nx.DiGraph = nx.DiGraph()
    empty.add_nodes_from("abc")
    assert len([t for t in titles(graph_svg(empty, target=cyclic)) if "only in the target" in t]) == 4


def test_long_graphs_are_described_in_part() -> None:
    many = nx.DiGraph([(f"v{i}", f"v{j}") for i in range(25) for j in range(i + 1, 25)])
    assert "and 100 more" in str(parsed(graph_svg(many))[1].text)
    assert "0 variables, 0 edges." in str(parsed(graph_svg(nx.DiGraph()))[1].text)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_can_be_read(colours: dict[str, str]) -> None:
    """WCAG 2.1: 4.5 for texts, 3 for graphics."""

    def contrast(one: str, other: str) -> float:
        low, high = sorted((luminance(colours[one]), luminance(colours[other])))
        return (high + 0.05) / (low + 0.05)

    assert contrast("ink", "paper") > 7 and contrast("ink", "node") > 7
    for name in ("edge", "right", "open", "reversed", "wrong", "missing"):
        assert contrast(name, "paper") > 3
    style = graph_svg(graph()).split("<style>")[1].split("</style>")[0]
    assert "prefers-color-scheme:dark" in style and "screen" in style
    assert set(re.findall(r"--pg-(\w+):", style)) == set(LIGHT) == set(DARK)


@pytest.mark.parametrize("width", [0, -3, float("nan"), "0", "wide", "100%;x", '1"', "", True])
def test_widths_that_are_no_lengths_are_refused(width: object) -> None:
    with pytest.raises(InvalidParameter, match="width"):
        graph_svg(graph(), width=width)  # type: ignore[arg-type]


def test_other_arguments_are_checked() -> None:
    for shares in ({("a", "b"): 1.5}, {("a", "b"): float("nan")}, {("a", "b"): "much"}):
        with pytest.raises(InvalidParameter, match="share in"):
            graph_svg(graph(), stability=shares)  # type: ignore[dict-item]
    bad = nx.DiGraph()
    bad.add_edge("a", "b", weight="big")
    with pytest.raises(InvalidParameter, match="weight of 'a' -> 'b'"):
        graph_svg(bad)
    with pytest.raises(InvalidParameter, match="target"):
        graph_svg(graph(), target=nx.Graph())  # type: ignore[arg-type]


@pytest.mark.parametrize("ends", [("a", "b"), ("b", "a")])
def test_half_an_undirected_edge_is_refused(ends: tuple[str, str]) -> None:
    half: nx.DiGraph[str] = nx.DiGraph()
    half.add_edge(*ends, undirected=True)
    whole = nx.DiGraph([ends])
    for arguments in ({"graph": half}, {"graph": whole, "target": half}):
        with pytest.raises(InvalidParameter, match="two arcs, both with `undirected`"):
            graph_svg(**arguments)
