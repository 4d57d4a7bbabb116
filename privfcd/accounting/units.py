"""Exact amounts: the decimal that a user wrote, and whole units of 10⁻²⁴.

A double such as 0.1 is not a tenth; the number that its owner wrote is its shortest decimal. Costs and budgets are
therefore read from that decimal and kept as integers, costs rounded up and budgets down, so that ten charges of
0.1 fit a budget of 1 and nothing that was spent is recorded as less.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

UNIT_DIGITS = 24
UNITS_IN_ONE = 10**UNIT_DIGITS


def decimal(value: float) -> Fraction:
    """Return the shortest decimal that reads back as `value`, exactly."""
    return _decimal(float(value))


@lru_cache(maxsize=4096)
def _decimal(value: float) -> Fraction:
    """Return the decimal; kept, because the same few amounts are read in every charge of a run."""
    return Fraction(repr(value))


def units_up(amount: Fraction) -> int:
    """Return `amount` in units, rounded up: for costs."""
    return math.ceil(amount * UNITS_IN_ONE)


def units_down(amount: Fraction) -> int:
    """Return `amount` in units, rounded down: for budgets."""
    return math.floor(amount * UNITS_IN_ONE)


def units_to_float(units: int) -> float:
    """Return units as a float, for reports."""
    return units / UNITS_IN_ONE


def float_down(exact: Fraction) -> float:
    """Return a double whose shortest decimal is at most `exact`, within one step of it."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.nextafter(math.inf, 0)
    return nearest if decimal(nearest) <= exact else math.nextafter(nearest, -math.inf)


def float_up(exact: Fraction) -> float:
    """Return a double whose shortest decimal is at least `exact`, within one step of it; inf where none is."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if decimal(nearest) >= exact else math.nextafter(nearest, math.inf)
