"""A graph's SVG as a file, or painted into a PNG or PDF by Matplotlib (extra `plot`)."""

from __future__ import annotations

import io
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from privfcd import checks
from privfcd.drawing.svg import FONT, graph_svg
from privfcd.errors import InvalidParameter
from privfcd.whole_files import write_whole

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_POINTS = 10 / FONT  # of one unit of the drawing: names have 10 points
_DPI, _MOST_PIXELS = 150, 3e7  # of a PNG: a wide graph gets fewer pixels an inch, rather than a file of 40 MB


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
        File to write; its suffix chooses the format. An SVG is that of `graph_svg`; the others need Matplotlib.
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
    text = graph_svg(graph, stability=stability, target=target, title=title)
    if Path(path).suffix.lower() == ".svg":
        write_whole(path, text.encode("utf-8"))
        return
    save_figure(painted(text), path)


def painted(text: str) -> Figure:
    """Return a figure that shows the text of `graph_svg`."""
    root = ElementTree.fromstring(text)  # our own text: nothing else is parsed here
    width, height = (float(number) for number in root.attrib["viewBox"].split()[2:])
    figure = new_figure((width * _POINTS / 72, height * _POINTS / 72))
    figure.set_layout_engine("none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_axis_off()
    _paint(axes, root, {}, (0.0, 0.0))
    return figure


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


def _paint(axes: Axes, element: ElementTree.Element, inherited: Mapping[str, str], origin: tuple[float, float]) -> None:
    """Add an element of `graph_svg` and those within it: rect, path (M, L and C), polygon, circle and text."""
    from matplotlib import patches
    from matplotlib.path import Path as Line

    style = {**inherited, **element.attrib}
    if "transform" in element.attrib:
        x, y = _numbers(element.attrib["transform"])
        origin = (origin[0] + x, origin[1] + y)
    number = {key: float(value) for key, value in style.items() if re.fullmatch(r"-?[\d.]+", value)}
    number = {"stroke-width": 1.0, "opacity": 1.0, **number}
    shared: dict[str, Any] = {
        "facecolor": style.get("fill", "none"),
        "edgecolor": style.get("stroke", "none"),
        "clip_on": False,
    }
    shared |= {"alpha": number["opacity"], "linewidth": number["stroke-width"] * _POINTS}
    kind = element.tag.rpartition("}")[2]
    shape: patches.Patch | None = None
    if kind == "path" and number.get("stroke-opacity") != 0:
        values = _numbers(style["d"])
        corners = [(x + origin[0], y + origin[1]) for x, y in zip(values[::2], values[1::2], strict=True)]
        codes = [
            code for step in re.findall("[MLC]", style["d"]) for code in {"M": [1], "L": [2], "C": [4, 4, 4]}[step]
        ]
        dash = [length / number["stroke-width"] for length in _numbers(style.get("stroke-dasharray", ""))]
        look = (0, tuple(dash)) if dash else "solid"  # Matplotlib's dashes are in units of the line's width
        shape = patches.PathPatch(Line(corners, codes), linestyle=look, capstyle="butt", **shared)
    elif kind == "polygon":
        values = _numbers(style["points"])
        corners = [(x + origin[0], y + origin[1]) for x, y in zip(values[::2], values[1::2], strict=True)]
        shape = patches.Polygon(corners, **shared)
    elif kind == "circle":
        shape = patches.Circle((number["cx"] + origin[0], number["cy"] + origin[1]), number["r"], **shared)
    elif kind == "rect" and "x" in number:  # the paper, which has no place, is the figure's own
        corner = (number["x"] + origin[0], number["y"] + origin[1])
        rounded = f"round,pad=0,rounding_size={number['rx']}"
        shape = patches.FancyBboxPatch(corner, number["width"], number["height"], boxstyle=rounded, **shared)
    elif kind == "text":
        _write(axes, element.text or "", number["x"] + origin[0], number["y"] + origin[1], style)
    if shape is not None:
        axes.add_patch(shape)
    for part in element:
        _paint(axes, part, style, origin)


def _write(axes: Axes, text: str, x: float, y: float, style: Mapping[str, str]) -> None:
    """Write a text with its baseline at y; weights, which may lie on lines, have a rim in the paper's colour."""
    from matplotlib.patheffects import withStroke

    shown = axes.text(
        x, y, text, ha="left" if style["text-anchor"] == "start" else "center", va="baseline", color=style["fill"],
        fontsize=float(style["font-size"]) * _POINTS, parse_math=False, clip_on=False,
    )  # fmt: skip
    if style.get("class") == "pg-weight":
        shown.set_path_effects([withStroke(linewidth=2.2, foreground="white")])


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]
