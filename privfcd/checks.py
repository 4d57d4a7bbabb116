"""Checks of parameters, each with a message that names the argument, the value and what is accepted."""

from __future__ import annotations

import math
import os
import re
from numbers import Integral
from typing import Any, TypeVar

from privfcd.amounts import Towards, as_float
from privfcd.errors import InvalidParameter

Kind = TypeVar("Kind")

UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML 1.0 cannot carry: names have none of them, so that every name can go to every kind of file."""


_SHOWN = 400
"""So many characters of a refused value are shown."""


def refuse(name: str, value: Any, accepted: str) -> InvalidParameter:
    """Return the error for `name`; the caller raises it."""
    return InvalidParameter(f"{name} must be {accepted}, got {shown(value)}")


def shown(value: Any) -> str:
    """Return a value as text for a message: cut where it is long, and its type where Python cannot write it."""
    try:
        text = repr(value)
    except (RecursionError, ValueError):  # nested too deeply, or an integer of too many digits
        return f"a value of type {type(value).__name__} that is too large to write"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


def instance(name: str, value: Any, kind: type[Kind], accepted: str) -> Kind:
    """Return a value that is of a class, or refuse it with what is accepted instead."""
    if not isinstance(value, kind):
        raise refuse(name, value, accepted)
    return value


def path(name: str, value: Any) -> str | os.PathLike[str]:
    """Return a value that names a file."""
    if not isinstance(value, str | os.PathLike):
        raise refuse(name, value, "a path, as text or pathlib.Path")
    return value


def real(name: str, value: Any, accepted: str = "a finite number", towards: Towards = "nearest") -> float:
    """Return a real number of any type as a float, see `amounts`; booleans, text, NaN and infinities are refused."""
    number = as_float(value, towards)
    # beyond the doubles: rounding down would make the largest double of it
    if number is None or not math.isfinite(number) or as_float(value) == math.inf:
        raise refuse(name, value, accepted)
    return number


def positive(name: str, value: Any, towards: Towards = "nearest") -> float:
    """Return `value` as a finite float above 0."""
    accepted = "a finite number above 0"
    number = real(name, value, accepted, towards)
    if number <= 0:
        raise refuse(name, value, accepted)
    return number


def moderate(name: str, value: Any) -> float:
    """Return a constant that can be squared and divided by without leaving the range of doubles."""
    accepted = "a number in [1e-50, 1e50]"
    number = real(name, value, accepted)
    if not 1e-50 <= number <= 1e50:
        raise refuse(name, value, accepted)
    return number


def bound(name: str, value: Any) -> float:
    """Return a bound on values, whose square is a constant that can be computed with."""
    accepted = "a number in [1e-24, 1e24]"
    number = real(name, value, accepted)
    if not 1e-24 <= number <= 1e24:
        raise refuse(name, value, accepted)
    return number


def non_negative(name: str, value: Any, towards: Towards = "nearest") -> float:
    """Return `value` as a finite float of at least 0."""
    accepted = "a finite number of at least 0"
    number = real(name, value, accepted, towards)
    if number < 0:
        raise refuse(name, value, accepted)
    return number + 0.0  # -0.0 is 0.0


def scale(name: str, value: Any) -> float:
    """Return a noise scale: one finite number of at least 0 (0 adds no noise and is charged as non-private)."""
    return non_negative(name, value, "down")


def delta(name: str, value: Any, *, zero: bool = True, one: bool = False, towards: Towards = "down") -> float:
    """Return a delta: in [0, 1), without 0 where `zero` is False, and with 1 where `one` is True."""
    accepted = f"in {'[' if zero else '('}0, 1{']' if one else ')'}"
    number = real(name, value, accepted, towards)
    if not 0 <= number <= 1 or (number == 0 and not zero) or (number == 1 and not one):
        raise refuse(name, value, accepted)
    return number


def fraction(name: str, value: Any) -> float:
    """Return a share: in (0, 1)."""
    number = real(name, value, "in (0, 1)")
    if not 0 < number < 1:
        raise refuse(name, value, "in (0, 1)")
    return number


def count(name: str, value: Any, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number of at least `least`, and at most `most` where that is given."""
    accepted = f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")
    whole = isinstance(value, Integral) and not isinstance(value, bool) and hasattr(value, "__index__")
    if not whole or int(value) < least:
        raise refuse(name, value, accepted)
    if most is not None and int(value) > most:  # its digits may be more than Python writes
        raise InvalidParameter(f"{name} must be {accepted}, got one of {int(value).bit_length()} bits")
    return int(value)
