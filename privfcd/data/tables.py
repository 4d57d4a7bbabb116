"""Tables in: read arrays, data frames and files, check every cell, align columns, split among parties.

Errors say what is wrong with which cell, so they are for the table's owner only and must not be sent on.
Rows are counted from 1 and the header is not a row.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privfcd.checks import UNWRITABLE, count, refuse
from privfcd.data.cells import Wanted, also_text, choose, column_numbers, delimited_cells, parse_delimited, text_columns
from privfcd.errors import InvalidParameter, InvalidTable

if TYPE_CHECKING:
    from privfcd.data.schema import Schema

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_SUFFIXES = ".csv, .csv.gz, .tsv, .tsv.gz or .parquet"
_IN_MEMORY = ("array", "data frame", "Arrow table")
_HINTS = {
    "LazyFrame": "it has no rows yet: give frame.collect()",
    "Series": "a single column is series.to_frame()",
    "dict": "columns by name are pandas.DataFrame(columns)",
    "list": "a list of rows is numpy.array(rows)",
}


@dataclass(frozen=True, eq=False)
class Table:
    """Named columns of finite numbers.

    Attributes
    ----------
    columns : tuple of d str
        Different, non-empty names.
    rows : ndarray of shape (n, d)
        float64, C-contiguous, read-only, n >= d; a copy that shares no memory with its source. Not printed. NaN for gaps
        that a schema allows.
    schema : Schema or None
        What was declared of the columns, where they are its numbers.
    """

    columns: tuple[str, ...]
    rows: NDArray[np.float64] = field(repr=False)
    schema: Schema | None = field(default=None, repr=False)


def read_table(source: object, columns: Sequence[str] | None = None, *, drop: Sequence[str] = ()) -> Table:
    """Read and check a table.

    Parameters
    ----------
    source : ndarray, data frame or path
        A two-dimensional array; a pandas or polars DataFrame (anything with `columns` and `to_numpy`), or a pyarrow
        Table or RecordBatch; or the path of a .csv, .csv.gz, .tsv, .tsv.gz or .parquet file. Text files are UTF-8 with
        names in the first line. Parquet needs `pip install privfcd[parquet]`. A polars LazyFrame has no rows yet, and is
        refused: give `frame.collect()`.
    columns : sequence of str, optional
        For an array, the columns' names (x0, x1, ... if left out). For a source that has names, the columns
        to take, in this order; the others are not looked at. A data frame whose labels are 0, 1, 2, ...
        counts as an array.
    drop : sequence of str
        Columns of a source that has names to leave out, of those to take; their cells are not looked at.

    Returns
    -------
    Table
        Booleans (and the texts true and false in files) are 0 and 1; whole numbers beyond 2**53 are rounded
        to the nearest float. Constant columns are accepted.

    Raises
    ------
    InvalidTable
        The source cannot be read, or a name or a cell cannot be used: no such file, empty, no rows, ragged
        lines, unnamed or repeated columns, a first line of numbers, text, a missing value, an infinity, a
        number beyond the float range, complex numbers.
    InvalidParameter
        `columns` or `drop` are not different, non-empty texts; not one column a column of an array; `drop` for an array.
    """
    left_out = _wanted("drop", drop) if drop else ()
    if isinstance(source, np.ndarray) and left_out:
        raise refuse("drop", list(left_out), "left out for an array, whose columns have no names")
    wanted = Wanted(None if columns is None else _wanted("columns", columns), left_out)
    if isinstance(source, np.ndarray):
        return _from_array(source, wanted.columns, "array")
    if hasattr(source, "to_numpy") and hasattr(source, "columns"):
        return _from_frame(source, wanted, "data frame")
    if hasattr(source, "column_names") and hasattr(source, "to_pydict"):
        return _from_arrow(source, wanted, "Arrow table")
    if isinstance(source, str | os.PathLike):
        return _from_path(Path(source), wanted)
    kind = type(source).__name__
    hint = f"; {_HINTS[kind]}" if kind in _HINTS else ""
    raise InvalidTable(f"a table must be a two-dimensional array, a data frame or a path, got {kind}{hint}")


def read_cells(source: object, columns: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the cells of a table's columns as they are: text of files, values of frames. Nothing is checked of them.

    Parameters
    ----------
    source : ndarray, mapping, data frame or path
        As for `read_table`; or a mapping of name to cells.
    columns : sequence of str, optional
        The names of an array's columns.

    Returns
    -------
    dict of str to ndarray of shape (n,)
        Names are stripped.

    Raises
    ------
    InvalidTable
        The source cannot be read: no such file, empty, ragged lines, columns with one name, a MultiIndex.
    """
    if isinstance(source, np.ndarray) or (hasattr(source, "columns") and _numbered(list(source.columns))):
        return _cells_of_array(source, columns)
    if columns is not None:
        raise refuse("columns", list(columns), "left out for a source that has names")
    if isinstance(source, str | os.PathLike):
        return _cells_of_file(Path(source))
    if isinstance(source, Mapping):
        return _named([str(name) for name in source], [np.asanyarray(each) for each in source.values()], "mapping")
    if hasattr(source, "to_numpy") and hasattr(source, "columns"):
        labels = list(source.columns)
        _check_labels(labels, "data frame")
        return _named(labels, [_cells(_column(source, j)) for j in range(len(labels))], "data frame")
    if hasattr(source, "column_names") and hasattr(source, "to_pydict"):
        table: Any = source
        labels = list(table.column_names)
        return _named(labels, [_cells(table.column(j)) for j in range(len(labels))], "Arrow table")
    raise InvalidTable(f"a table must be an array, a data frame, a mapping or a path, got {type(source).__name__}")


def align(tables: Iterable[Table]) -> list[Table]:
    """Bring all tables' columns into the first table's order, by name.

    Parameters
    ----------
    tables : iterable of Table
        At least one.

    Returns
    -------
    list of Table
        In the order in which they were given.

    Raises
    ------
    InvalidTable
        A table has other columns than the first; the message names the missing and the extra ones.
    InvalidParameter
        There is no table.
    """
    given = list(tables)
    if not given:
        raise InvalidParameter("tables must hold at least one table, got none")
    order = given[0].columns
    aligned = []
    for k, table in enumerate(given):
        places = {name: j for j, name in enumerate(table.columns)}
        missing = [name for name in order if name not in places]
        extra = sorted(places.keys() - set(order), key=places.__getitem__)
        if missing or extra:
            raise InvalidTable(
                f"tables[{k}] must have the columns of tables[0]: missing {missing or 'none'}, extra {extra or 'none'}"
            )
        if table.columns == order:
            aligned.append(table)
        else:
            place = [places[name] for name in order]
            aligned.append(_table(order, table.rows[:, place], f"tables[{k}]"))
    return aligned


def split_rows(
    rows: NDArray[Any],
    parties: int | None = None,
    sizes: Sequence[int] | None = None,
    seed: int | None = None,
) -> list[NDArray[Any]]:
    """Split rows among parties.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    parties : int, optional
        Number of parts, 1 to n. Where n does not divide, no row is left out: the first n mod parties parts
        have one row more than the others.
    sizes : sequence of int, optional
        The parts' numbers of rows instead, each at least 1, n in all. (Equal parts that leave rows out are
        `split_rows(rows[: parties * size], parties)`.)
    seed : int, optional
        Shuffle the rows first, with this seed; without it the parts are in the rows' order.

    Returns
    -------
    list of ndarray
        Copies, C-contiguous. Every row is in exactly one of them.

    Raises
    ------
    InvalidParameter
        Both or none of `parties` and `sizes`, more parties than rows, sizes that do not add up to n.
    """
    if not isinstance(rows, np.ndarray) or rows.ndim != 2:
        shape = f"shape {rows.shape}" if isinstance(rows, np.ndarray) else type(rows).__name__
        raise InvalidParameter(f"rows must be a two-dimensional array, got {shape}")
    n = rows.shape[0]
    if (parties is None) == (sizes is None):
        raise InvalidParameter(f"give either parties or sizes, got parties={parties!r} and sizes={sizes!r}")
    if sizes is None:
        number = count("parties", parties)
        if number > n:
            raise refuse("parties", number, f"at most the number of rows, {n}")
        parts = [n // number + (k < n % number) for k in range(number)]
    else:
        parts = [count(f"sizes[{k}]", size) for k, size in enumerate(sizes)]
        if sum(parts) != n:
            raise InvalidParameter(f"sizes must add up to the {n} rows, got {parts}, in all {sum(parts)}")
    order = np.arange(n)
    if seed is not None:
        order = np.random.default_rng(count("seed", seed, least=0)).permutation(n)
    cuts = np.cumsum(parts)[:-1]
    return [np.ascontiguousarray(rows[chosen]) for chosen in np.split(order, cuts)]


def _from_array(array: NDArray[Any], wanted: tuple[str, ...] | None, source: str) -> Table:
    if not isinstance(array, np.ma.MaskedArray):
        array = np.asarray(array)
    if array.ndim != 2:
        hint = "; a single column is array.reshape(-1, 1)" if array.ndim == 1 else ""
        raise InvalidTable(f"{source}: must have two dimensions, rows and columns, got {array.shape}{hint}")
    names = tuple(f"x{j}" for j in range(array.shape[1])) if wanted is None else wanted
    if len(names) != array.shape[1]:
        raise InvalidParameter(f"columns must be {array.shape[1]} names, one a column, got {len(names)}")
    if array.dtype.kind in "biuf" and not isinstance(array, np.ma.MaskedArray):
        _check_shape(array.shape[0], names, source)
        if np.isfinite(array).all() and array.dtype.itemsize <= 8:
            return _table(names, array, source)
    return _from_columns(names, [array[:, j] for j in range(len(names))], array.shape[0], source, Wanted(names))


def _from_frame(frame: Any, wanted: Wanted, source: str) -> Table:
    labels = list(frame.columns)
    if _numbered(labels):
        if wanted.drop:
            raise refuse("drop", list(wanted.drop), "left out for a frame whose columns have no names")
        return _from_array(np.asarray(frame.to_numpy()), wanted.columns, source)
    _check_labels(labels, source)
    names = choose(labels, wanted, source)
    return _from_columns(names, [_cells(frame[name]) for name in names], len(frame), source, wanted)


def _numbered(labels: list[Any]) -> bool:
    """Return whether a frame's labels are 0, 1, 2, ...: it has no names."""
    return all(isinstance(label, int | np.integer) for label in labels) and labels == list(range(len(labels)))


def _check_labels(labels: list[Any], source: str) -> None:
    for label in labels:
        if isinstance(label, tuple):
            raise InvalidTable(
                f"{source}: column names must be texts, got a MultiIndex such as {label!r}; join its levels with "
                "frame.columns = ['_'.join(map(str, label)) for label in frame.columns]"
            )
        if not isinstance(label, str):
            raise InvalidTable(
                f"{source}: column names must be texts, got {label!r} ({type(label).__name__}); "
                "rename with frame.columns = [str(label) for label in frame.columns]"
            )


def _column(frame: Any, place: int) -> Any:
    """Return a column of a pandas or polars frame by its place: names may be the same twice."""
    return frame.iloc[:, place] if hasattr(frame, "iloc") else frame.to_series(place)


def _named(names: Sequence[str], cells: Sequence[NDArray[Any]], source: str) -> dict[str, NDArray[Any]]:
    named: dict[str, NDArray[Any]] = {}
    for name, values in zip((name.strip() for name in names), cells, strict=True):
        if name in named:
            raise InvalidTable(f"{source}: two columns have the name {name!r}; rename one")
        if values.ndim != 1 or len(values) != len(cells[0]):
            raise InvalidTable(f"{source}: column {name!r} must have {len(cells[0])} cells, got shape {values.shape}")
        named[name] = values
    _check_shape(len(cells[0]) if cells else 0, list(named), source)
    return named


def _cells_of_array(source: Any, columns: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    array = source if isinstance(source, np.ndarray) else source.to_numpy()
    if array.ndim != 2:
        raise InvalidTable(f"array: must have two dimensions, rows and columns, got {array.shape}")
    names = [f"x{j}" for j in range(array.shape[1])] if columns is None else list(_wanted("columns", columns))
    if len(names) != array.shape[1]:
        raise refuse("columns", names, f"{array.shape[1]} names, one a column")
    return _named(names, [array[:, j] for j in range(len(names))], "array")


def _from_arrow(table: Any, wanted: Wanted, source: str) -> Table:
    labels = list(table.column_names)
    names = choose(labels, wanted, source)
    return _from_columns(
        names, [_cells(table.column(labels.index(name))) for name in names], len(table), source, wanted
    )


def _cells(column: Any) -> NDArray[Any]:
    """Return a column of a data frame as an array: of Python objects where values are missing, or NumPy has no such type.

    polars and Arrow make NaN of a missing number, which could not be told from one that was computed.
    """
    nulls = getattr(column, "null_count", 0)
    if not (nulls() if callable(nulls) else nulls):
        try:
            values = np.asarray(column.to_numpy())
            if values.ndim == 1:
                return values
        except (
            Exception
        ):  # each library has its own errors for types that NumPy does not have; the cells are looked at below
            pass
    cells = column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()
    return np.fromiter(cells, dtype=object, count=len(cells))


def _from_columns(names: tuple[str, ...], values: list[Any], height: int, source: str, wanted: Wanted) -> Table:
    _check_shape(height, names, source)
    rows = np.empty((height, len(names)))
    for j, (name, cells) in enumerate(zip(names, values, strict=True)):
        try:
            rows[:, j] = column_numbers(cells, name, source)
        except InvalidTable as error:
            texts = text_columns(names[j:], values[j:])
            raise InvalidTable(f"{error}{also_text(texts, error, wanted, file=source not in _IN_MEMORY)}") from None
    return _table(names, rows, source)


def _from_path(path: Path, wanted: Wanted) -> Table:
    source = str(path)
    kind, zipped, content = _content(path)
    if kind == ".parquet":
        return _from_frame(_read_parquet(path), wanted, source)
    names, rows = parse_delimited(content, zipped, _DELIMITERS[kind], wanted, source)
    return _table(names, rows, source)


def _cells_of_file(path: Path) -> dict[str, NDArray[Any]]:
    kind, zipped, content = _content(path)
    if kind == ".parquet":
        return read_cells(_read_parquet(path))
    names, columns = delimited_cells(content, zipped, _DELIMITERS[kind], str(path))
    return _named(names, columns, str(path))


def _content(path: Path) -> tuple[str, bool, bytes]:
    """Return the kind of a table's file, whether it is compressed, and what it holds."""
    source = str(path)
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    zipped = suffixes[-1:] == [".gz"]
    kind = (suffixes[-2:-1] if zipped else suffixes[-1:]) or [""]
    if kind[0] not in _DELIMITERS and (zipped or kind[0] != ".parquet"):
        raise InvalidTable(f"{source}: a table file must end in {_SUFFIXES}")
    if not path.exists():
        raise InvalidTable(f"{source}: there is no such file")
    if path.is_dir():
        raise InvalidTable(f"{source}: this is a directory, a table must be a file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InvalidTable(f"{source}: cannot be read: {error.strerror}") from error
    if not content:
        raise InvalidTable(f"{source}: the file is empty")
    return kind[0], zipped, content


def _table(names: tuple[str, ...], rows: NDArray[Any], source: str) -> Table:
    _check_shape(rows.shape[0], names, source)
    own = np.array(rows, dtype=np.float64, order="C")
    own.setflags(write=False)
    return Table(names, own)


def _check_shape(height: int, names: Sequence[str], source: str) -> None:
    if not names:
        raise InvalidTable(f"{source}: there are no columns")
    if height == 0:
        raise InvalidTable(f"{source}: there are no rows")
    for name in names:
        if UNWRITABLE.search(name):
            raise InvalidTable(f"{source}: column names must not hold control characters, got {name!r}")


def _wanted(what: str, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise refuse(what, columns, "a sequence of names")
    names = tuple(columns)
    before: set[str] = set()
    for k, name in enumerate(names):
        if not isinstance(name, str) or not name.strip():
            raise refuse(f"{what}[{k}]", name, "a non-empty text")
        if name in before:
            raise refuse(f"{what}[{k}]", name, "different from the names before it")
        before.add(name)
    if not names:
        raise refuse(what, columns, "at least one name")
    return names


def _read_parquet(path: Path) -> Any:
    try:
        import pandas as pd

        return pd.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise InvalidTable(f"{path}: reading Parquet needs pandas and pyarrow: pip install privfcd[parquet]") from error
    except Exception as error:
        raise InvalidTable(f"{path}: not a readable Parquet file: {error}") from error
