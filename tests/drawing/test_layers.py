"""Layered drawings: nothing overlaps, lines keep clear of names, arrows point down, and few lines cross."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise, permutations, product

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.drawing.curves import point_at, points_along, without_end
from privfcd.drawing.labels import shortened, text_width
from privfcd.drawing.layers import Layout, layered
from privfcd.drawing.order import crossings, downward, layer_numbers, ordered
from privfcd.errors import InvalidParameter
from privfcd.markup import writable

names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> nx.DiGraph:
    """Partially directed graphs, with cycles or without."""
    nodes = draw(st.lists(names, min_size=1, max_size=most, unique=True))
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(nodes)
    acyclic = draw(st.booleans())
    pairs = list(combinations(nodes, 2))
    for i, j in draw(st.lists(st.sampled_from(pairs), max_size=16, unique=True)) if pairs else []:
        kind = draw(st.sampled_from(["forth", "undirected"] if acyclic else ["forth", "back", "both", "undirected"]))
        if kind == "undirected":
            graph.add_edge(i, j, undirected=True)
            graph.add_edge(j, i, undirected=True)
        if kind in ("forth", "both"):
            graph.add_edge(i, j)
        if kind in ("back", "both"):
            graph.add_edge(j, i)
    return graph


def random_dag(nodes: int, edges: int, seed: int, name: str = "V{}") -> nx.DiGraph:
    generator = np.random.default_rng(seed)
    graph: nx.DiGraph = nx.DiGraph()
    graph.add_nodes_from(name.format(k) for k in range(nodes))
    pairs = list(combinations(range(nodes), 2))
    for k in generator.choice(len(pairs), size=edges, replace=False):
        i, j = pairs[k]
        graph.add_edge(name.format(i), name.format(j), weight=float(generator.normal()))
    return graph


def check(layout: Layout, graph: nx.DiGraph) -> None:
    """Assert what every drawing must keep."""
    boxes = list(layout.boxes.items())
    assert set(layout.boxes) == set(graph)
    for _, box in boxes:
        assert box.x - box.width / 2 >= -1e-6 and box.x + box.width / 2 <= layout.width + 1e-6
        assert box.y - box.height / 2 >= -1e-6 and box.y + box.height / 2 <= layout.height + 1e-6
        assert text_width(box.text, 13.0) < box.width
    for (_, one), (_, other) in combinations(boxes, 2):
        apart_x = abs(one.x - other.x) - (one.width + other.width) / 2
        apart_y = abs(one.y - other.y) - (one.height + other.height) / 2
        assert max(apart_x, apart_y) > 15
    for route in layout.routes:
        points = points_along(route.curves, 12)
        start, end = layout.boxes[route.source], layout.boxes[route.target]
        assert start.holds(points[0], 1e-6) and end.holds(points[-1], 1e-6)
        for name, box in boxes:
            if name not in (route.source, route.target):
                assert not any(box.holds(point, 3.0) for point in points)
            else:
                assert not any(box.holds(point, -0.5) for point in points)
        for one, other in combinations(route.curves, 2):
            if one is not other and route.curves.index(other) == route.curves.index(one) + 1:
                assert one[3] == other[0]


@settings(deadline=None, max_examples=80)
@given(graphs(), st.randoms(use_true_random=False))
def test_nothing_overlaps_and_the_order_of_insertion_does_not_matter(graph: nx.DiGraph, random: object) -> None:
    layout = layered(graph)
    check(layout, graph)
    arrows = {(i, j) for i, j, data in graph.edges(data=True) if not data.get("undirected")}
    linked = {frozenset((i, j)) for i, j, data in graph.edges(data=True) if data.get("undirected")}
    assert {(r.source, r.target) for r in layout.routes if r.kind == "directed"} == arrows
    assert {frozenset((r.source, r.target)) for r in layout.routes if r.kind == "undirected"} == linked
    assert len(layout.routes) == len(arrows) + len(linked)
    mixed: nx.DiGraph = nx.DiGraph()
    nodes, edges = list(graph), list(graph.edges(data=True))
    random.shuffle(nodes)  # type: ignore[attr-defined]
    random.shuffle(edges)  # type: ignore[attr-defined]
    mixed.add_nodes_from(nodes)
    mixed.add_edges_from(edges)
    assert layered(mixed) == layout


@settings(deadline=None, max_examples=60)
@given(graphs())
def test_arrows_of_acyclic_graphs_point_down(graph: nx.DiGraph) -> None:
    arrows: nx.DiGraph = nx.DiGraph([(i, j) for i, j, data in graph.edges(data=True) if not data.get("undirected")])
    upward = 0
    for route in layered(graph).routes:
        ys = [y for _, y in points_along(route.curves)]
        down = all(a < b for a, b in pairwise(ys))
        assert down or all(a > b for a, b in pairwise(ys))
        upward += route.kind == "directed" and not down
    if nx.is_directed_acyclic_graph(arrows):
        assert upward == 0
    else:
        assert 0 < upward <= arrows.number_of_edges() / 2


@pytest.mark.parametrize("seed", range(6))
def test_larger_graphs(seed: int) -> None:
    graph = random_dag(37, 46, seed, "variable_{}")
    check(layered(graph), graph)


def plain_layers(graph: nx.DiGraph) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """Return layers in the plain order and neighbours above and below, with dummies, by the definition."""
    nodes = sorted(graph)
    lines = downward(graph)
    layer = layer_numbers(nodes, lines)
    layers: list[list[int]] = [[] for _ in range(max(layer.values()) + 1)]
    for k, node in enumerate(nodes):
        layers[layer[node]].append(k)
    links, count = [], len(nodes)
    for line in lines:
        chain = [nodes.index(line.top)]
        for depth in range(layer[line.top] + 1, layer[line.bottom]):
            layers[depth].append(count)
            chain.append(count)
            count += 1
        links += list(zip(chain, [*chain[1:], nodes.index(line.bottom)], strict=True))
    above: list[list[int]] = [[b for b, e in links if e == k] for k in range(count)]
    below: list[list[int]] = [[e for b, e in links if b == k] for k in range(count)]
    return layers, above, below


def crossings_by_definition(layers: list[list[int]], below: list[list[int]]) -> int:
    place = {node: k for layer in layers for k, node in enumerate(layer)}
    total = 0
    for layer in layers:
        links = [(place[node], place[end]) for node in layer for end in below[node]]
        total += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(links, 2))
    return total


def test_crossings_are_counted_by_their_definition_and_never_grow() -> None:
    for seed in range(40):
        layers, above, below = plain_layers(random_dag(8, 12, seed))
        assert crossings(layers, below) == crossings_by_definition(layers, below)
        best = ordered(layers, above, below)
        assert [sorted(layer) for layer in best] == [sorted(layer) for layer in layers]
        assert crossings(best, below) <= crossings(layers, below)


def test_the_fewest_crossings_are_found_on_most_small_graphs() -> None:
    tried = found = 0
    for seed in range(60):
        layers, above, below = plain_layers(random_dag(6, 9, seed))
        size = np.prod([float(np.prod(range(1, len(layer) + 1))) for layer in layers])
        if size > 3000:
            continue
        fewest = min(
            crossings_by_definition([list(layer) for layer in order], below)
            for order in product(*(permutations(layer) for layer in layers))
        )
        got = crossings(ordered(layers, above, below), below)
        assert got >= fewest
        tried, found = tried + 1, found + (got == fewest)
    assert tried >= 30 and found >= 0.95 * tried


@settings(deadline=None, max_examples=50)
@given(graphs())
def test_layers_go_down_and_none_is_empty(graph: nx.DiGraph) -> None:
    lines = downward(graph)
    layer = layer_numbers(sorted(graph), lines)
    assert all(layer[line.top] < layer[line.bottom] for line in lines)
    assert set(layer.values()) == set(range(max(layer.values()) + 1))


def test_extra_lines_are_drawn_without_turning_the_graphs_own_arrows() -> None:
    graph = nx.DiGraph([("a", "b"), ("b", "c")])
    graph.add_node("d")
    layout = layered(graph, extra=[("c", "a"), ("d", "a"), ("c", "d")])
    check(layout, graph)
    kinds = {(route.source, route.target): route for route in layout.routes}
    assert kinds["c", "a"].kind == "extra" and kinds["a", "b"].kind == "directed"
    assert layout.boxes["a"].y < layout.boxes["b"].y < layout.boxes["c"].y
    start, end = kinds["c", "a"].curves[0][0], kinds["c", "a"].curves[-1][3]
    assert layout.boxes["c"].holds(start, 1e-6) and layout.boxes["a"].holds(end, 1e-6)


def test_graphs_without_edges_are_packed() -> None:
    graph: nx.DiGraph = nx.DiGraph()
    assert layered(graph) == Layout({}, (), 0.0, 0.0, 0)
    graph.add_nodes_from(f"v{k}" for k in range(60))
    layout = layered(graph)
    check(layout, graph)
    assert layout.crossings == 0 and 0.5 < layout.width / layout.height < 4


def test_twice_the_nodes_are_about_twice_the_work(calls: Callable[[Callable[[], object]], int]) -> None:
    few, many = (calls(lambda nodes=nodes: layered(random_dag(nodes, 2 * nodes, 0))) for nodes in (30, 60))
    assert few < 3_000_000 and many < 3 * few
    graph = random_dag(200, 400, 0)
    layout = layered(graph)
    assert len(layout.boxes) == 200 and layered(graph) == layout


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.Graph([("a", "b")]), "networkx.DiGraph"),
        (nx.MultiDiGraph([("a", "b")]), "networkx.DiGraph"),
        (nx.DiGraph([(1, 2)]), "nodes are texts"),
        (nx.DiGraph([("a", "a")]), "from a node to itself"),
    ],
)
def test_other_graphs_are_refused(graph: nx.DiGraph, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        layered(graph)


def test_arguments_are_checked() -> None:
    graph = nx.DiGraph([("a", "b")])
    for pair in (("a", "c"), ("a", "a")):
        with pytest.raises(InvalidParameter, match="extra must be"):
            layered(graph, extra=[pair])
    with pytest.raises(InvalidParameter, match="font"):
        layered(graph, font=0)
    with pytest.raises(InvalidParameter, match="widest"):
        layered(graph, widest=float("inf"))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60), st.floats(20, 300))
def test_names_are_cut_to_the_width(text: str, widest: float) -> None:
    short = shortened(text, 13.0, widest)
    assert text_width(short, 13.0) <= widest or short == "…"
    assert "\n" not in short or not text.split()
    line = " ".join(writable(text).split())  # characters that turn text around are shown as replaced
    if line and text_width(line, 13.0) <= widest:
        assert short == line


def test_the_middle_is_cut_and_accents_stay_with_their_letters() -> None:
    assert shortened("systolic_blood_pressure_at_baseline", 13.0, 150) == "systolic_…_baseline"
    cut = shortened("e\u0301" * 60, 13.0, 150)
    assert cut.startswith("e\u0301") and cut.split("…")[1].startswith("e")
    assert "\u200d…" not in shortened("👩\u200d⚕" * 30, 13.0, 150)


def test_names_that_would_look_alike_are_cut_less() -> None:
    names = [f"blood_pressure_{middle}_of_the_first_visit_in_the_ward" for middle in ("systolic", "diastolic", "mean")]
    graph = nx.DiGraph([(names[0], names[1]), (names[1], names[2]), ("short", names[0])])
    texts = {name: box.text for name, box in layered(graph).boxes.items()}
    assert len(set(texts.values())) == 4 and texts["short"] == "short"
    assert "…" in layered(nx.DiGraph([(names[0], "b")])).boxes[names[0]].text
    twins = ["x" * 300 + middle + "x" * 300 for middle in "ab"]
    assert {box.text for box in layered(nx.DiGraph([tuple(twins)])).boxes.values()} == set(twins)


def test_the_end_of_a_curve_is_cut_at_a_distance() -> None:
    curve = ((0.0, 0.0), (0.0, 40.0), (50.0, 60.0), (50.0, 100.0))
    (cut,) = without_end([curve], 12.0)
    assert np.hypot(cut[3][0] - 50, cut[3][1] - 100) == pytest.approx(12.0, abs=1e-3)
    t = 0.5
    x, y = point_at(cut, t)
    on_curve = min(np.hypot(x - px, y - py) for px, py in points_along([curve], 4000))
    assert on_curve < 0.05
