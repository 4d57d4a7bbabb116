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
from privfcd.drawing.curves import Curve
from privfcd.drawing.drawing import (
    DARK,
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
from privfcd.drawing.layers import Box
from privfcd.markup import escape

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
    made = drawing(graph, stability=stability, target=target, missing=missing, weights=weights, legend=legend)
    layout, reach = made.layout, made.right - made.left
    heading = shortened(title, _HEADING, max(reach, 420.0))
    across = max(reach, made.notes_width, text_width(heading, _HEADING), 80.0)
    top = _MARGIN + (_HEADING + 12 if heading else 0.0)
    below = top + layout.height + _MARGIN
    whole = _n(across + 2 * _MARGIN), _n(below + (made.notes_height + 8 if made.notes else 0.0))
    shift = _MARGIN + (across - reach) / 2 - made.left
    name = escape(title.strip() or f"Graph of {graph.number_of_nodes()} variables")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="privfcd-graph" role="img" aria-label="{name}" '
        f'viewBox="0 0 {whole[0]} {whole[1]}" width="{size or whole[0]}" style="max-width:100%;height:auto" '
        'font-family="system-ui, sans-serif">',
        f"<title>{name}</title>",
        f"<desc>{escape(_description(graph, [edge for _, edge in made.edges]))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="pg-paper" width="100%" height="100%" rx="6" fill="{LIGHT["paper"]}"/>',
    ]
    if heading:
        parts.append(_text(heading, across / 2 + _MARGIN, _MARGIN + FONT, size=_HEADING, more=' font-weight="600"'))
    parts.append(f'<g transform="translate({_n(shift)} {_n(top)})">')
    parts += [_line(route.curves, edge, line_width(edge, made.largest)) for route, edge in made.edges]
    parts += [_box(name, box) for name, box in layout.boxes.items()]
    parts += [_text(t.text, t.x, t.y + 4, size=SMALL, more=' class="pg-weight"') for t in made.labels]
    parts.append("</g>")
    if made.notes:
        parts.append(f'<g transform="translate({_n(_MARGIN)} {_n(below)})">')
        for note in made.notes:
            if note.sample is not None:
                parts.append(_line((note.line,), note.sample, 1.8, sample=True))
            parts.append(_text(note.words, note.x, note.y + 4, size=SMALL, anchor="start"))
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


def _line(curves: tuple[Curve, ...], edge: DrawnEdge, width: float, *, sample: bool = False) -> str:
    """Return a line with its arrowhead and mark; but for samples, with a tooltip on a broad unseen line around it."""
    kind = colour_name(edge, sample=sample)
    colour = LIGHT[kind]
    path = _path(shaft(curves, edge, width))
    pattern = dashes(edge)
    dash = "" if pattern is None else f' stroke-dasharray="{_n(pattern[0])} {_n(pattern[1])}"'
    parts = [f'<g class="pg-{kind}" opacity="{_n(opacity(edge))}" fill="none" stroke="{colour}">']
    if not sample:
        parts.append(f"<title>{escape(edge.words())}</title>")
        parts.append(f'<path class="pg-touch" d="{path}" stroke-opacity="0" stroke-width="12"/>')
    parts.append(f'<path d="{path}" stroke-width="{_n(width)}"{dash}/>')
    if edge.directed:
        hollow = edge.verdict == "reversed"
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in arrowhead(curves, width))
        style = f'class="pg-{"hollow" if hollow else "filled"}" fill="{"none" if hollow else colour}"'
        parts.append(f'<polygon {style} points="{points}" stroke-width="1.2"/>')
    x, y = mark_place(curves)
    if edge.verdict == "wrong":
        parts.append(f'<path d="M{_n(x - 5)} {_n(y - 5)}l10 10m0 -10l-10 10" stroke-width="2.2"/>')
    if edge.verdict == "open":
        parts.append(f'<circle cx="{_n(x)}" cy="{_n(y)}" r="4.5" stroke-width="1.6"/>')
    return "".join([*parts, "</g>"])


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
