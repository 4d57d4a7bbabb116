"""Columns aligned between parties, and rows split among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from privfcd.data.tables import Table, align, read_table, split_rows
from privfcd.errors import InvalidParameter, InvalidTable


@settings(deadline=None)
@given(st.permutations(["a", "b", "c"]), st.permutations(["a", "b", "c"]))
def test_align_goes_by_name(first: list[str], second: list[str]) -> None:
    values = {"a": 1.0, "b": 2.0, "c": 3.0}
    tables = [
        read_table(np.tile([values[name] for name in order], (4, 1)), columns=order)
        for order in (first, second)
    ]
    for table in align(tables):
        assert table.columns == tuple(first)
        assert table.rows[0].tolist() == [values[name] for name in first]
        assert table.rows.flags.c_contiguous and not table.rows.flags.writeable


def test_align_names_missing_and_extra_columns() -> None:
    rows = np.ones((3, 2))
    tables = [Table(("a", "b"), rows), Table(("b", "a"), rows), Table(("a", "z"), rows)]
    with pytest.raises(InvalidTable, match=r"tables\[2\].*missing \['b'\], extra \['z'\]"):
        align(tables)
    with pytest.raises(InvalidTable, match=r"missing none, extra \['c'\]"):
        align([Table(("a", "b"), rows), Table(("a", "b", "c"), np.ones((3, 3)))])
    with pytest.raises(InvalidParameter, match="at least one table"):
        align([])


@settings(deadline=None)
@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12)), st.data())
def test_split_rows_is_a_partition(rows: np.ndarray, data: st.DataObject) -> None:
    n = len(rows)
    rows = np.column_stack([np.arange(n), rows])  # a mark on every row
    parties = data.draw(st.integers(1, n))
    seed = data.draw(st.none() | st.integers(0, 10))
    parts = split_rows(rows, parties=parties, seed=seed)
    sizes = [len(part) for part in parts]
    assert sizes == [len(part) for part in np.array_split(np.arange(n), parties)]
    together = np.concatenate(parts)
    order = together[:, 0].astype(int)
    assert sorted(order) == list(range(n))
    assert np.array_equal(together, rows[order], equal_nan=True)
    assert seed is not None or order.tolist() == list(range(n))
    again = split_rows(rows, sizes=sizes, seed=seed)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(parts, again, strict=True))
    assert all(part.flags.c_contiguous and not np.shares_memory(part, rows) for part in parts)


def test_split_rows_shuffles_with_its_seed() -> None:
    rows = np.arange(200.0).reshape(100, 2)
    one, other = split_rows(rows, 3, seed=1), split_rows(rows, 3, seed=2)
    assert [len(part) for part in one] == [34, 33, 33]
    assert not np.array_equal(one[0], other[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either parties or sizes"),
        ({"parties": 2, "sizes": [2, 3]}, "either parties or sizes"),
        ({"parties": 0}, "parties must be a whole number of at least 1, got 0"),
        ({"parties": 2.0}, "parties must be"),
        ({"parties": 6}, "parties must be at most the number of rows, 5, got 6"),
        ({"sizes": [2, 2]}, r"sizes must add up to the 5 rows, got \[2, 2\], in all 4"),
        ({"sizes": [5, 0]}, r"sizes\[1\] must be"),
        ({"sizes": []}, "sizes must add up"),
        ({"parties": 2, "seed": -1}, "seed must be"),
        ({"parties": 2, "seed": 1.5}, "seed must be"),
    ],
)
def test_wrong_splits(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        split_rows(np.ones((5, 2)), **arguments)


def test_only_two_dimensional_arrays_are_split() -> None:
    for rows in (np.ones(5), [[1.0], [2.0]]):
        with pytest.raises(InvalidParameter, match="rows must be a two-dimensional array"):
            split_rows(rows, 2)  # type: ignore[arg-type]
