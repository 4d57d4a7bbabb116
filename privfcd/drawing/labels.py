"""Texts of a drawing: how wide they are, names cut to fit, and where weights and shares have room beside their lines.

Widths are estimates, as no font is at hand: of common sans-serif fonts in units of the font's size, on the large side, as an
estimate that is too small would let labels overlap.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from privfcd.drawing.curves import Point, point_at, points_along
from privfcd.drawing.edges import DrawnEdge
from privfcd.graphs.interchange import share
from privfcd.markup import writable

if TYPE_CHECKING:
    from privfcd.drawing.layers import Layout, Route

_NARROW = frozenset("ijlI.,:;'`|!()[]{}ft r/\\\"-1")
_WIDE = frozenset("mwMW@%&—…ŒÆœæ")
_CUT = "…"
_SAMPLES = 16  # points of a curve that texts are kept clear of
_CELL = 64.0


def text_width(text: str, size: float) -> float:
    """Return an estimate of a text's width at a font size, in the size's units."""
    return size * sum(_em(character) for character in text)


def _em(character: str) -> float:
    if character in _NARROW:
        return 0.42
    if character in _WIDE:
        return 1.0
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0x1F000:
        return 1.4
    if character > "\u02ff":  # beyond Latin: Cyrillic capitals are the widest
        return 1.1 if character.isupper() else 0.85
    return 0.76 if character.isupper() else 0.64


def labels(names: Iterable[str], size: float, widest: float) -> dict[str, str]:
    """Return each name cut to a width; names that would look alike are cut less, or not at all."""
    texts = {name: shortened(name, size, widest) for name in names}
    for width in (1.5 * widest, 2.5 * widest, math.inf):
        seen = Counter(texts.values())
        alike = [name for name, text in texts.items() if seen[text] > 1]
        for name in alike:
            texts[name] = shortened(name, size, width)
    return texts


def shortened(text: str, size: float, widest: float) -> str:
    """Return a name on one line, with its middle cut out where it would be wider than `widest`.

    The middle goes, as names of one table often begin alike and often end alike.
    """
    line = " ".join(writable(text).split()) or writable(text)
    if text_width(line, size) <= widest:
        return line
    room = widest - text_width(_CUT, size)
    head, tail, used = 0, 0, 0.0
    while head + tail < len(line):
        from_front = head <= tail
        character = line[head] if from_front else line[-1 - tail]
        used += text_width(character, size)
        if used > room:
            break
        head, tail = head + from_front, tail + (not from_front)
    end = len(line) - tail
    while end < len(line) and _joins(line[end]):  # an accent is not torn from its letter
        end += 1
    while head > 0 and (_joins(line[head]) or line[head - 1] == "\u200d"):
        head -= 1
    return line[:head].rstrip() + _CUT + line[end:].lstrip()


def _joins(character: str) -> bool:
    return unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf") or "\U0001f3fb" <= character <= "\U0001f3ff"


@dataclass(frozen=True)
class EdgeLabel:
    """A text and the offset and half width of its place."""

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
