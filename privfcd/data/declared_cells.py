"""From the cells of a declared column to numbers, NaN where a gap is allowed, and all that is wrong with them.

What is said of cells is for the table's owner only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.data.column import EPOCH, REFUSE, Column, as_text, days_since, mapped, number_text
from privfcd.markup import one_line

MISSING_WORDS = frozenset({"", "na", "n/a", "nan", "+nan", "-nan", "<na>", "null", "none", "nat"})
_MISSING_TYPES = {"NoneType", "NAType", "NaTType"}
_SHOWN = 5


class _Gap(Exception):
    """The cell has no value."""


class _Fault(Exception):
    """What is wrong with a cell."""


def declared_numbers(column: Column, cells: NDArray[Any]) -> tuple[NDArray[np.float64], list[str]]:
    """Return the numbers of a column, and what is wrong with its cells.

    Parameters
    ----------
    column : Column
    cells : ndarray of shape (n,)
        Of any type, masked or not.

    Returns
    -------
    numbers : ndarray of shape (n,)
        Codes of levels, or mapped numbers within the range; NaN for gaps that are no level.
    faults : list of str
    """
    values = _plain_cells(cells)
    if values.dtype.kind in "biuf" and not column.discrete and column.kind != "date":
        numbers = values.astype(np.float64)
        for text in column.missing_values:
            if (sentinel := _number_in(text)) is not None:
                numbers[numbers == sentinel] = np.nan
        wrong = {"infinity": np.flatnonzero(np.isinf(numbers))}
    else:
        numbers, wrong = _one_by_one(column, values)
    gaps = np.isnan(numbers)
    for places in wrong.values():
        gaps[places] = False
    faults = [_words(what, places, values) for what, places in wrong.items() if len(places)]
    if gaps.any() and column.missing == REFUSE:
        where = int(np.flatnonzero(gaps)[0]) + 1
        faults.append(
            f"{gaps.sum()} of {len(gaps)} cells have no value, first in row {where}; mend the table, or declare "
            'missing = "pairwise" or "category"'
        )
    if faults:
        return numbers, faults
    if column.discrete:
        if column.missing == "category":
            numbers[gaps] = len(column.levels)
        return numbers, []
    return _within(column, numbers)


def _within(column: Column, numbers: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[str]]:
    """Return numbers in the common unit, clipped and mapped."""
    faults = []
    known = numbers[~np.isnan(numbers)]
    if column.kind == "count" and ((known < 0) | (known != np.floor(known))).any():
        row = int(np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)) & ~np.isnan(numbers))[0]) + 1
        faults.append(f"a count must be a whole number of at least 0, got {numbers[row - 1]:g} in row {row}")
    with np.errstate(over="ignore"):
        numbers = numbers * column.factor
    if column.range is not None:
        numbers = np.clip(numbers, *column.range)
    outside = np.zeros(len(numbers), bool)
    if column.map == "log1p":
        outside = numbers <= -1
    elif column.map == "logit":
        outside = (numbers <= 0) | (numbers >= 1)
    if outside.any():
        row, needs = int(np.flatnonzero(outside)[0]) + 1, "above -1" if column.map == "log1p" else "inside (0, 1)"
        faults.append(
            f"map {column.map!r} needs values {needs}, got {numbers[row - 1]:g} in row {row}; or give a range"
        )
    if faults:
        return numbers, faults
    numbers = mapped(numbers, column.map)
    limits = column.limits
    if limits is not None:
        numbers = np.clip(numbers, *limits)
    if np.isinf(numbers).any():
        faults.append("a value is beyond the range of floats once it is multiplied by factor")
    return numbers, faults


def _one_by_one(column: Column, values: NDArray[Any]) -> tuple[NDArray[np.float64], dict[str, NDArray[np.int64]]]:
    """Return the number of each cell, NaN where it has none, and the places of cells that are wrong, by what is."""
    reader = _level_reader if column.discrete else _day_reader if column.kind == "date" else _number_reader
    read = reader(column)
    numbers = np.empty(len(values))
    wrong: dict[str, list[int]] = {}
    known: dict[tuple[type, Any], float | str] = {}
    for place, cell in enumerate(values.tolist() if values.dtype.kind not in "OM" else values):
        key = (type(cell), cell) if isinstance(cell, str | int | float | bool) and cell == cell else None
        found = known.get(key) if key is not None else None
        if found is None:
            try:
                found = read(cell)
            except _Gap:
                found = math.nan
            except _Fault as fault:
                found = str(fault)
            if key is not None:
                known[key] = found
        if isinstance(found, str):
            wrong.setdefault(found, []).append(place)
            found = math.nan
        numbers[place] = found
    return numbers, {what: np.array(places) for what, places in wrong.items()}


def _words(what: str, places: NDArray[np.int64], values: NDArray[Any]) -> str:
    shown = dict.fromkeys(one_line(repr(_shown(values[place])), 60) for place in places[:1000])
    some = ", ".join(list(shown)[:_SHOWN]) + (", ..." if len(shown) > _SHOWN else "")
    return f"{len(places)} of {len(values)} cells: {what}, got {some}; first in row {places[0] + 1}"


def _shown(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


def _plain_cells(cells: Any) -> NDArray[Any]:
    """Return cells as an array in which masked ones are None."""
    masked = np.ma.getmaskarray(cells)
    if masked.any():
        held = np.array(cells, dtype=object)
        held[masked] = None
        return held
    return np.asarray(cells)


def _refuse_gap(cell: Any) -> None:
    if type(cell).__name__ in _MISSING_TYPES or (isinstance(cell, float | np.floating) and cell != cell):
        raise _Gap
    if isinstance(cell, np.datetime64) and np.isnat(cell):
        raise _Gap
    if isinstance(cell, Decimal) and cell.is_nan():
        raise _Gap


def _number_in(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None


def _gap_test(column: Column) -> Callable[[str], bool]:
    """Return whether a text is declared to be a gap; -999.0 is -999."""
    texts = {text.casefold() for text in column.missing_values}
    numbers = {_number_in(text) for text in column.missing_values} - {None}
    return lambda text: text.casefold() in texts or _number_in(text) in numbers


def _number_reader(column: Column) -> Callable[[Any], float]:
    is_gap = _gap_test(column)

    def read(cell: Any) -> float:
        _refuse_gap(cell)
        if isinstance(cell, bytes):
            cell = cell.decode("utf-8", "replace")
        if isinstance(cell, str):
            text = cell.strip()
            if text.lower() in MISSING_WORDS or is_gap(text):
                raise _Gap
            if text.lower() in ("true", "false"):
                return float(text.lower() == "true")
            number = _number_in(text)
            if number is None:
                raise _Fault('a number is needed; for text declare kind = "categorical" and its levels')
            return number
        if isinstance(cell, datetime | date | np.datetime64):
            raise _Fault('a number is needed; for dates declare kind = "date"')
        if not isinstance(cell, bool | np.bool_ | Real | Decimal):
            raise _Fault("a number is needed")
        try:
            number = float(cell)
        except (OverflowError, ValueError):
            number = math.inf
        if not math.isfinite(number):
            raise _Fault("a finite number is needed")
        if is_gap(number_text(number)):
            raise _Gap
        return number

    return read


def _level_reader(column: Column) -> Callable[[Any], float]:
    fold = str.casefold if column.ignore_case else str
    texts: dict[str, float] = {}
    for text, level in column.written():
        texts[fold(text)] = float(column.levels.index(level))
    numbers: dict[float, set[float]] = {}
    for text, code in texts.items():
        if (number := _number_in(text)) is not None:
            numbers.setdefault(number, set()).add(texts.get(number_text(number), code))
    is_gap = _gap_test(column)
    other = None if column.other == REFUSE else float(column.levels.index(column.other))

    def read(cell: Any) -> float:
        _refuse_gap(cell)
        if isinstance(cell, bytes):
            cell = cell.decode("utf-8", "replace")
        if isinstance(cell, bool | np.bool_) and ("true" if cell else "false") not in texts:
            cell = int(cell)  # 0 and 1 in the file of another
        text = as_text(cell)
        if text is None:
            if isinstance(cell, Real):  # an infinity
                raise _Fault("not a declared level")
            text = str(cell)
        if fold(text) in texts:
            return texts[fold(text)]
        number = _number_in(text)
        if number is not None and len(numbers.get(number, ())) == 1:
            return next(iter(numbers[number]))
        if text.lower() in MISSING_WORDS or is_gap(text):
            raise _Gap
        if other is not None:
            return other
        raise _Fault(
            f"not a declared level ({', '.join(column.levels[:20])}); add it to levels or spellings, or set other"
        )

    return read


def _day_reader(column: Column) -> Callable[[Any], float]:
    is_gap, origin = _gap_test(column), column.origin or EPOCH

    def read(cell: Any) -> float:
        _refuse_gap(cell)
        if isinstance(cell, np.datetime64):
            cell = cell.astype("datetime64[us]").item()
        if isinstance(cell, datetime | date):
            if is_gap(cell.strftime("%Y-%m-%d")):
                raise _Gap
            return days_since(cell, origin)
        if isinstance(cell, str):
            text = cell.strip()
            if text.lower() in MISSING_WORDS or is_gap(text):
                raise _Gap
            try:
                return days_since(datetime.fromisoformat(text), origin)
            except ValueError:
                pass
        elif is_gap(as_text(cell) or ""):
            raise _Gap
        raise _Fault("a date such as 2020-01-31 is needed")

    return read
