"""Whole units of 10⁻²⁴.

Costs and budgets are read from the decimals that were written (see `privfcd.amounts`) and kept as integers, costs
rounded up and budgets down, so that ten charges of 0.1 fit a budget of 1 and nothing that was spent is recorded as less.
"""

from __future__ import annotations

import math
from fractions import Fraction

UNIT_DIGITS = 24
UNITS_IN_ONE = 10**UNIT_DIGITS
MOST_RELEASES = 10**15
"""More releases of one kind than this are refused: their costs could not be computed with in doubles."""


def units_up(amount: Fraction) -> int:
    """Return `amount` in units, rounded up: for costs."""
    return math.ceil(amount * UNITS_IN_ONE)


def units_down(amount: Fraction) -> int:
    """Return `amount` in units, rounded down: for budgets."""
    return math.floor(amount * UNITS_IN_ONE)


def units_to_float(units: int) -> float:
    """Return units as a float, for reports."""
    return units / UNITS_IN_ONE


def units_text(units: int) -> str:
    """Return an amount as the exact decimal that it is."""
    digits = str(abs(units)).zfill(UNIT_DIGITS + 1)
    decimals = digits[-UNIT_DIGITS:].rstrip("0")
    return ("-" if units < 0 else "") + digits[:-UNIT_DIGITS] + ("." + decimals if decimals else "")
