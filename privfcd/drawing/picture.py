"""A picture of a graph for papers, in layers so that arrows point down. Needs Matplotlib (extra `plot`)."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd import checks
from privfcd.drawing.curves import Curve
from privfcd.drawing.drawing import (
    FONT,
    LIGHT,
    SMALL,
    arrowhead,
    colour_name,
    dashes,
    drawing,
    mark_place,
    shaft,
)
from privfcd.drawing.drawn_edges import DrawnEdge, line_width, opacity
from privfcd.drawing.labels import shortened, text_width
from privfcd.errors import InvalidParameter
from privfcd.whole_files import write_whole

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 10 / FONT  # of one unit of the drawing: names have 10 points
_DPI, _MOST_PIXELS = 150, 3e7  # of a PNG: a wide graph gets fewer pixels an inch, rather than a file of 40 MB
_MARGIN = 14.0
_HEADING = FONT + 2


def draw_graph(
    graph: nx.DiGraph[str],
    path: str | os.PathLike[str],
    *,
    target: nx.DiGraph[str] | None = None,
    title: str = "",
    stability: Mapping[tuple[str, str], float] | None = None,
) -> None:
    """Draw a directed graph, or the graph of an equivalence class, into a PNG, SVG or PDF file.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes are texts; `weight` sets an edge's width (by its absolute value) and dash (negative). Two arcs with the
        attribute `undirected` are one line without an arrowhead. Where arrows form a cycle, a few of them point up.
    path : path
        File to write; its suffix chooses the format.
    target : networkx.DiGraph, optional
        Colours edges as right, reversed or not in the target, and adds those that only the target has, dotted.
    title : str
        Written above.
    stability : mapping of (str, str) to float, optional
        By (cause, effect), the edge's share of reruns, or of rounds: sets how opaque it is, and is written on it.

    Raises
    ------
    InvalidParameter
        The graph cannot be drawn (see `graph_svg`), there is no such folder, or the file cannot be written.
    """
    made = drawing(graph, stability=stability, target=target)
    reach = made.right - made.left
    heading = shortened(title, _HEADING, max(reach, 420.0))
    across = max(reach, made.notes_width, text_width(heading, _HEADING), 80.0)
    top = _MARGIN + (_HEADING + 12 if heading else 0.0)
    below = top + made.layout.height + _MARGIN
    width, height = across + 2 * _MARGIN, below + (made.notes_height + 8 if made.notes else 0.0)
    figure = new_figure((width * _POINTS / 72, height * _POINTS / 72))
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    shift = _MARGIN + (across - reach) / 2 - made.left
    axes.set_xlim(-shift, width - shift)
    axes.set_ylim(height - top, -top)
    axes.set_axis_off()
    for route, edge in made.edges:
        _line(axes, route.curves, edge, line_width(edge, made.largest))
    for box in made.layout.boxes.values():
        _box(axes, box.x - box.width / 2, box.y - box.height / 2, box.width, box.height)
        _text(axes, box.x, box.y, box.text, FONT)
    for label in made.labels:
        _text(axes, label.x, label.y, label.text, SMALL, halo=True)
    if heading:
        _text(axes, across / 2 + _MARGIN - shift, _MARGIN + FONT / 2 - top, heading, _HEADING)
    for note in made.notes:
        dx, dy = _MARGIN - shift, below - top
        if note.sample is not None:
            p, q, r, s = ((x + dx, y + dy) for x, y in note.line)
            _line(axes, ((p, q, r, s),), note.sample, 1.8, sample=True)
        _text(axes, note.x + dx, note.y + dy, note.words, SMALL, align="left")
    save_figure(figure, path)


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
    width, height = figure.get_size_inches()
    figure.savefig(picture, format=kind, dpi=min(_DPI, math.sqrt(_MOST_PIXELS / (width * height))))
    write_whole(path, picture.getvalue())


def _line(axes: Axes, curves: tuple[Curve, ...], edge: DrawnEdge, width: float, *, sample: bool = False) -> None:
    """Add a line with its arrowhead and mark."""
    from matplotlib.patches import Circle, PathPatch, Polygon
    from matplotlib.path import Path as Line

    colour = LIGHT[colour_name(edge, sample=sample)]
    shared: dict[str, Any] = {"edgecolor": colour, "alpha": opacity(edge), "clip_on": False}
    steps = [point for curve in shaft(curves, edge, width) for point in curve[1:]]
    codes = [Line.MOVETO, *[Line.CURVE4] * len(steps)]
    pattern = dashes(edge)
    style = "solid" if pattern is None else (0, tuple(length / width for length in pattern))  # in units of the width
    line = Line([curves[0][0], *steps], codes)
    axes.add_patch(
        PathPatch(line, facecolor="none", linewidth=width * _POINTS, linestyle=style, capstyle="butt", **shared)
    )
    if edge.directed:
        face = "none" if edge.verdict == "reversed" else colour
        corners = arrowhead(curves, width)
        axes.add_patch(Polygon(corners, facecolor=face, linewidth=1.2 * _POINTS, **shared))
    x, y = mark_place(curves)
    if edge.verdict == "wrong":
        cross = Line([(x - 5, y - 5), (x + 5, y + 5), (x - 5, y + 5), (x + 5, y - 5)], [1, 2, 1, 2])
        axes.add_patch(PathPatch(cross, facecolor="none", linewidth=2.2 * _POINTS, **shared))
    if edge.verdict == "open":
        axes.add_patch(Circle((x, y), 4.5, facecolor="none", linewidth=1.6 * _POINTS, **shared))


def _box(axes: Axes, x: float, y: float, width: float, height: float) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=7", facecolor=LIGHT["node"],
            edgecolor=LIGHT["missing"], linewidth=_POINTS, clip_on=False,
        )
    )  # fmt: skip


def _text(axes: Axes, x: float, y: float, text: str, size: float, *, align: str = "center", halo: bool = False) -> None:
    shown = axes.text(
        x, y, text, ha=align, va="center", fontsize=size * _POINTS, color=LIGHT["ink"], parse_math=False, clip_on=False
    )
    if halo:
        from matplotlib import patheffects

        shown.set_path_effects([patheffects.withStroke(linewidth=2.2, foreground=LIGHT["paper"])])
