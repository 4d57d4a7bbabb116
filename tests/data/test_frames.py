"""Data frames of three libraries: the same table from each, and the same words about a wrong cell."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfcd as pf
from privfcd.data.tables import read_table
from privfcd.errors import InvalidTable

pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**53), 2**53),
    "real": st.floats(allow_nan=False, allow_infinity=False),
    "yes": st.booleans(),
}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(*COLUMNS.values()), min_size=3, max_size=9), st.permutations(list(COLUMNS)))
def test_all_libraries_give_the_same_table(records: list[tuple[Any, ...]], order: list[str]) -> None:
    values = {name: [record[j] for record in records] for j, name in enumerate(COLUMNS)}
    expected = np.array([[float(cell) for cell in record] for record in records])
    nullable = pd.DataFrame(values).convert_dtypes()
    arrow = pa.table(values)
    sources = [
        pd.DataFrame(values),
        nullable,
        arrow.to_pandas(types_mapper=pd.ArrowDtype),
        pl.DataFrame(values),
        pl.concat([pl.DataFrame(values).head(1), pl.DataFrame(values).tail(-1)], rechunk=False),
        arrow,
        arrow.to_batches()[0],
    ]
    for source in sources:
        table = read_table(source)
        assert table.columns == tuple(COLUMNS)
        np.testing.assert_array_equal(table.rows, expected)
        assert table.rows.flags.c_contiguous and not table.rows.flags.writeable
        chosen = read_table(source, columns=order)
        assert chosen.columns == tuple(order)
        np.testing.assert_array_equal(chosen.rows, expected[:, [list(COLUMNS).index(name) for name in order]])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([1, None], "row 2: missing value"),
        ([True, None], "row 2: missing value"),
        ([None, 1.5], "row 1: missing value"),
        ([1.0, math.nan], "row 2: missing value (NaN)"),
        ([1.0, -math.inf], "row 2: infinity"),
        (["x", "y"], "row 1: text 'x'; convert the column to numbers first"),
        (["1", None], "row 1: text '1'"),
        ([[1], [2]], "row 1: a "),
        ([{"u": 1}, {"u": 2}], "row 1: a dict; numbers are accepted"),
        ([datetime.date(2020, 1, 1), None], "row 1: a date; numbers are accepted"),
    ],
)
@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_wrong_cells_are_named(library: str, cells: list[Any], message: str) -> None:
    values = {"good": [1, 2], "p44/42": cells}
    source = pl.DataFrame(values, strict=False) if library == "polars" else pa.table(values)
    with pytest.raises(InvalidTable, match=re.escape(message)) as caught:
        read_table(source)
    assert str(caught.value).split(",")[0].endswith("column 'p44/42'")


def test_types_that_numpy_does_not_have() -> None:
    wide = pl.DataFrame({"a": [1, 2], "b": [2**40, 3]}).with_columns(pl.col("b").cast(pl.Int128))
    assert read_table(wide).rows.tolist() == [[1, 2**40], [2, 3]]
    for source in (pl.DataFrame({"a": [Decimal("1.5"), Decimal(2)]}), pa.table({"a": [Decimal("1.5"), Decimal(2)]})):
        assert read_table(source).rows.tolist() == [[1.5], [2.0]]
    with pytest.raises(InvalidTable, match="holds datetime64"):
        read_table(pl.DataFrame({"a": [datetime.date(2020, 1, 1)]}))
    with pytest.raises(InvalidTable, match="row 1: text 'u'"):
        read_table(pl.DataFrame({"a": pl.Series(["u", "v"], dtype=pl.Categorical)}))


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        (lambda: pl.DataFrame({"a": [1]}).lazy(), r"got LazyFrame; it has no rows yet: give frame.collect\(\)"),
        (lambda: pl.Series("a", [1]), r"got Series; a single column is series.to_frame\(\)"),
        (lambda: pd.Series([1]), r"got Series; a single column"),
        (lambda: {"a": [1]}, r"got dict; columns by name are pandas.DataFrame\(columns\)"),
        (lambda: [[1.0]], r"got list; a list of rows is numpy.array\(rows\)"),
    ],
)
def test_what_is_nearly_a_table_is_refused_with_a_hint(source: Any, hint: str) -> None:
    with pytest.raises(InvalidTable, match=hint):
        read_table(source())


def test_names_of_arrow_tables_are_checked() -> None:
    with pytest.raises(InvalidTable, match="columns 1 and 2 have the same name 'a'"):
        read_table(pa.table([[1, 2], [3, 4]], names=["a", "a"]))
    with pytest.raises(InvalidTable, match="there is no column 'c'; the columns are a"):
        read_table(pa.table({"a": [1]}), columns=["c"])


def frames(seed: int) -> tuple[pd.DataFrame, Any]:
    """Return one table of mixed types as two libraries hold it."""
    rng = np.random.default_rng(seed)
    dose = rng.normal(size=150)
    values = {"dose": dose, "age": rng.integers(20, 60, 150), "ill": dose + rng.normal(size=150) > 0}
    return pd.DataFrame(values), pl.DataFrame(values)


def test_private_tables_and_learners_take_either() -> None:
    pairs = [frames(seed) for seed in range(2)]
    fitted = [
        pf.learn(
            [pair[which] for pair in pairs],
            method="ges",
            epsilon=8.0,
            bounds={"dose": 5.0, "age": 60.0, "ill": 1.0},
            noise=pf.SimulatedNoise(3),
        )
        for which in (0, 1)
    ]
    np.testing.assert_array_equal(fitted[0].adjacency_matrix_, fitted[1].adjacency_matrix_)
    assert list(fitted[1].causal_graph_.nodes) == ["dose", "age", "ill"]
    with pytest.raises(InvalidTable, match="table 'party-2': data frame: column 'age', row 150: missing value"):
        pf.learn([pairs[0][1], pairs[1][1].with_columns(age=pl.col("age").shift(-1))], epsilon=1.0)


@pytest.mark.parametrize("epsilon", [None, 20.0])
def test_discrete_tables_take_either(epsilon: float | None) -> None:
    network = pf.datasets.load_network("child")
    names, levels = list(network.columns[:6]), network.levels[:6]
    parts = [network.sample(400, seed)[:, :6].astype(np.int64) for seed in (1, 2)]
    found = []
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        budget = None if epsilon is None else pf.Budget(epsilon=epsilon, delta=1e-6)
        tables = [
            pf.PrivateTable(
                make({name: part[:, j] for j, name in enumerate(names)}),
                name=f"ward {k}",
                budget=budget,
                noise=pf.SimulatedNoise(2),
            )
            for k, part in enumerate(parts)
        ]
        found.append(pf.FedACD(levels=dict(zip(names, levels, strict=True))).fit(tables))
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].adjacency_matrix_, other.adjacency_matrix_)
