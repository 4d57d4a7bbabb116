"""Tables: what is read equals what was written, and every wrong cell is named."""

from __future__ import annotations

import csv
import gzip
import io
import re
import sys
import tempfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfcd.data.tables import read_table
from privfcd.errors import InvalidParameter, InvalidTable

finite = st.floats(allow_nan=False, allow_infinity=False)
column_names = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8).map(str.strip).filter(bool),
    min_size=1,
    max_size=4,
    unique=True,
).filter(lambda names: any(not is_number(name) for name in names))


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def written(folder: Path, text: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


class PolarsLike:
    """The two members of a data frame that are relied on, as polars has them."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self.columns = list(frame.columns)

    def to_numpy(self) -> Any:
        return self._frame.to_numpy()

    def __getitem__(self, name: str) -> pd.Series:
        return self._frame[name]

    def __len__(self) -> int:
        return len(self._frame)


@st.composite
def named_tables(draw: st.DrawFn) -> tuple[list[str], np.ndarray]:
    names = draw(column_names)
    rows = draw(st.integers(len(names), 7))
    return names, draw(arrays(np.float64, (rows, len(names)), elements=finite))


def csv_text(names: list[str], rows: np.ndarray, delimiter: str = ",") -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow(names)
    writer.writerows([[float(cell) for cell in row] for row in rows])
    return buffer.getvalue()


@settings(deadline=None)
@given(named_tables(), st.sampled_from([".csv", ".tsv", ".csv.gz", ".tsv.gz", ".CSV"]), st.booleans())
def test_text_files_come_back_bit_for_bit(table: tuple[list[str], np.ndarray], suffix: str, mark: bool) -> None:
    names, rows = table
    if len(names) == 1 and any(c in names[0] for c in ",;\t"):
        return  # read as another separator, by design
    content = csv_text(names, rows, "\t" if "tsv" in suffix else ",").encode("utf-8-sig" if mark else "utf-8")
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), gzip.compress(content) if "gz" in suffix else content, f"t{suffix}")
        back = read_table(path)
        assert read_table(str(path)).columns == back.columns
    assert back.columns == tuple(names)
    assert np.array_equal(back.rows, rows)


@settings(deadline=None)
@given(named_tables())
def test_arrays_and_frames_come_back_as_copies(table: tuple[list[str], np.ndarray]) -> None:
    names, rows = table
    frame = pd.DataFrame(rows, columns=names)
    for source, columns in (
        (rows, names),
        (np.asfortranarray(rows), names),
        (frame, None),
        (PolarsLike(frame), None),
        (rows.astype(object), names),
    ):
        back = read_table(source, columns=columns)
        assert back.columns == tuple(names)
        assert np.array_equal(back.rows, rows)
        assert back.rows.dtype == np.float64 and back.rows.flags.c_contiguous
        assert not back.rows.flags.writeable and not np.shares_memory(back.rows, rows)


@settings(deadline=None)
@given(arrays(st.sampled_from([np.int8, np.uint64, np.int64, np.float16, np.float32, np.bool_]), (3, 2)))
def test_number_types_become_floats(array: np.ndarray) -> None:
    if not np.isfinite(array.astype(np.float64)).all():
        return
    expected = array.astype(np.float64)
    assert np.array_equal(read_table(array).rows, expected)
    assert np.array_equal(read_table(pd.DataFrame({"a": array[:, 0], "b": array[:, 1]})).rows, expected)


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # np.matrix
def test_arrays_without_names_and_frames_with_numbered_columns() -> None:
    array = np.arange(6.0).reshape(3, 2)
    assert read_table(array).columns == ("x0", "x1")
    assert read_table(pd.DataFrame(array)).columns == ("x0", "x1")
    assert read_table(pd.DataFrame(array), columns=["a", "b"]).columns == ("a", "b")
    assert np.array_equal(read_table(np.matrix(array)).rows, array)
    with pytest.raises(InvalidTable, match=r"column names must be texts, got 5 \(int"):
        read_table(pd.DataFrame(array, columns=[5, 6]))
    with pytest.raises(InvalidTable, match="must be texts"):
        read_table(pd.DataFrame(array, columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])))


def test_columns_of_objects() -> None:
    frame = pd.DataFrame(
        {
            "mixed": [True, 2, Decimal("2.5")],
            "half": [Fraction(1, 2), np.float32(1.5), np.int8(3)],
            "nullable": pd.array([1, 2, 3], dtype="Int64"),
            "switch": pd.array([True, False, True], dtype="boolean"),
        }
    )
    expected = [[1, 0.5, 1, 1], [2, 1.5, 2, 0], [2.5, 3, 3, 1]]
    assert np.array_equal(read_table(frame).rows, expected), "fewer rows than columns: other parties may have more"
    back = read_table(pd.concat([frame, frame]))
    assert np.array_equal(back.rows, np.array(expected + expected))


def test_files_with_booleans_constants_blanks_around_cells_and_quotes(tmp_path: Path) -> None:
    path = written(tmp_path, ' "p44/42", b ,c\n1, TRUE,5\n"2",false ,5\r\n 3e2 ,True,5\n\n\n'.replace(' "', '"'))
    back = read_table(path)
    assert back.columns == ("p44/42", "b", "c")
    assert np.array_equal(back.rows, [[1, 1, 5], [2, 0, 5], [300, 1, 5]])


def test_chosen_columns_only_are_looked_at(tmp_path: Path) -> None:
    path = written(tmp_path, "id,a,b\nx,1,2\ny,3,4\n")
    expected = np.array([[2.0, 1.0], [4.0, 3.0]])
    for source in (path, pd.read_csv(path)):
        back = read_table(source, columns=["b", "a"])
        assert back.columns == ("b", "a") and np.array_equal(back.rows, expected)
        with pytest.raises(InvalidTable, match="there is no column 'c'; the columns are id, a, b"):
            read_table(source, columns=["c"])


@pytest.mark.parametrize("columns", ["ab", [], ["a", "a"], ["a", ""], ["a", 1], ["a", "b", "c"], ["a"]])
def test_wrong_names_for_an_array(columns: Any) -> None:
    with pytest.raises(InvalidParameter, match="columns"):
        read_table(np.zeros((5, 2)), columns=columns)


BAD_TEXT = [
    ("", "the file is empty"),
    (" \n\n", "the file is empty"),
    ("\ufeff", "the file is empty"),
    ("a,b\n", "there are no rows"),
    ("a,b\n\n\n", "there are no rows"),
    ("\na,b\n1,2\n", "the first line must hold the columns' names, it is blank"),
    ("1.5,2,-3e4\n1,2,3\n", "the first line holds only numbers (1.5, ...): probably a file without a header"),
    (",a\n0,1\n1,2\n", "column 1 has no name; a row index"),
    ("a,,c\n", "column 2 has no name"),
    ("a,b,a \n", "columns 1 and 3 have the same name 'a'"),
    ("a;b\n1;2\n", "cells must be separated by ','; the first line seems to use ';'"),
    ("a,b\n1,2\n3\n", "line 3 has 1 cells, the header has 2"),
    ("a,b\n1,2\n3,4,5\n", "line 3 has 3 cells, the header has 2"),
    ("a,b\n1,2\n\n3,4\n", "line 3 is blank"),
    ("a,b\n1,2\n3,x\n", "column 'b', row 2: text 'x'"),
    ("a,b\n1,2\n3,1_000\n", "column 'b', row 2: text '1_000'"),
    ("a,b\n1,2\n3,1+2j\n", "column 'b', row 2: text '1+2j'"),
    ("a,b\n1,2\n3,0x1F\n", "column 'b', row 2: text '0x1F'"),
    ('a,b\n1,2\n3,"1,5"\n', "column 'b', row 2: text '1,5'"),
    ("a,b\n1,2\n,4\n", "column 'a', row 2: missing value (empty cell)"),
    ("a,b\n1, \n3,4\n", "column 'b', row 1: missing value (empty cell)"),
    ("a,b\n1,NaN\n3,4\n", "column 'b', row 1: missing value (NaN)"),
    ("a,b\n1,-nan\n3,4\n", "column 'b', row 1: missing value (-nan)"),
    ("a,b\n1,NA\n3,4\n", "column 'b', row 1: missing value (NA)"),
    ("a,b\n1,-Inf\n3,4\n", "column 'b', row 1: infinity"),
    ("a,b\n1,2\n3,1e400\n", "column 'b', row 2: 1e400 is beyond the range of floats"),
    ('a,b\n1,2\n3,"4\n', "line 3: unexpected end of data"),
    (b"a,b\n\xff\xfe,2\n", "not UTF-8 text"),
]


@pytest.mark.parametrize(("text", "message"), BAD_TEXT)
def test_wrong_text_files_are_named(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidTable, match=re.escape(message)) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_rows_that_sum_beyond_floats_are_fine(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n1.5e308,1.5e308\n1,2\n")
    assert read_table(path).rows[0].tolist() == [1.5e308, 1.5e308]


def test_paths_that_are_no_tables(tmp_path: Path) -> None:
    for name in ("t.txt", "t", "t.gz", "t.parquet.gz", "sachs"):
        with pytest.raises(InvalidTable, match=r"must end in \.csv, \.csv\.gz, \.tsv, \.tsv\.gz or \.parquet"):
            read_table(tmp_path / name)
    with pytest.raises(InvalidTable, match="there is no such file"):
        read_table(str(tmp_path / "none.csv"))
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidTable, match="this is a directory"):
        read_table(tmp_path / "folder.csv")
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    with pytest.raises(InvalidTable, match=re.escape("loop.csv")):
        read_table(tmp_path / "loop.csv")
    whole = gzip.compress(b"a,b\n1,2\n3,4\n")
    for content in (b"a,b\n1,2\n", whole[:-9], whole[:12] + b"\xff" * 8 + whole[20:]):
        with pytest.raises(InvalidTable, match="not a readable gzip file"):
            read_table(written(tmp_path, content, "t.csv.gz"))
    for source in (None, 3, [[1, 2], [3, 4]], pd.Series([1.0, 2.0])):
        with pytest.raises(InvalidTable, match="two-dimensional array, a data frame or a path"):
            read_table(source)


def test_unreadable_files_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "a\n1\n")

    def denied(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", denied)
    with pytest.raises(InvalidTable, match=r"t\.csv: cannot be read: Permission denied"):
        read_table(path)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(4), "must have two dimensions"),
        (np.zeros(()), "must have two dimensions"),
        (np.zeros((2, 2, 2)), "must have two dimensions"),
        (np.zeros((0, 3)), "no rows"),
        (np.zeros((3, 0)), "no columns"),
        (np.zeros((2, 2), dtype=complex), "column 'x0' holds complex numbers"),
        (np.zeros((2, 2), dtype="datetime64[s]"), "column 'x0' holds datetime64"),
        (np.zeros((2, 2), dtype=[("a", float)]), "column 'x0' holds"),
        (np.array([["1", "2"], ["3", "4"]]), "column 'x0', row 1: text '1'"),
        (np.array([[1, 2], [3, np.nan]]), "column 'x1', row 2: missing value (NaN)"),
        (np.array([[1, 2], [3, -np.inf]]), "column 'x1', row 2: infinity"),
        (np.array([[1, 2], [3, None]]), "column 'x1', row 2: missing value"),
        (np.array([[1, 2], [3, 1j]], dtype=object), "column 'x1', row 2: complex number"),
        (np.array([[1, 2], [3, 10**400]]), "column 'x1', row 2: a number beyond the range"),
        (np.array([[1, 2], [3, Decimal("1e400")]]), "column 'x1', row 2: 1E+400 is beyond the range"),
        (np.array([[1, 2], [3, Decimal("NaN")]]), "column 'x1', row 2: missing value (NaN)"),
        (np.array([[1, 2], [3, [4]]], dtype=object), "column 'x1', row 2: a list"),
        (np.ma.MaskedArray([[1, 2], [3, 4]], [[0, 0], [0, 1]]), "column 'x1', row 2: missing value (masked)"),
    ],
)
def test_wrong_arrays_are_named(array: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidTable, match=re.escape(message)) as caught:
        read_table(array)
    assert str(caught.value).startswith("array: ")


@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(np.float64).max, reason="no wider float here")
def test_long_doubles_beyond_floats_are_named() -> None:
    array = np.ones((2, 2), dtype=np.longdouble)
    assert read_table(array).rows.tolist() == [[1, 1], [1, 1]]
    array[1, 0] = np.longdouble(10) ** 400
    with pytest.raises(InvalidTable, match=r"column 'x0', row 2: .* beyond the range of floats"):
        read_table(array)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["a", "b"], "text 'a'"),
        ([1.0, float("nan")], "row 2: missing value (NaN)"),
        (pd.array([1, None], dtype="Int64"), "row 2: missing value"),
        (pd.array(["1", None], dtype="string"), "row 1: text '1'"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "holds datetime64"),
        (pd.Categorical(["u", "v"]), "row 1: text 'u'"),
    ],
)
def test_wrong_frames_are_named(cells: Any, message: str) -> None:
    frame = pd.DataFrame({"good": [1, 2], "p44/42": cells})
    with pytest.raises(InvalidTable, match=re.escape(message)) as caught:
        read_table(frame)
    assert str(caught.value).startswith("data frame: column 'p44/42'")


def test_frames_with_wrong_names() -> None:
    with pytest.raises(InvalidTable, match="columns 1 and 2 have the same name 'a'"):
        read_table(pd.DataFrame(np.ones((2, 2)), columns=["a", "a"]))
    with pytest.raises(InvalidTable, match="column 2 has no name"):
        read_table(pd.DataFrame(np.ones((2, 2)), columns=["a", " "]))
    with pytest.raises(InvalidTable, match="no columns"):
        read_table(pd.DataFrame())


def test_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, 2, 3], "p44/42": [0.1, 0.2, 0.3], "c": [True, False, True]})
    path = tmp_path / "t.parquet"
    frame.to_parquet(path)
    back = read_table(path)
    assert back.columns == ("a", "p44/42", "c") and np.array_equal(back.rows, frame.to_numpy(float))
    assert read_table(path, columns=["c", "a"]).columns == ("c", "a")
    with pytest.raises(InvalidTable, match="not a readable Parquet file"):
        read_table(written(tmp_path, "a,b\n1,2\n", "u.parquet"))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidTable, match=re.escape("pip install privfcd[parquet]")):
        read_table(path)


def test_a_table_is_printed_without_its_rows() -> None:
    assert repr(read_table(np.full((3, 2), 7.25))) == "Table(columns=('x0', 'x1'))"


@pytest.mark.parametrize("name", ["a\x00", "\x1b[31mred", "\ud800"])
def test_names_that_no_graph_file_can_carry_are_refused_before_a_run(name: str) -> None:
    with pytest.raises(InvalidTable, match="control characters"):
        read_table(np.eye(2), columns=[name, "b"])
    if name != "\ud800":  # pandas makes no such column
        with pytest.raises(InvalidTable, match="control characters"):
            read_table(pd.DataFrame({name: [1.0, 2.0], "b": [2.0, 3.0]}))


@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
def test_dropped_columns_are_not_looked_at(tmp_path: Path, suffix: str) -> None:
    frame = pd.DataFrame(
        {"id": ["u", "v", None, "w"], "a": [1.0, 2, 3, 4], "sex": ["F", "M", "F", "M"], "b": [4.0, 5, 6, 7]}
    )
    path = tmp_path / f"t{suffix}"
    if suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if "tsv" in suffix else ",", index=False)
    for table in (
        read_table(path, drop=["id", "sex"]),
        read_table(path, ["b", "sex", "a"], drop=["sex"]),
        read_table(frame, drop=["sex", "id"]),
    ):
        assert sorted(table.columns) == ["a", "b"]
        assert table.rows[:, table.columns.index("b")].tolist() == [4, 5, 6, 7]
    with pytest.raises(InvalidTable, match=r"column 'id', row 1: text 'u'.*text too in 'sex'; .*--drop id,sex"):
        read_table(path)
    with pytest.raises(InvalidTable, match=r"text too in 'sex'; code them as numbers, or leave out$"):
        read_table(frame)
    with pytest.raises(InvalidTable, match="there is no column 'x'; the columns are id, a, sex, b"):
        read_table(path, drop=["x"])
    with pytest.raises(InvalidTable, match="there are no columns"):
        read_table(path, ["a"], drop=["a"])


def test_a_column_that_is_not_taken_may_have_any_name() -> None:
    frame = pd.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]], columns=["", "a", "a"])
    frame["b"] = [1.0, 2.0]
    assert read_table(frame, ["b"]).columns == ("b",)
    with pytest.raises(InvalidTable, match="columns 2 and 3 have the same name 'a'"):
        read_table(frame, ["a", "b"])
    for bad in ("a", ["a", "a"], [""]):
        with pytest.raises(InvalidParameter, match="drop"):
            read_table(frame, drop=bad)
    with pytest.raises(InvalidParameter, match="drop must be left out for an array"):
        read_table(np.eye(3), drop=["x0"])


def test_very_many_columns_are_found_by_name(tmp_path: Path) -> None:
    """A header of a megabyte is read in a second or so: each name is looked up, not searched for."""
    names = [f"c{j}" for j in range(60_000)]
    path = tmp_path / "wide.csv"
    path.write_text(",".join(names) + "\n" + ",".join(str(j) for j in range(60_000)) + "\n")
    assert read_table(path).rows[0, 59_999] == 59_999
    table = read_table(path, columns=names[::-1], drop=names[::2])
    assert table.columns == tuple(names[1::2][::-1])
    assert table.rows[0].tolist() == [float(name[1:]) for name in table.columns]
