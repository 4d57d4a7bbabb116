"""The schema: what may be declared, and what becomes of cells."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfcd as pf
from privfcd.data.column import KINDS, MAPS, NO_VALUE
from privfcd.data.tables import read_cells

WIDE = {
    "age": {"range": [18, 90], "unit": "a", "missing": "pairwise", "missing_values": [-999, "unknown"], "tier": 0},
    "sex": {"kind": "categorical", "levels": ["f", "m"], "spellings": {"f": ["F", 2], "m": ["M", 1]}},
    "visits": {"kind": "count", "range": [0, 80], "map": "log1p"},
    "pain": {"kind": "ordinal", "levels": ["none", "some", "much"], "missing": "category"},
    "seen": {"kind": "date", "origin": "2020-01-01", "range": ["2020-01-01", "2020-12-31"]},
    "smoker": {"kind": "binary"},
    "crp": {"location": 5, "scale": 2},
    "patient id": {"drop": True},
}
FRAME = pd.DataFrame(
    {
        "seen": ["2020-01-11", "2019-01-01", "2021-05-05 12:00"],
        "age": [44, -999, 101],
        "sex": ["F", 1.0, "m "],
        "visits": [0, 3.0, 200],
        "pain": ["none", "much", None],
        "smoker": [True, False, True],
        "crp": ["7", "100", "-100"],
        "patient id": ["x", "y", "z"],
        "more": [object(), object(), object()],
    }
)
ROWS = [
    [44, 0, 0, 0, 10, 1, 7],
    [math.nan, 1, math.log(4), 2, 0, 0, 11],
    [90, 1, math.log(81), 3, 365, 1, -1],
]


def one(cells: object, **declared: object) -> np.ndarray:
    """Return one column's numbers."""
    return pf.Schema({"x": declared}).apply(pd.DataFrame({"x": cells})).rows[:, 0]


def test_all_kinds_of_columns_become_numbers_in_the_schemas_order() -> None:
    table = pf.Schema(WIDE).apply(FRAME)
    assert table.columns == ("age", "sex", "visits", "pain", "seen", "smoker", "crp")
    np.testing.assert_allclose(table.rows, ROWS)
    shuffled = FRAME[list(FRAME.columns[::-1])]
    np.testing.assert_array_equal(pf.Schema(WIDE).apply(shuffled).rows, table.rows)


def test_a_schema_is_the_same_from_a_mapping_toml_json_and_a_file(tmp_path: Path) -> None:
    schema = pf.Schema(WIDE, forbidden=[["visits", "age"]], required=[("age", "pain")], relations="linear")
    again = [pf.Schema.from_toml(schema.to_toml()), pf.Schema.from_json(schema.to_json())]
    again.append(pf.Schema.from_dict(schema.to_dict()))
    for name in ("s.toml", "s.json"):
        schema.write(tmp_path / name)
        again.append(pf.Schema.read(tmp_path / name))
    assert all(each == schema and each.digest == schema.digest for each in again)
    assert again[0].forbidden == (("visits", "age"),) and again[0].tiers == {"age": 0}
    assert pf.Schema.of(tmp_path / "s.toml") == pf.Schema.of(schema) == pf.Schema.of(schema.to_dict()) == schema


text = (
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cn", "Co"]), min_size=1)
    .map(str.strip)
    .filter(bool)
)


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(text, min_size=1, max_size=4, unique=True),
    levels=st.lists(text.filter(lambda each: each != NO_VALUE), min_size=2, max_size=4, unique=True),
)
def test_odd_names_and_levels_survive_toml_and_json_and_are_matched(names: list[str], levels: list[str]) -> None:
    schema = pf.Schema({name: {"kind": "categorical", "levels": levels} for name in names})
    assert pf.Schema.from_toml(schema.to_toml()) == schema == pf.Schema.from_json(schema.to_json())
    rows = schema.apply({name: np.array(levels, dtype=object) for name in names}).rows
    np.testing.assert_array_equal(rows, np.tile(np.arange(len(levels))[:, None], len(names)))


@settings(max_examples=100, deadline=None)
@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    low=st.floats(0.001, 0.4),
    high=st.floats(0.5, 0.999),
    name=st.sampled_from(MAPS),
)
def test_numbers_never_leave_the_declared_range_and_each_record_stands_alone(
    values: list[float], low: float, high: float, name: str
) -> None:
    schema = pf.Schema({"x": {"range": [low, high], "map": name}})
    column = schema.columns["x"]
    assert column.limits is not None
    rows = schema.apply(np.array(values)[:, None], ["x"]).rows[:, 0]
    assert (rows >= column.limits[0]).all() and (rows <= column.limits[1]).all()
    assert (np.abs(rows - column.middle) <= column.half_width).all()
    alone = [schema.apply(np.array([[value]]), ["x"]).rows[0, 0] for value in values]
    np.testing.assert_array_equal(rows, alone)


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series([1, 2, None], dtype="Int64"),
        pd.Series([1.0, 2.0, np.nan]),
        pd.Series(["1", " 2.0 ", ""]),
        pd.Series(["1", "2", None], dtype="string"),
        pd.Series([1, 2, "n/a"], dtype=object),
        pd.Series(["1", "2", None], dtype="category"),
        pd.Series([1, 2, None], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series([Decimal(1), 2, pd.NA], dtype=object),
    ],
)
@pytest.mark.parametrize("kind", ["continuous", "count", "ordinal"])
def test_every_dtype_says_the_same(cells: pd.Series, kind: str) -> None:
    declared = {"kind": kind, "missing": "pairwise"} | ({"levels": ["1", "2"]} if kind == "ordinal" else {})
    expected = [0, 1, np.nan] if kind == "ordinal" else [1, 2, np.nan]
    np.testing.assert_array_equal(one(cells, **declared), expected)
    with pytest.raises(pf.InvalidTable, match="'x': 1 of 3 cells have no value, first in row 3"):
        one(cells, **(declared | {"missing": "refuse"}))


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series([dt.date(2020, 1, 3), dt.date(2020, 1, 4)]),
        pd.Series(["2020-01-03", "2020-01-04T00:00"]),
        pd.to_datetime(pd.Series(["2020-01-03", "2020-01-04"])),
        pd.to_datetime(pd.Series(["2020-01-03", "2020-01-04"])).dt.tz_localize("UTC"),
        pd.Series([dt.date(2020, 1, 3), dt.date(2020, 1, 4)], dtype=pd.ArrowDtype(pa.date32())),
    ],
)
def test_dates_of_every_dtype_are_days_since_the_origin(cells: pd.Series) -> None:
    np.testing.assert_array_equal(one(cells, kind="date", origin="2020-01-01"), [2, 3])


def test_booleans_are_levels_or_numbers() -> None:
    for cells in (
        pd.Series([True, False]),
        pd.Series([True, False], dtype="boolean"),
        ["true", "FALSE"],
        [1, 0.0],
        ["1", "0"],
    ):
        folded = {"ignore_case": True, "levels": ["0", "1"], "spellings": {"0": ["false"], "1": ["true"]}}
        np.testing.assert_array_equal(one(cells, kind="binary", **folded), [1, 0])
        np.testing.assert_array_equal(one(cells), [1, 0])
    np.testing.assert_array_equal(one([True, False], kind="binary"), [1, 0])
    np.testing.assert_array_equal(one([True, False], kind="categorical", levels=[False, True]), [1, 0])


def test_levels_are_texts_before_they_are_numbers() -> None:
    np.testing.assert_array_equal(
        one(["01", "1", "1.0", "2"], kind="categorical", levels=["01", "1", "2"]), [0, 1, 1, 2]
    )
    np.testing.assert_array_equal(one([1, 1.0, "1", "1.0"], kind="categorical", levels=[1, 2]), [0] * 4)
    none = {"kind": "categorical", "levels": ["none", "wine"]}
    np.testing.assert_array_equal(one(["none", "wine"], **none), [0, 1])  # a level, not a gap
    np.testing.assert_array_equal(one(["none", "beer"], other="wine", **none), [0, 1])
    np.testing.assert_array_equal(one(["None", "WINE"], ignore_case=True, **none), [0, 1])


def test_gaps_and_sentinels() -> None:
    cells = [1, -999, "-999.0", "unknown", None]
    assert np.isnan(one(cells, missing="pairwise", missing_values=[-999, "unknown"])).tolist() == [False] + [True] * 4
    levels = {"kind": "categorical", "levels": ["a", "b"], "missing": "category", "missing_values": ["?"]}
    np.testing.assert_array_equal(one(["a", "?", "", "b"], **levels), [0, 2, 2, 1])
    assert pf.Column(**levels).codes == ("a", "b", NO_VALUE) and not pf.Column(**levels).has_gaps
    assert pf.Column(missing="category").has_gaps


def test_all_faults_of_a_declaration_are_in_one_message() -> None:
    with pytest.raises(pf.InvalidParameter) as refusal:
        pf.Schema(
            {
                "age": {"range": [90, 18], "kind": "contineous"},
                "sex": {"kind": "categorical", "level": ["f"]},
                "race": {"kind": "categorical"},
                "n": {"kind": "count", "range": [-1, 3]},
                "x": {"range": [0, 1], "location": 1},
                "p": {"map": "logit", "range": [0, 1]},
                " y": {},
            },
            forbidden=[["age", "sx"]],
            relations="all",
        )
    for words in ("'age'", "range", "kind", "did you mean 'levels'", "'race': levels must be", "'n': range of a count",
                  "location and scale", "'p': range must lie inside", "' y'", "'sx'", "relations"):  # fmt: skip
        assert words in str(refusal.value), words


def test_all_faults_of_a_table_are_in_one_message_with_places() -> None:
    wrong = FRAME.assign(age=["old", 50, "x"], sex=["F", "d", "q"], visits=[1, 2.5, -1], seen=[1, 2, "soon"]).drop(
        columns="crp"
    )
    wrong = wrong.rename(columns={"smoker": "Smoker"})
    with pytest.raises(pf.InvalidTable) as refusal:
        pf.Schema(WIDE).apply(wrong)
    for words in ("'age': 2 of 3 cells", "'old', 'x'; first in row 1", "'sex': 2 of 3", "'d', 'q'; first in row 2",
                  "'visits'", "'seen': 3 of 3", "no column 'crp'", "did you mean 'Smoker'"):  # fmt: skip
        assert words in str(refusal.value), words


@pytest.mark.parametrize("knowledge", [{"forbidden": [["a", "b"]], "required": [["a", "b"]]}, {"required": [["b", "a"]]},
                                       {"required": [["a", "c"], ["c", "b"], ["b", "a"]]}])  # fmt: skip
def test_knowledge_that_contradicts_itself_is_refused(knowledge: dict) -> None:
    columns = {"a": {"tier": 0}, "b": {"tier": 1}, "c": {}}
    with pytest.raises(pf.InvalidParameter, match="schema: "):
        pf.Schema(columns, **knowledge)


def test_every_source_gives_the_same_cells(tmp_path: Path) -> None:
    schema = pf.Schema(
        {"a b": {}, 'q"ü': {"kind": "categorical", "levels": ["x", "y"]}, "1st": {"missing": "pairwise"}}
    )
    frame = pd.DataFrame({"1st": [1.5, np.nan], 'q"ü': ["y", "x"], "a b": [3, 4]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress((tmp_path / "t.csv").read_bytes()))
    frame.to_parquet(tmp_path / "t.parquet")
    sources = [frame, pl.from_pandas(frame), pa.Table.from_pandas(frame), dict(frame.items())]
    sources += [tmp_path / f"t.{end}" for end in ("csv", "tsv", "csv.gz", "parquet")]
    for source in sources:
        np.testing.assert_array_equal(schema.apply(source).rows, [[3, 1, 1.5], [4, 0, np.nan]])


def test_what_cannot_be_a_table_is_refused_with_a_word(tmp_path: Path) -> None:
    schema = pf.Schema({"x": {}})
    two = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("x", "y"), ("x", "z")]))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "head.csv").write_text("x,y\n")
    for source, words in (
        (two, "MultiIndex"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "two columns"),
        (tmp_path / "empty.csv", "empty"),
        (tmp_path / "head.csv", "no rows"),
        (pd.DataFrame({"x": []}), "no rows"),
        (pd.DataFrame({"x": [1j]}), "a number is needed"),
        (np.ones(3), "two dimensions"),
        (7, "int"),
    ):
        with pytest.raises(pf.InvalidTable, match=words):
            schema.apply(source)


def test_one_row_and_many_columns() -> None:
    names = [f"x {j}" for j in range(1000)]
    schema = pf.Schema({name: {"range": [0, 1]} for name in names})
    assert schema.apply(np.full((1, 1000), 0.5), names).rows.shape == (1, 1000)


def test_parties_agree_on_all_but_how_they_write_their_cells() -> None:
    ours = pf.Schema({"age": {"range": [18, 90], "unit": "a"}, "id": {"drop": True}})
    theirs = pf.Schema({"age": {"range": [18, 90], "unit": "mo", "factor": 1 / 12, "missing_values": [-1]}})
    assert ours.digest == theirs.digest and ours != theirs
    assert ours.digest != pf.Schema({"age": {"range": [18, 91]}}).digest
    lines = ours.differences(theirs)
    assert any(line.startswith('age.unit: "a" | "mo" (may differ') for line in lines)
    np.testing.assert_allclose(theirs.apply({"age": [528]}).rows, [[44]])
    json.dumps(ours.agreed())


def test_kinds_without_their_declaration() -> None:
    assert pf.Column(kind="ordinal", range=[1, 4]).levels == ("1", "2", "3", "4")
    np.testing.assert_array_equal(one([1, "4", 2.0], kind="ordinal", range=[1, 4]), [0, 3, 1])
    for kind in set(KINDS) - {"categorical", "ordinal"}:
        assert pf.Column(kind=kind).limits == ((0.0, 1.0) if kind == "binary" else None)


def test_read_cells_strips_names_and_takes_columns_for_arrays_only() -> None:
    assert list(read_cells(pd.DataFrame({" a ": [1]}))) == ["a"]
    with pytest.raises(pf.InvalidParameter, match="columns"):
        read_cells(pd.DataFrame({"a": [1]}), ["b"])


def test_masked_cells_are_gaps() -> None:
    masked = np.ma.array([1.0, -999.0], mask=[False, True])
    np.testing.assert_array_equal(
        pf.Schema({"x": {"missing": "pairwise"}}).apply({"x": masked}).rows[:, 0], [1, np.nan]
    )
