"""Numbers and names as the page shows them."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from decimal import ROUND_FLOOR, Context
from typing import Any

from privfcd.graphs.interchange import share

_SHOWN = 12
"""Numbers of a longer list that are shown."""


def printable(value: object) -> str:
    """Return a text in which nothing is invisible: control and format characters and lone surrogates are spelt out.

    What turns the direction of writing is among them, so that one name cannot rearrange the text around it. Joiners stay:
    writing needs them.
    """
    return "".join(
        character.encode("unicode_escape").decode() if _hidden(character) else character for character in str(value)
    )


def _hidden(character: str) -> bool:
    kind = unicodedata.category(character)
    return kind in ("Cc", "Cs", "Zl", "Zp") or (kind == "Cf" and character not in "\u200c\u200d")


def number(value: Any, digits: int = 4) -> str:
    """Return a number with so many digits; a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return printable(value)
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.{digits}g}"


def rounded_down(value: float, digits: int = 6) -> str:
    """Return a number of at least 0 with so many digits, rounded down: what is left is never shown as more."""
    if math.isinf(value) or value == 0:
        return f"{value:g}"
    exact = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(repr(value))
    return f"{float(exact):.{digits}g}"


def percent(value: float | None) -> str:
    """Return a share as a percentage; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else share(value)


def counted(count: int, singular: str, plural: str = "") -> str:
    """Return "1 edge", "2 edges"."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def size(count: int) -> str:
    """Return a number of bytes in a unit that suits it."""
    for unit, amount in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= amount:
            return f"{count / amount:.3g} {unit} ({count:,} bytes)"
    return f"{count:,} bytes"


def duration(seconds: float) -> str:
    """Return a time span in a unit that suits it."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} hours"
    if seconds >= 120:
        return f"{seconds / 60:.1f} minutes"
    return f"{seconds:.2f} seconds" if seconds >= 0.01 else f"{1000 * seconds:.2g} milliseconds"


def value_text(value: Any) -> str:
    """Return a parameter's or a fact's value; long lists are cut, and say so."""
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        value = value.tolist()
    if isinstance(value, float | int) and not isinstance(value, bool):
        return number(value, 6)
    if isinstance(value, Mapping):
        return "; ".join(f"{printable(key)}: {value_text(item)}" for key, item in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        shown = ", ".join(value_text(item) for item in value[:_SHOWN])
        return shown + (f", … ({len(value):,} in all)" if len(value) > _SHOWN else "") if value else "none"
    return printable(value)


def weight_words(model: Any) -> str:
    """Return what an edge's weight is; empty where edges have none."""
    weighted = any("weight" in data for *_, data in model.causal_graph_.edges(data=True))
    return type(model).weight if weighted else ""


def direction_words(model: Any) -> str:
    """Return what is to be known of the directions of a DAG of votes (`FedACD` by the paper's rules)."""
    if getattr(model, "orientation_", model) is not None or not model.causal_graph_.number_of_edges():
        return ""
    return (
        "Read the skeleton first: which pairs are joined. Graphs of one equivalence class fit equally well, so that an "
        "arrow that the class leaves open may point either way by chance, however many votes and reruns it has."
    )


def class_words(model: Any) -> str:
    """Return what an undirected edge means; empty where the graph has none."""
    if not any(data.get("undirected") for *_, data in model.causal_graph_.edges(data=True)):
        return ""
    return (
        "The result is an equivalence class: an edge without an arrowhead may point either way; the data cannot tell."
    )
