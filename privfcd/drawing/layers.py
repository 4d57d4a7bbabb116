"""A layered drawing of a graph: where each name stands and how each edge runs (Sugiyama, Tagawa and Toda 1981).

Each connected part is drawn by itself: layers, dummy nodes where an edge passes a layer, an order with few crossings,
then places that keep lines short and straight without overlap. Edges cross a layer between its names, in a gap that is
kept free for them, so no edge runs through a name. The result depends on names and edges only, not on the order in which
they were added. Lengths are in the units of the font's size, usually CSS pixels; y grows downwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import networkx as nx

from privfcd import checks
from privfcd.drawing.curves import Curve, Point, backwards
from privfcd.drawing.labels import labels, text_width
from privfcd.drawing.order import Line, crossings, downward, layer_numbers, ordered
from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import plain_digraph

MOST_NODES, MOST_LINES, MOST_STEPS = 1_000, 4_000, 15_000
"""Of a graph that is drawn: steps are the layers that its lines go down, in all. At these a picture takes about ten seconds,
and several metres of a screen; beyond, nobody could read it."""
_SWEEPS, _MANY = 24, 10_000  # nodes and dummies beyond which fewer sweeps must do
_APART, _PASSING = 22.0, 12.0  # least gaps: between two names, beside a line that passes
_LEAST_GAP, _MOST_GAP = 52.0, 120.0  # between two layers
_NEARLY = 60.0  # what a stretch of a line may be moved by to become vertical, at most
_STEP = 12.0  # between two edges at one side of a name
_BESIDE = 40.0  # between two parts


class PictureTooLarge(InvalidParameter):
    """A graph is too large to be drawn."""


@dataclass(frozen=True)
class Box:
    """A name's place.

    Attributes
    ----------
    x, y : float
        The box's centre; y grows downwards.
    width, height : float
        The box's size.
    text : str
        The name as it fits.
    layer : int
        Which layer it is in, from 0 at the top.
    """

    x: float
    y: float
    width: float
    height: float
    text: str
    layer: int

    def holds(self, point: Point, margin: float = 0.0) -> bool:
        """Whether a point is inside the box, widened by `margin`."""
        near_x = abs(point[0] - self.x) <= self.width / 2 + margin
        return near_x and abs(point[1] - self.y) <= self.height / 2 + margin


@dataclass(frozen=True)
class Route:
    """An edge's line.

    Attributes
    ----------
    source, target : str
        The ends; an undirected edge has one route.
    kind : {"directed", "undirected", "extra"}
        Extra: asked for, but not an edge of the graph.
    curves : tuple of Curve
        Cubic Bézier curves from the edge of the source's box to the edge of the target's box, smoothly joined.
    """

    source: str
    target: str
    kind: str
    curves: tuple[Curve, ...]


@dataclass(frozen=True)
class Layout:
    """A drawing of a graph in layers, from (0, 0).

    Attributes
    ----------
    boxes : dict of str to Box
        The nodes' places, by name.
    routes : tuple of Route
        The lines' ways, one for each edge.
    width, height : float
        Of the drawing, in the units of the font's size.
    crossings : int
        How often lines cross.
    """

    boxes: dict[str, Box]
    routes: tuple[Route, ...]
    width: float
    height: float
    crossings: int


def layered(
    graph: nx.DiGraph[str], *, extra: Iterable[tuple[str, str]] = (), font: float = 13.0, widest: float = 190.0
) -> Layout:
    """Place a directed, undirected or partially directed graph in layers, so that arrows point down.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes are texts. Two arcs with the attribute `undirected` are one line. Where arrows form cycles, a few point up.
    extra : iterable of (str, str)
        Further lines between nodes, to be drawn too: the edges that the graph misses, say. They may point up.
    font : float
        The names' font size.
    widest : float
        Names wider than this are cut in the middle, but for those that would look alike.

    Returns
    -------
    Layout
        Without overlapping boxes, and with no line through a box that is not one of its ends.

    Raises
    ------
    PictureTooLarge
        More than `MOST_NODES` nodes, `MOST_LINES` lines or `MOST_STEPS` steps from layer to layer.
    InvalidParameter
        Not a plain DiGraph, a node that is not a text, an edge from a node to itself, or an extra line to no node.
    """
    given = plain_digraph("graph", graph)
    _check_size("nodes", len(given), MOST_NODES)
    for node in given:
        if not isinstance(node, str):
            raise checks.refuse("graph", node, "a graph whose nodes are texts")
    more = list(extra)
    for pair in more:
        if pair[0] not in given or pair[1] not in given or pair[0] == pair[1]:
            raise checks.refuse("extra", pair, "pairs of different nodes of the graph")
    size = checks.positive("font", font)
    limit = checks.positive("widest", widest)
    _check_size("edges", given.number_of_edges(), 2 * MOST_LINES)  # two arcs may be one line
    lines = downward(given, more)
    _check_size("lines", len(lines), MOST_LINES)
    together: nx.Graph[str] = nx.Graph([(line.source, line.target) for line in lines])
    together.add_nodes_from(given)
    parts = sorted((sorted(part) for part in nx.connected_components(together)), key=lambda part: (-len(part), part))
    number = {node: k for k, part in enumerate(parts) for node in part}
    inside: list[list[Line]] = [[] for _ in parts]
    for line in lines:
        inside[number[line.source]].append(line)
    layers = [layer_numbers(nodes, own) for nodes, own in zip(parts, inside, strict=True)]
    steps = (own[line.bottom] - own[line.top] for own, part in zip(layers, inside, strict=True) for line in part)
    _check_size("steps from layer to layer along its lines", sum(steps), MOST_STEPS)
    texts = labels(sorted(given), size, limit)
    return _packed([_part(*part, size, texts) for part in zip(parts, inside, layers, strict=True)])


def _check_size(what: str, size: int, most: int) -> None:
    if size > most:
        raise PictureTooLarge(
            f"graph must have at most {most:,} {what} to be drawn, got {size:,}: draw a part of it, such as "
            "graph.subgraph(names), or write it with write_graph"
        )


def _part(
    nodes: list[str], lines: list[Line], layer_of: Mapping[str, int], font: float, shown: Mapping[str, str]
) -> Layout:
    """Place one connected part."""
    texts = [shown[node] for node in nodes]
    widths = [text_width(text, font) + 1.5 * font for text in texts]
    index = {node: k for k, node in enumerate(nodes)}
    layer = [layer_of[node] for node in nodes]
    chains: list[list[int]] = []
    for line in lines:
        top, bottom = index[line.top], index[line.bottom]
        passing = list(range(len(layer), len(layer) + layer[bottom] - layer[top] - 1))
        layer += range(layer[top] + 1, layer[bottom])
        chains.append([top, *passing, bottom])
    above: list[list[int]] = [[] for _ in layer]
    below: list[list[int]] = [[] for _ in layer]
    for chain in chains:
        for upper, lower in pairwise(chain):
            below[upper].append(lower)
            above[lower].append(upper)
    plain: list[list[int]] = [[] for _ in range(max(layer) + 1)]
    for node, k in enumerate(layer):
        plain[k].append(node)
    layers = ordered(plain, above, below)
    xs = _across(layers, above, below, widths)
    _straighten(chains, layers, xs, widths)
    height = 2.2 * font
    ys = _down(layers, below, xs, height)
    boxes = {node: Box(xs[k], ys[layer[k]], widths[k], height, texts[k], layer[k]) for k, node in enumerate(nodes)}
    curves = _curves(chains, layer, xs, ys, widths, height)
    routes = tuple(
        Route(line.source, line.target, line.kind, backwards(own) if line.upward else own)
        for line, own in zip(lines, curves, strict=True)
    )
    halves = [*(width / 2 for width in widths), *[_PASSING / 2] * (len(xs) - len(widths))]
    left = min(x - half for x, half in zip(xs, halves, strict=True))
    right = max(x + half for x, half in zip(xs, halves, strict=True))
    made = Layout(boxes, routes, right - left, ys[-1] + height / 2, crossings(layers, below))
    return _moved(made, -left, 0.0)


def _apart(one: int, other: int, widths: list[float]) -> float:
    """Return the least distance of two neighbours in a layer; nodes from len(widths) on are dummies."""
    real = len(widths)
    gap = _APART if one < real and other < real else _PASSING
    return gap + sum(widths[node] / 2 for node in (one, other) if node < real)


def _across(
    layers: Sequence[Sequence[int]], above: list[list[int]], below: list[list[int]], widths: list[float]
) -> list[float]:
    """Return x for each node: least sum of weighted squared horizontal lengths, given the order and the least gaps.

    One layer at a time, each exactly (`_spread`), which is block coordinate descent on a convex problem. Lines between
    dummies weigh more, so that long edges run straight.
    """
    real = len(widths)

    def weight(one: int, other: int) -> float:
        return (1.0, 2.0, 8.0)[(one >= real) + (other >= real)]

    offsets: list[list[float]] = []
    xs = [0.0] * len(above)
    for layer in layers:
        places = [0.0]
        for one, other in pairwise(layer):
            places.append(places[-1] + _apart(one, other, widths))
        offsets.append(places)
        for node, place in zip(layer, places, strict=True):
            xs[node] = place - places[-1] / 2
    depth = len(layers)
    for sweep in range(_SWEEPS if len(xs) <= _MANY else 8):
        forward = sweep % 2 == 0
        for k in range(depth) if forward else range(depth - 1, -1, -1):
            layer = layers[k]
            goals, weights = [], []
            for node in layer:
                ends = [*above[node], *below[node]] if sweep > 3 else above[node] if forward else below[node]
                pulls = [weight(node, end) for end in ends]
                total = sum(pulls)
                goals.append(sum(p * xs[e] for p, e in zip(pulls, ends, strict=True)) / total if total else xs[node])
                weights.append(total or 1e-3)
            for node, x in zip(layer, _spread(goals, weights, offsets[k]), strict=True):
                xs[node] = x
    return xs


def _straighten(chains: list[list[int]], layers: Sequence[Sequence[int]], xs: list[float], widths: list[float]) -> None:
    """Make stretches of long edges vertical that are nearly so, where their neighbours in the layers leave room."""
    beside: dict[int, tuple[int | None, int | None]] = {}
    for layer in layers:
        for left, node, right in zip([None, *layer[:-1]], layer, [*layer[1:], None], strict=True):
            beside[node] = left, right

    def room(node: int) -> tuple[float, float]:
        left, right = beside[node]
        low = -math.inf if left is None else xs[left] + _apart(left, node, widths)
        high = math.inf if right is None else xs[right] - _apart(node, right, widths)
        return low, high

    for chain in sorted(chains, key=len, reverse=True):
        waiting = chain[1:-1]
        while waiting:
            run: list[int] = []
            low, high = -math.inf, math.inf
            for node in waiting:
                least, most = room(node)
                near = [xs[node], *(xs[other] for other in run)]
                if run and (max(low, least) > min(high, most) or max(near) - min(near) > _NEARLY):
                    break
                run, low, high = [*run, node], max(low, least), min(high, most)
            x = min(max(sum(xs[node] for node in run) / len(run), low), high)
            for node in run:
                xs[node] = x
            waiting = waiting[len(run) :]


def _spread(goals: list[float], weights: list[float], offsets: list[float]) -> list[float]:
    """Return the x nearest to the goals (weighted squares) with x[i + 1] - x[i] >= offsets[i + 1] - offsets[i].

    Isotonic regression of goals - offsets, by pooling neighbours that are out of order.
    """
    blocks: list[tuple[float, float, int]] = []
    for goal, weight, offset in zip(goals, weights, offsets, strict=True):
        mean, total, size = goal - offset, weight, 1
        while blocks and blocks[-1][0] > mean:
            before, more, number = blocks.pop()
            mean, total, size = (mean * total + before * more) / (total + more), total + more, size + number
        blocks.append((mean, total, size))
    level = [mean for mean, _, size in blocks for _ in range(size)]
    return [x + offset for x, offset in zip(level, offsets, strict=True)]


def _down(layers: Sequence[Sequence[int]], below: list[list[int]], xs: list[float], height: float) -> list[float]:
    """Return y for each layer: further apart where lines go far across."""
    ys = [height / 2]
    for upper in layers[:-1]:
        across = max((abs(xs[node] - xs[end]) for node in upper for end in below[node]), default=0.0)
        ys.append(ys[-1] + height + min(_MOST_GAP, _LEAST_GAP + 0.18 * across))
    return ys


def _curves(
    chains: list[list[int]], layer: list[int], xs: list[float], ys: list[float], widths: list[float], height: float
) -> list[tuple[Curve, ...]]:
    """Return each chain's curves; at a name, lines leave side by side in the order of where they go."""
    starts = _ports([(chain[0], xs[chain[1]], k) for k, chain in enumerate(chains)], xs, widths)
    ends = _ports([(chain[-1], xs[chain[-2]], k) for k, chain in enumerate(chains)], xs, widths)
    half = height / 2
    made = []
    for k, chain in enumerate(chains):
        curves: list[Curve] = []
        here = (starts[k], ys[layer[chain[0]]] + half)
        for node in chain[1:]:
            last = node == chain[-1]
            y = ys[layer[node]]
            there = (ends[k] if last else xs[node], y - half)
            rise = there[1] - here[1]
            # Sideways at a name's end, so that short edges are nearly straight; vertical where a layer is passed.
            slope = (there[0] - here[0]) * 0.3
            lean_in, lean_out = (slope if node == chain[1] else 0.0), (slope if last else 0.0)
            first = (here[0] + lean_in, here[1] + 0.42 * rise)
            second = (there[0] - lean_out, there[1] - 0.42 * rise)
            curves.append((here, first, second, there))
            here = there
            if not last:
                here = (xs[node], y + half)
                third = height / 3
                curves.append((there, (xs[node], there[1] + third), (xs[node], here[1] - third), here))
        made.append(tuple(curves))
    return made


def _ports(links: list[tuple[int, float, int]], xs: list[float], widths: list[float]) -> dict[int, float]:
    """Return for each line where it meets its node, from (node, x of the line's next point, line)."""
    sides: dict[int, list[tuple[float, int]]] = {}
    for node, x, line in links:
        sides.setdefault(node, []).append((x, line))
    found = {}
    for node, side in sides.items():
        step = min(_STEP, (widths[node] - _STEP) / max(len(side) - 1, 1))
        for k, (_, line) in enumerate(sorted(side)):
            found[line] = xs[node] + (k - (len(side) - 1) / 2) * step
    return found


def _moved(part: Layout, dx: float, dy: float) -> Layout:
    def shift(point: Point) -> Point:
        return point[0] + dx, point[1] + dy

    boxes = {node: replace(box, x=box.x + dx, y=box.y + dy) for node, box in part.boxes.items()}
    routes = tuple(
        replace(route, curves=tuple((shift(p), shift(q), shift(r), shift(s)) for p, q, r, s in route.curves))
        for route in part.routes
    )
    return replace(part, boxes=boxes, routes=routes)


def _packed(parts: list[Layout]) -> Layout:
    """Put the parts side by side on shelves, the large ones first."""
    area = sum((part.width + _BESIDE) * (part.height + _BESIDE) for part in parts)
    wide = max([math.sqrt(1.6 * area), *(part.width for part in parts)])
    boxes: dict[str, Box] = {}
    routes: list[Route] = []
    x = y = shelf = width = 0.0
    for part in parts:
        alone = len(part.boxes) == 1
        if x > 0 and x + part.width > wide:
            x, y, shelf = 0.0, y + shelf + (_APART if alone else _BESIDE), 0.0
        put = _moved(part, x, y)
        boxes |= put.boxes
        routes += put.routes
        width, shelf = max(width, x + part.width), max(shelf, part.height)
        x += part.width + (_APART if alone else _BESIDE)
    return Layout(boxes, tuple(routes), width, y + shelf, sum(part.crossings for part in parts))
