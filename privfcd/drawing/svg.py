"""A graph as one self-contained SVG: for a page, a notebook, or a file.

The picture holds no script, no font, no link and no id, so that any number of them can share a page. Colours are CSS
variables with defaults for light and dark displays and for print (`--privfcd-ink`, `-paper`, `-node`, `-edge`, `-right`,
`-open`, `-reversed`, `-wrong`, `-missing`), and presentation attributes where styles are stripped. Nothing is said by colour
alone: a negative weight is dashed, a reversed edge has a hollow arrowhead, a wrong one a cross, one whose direction is open
a ring, and a missing one is dotted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import networkx as nx

from privfcd import checks
from privfcd.drawing.curves import Curve, Point, point_at, without_end
from privfcd.drawing.edges import VERDICTS, DrawnEdge, Verdict, drawn_edges, largest_weight, line_width, opacity
from privfcd.drawing.labels import edge_labels, shortened, text_width
from privfcd.drawing.layers import Box, layered
from privfcd.markup import escape

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
_MARGIN = 14.0
_HEADING = FONT + 2
_DESCRIBED = 200  # edges that are listed in words for screen readers


def graph_svg(
    graph: nx.DiGraph[str],
    *,
    stability: Mapping[tuple[str, str], float] | None = None,
    target: nx.DiGraph[str] | None = None,
    title: str = "",
    width: float | str | None = None,
    missing: bool = True,
    weights: bool = True,
    legend: bool = True,
) -> str:
    """Return a graph as SVG text, drawn in layers.

    Parameters
    ----------
    graph : networkx.DiGraph
        Nodes are texts; `weight` sets an edge's width (by its absolute value) and dash (negative). Two arcs with the
        attribute `undirected` are one line without arrowhead.
    stability : mapping of (str, str) to float, optional
        By (cause, effect), the edge's share of reruns, or of rounds, as in `EdgeStability`: sets how opaque it is, and is
        written on it. An undirected edge may be named either way.
    target : networkx.DiGraph, optional
        Colours edges as right, reversed, or not in the target.
    title : str
        Written above, and the picture's accessible name.
    width : float or str, optional
        Width in CSS pixels, or a CSS length such as "100%"; the picture's own width where not given. It shrinks to
        narrower pages in either case.
    missing : bool
        With a target: whether its edges that the graph lacks are drawn, thin and dotted.
    weights : bool
        Whether weights and shares are written where there is room; they are in the tooltips always.
    legend : bool
        Whether a legend explains what is seen.

    Returns
    -------
    str
        An <svg> element, valid as a file of its own and within HTML.

    Raises
    ------
    InvalidParameter
        The graph is too large: more than 1,000 nodes, 4,000 lines, or 15,000 steps from layer to layer along the lines.
        Or as in `layered`; a weight that is not a finite number, a share outside [0, 1], or a width that is no length.

    Examples
    --------
    >>> import networkx as nx
    >>> graph_svg(nx.DiGraph([("smoking", "cancer")])).startswith("<svg")
    True
    """
    size = None if width is None else _length(width)
    known = drawn_edges(graph, stability=stability, target=target, missing=missing)
    layout = layered(graph, extra=[ends for ends, edge in known.items() if edge.verdict == "missing"], font=FONT)
    edges = [
        (route, known.get((route.source, route.target)) or known[route.target, route.source]) for route in layout.routes
    ]
    largest = largest_weight(known)
    texts = edge_labels(edges, layout, SMALL, weights=largest > 0) if weights else []
    left = min([0.0, *(text.x - text.half for text in texts)])  # texts may stick out of the layout on both sides
    reach = max([layout.width, *(text.x + text.half for text in texts)]) - left
    notes = _placed(_legend(list(known.values()), largest), max(reach, 420.0)) if legend else []
    notes_width = max((x + text_width(words, SMALL) for _, words, x, _ in notes), default=0.0)
    heading = shortened(title, _HEADING, max(reach, 420.0))
    across = max(reach, notes_width, text_width(heading, _HEADING), 80.0)
    top = _MARGIN + (_HEADING + 12 if heading else 0.0)
    below = top + layout.height + _MARGIN
    whole = _n(across + 2 * _MARGIN), _n(below + (notes[-1][3] + _LINE / 2 + 8 if notes else 0.0))
    name = escape(title.strip() or f"Graph of {graph.number_of_nodes()} variables")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="privfcd-graph" role="img" aria-label="{name}" '
        f'viewBox="0 0 {whole[0]} {whole[1]}" width="{size or whole[0]}" style="max-width:100%;height:auto" '
        'font-family="system-ui, sans-serif">',
        f"<title>{name}</title>",
        f"<desc>{escape(_description(graph, [edge for _, edge in edges]))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="pg-paper" width="100%" height="100%" rx="6" fill="{LIGHT["paper"]}"/>',
    ]
    if heading:
        parts.append(_text(heading, across / 2 + _MARGIN, _MARGIN + FONT, size=_HEADING, more=' font-weight="600"'))
    parts.append(f'<g transform="translate({_n(_MARGIN + (across - reach) / 2 - left)} {_n(top)})">')
    parts += [_line(route.curves, edge, line_width(edge, largest)) for route, edge in edges]
    parts += [_box(name, box) for name, box in layout.boxes.items()]
    parts += [_text(t.text, t.x, t.y + 4, size=SMALL, more=' class="pg-weight"') for t in texts]
    parts.append("</g>")
    if notes:
        parts.append(f'<g transform="translate({_n(_MARGIN)} {_n(below)})">')
        for sample, words, x, y in notes:
            if sample is not None:
                start = x - _SAMPLE
                parts.append(
                    _line((((start, y), (start + 12, y), (start + 24, y), (start + 36, y)),), sample, 1.8, sample=True)
                )
            parts.append(_text(words, x, y + 4, size=SMALL, anchor="start"))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def _length(width: float | str) -> str:
    if not isinstance(width, str):
        return _n(checks.positive("width", width))
    number = width
    for unit in ("%", "px", "rem", "em"):
        number = number.removesuffix(unit) if number == width else number
    if not (number.isascii() and number.replace(".", "", 1).isdecimal() and float(number)):
        raise checks.refuse("width", width, 'a number of pixels above 0 or a CSS length such as "100%"')
    return width


def _description(graph: nx.DiGraph[str], edges: Sequence[DrawnEdge]) -> str:
    own = sum(edge.verdict != "missing" for edge in edges)
    head = f"{graph.number_of_nodes()} variables, {own} edge{'' if own == 1 else 's'}."
    if not edges:
        return head
    more = f"; and {len(edges) - _DESCRIBED} more" if len(edges) > _DESCRIBED else ""
    return f"{head} {'; '.join(edge.words() for edge in edges[:_DESCRIBED])}{more}."


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


def _placed(
    notes: list[tuple[DrawnEdge | None, str]], widest: float
) -> list[tuple[DrawnEdge | None, str, float, float]]:
    """Place the legend's entries one after the other, on a new line where there is no room; x is of the words."""
    x, y = 0.0, _LINE / 2
    placed = []
    for sample, words in notes:
        before = 0.0 if sample is None else _SAMPLE
        width = before + text_width(words, SMALL)
        if x > 0 and x + width > widest:
            x, y = 0.0, y + _LINE
        placed.append((sample, words, x + before, y))
        x += width + 18
    return placed


def _line(curves: tuple[Curve, ...], edge: DrawnEdge, width: float, *, sample: bool = False) -> str:
    """Return a line with its arrowhead and mark; but for samples, with a tooltip on a broad unseen line around it."""
    kind = edge.verdict if edge.verdict != "plain" else "ink" if sample else "edge"
    colour = LIGHT[kind]
    head = 7.0 + 1.6 * width  # length of the arrowhead, which hides most of the line's end
    path = _path(without_end(curves, 0.8 * head) if edge.directed else curves)
    pattern = _MISSING if edge.verdict == "missing" else _NEGATIVE if edge.negative else None
    dash = "" if pattern is None else f' stroke-dasharray="{_n(pattern[0])} {_n(pattern[1])}"'
    parts = [f'<g class="pg-{kind}" opacity="{_n(opacity(edge))}" fill="none" stroke="{colour}">']
    if not sample:
        parts.append(f"<title>{escape(edge.words())}</title>")
        parts.append(f'<path class="pg-touch" d="{path}" stroke-opacity="0" stroke-width="12"/>')
    parts.append(f'<path d="{path}" stroke-width="{_n(width)}"{dash}/>')
    if edge.directed:
        hollow = edge.verdict == "reversed"
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in _arrowhead(curves, head))
        style = f'class="pg-{"hollow" if hollow else "filled"}" fill="{"none" if hollow else colour}"'
        parts.append(f'<polygon {style} points="{points}" stroke-width="1.2"/>')
    x, y = point_at(curves[(len(curves) // 4) * 2], 0.42)  # near the middle of one of the stretches between layers
    if edge.verdict == "wrong":
        near, far = f"{_n(y - 5)}", f"{_n(y + 5)}"
        parts.append(
            f'<path d="M{_n(x - 5)} {near}L{_n(x + 5)} {far}M{_n(x + 5)} {near}L{_n(x - 5)} {far}" stroke-width="2.2"/>'
        )
    if edge.verdict == "open":
        parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="4.5" stroke-width="1.6"/>')
    return "".join([*parts, "</g>"])


def _arrowhead(curves: tuple[Curve, ...], length: float) -> tuple[Point, Point, Point]:
    """Return the corners of an arrowhead at the end of a line, the tip first."""
    end = curves[-1][3]
    base = without_end(curves, length)[-1][3]
    dx, dy = end[0] - base[0], end[1] - base[1]
    norm = (dx * dx + dy * dy) ** 0.5 or 1.0
    across = (-dy / norm * length * 0.42, dx / norm * length * 0.42)
    return end, (base[0] + across[0], base[1] + across[1]), (base[0] - across[0], base[1] - across[1])


def _path(curves: tuple[Curve, ...]) -> str:
    start = curves[0][0]
    steps = [f"C{_n(q[0])} {_n(q[1])} {_n(r[0])} {_n(r[1])} {_n(s[0])} {_n(s[1])}" for _, q, r, s in curves]
    return f"M{_n(start[0])} {_n(start[1])}" + "".join(steps)


def _box(name: str, box: Box) -> str:
    tooltip = "" if box.text == name else f"<title>{escape(name)}</title>"
    return (
        f'<g class="pg-box">{tooltip}<rect x="{_n(box.x - box.width / 2)}" y="{_n(box.y - box.height / 2)}" '
        f'width="{_n(box.width)}" height="{_n(box.height)}" rx="7" fill="{LIGHT["node"]}" stroke="{LIGHT["missing"]}"/>'
        f"{_text(box.text, box.x, box.y + FONT * 0.35)}</g>"
    )


def _text(text: str, x: float, y: float, *, size: float = FONT, anchor: str = "middle", more: str = "") -> str:
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" font-size="{_n(size)}" text-anchor="{anchor}" fill="{LIGHT["ink"]}"{more}>'
        f"{escape(text)}</text>"
    )


def _n(value: float) -> str:
    """Return a number with at most two decimals."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _style() -> str:
    def variables(colours: Mapping[str, str]) -> str:
        return "".join(f"--pg-{name}:{colour};" for name, colour in colours.items())

    def use(name: str) -> str:
        return f"var(--privfcd-{name},var(--pg-{name}))"

    root = ".privfcd-graph"
    rules = [
        f"{root}{{{variables(LIGHT)}}}",
        f"@media screen and (prefers-color-scheme:dark){{{root}{{{variables(DARK)}}}}}",
        f"{root} text{{fill:{use('ink')}}}",
        f"{root} .pg-paper{{fill:{use('paper')}}}",
        f"{root} .pg-box rect{{fill:{use('node')};stroke:{use('missing')}}}",
        f"{root} .pg-weight{{paint-order:stroke;stroke:{use('paper')};stroke-width:3px}}",
    ]
    for name in sorted(LIGHT.keys() - {"paper", "node"}):
        rules.append(f"{root} .pg-{name}{{stroke:{use(name)}}}")
        rules.append(f"{root} .pg-{name} .pg-filled{{fill:{use(name)}}}")
    rules.append(f"{root} .pg-touch{{pointer-events:stroke}}")
    rules.append(f"{root} g:hover{{opacity:1}}")
    return "".join(rules)


_STYLE = _style()
