"""How wide a name is when drawn, and names cut to fit: by estimate, as no font is at hand.

The widths are of common sans-serif fonts in units of the font's size, on the large side: an estimate that is too small
would let labels overlap.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable

_NARROW = frozenset("ijlI.,:;'`|!()[]{}ft r/\\\"-1")
_WIDE = frozenset("mwMW@%&—…ŒÆœæ")
_CUT = "…"


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
    line = " ".join(text.split()) or text
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
