"""Where weights and shares are written: beside their lines, where there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from privfcd.drawing.curves import Point, point_at, points_along
from privfcd.drawing.drawn_edges import DrawnEdge
from privfcd.drawing.labels import text_width
from privfcd.drawing.layers import Layout, Route
from privfcd.graphs.interchange import share

_SAMPLES = 16  # points of a curve that texts are kept clear of
_CELL = 64.0


@dataclass(frozen=True)
class EdgeLabel:
    """A text and the centre and half width of its place."""

    text: str
    x: float
    y: float
    half: float


def edge_text(edge: DrawnEdge) -> str:
    """Return what is written on an edge: its weight, its share in brackets, or nothing."""
    if edge.verdict == "missing":
        return ""
    weight = "" if edge.weight is None else f"{edge.weight:.2g}".replace("-", "−")
    stable = "" if edge.stability is None else share(edge.stability)
    return f"{weight} ({stable})" if weight and stable else weight or stable


def edge_labels(
    drawn: Sequence[tuple[Route, DrawnEdge]], layout: Layout, size: float, *, weights: bool = True
) -> list[EdgeLabel]:
    """Return the texts that can be written without touching a name, another text or a line; others are left out.

    Without `weights`, shares only are written.
    """
    high = 0.75 * size
    # What is in the way, by cells of a grid: (line or -1, x, y, half its width, half its height)
    cells: dict[tuple[int, int], list[tuple[int, float, float, float, float]]] = {}

    def put(line: int, x: float, y: float, half: float, tall: float) -> None:
        for cell in _cells(x, y, half, tall):
            cells.setdefault(cell, []).append((line, x, y, half, tall))

    def free(own: int, x: float, y: float, half: float) -> bool:
        return not any(
            abs(px - x) < half + other and abs(py - y) < high + tall and (line != own or abs(px - x) < half + 1)
            for cell in _cells(x, y, half, high)
            for line, px, py, other, tall in cells.get(cell, ())
        )

    for box in layout.boxes.values():
        put(-1, box.x, box.y, box.width / 2 + 2, box.height / 2)
    for k, (route, _) in enumerate(drawn):
        for x, y in points_along(route.curves, _SAMPLES):
            put(k, x, y, 3.0, 0.0)
    made = []
    for k, (route, edge) in enumerate(drawn):
        text = edge_text(edge if weights else replace(edge, weight=None))
        if text:
            half = text_width(text, size) / 2
            place = next(((x, y) for x, y in _places(route, half) if free(k, x, y, half)), None)
            if place is not None:
                made.append(EdgeLabel(text, *place, half))
                put(-1, *place, half + 2, high)
    return made


def _cells(x: float, y: float, half: float, tall: float) -> Iterator[tuple[int, int]]:
    for column in range(int((x - half) // _CELL), int((x + half) // _CELL) + 1):
        for row in range(int((y - tall) // _CELL), int((y + tall) // _CELL) + 1):
            yield column, row


def _places(route: Route, half: float) -> list[Point]:
    """Return candidate centres beside the line, the best first: middles of the stretches between layers."""
    places = []
    stretches = route.curves[::2]
    middle = sorted(range(len(stretches)), key=lambda k: abs(2 * k - len(stretches) + 1))[:5]
    for t in (0.5, 0.38, 0.62, 0.28, 0.72):
        for curve in (stretches[k] for k in middle):
            x, y = point_at(curve, t)
            places += [(x + half + 5, y), (x - half - 5, y)]
    return places
