"""From text and cells to column names and finite numbers, with errors that name the place.

`source` in every function is what messages call the table. Rows are counted from 1 and the header is not one;
lines are a file's own lines, so the header is line 1.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Complex, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import InvalidTable
from privfcd.markup import one_line
from privfcd.reading import unzipped

_MISSING = {"", "na", "n/a", "nan", "+nan", "-nan", "<na>", "null", "none"}
_MISSING_TYPES = {"NoneType", "NAType", "NaTType"}
_MARKS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_CONSTANT = "; put a public constant there (FAQ: rows with missing values)"


class _Unusable(Exception):
    """What is wrong with one cell; the caller adds where it is."""


@dataclass(frozen=True)
class Wanted:
    """Which columns of a source that has names are taken.

    Attributes
    ----------
    columns : tuple of str or None
        The columns to take, in this order; None for all.
    drop : tuple of str
        Those to leave out of them.
    """

    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()


def choose(names: Sequence[str], wanted: Wanted, source: str) -> tuple[str, ...]:
    """Return the names of the columns that are taken.

    Raises
    ------
    InvalidTable
        A name is not there; or of those that are taken one is blank, or two are the same.
    """
    there, taken, dropped = set(names), set(wanted.columns or ()), set(wanted.drop)
    for name in (*(wanted.columns or ()), *wanted.drop):
        if name not in there:
            raise InvalidTable(
                f"{source}: there is no column {name!r}; the columns are {one_line(', '.join(names), 1000)}"
            )
    seen: dict[str, int] = {}
    for j, name in enumerate(names, start=1):
        if name in dropped or (wanted.columns is not None and name not in taken):
            continue
        if not name.strip():
            hint = "; a row index that was saved with the table? take the others by name, or save without it"
            raise InvalidTable(f"{source}: column {j} has no name{hint if j == 1 else ''}")
        if name in seen:
            raise InvalidTable(f"{source}: columns {seen[name]} and {j} have the same name {name!r}")
        seen[name] = j
    return tuple(name for name in (seen if wanted.columns is None else wanted.columns) if name not in dropped)


def column_numbers(cells: Any, column: str, source: str) -> NDArray[np.float64]:
    """Return a column that is in memory as finite float64 numbers, or raise InvalidTable naming the cell."""
    values = np.asarray(cells)
    masked = np.flatnonzero(np.ma.getmaskarray(cells))
    if masked.size:
        raise _at(source, column, int(masked[0]), "missing value (masked)")
    kind = values.dtype.kind
    if kind in "biu":
        return values.astype(np.float64)
    if kind == "f":
        with np.errstate(over="ignore"):
            result = values.astype(np.float64)
        bad = np.flatnonzero(~np.isfinite(result))
        if bad.size:
            raise _at(source, column, int(bad[0]), _not_finite(values[bad[0]]))
        return result
    if kind == "c":
        raise InvalidTable(f"{source}: column {column!r} holds complex numbers; real numbers are accepted")
    if kind not in "OUST":
        raise InvalidTable(f"{source}: column {column!r} holds {values.dtype}; real numbers are accepted")
    result = np.empty(len(values))
    for i, cell in enumerate(values):
        try:
            result[i] = _object_number(cell)
        except _Unusable as error:
            raise _at(source, column, i, str(error)) from None
    return result


def parse_delimited(
    content: bytes, zipped: bool, delimiter: str, wanted: Wanted, source: str
) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    """Parse delimited UTF-8 text with a header.

    Parameters
    ----------
    content : bytes
        The file's bytes; compressed with gzip where `zipped`.
    delimiter : str
        What stands between two cells.
    wanted : Wanted
        The columns to take; only their cells are looked at.

    Returns
    -------
    names : tuple of d str
    rows : ndarray of shape (n, d)

    Raises
    ------
    InvalidTable
        The text is not such a table; the message names the line, or the column and row.
    """
    text = _decode(content, zipped, source)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(reader)]
        _check_header(names, delimiter, source)
        chosen = choose(names, wanted, source)
        places = {name: j for j, name in enumerate(names)}  # those that are taken are different
        place = [places[name] for name in chosen]
        values = array("d")
        height, blank = 0, 0
        for record in reader:
            if not record:
                blank = blank or reader.line_num
                continue
            if blank:
                raise InvalidTable(f"{source}: line {blank} is blank")
            if len(record) != len(names):
                raise InvalidTable(
                    f"{source}: line {reader.line_num} has {len(record)} cells, the header has {len(names)}"
                )
            try:
                values.extend(_text_numbers([record[j] for j in place], chosen, height, source))
            except InvalidTable as error:
                texts = _texts_of(reader, [record], place, chosen)
                raise InvalidTable(f"{error}{also_text(texts, error, wanted, file=True)}") from None
            height += 1
    except csv.Error as error:
        raise InvalidTable(f"{source}: line {reader.line_num}: {error}") from error
    return chosen, np.frombuffer(values, dtype=np.float64).reshape(height, len(chosen))


def delimited_cells(
    content: bytes, zipped: bool, delimiter: str, source: str
) -> tuple[list[str], list[NDArray[np.object_]]]:
    """Return the names and the texts of each column of delimited text; see `parse_delimited`."""
    reader = csv.reader(io.StringIO(_decode(content, zipped, source), newline=""), delimiter=delimiter, strict=True)
    try:
        names = [name.strip() for name in next(reader)]
        _check_header(names, delimiter, source)
        records = []
        for record in reader:
            if len(record) != len(names) and (record or len(names) > 1):
                raise InvalidTable(
                    f"{source}: line {reader.line_num} has {len(record)} cells, the header has {len(names)}"
                )
            records.append(record or [""])
    except csv.Error as error:
        raise InvalidTable(f"{source}: line {reader.line_num}: {error}") from error
    columns = []
    for j in range(len(names)):
        cells = np.empty(len(records), dtype=object)
        cells[:] = [record[j] for record in records]
        columns.append(cells)
    return names, columns


def _decode(content: bytes, zipped: bool, source: str) -> str:
    if zipped:
        content = unzipped(content, source, InvalidTable)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidTable(f"{source}: not UTF-8 text: {error}; save it as UTF-8") from error
    if not text.strip():
        raise InvalidTable(f"{source}: the file is empty")
    return text


def _check_header(names: list[str], delimiter: str, source: str) -> None:
    if not names:
        raise InvalidTable(f"{source}: the first line must hold the columns' names, it is blank")
    if all(_is_number(name) for name in names):
        raise InvalidTable(
            f"{source}: the first line holds only numbers ({names[0]}, ...): "
            "probably a file without a header; put the columns' names in the first line"
        )
    others = [mark for mark in ",;\t" if mark != delimiter and mark in names[0]]
    if len(names) == 1 and others:
        raise InvalidTable(
            f"{source}: cells must be separated by {delimiter!r}; the first line seems to use {others[0]!r} "
            f"({_MARKS[others[0]]}). A .csv file has commas and a .tsv file tabs, both with decimal points: save it so"
        )


def _text_numbers(cells: list[str], names: Sequence[str], row: int, source: str) -> list[float]:
    try:
        numbers = [float(cell) for cell in cells]
        # float() also takes 1_000, nan and inf; those rows go the slow way, which knows what to say.
        if math.isfinite(sum(numbers)) and "_" not in "".join(cells):
            return numbers
    except ValueError:
        pass
    numbers = []
    for name, cell in zip(names, cells, strict=True):
        try:
            numbers.append(_text_number(cell.strip()))
        except _Unusable as error:
            raise _at(source, name, row, str(error)) from None
    return numbers


def _text_number(text: str) -> float:
    lower = text.lower()
    if lower in _MISSING:
        raise _Unusable(f"missing value ({text})" if text else "missing value (empty cell)")
    if lower in ("true", "false"):
        return float(lower == "true")
    if not _is_number(text):
        raise _Unusable(f"text {text!r}; numbers are accepted")
    number = float(text)
    if not math.isfinite(number):
        raise _Unusable("infinity" if "inf" in lower else f"{text} is beyond the range of floats")
    return number


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _object_number(cell: Any) -> float:
    if type(cell).__name__ in _MISSING_TYPES or (isinstance(cell, str) and not cell.strip()):
        raise _Unusable("missing value" if not isinstance(cell, str) else "missing value (empty cell)")
    if isinstance(cell, str | bytes):
        raise _Unusable(f"text {str(cell)!r}; convert the column to numbers first")
    if isinstance(cell, bool | np.bool_ | Real | Decimal):
        try:
            number = float(cell)
        except (OverflowError, ValueError):
            raise _Unusable("a number beyond the range of floats") from None
        if not math.isfinite(number):
            raise _Unusable(_not_finite(cell))
        return number
    if isinstance(cell, Complex):
        raise _Unusable(f"complex number {cell}; real numbers are accepted")
    raise _Unusable(f"a {type(cell).__name__}; numbers are accepted")


def _not_finite(value: Any) -> str:
    """Say why a value does not become a finite float64."""
    if value != value:
        return "missing value (NaN)"
    # A finite Decimal, fraction or long double that became infinite is below the infinity it turned into.
    return "infinity" if value in (math.inf, -math.inf) else f"{value} is beyond the range of floats"


def text_columns(names: Iterable[str], values: Iterable[Any]) -> list[str]:
    """Return the names of the columns in memory that hold text."""
    found = []
    for name, cells in zip(names, values, strict=True):
        held = np.asarray(cells)
        objects = held.dtype.kind == "O" and any(isinstance(cell, str) and cell.strip() for cell in held)
        if objects or held.dtype.kind in "UST":
            found.append(name)
    return found


def _texts_of(reader: Any, records: list[list[str]], place: Sequence[int], chosen: Sequence[str]) -> list[str]:
    """Return which of the chosen columns hold text in these records and those that are still to be read."""
    texts: set[int] = set()
    try:
        for record in (*records, *reader):
            for k, j in enumerate(place):
                if k not in texts and j < len(record) and _is_text(record[j].strip()):
                    texts.add(k)
    except csv.Error:  # what is wrong before it is said first
        pass
    return [chosen[k] for k in sorted(texts)]


def _is_text(cell: str) -> bool:
    return cell.lower() not in _MISSING | {"true", "false"} and not _is_number(cell)


def also_text(texts: Sequence[str], error: InvalidTable, wanted: Wanted, *, file: bool) -> str:
    """Return the end of a refusal of a cell: which columns hold text, and what to do about it."""
    if not texts:
        return ""
    others = [name for name in texts if f": column {name!r}, row " not in str(error)]
    too = f"; text too in {', '.join(map(repr, others))}" if others else ""
    plain = file and wanted.columns is None and not any("," in name for name in texts)
    flag = f" (in a shell: --drop {','.join(texts)})" if plain else ""
    return f"{too}; code {'them' if len(texts) > 1 else 'it'} as numbers, or leave out{flag}"


def _at(source: str, column: str, row: int, what: str) -> InvalidTable:
    what += _CONSTANT if what.startswith("missing value") else ""
    return InvalidTable(f"{source}: column {column!r}, row {row + 1}: {what}")
