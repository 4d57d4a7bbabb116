"""Small charts of what a learner recorded round by round: points and ticks, which the template draws.

A chart is 320 units wide whatever the screen, so that its text stays readable on a phone; several lie beside each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privfcd.reports.html.wording import number, printable

WIDTH, HEIGHT = 320, 190
LEFT, RIGHT, TOP, BOTTOM = 52, 308, 12, 156
_MOST_POINTS = 400
_LARGEST = 1e300
"""Beyond it, sums and differences of doubles overflow: what came so far is in the table only."""
_CLOCKS = ("round", "step", "layer")
_APART = (*_CLOCKS, "phase", "bytes", "seconds", "nodes", "for", "against")

MEANING = {
    "h": "h: how far from acyclic (0: no cycle)",
    "edges": "edges above the threshold",
    "support": "weights that are not 0",
    "loss": "loss",
    "alpha": "Lagrange multiplier of h",
    "rho": "penalty on h (not zCDP's rho)",
    "edges before": "edges before the layer",
    "edges after": "edges after the layer",
    "masked": "edges masked in the layer",
}


@dataclass(frozen=True)
class Tick:
    """A place on an axis, and its text."""

    place: float
    text: str


@dataclass(frozen=True)
class Chart:
    """One line over the rounds.

    Attributes
    ----------
    title, clock : str
        What is drawn, over what.
    points : str
        "x,y x,y ..." of the line, in the units of the picture.
    dots : sequence of (float, float)
        The same where they are few enough to be marked.
    across, up : sequence of Tick
        Ticks of the axes.
    logarithmic : bool
    words : str
        What a reader who does not see it is told.
    note : str
        What could not be drawn.
    """

    title: str
    clock: str
    points: str
    dots: Sequence[tuple[float, float]]
    across: Sequence[Tick]
    up: Sequence[Tick]
    logarithmic: bool
    words: str
    note: str


def charts(history: Sequence[Mapping[str, Any]]) -> list[Chart]:
    """Return a chart for each number that was recorded in at least two rounds; none for a learner of one step.

    Rows without numbers, such as the steps of a search over classes, give none either.
    """
    clock = next((name for name in _CLOCKS if history and name in history[0]), None)
    if clock is None or len(history) < 2 or not all(_real(row.get(clock)) for row in history):
        return []
    made = []
    for name in history[0]:
        values = [(float(row[clock]), float(row[name])) for row in history if _real(row.get(name))]
        if name not in _APART and len(values) > 1 and all(abs(value) <= _LARGEST for _, value in values):
            made.append(_chart(name, clock, values))
    return made


def _real(value: Any) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < 10**308 if isinstance(value, int) else math.isfinite(value)


def _chart(name: str, clock: str, values: Sequence[tuple[float, float]]) -> Chart:
    positive = [y for _, y in values if y > 0]
    logarithmic = (
        len(positive) >= max(2, len(values) // 2)
        and all(y >= 0 for _, y in values)
        and max(positive) > 50 * min(positive)
    )
    drawn = _thinned([(x, y) for x, y in values if y > 0 or not logarithmic])
    up, low, high = (_decades if logarithmic else _steps)([y for _, y in drawn])
    first, last = values[0][0], values[-1][0]

    def place(x: float, y: float) -> tuple[float, float]:
        along = (x - first) / (last - first) if last > first else 0.5
        raised = (_scaled(y, logarithmic) - low) / (high - low)
        return round(LEFT + along * (RIGHT - LEFT), 1), round(BOTTOM - raised * (BOTTOM - TOP), 1)

    places = [place(x, y) for x, y in drawn]
    zeros = len(values) - len([1 for _, y in values if y > 0 or not logarithmic])
    title = MEANING.get("edges after" if (clock, name) == ("layer", "edges") else name, printable(name))
    return Chart(
        title,
        clock,
        " ".join(f"{x:g},{y:g}" for x, y in places),
        places if len(places) <= 24 else (),
        [Tick(place(x, values[0][1] or 1.0)[0], f"{x:g}") for x in _across(first, last)],
        [Tick(round(BOTTOM - (at - low) / (high - low) * (BOTTOM - TOP), 1), text) for at, text in up],
        logarithmic,
        f"{title}, from {number(values[0][1])} in {clock} {first:g} to {number(values[-1][1])} in {clock} {last:g}; "
        f"least {number(min(y for _, y in values))}, most {number(max(y for _, y in values))}",
        f"{zeros} of {len(values)} values {'is' if zeros == 1 else 'are'} 0, which a logarithmic scale does not show"
        if zeros
        else "",
    )


def _thinned(values: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most `_MOST_POINTS` points, of each stretch the least and the most."""
    if len(values) <= _MOST_POINTS:
        return values
    kept = {0, len(values) - 1}
    stretch = math.ceil(2 * len(values) / _MOST_POINTS)
    for start in range(0, len(values), stretch):
        part = range(start, min(start + stretch, len(values)))
        kept |= {min(part, key=lambda k: values[k][1]), max(part, key=lambda k: values[k][1])}
    return [values[k] for k in sorted(kept)]


def _scaled(value: float, logarithmic: bool) -> float:
    return math.log10(value) if logarithmic else value


def _decades(values: Sequence[float]) -> tuple[list[tuple[float, str]], float, float]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    apart = math.ceil((high - low) / 5)
    high += -(high - low) % apart
    return [(float(power), _power(power)) for power in range(low, high + 1, apart)], float(low), float(high)


def _power(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -3 <= exponent <= 4 else f"1e{exponent}"


def _steps(values: Sequence[float]) -> tuple[list[tuple[float, str]], float, float]:
    """Return ticks at round numbers; the axis begins at 0 where all values are at least 0."""
    low, high = min(0.0, *values), max(0.0, *values)
    if high - low < 1e-300:  # nothing to tell apart, or too little for steps to be numbers
        high = low + 1.0
    rough = (high - low) / 4 or 1.0  # a quarter of the smallest double is 0
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * (1 - 1e-12))
    if all(value == int(value) for value in values):
        step = max(1.0, math.ceil(step))
    first, last = math.floor(low / step), math.ceil(high / step)
    return [(k * step, f"{k * step:.6g}") for k in range(first, last + 1)], first * step, last * step


def _across(first: float, last: float) -> list[float]:
    middle = (first + last) // 2
    return [first, middle, last] if first < middle < last else [first, last]
