"""Numbers as they were written: exactly, and as the double on the side that errs safely.

A double such as 0.1 is not a tenth; the number that its owner wrote is its shortest decimal, and that is what counts
here. Amounts come as Python numbers, NumPy scalars, `Decimal` or `Fraction`, and are converted once, on the way in:
arithmetic in the caller's type would round to the caller's precision (three digits for a `numpy.float16`).
"""

from __future__ import annotations

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Rational, Real
from typing import Any, Literal

Towards = Literal["up", "down", "nearest"]

_DIGITS = 400
"""Decimals beyond 10^±400 are beyond the doubles on either side; their digits are not written out."""


def decimal(value: float) -> Fraction:
    """Return the shortest decimal that reads back as `value`, exactly."""
    return _decimal(float(value))


@lru_cache(maxsize=4096)
def _decimal(value: float) -> Fraction:
    """Return the decimal; kept, because the same few amounts are read in every charge of a run."""
    return Fraction(repr(value))


def exact(value: Any) -> Fraction | float | None:
    """Return a real number exactly, an infinity or NaN as a float, and None for what is no real number.

    Booleans, text, complex numbers, spans of time and arrays are no real numbers. A float, and any number that a double
    holds exactly, is the double's shortest decimal.
    """
    if isinstance(value, float):
        return decimal(value) if math.isfinite(value) else float(value)
    if isinstance(value, bool) or (isinstance(value, Integral) and not hasattr(value, "__index__")):
        return None  # numpy.timedelta64 calls itself a whole number, and cannot be used as one
    if isinstance(value, Decimal):
        return _as_written(_from_decimal(value))
    if isinstance(value, Integral):
        return _as_written(Fraction(int(value)))
    if isinstance(value, Rational):
        return _as_written(Fraction(int(value.numerator), int(value.denominator)))
    if isinstance(value, Real) and hasattr(value, "as_integer_ratio"):
        try:
            return _as_written(Fraction(*map(int, value.as_integer_ratio())))
        except (OverflowError, ValueError):  # an infinity, or NaN
            return float(value)
    return None


def as_float(value: Any, towards: Towards = "nearest") -> float | None:
    """Return a real number as a double, rounded `towards` one side; None for what is no real number.

    Parameters
    ----------
    value : number
        As for `exact`.
    towards : str
        `"up"` for costs and sensitivities, `"down"` for noise and for what may be spent: a number that no double
        holds becomes one whose shortest decimal is on this side. Beyond the doubles: inf, or for `"down"` the largest.
    """
    if type(value) is float:
        return value
    number = exact(value)
    if number is None or isinstance(number, float):
        return number
    if towards == "nearest":
        try:
            return float(number)
        except OverflowError:
            return math.inf if number > 0 else -math.inf
    return float_up(number) if towards == "up" else float_down(number)


def float_down(exact: Fraction) -> float:
    """Return a double whose shortest decimal is at most `exact`, within one step of it; -inf where none is."""
    return -float_up(-exact) if exact < 0 else _down(exact)


def float_up(exact: Fraction) -> float:
    """Return a double whose shortest decimal is at least `exact`, within one step of it; inf where none is."""
    if exact < 0:
        return -_down(-exact)
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if decimal(nearest) >= exact else math.nextafter(nearest, math.inf)


def _down(exact: Fraction) -> float:
    try:
        nearest = float(exact)
    except OverflowError:
        return math.nextafter(math.inf, 0)
    return nearest if decimal(nearest) <= exact else math.nextafter(nearest, 0.0)


def _as_written(number: Fraction | float) -> Fraction | float:
    """Return what a double's owner wrote, where a double holds the number exactly; else the number itself."""
    try:
        nearest = float(number)
    except OverflowError:
        return number
    return decimal(nearest) if math.isfinite(nearest) and nearest == number else number


def _from_decimal(value: Decimal) -> Fraction | float:
    if not value.is_finite():
        return math.nan if value.is_nan() else math.copysign(math.inf, value)
    if value and abs(value.adjusted()) > _DIGITS:
        size = Fraction(10) ** (_DIGITS if value.adjusted() > 0 else -_DIGITS)
        return -size if value < 0 else size
    return Fraction(value)


class PlainNumbers:
    """Base of frozen dataclasses with numbers in them, alone or in tuples: keeps them as Python's own.

    NumPy scalars, `Decimal` and `Fraction` become `float` or `int` once, when the object is made.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            given = getattr(self, field.name)
            plain = _plain(given)
            if plain is not given:
                object.__setattr__(self, field.name, plain)


def _plain(value: Any) -> Any:
    """Return a number as Python's own, tuples entry by entry, and anything else as it is."""
    if isinstance(value, tuple) and type(value) is tuple:
        entries = tuple(_plain(entry) for entry in value)
        return value if all(new is old for new, old in zip(entries, value, strict=True)) else entries
    if type(value) in (float, int, bool, str) or value is None:
        return value
    if isinstance(value, Integral):
        return int(value)
    number = as_float(value)
    return value if number is None else number
