"""What a picture of a graph shows, before any file format: places, lines, texts, marks, legend and colours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import networkx as nx

from privfcd.drawing.curves import Curve, Point, point_at, without_end
from privfcd.drawing.drawn_edges import VERDICTS, DrawnEdge, Verdict, drawn_edges, largest_weight
from privfcd.drawing.edge_labels import EdgeLabel, edge_labels
from privfcd.drawing.labels import text_width
from privfcd.drawing.layers import Layout, Route, layered

FONT, SMALL = 13.0, 11.0  # of names, and of everything else
LIGHT = {
    "ink": "#1d2733",
    "paper": "#ffffff",
    "node": "#f3f6f9",
    "edge": "#35618f",
    "right": "#0b6aa8",
    "open": "#4b7f3f",
    "reversed": "#b06f00",
    "wrong": "#b3261e",
    "missing": "#66707c",
}
DARK = {
    "ink": "#e8edf2",
    "paper": "#161b22",
    "node": "#222a34",
    "edge": "#8fb8e3",
    "right": "#6cb6f5",
    "open": "#93c986",
    "reversed": "#f0b54a",
    "wrong": "#ff8f85",
    "missing": "#98a3b0",
}
_MISSING, _NEGATIVE = (1.5, 4.0), (9.0, 5.0)
_SAMPLE, _LINE = 42.0, 20.0  # of the legend: width of a sample line, height of a text line


@dataclass(frozen=True)
class Note:
    """One entry of the legend: its words at (x, y), the left end of its middle line, after a sample line or none."""

    sample: DrawnEdge | None
    words: str
    x: float
    y: float

    @property
    def line(self) -> Curve:
        """The sample's line."""
        x, y = self.x - _SAMPLE, self.y
        return (x, y), (x + 12, y), (x + 24, y), (x + 36, y)


@dataclass(frozen=True)
class Drawing:
    """A graph's picture.

    Attributes
    ----------
    layout : Layout
        Places of names, from (0, 0).
    edges : tuple of (Route, DrawnEdge)
        Each line with what it stands for.
    largest : float
        The largest |weight|.
    labels : tuple of EdgeLabel
        Texts beside lines, in the layout's coordinates; they may stick out of the layout to the left and right.
    left, right : float
        How far layout and texts reach.
    notes : tuple of Note
        The legend, from (0, 0).
    notes_width, notes_height : float
        Its size.
    """

    layout: Layout
    edges: tuple[tuple[Route, DrawnEdge], ...]
    largest: float
    labels: tuple[EdgeLabel, ...]
    left: float
    right: float
    notes: tuple[Note, ...]
    notes_width: float
    notes_height: float


def drawing(
    graph: nx.DiGraph[str],
    *,
    stability: Mapping[tuple[str, str], float] | None = None,
    target: nx.DiGraph[str] | None = None,
    missing: bool = True,
    weights: bool = True,
    legend: bool = True,
) -> Drawing:
    """Return the picture of a graph; the arguments are those of `graph_svg`."""
    known = drawn_edges(graph, stability=stability, target=target, missing=missing)
    layout = layered(graph, extra=[ends for ends, edge in known.items() if edge.verdict == "missing"], font=FONT)
    edges = []
    for route in layout.routes:
        ends = (route.source, route.target)
        edges.append((route, known[ends] if ends in known else known[ends[::-1]]))
    largest = largest_weight(known)
    labels = edge_labels(edges, layout, SMALL, weights=largest > 0) if weights else []
    left = min([0.0, *(label.x - label.half for label in labels)])
    right = max([layout.width, *(label.x + label.half for label in labels)])
    notes = _placed(_legend(list(known.values()), largest), max(right - left, 420.0)) if legend else []
    width = max((note.x + text_width(note.words, SMALL) for note in notes), default=0.0)
    height = notes[-1].y + _LINE / 2 if notes else 0.0
    return Drawing(layout, tuple(edges), largest, tuple(labels), left, right, tuple(notes), width, height)


def _legend(edges: list[DrawnEdge], largest: float) -> list[tuple[DrawnEdge | None, str]]:
    """Return what the picture needs explained: a sample edge or none, and words."""

    def sample(verdict: Verdict, directed: bool = True, weight: float | None = None) -> DrawnEdge:
        return DrawnEdge("", "", directed, weight, None, verdict)

    notes: list[tuple[DrawnEdge | None, str]] = []
    for verdict, words in VERDICTS.items():
        such = [edge for edge in edges if edge.verdict == verdict]
        if such:
            notes.append((sample(verdict, any(edge.directed for edge in such)), f"{words} ({len(such)})"))
    if any(edge.negative for edge in edges):
        notes += [(sample("plain", weight=1.0), "positive weight"), (sample("plain", weight=-1.0), "negative weight")]
    if any(not edge.directed for edge in edges):
        notes.append((sample("plain", directed=False), "direction not determined"))
    if largest > 0:
        notes.append((None, f"width: |weight|, at most {largest:.3g}"))
    if any(edge.stability is not None for edge in edges):
        notes.append((None, "the fainter, the less stable (%)"))
    return notes


def _placed(notes: list[tuple[DrawnEdge | None, str]], widest: float) -> list[Note]:
    """Place the legend's entries one after the other, on a new line where there is no room."""
    x, y = 0.0, _LINE / 2
    placed = []
    for sample, words in notes:
        before = 0.0 if sample is None else _SAMPLE
        width = before + text_width(words, SMALL)
        if x > 0 and x + width > widest:
            x, y = 0.0, y + _LINE
        placed.append(Note(sample, words, x + before, y))
        x += width + 18
    return placed


def colour_name(edge: DrawnEdge, *, sample: bool = False) -> str:
    """Return the key of an edge's colour; a sample of the legend that stands for no verdict is in ink."""
    if edge.verdict == "plain":
        return "ink" if sample else "edge"
    return edge.verdict


def dashes(edge: DrawnEdge) -> tuple[float, float] | None:
    """Return lengths of dash and gap: dots for an edge that is only in the target, dashes for a negative weight."""
    if edge.verdict == "missing":
        return _MISSING
    return _NEGATIVE if edge.negative else None


def head_length(width: float) -> float:
    """Return the length of the arrowhead of a line so wide."""
    return 7.0 + 1.6 * width


def shaft(curves: tuple[Curve, ...], edge: DrawnEdge, width: float) -> tuple[Curve, ...]:
    """Return the line up to where its arrowhead hides it."""
    return without_end(curves, 0.8 * head_length(width)) if edge.directed else curves


def arrowhead(curves: tuple[Curve, ...], width: float) -> tuple[Point, Point, Point]:
    """Return the corners of an arrowhead at the end of a line, the tip first."""
    length = head_length(width)
    end = curves[-1][3]
    base = without_end(curves, length)[-1][3]
    dx, dy = end[0] - base[0], end[1] - base[1]
    norm = (dx * dx + dy * dy) ** 0.5 or 1.0
    across = (-dy / norm * length * 0.42, dx / norm * length * 0.42)
    return end, (base[0] + across[0], base[1] + across[1]), (base[0] - across[0], base[1] - across[1])


def mark_place(curves: tuple[Curve, ...]) -> Point:
    """Return where a line's cross or ring is put: near the middle of one of its stretches between layers."""
    return point_at(curves[(len(curves) // 4) * 2], 0.42)
