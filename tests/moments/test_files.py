"""Moments in files: what is written is read, and nothing else is taken for moments."""

from __future__ import annotations

import json
import math
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.release import release_moments
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import Moments, NoiseTerm, load_moments, pooled, save_moments

ROWS = np.random.default_rng(0).normal(size=(40, 3))
NAMES = ("a", "b b", "ü")


def parts() -> list[Moments]:
    matrix = ROWS.T @ ROWS / 40
    carry = np.random.default_rng(1).normal(size=(3, 3))
    noise = (NoiseTerm(0.1), NoiseTerm(np.full((3, 3), 0.2), carry))
    return [Moments(matrix, 40, NAMES, noise), Moments(matrix, 7, NAMES, (), np.zeros(3))]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    save_moments(path, parts(), rule={"mu": [0.5, math.inf], "why": "so", "x": np.float64(2.0), "y": np.arange(2)})
    stored = load_moments(path)
    assert stored.rule == {"mu": [0.5, "inf"], "why": "so", "x": 2.0, "y": [0, 1]} and not stored.privacy_report
    for one, other in zip(parts(), stored.parts, strict=True):
        np.testing.assert_array_equal(one.matrix, other.matrix)
        assert (one.rows, one.columns, len(one.noise)) == (other.rows, other.columns, len(other.noise))
        assert (one.mean is None) == (other.mean is None)
        for term, read in zip(one.noise, other.noise, strict=True):
            np.testing.assert_array_equal(term.sd, read.sd)
            assert term.isotropic == read.isotropic and (term.carry is None) == (read.carry is None)
    np.testing.assert_array_equal(stored.moments.matrix, pooled(parts()).matrix)
    save_moments(path, parts()[1])
    assert len(load_moments(str(path)).parts) == 1 and os.listdir(tmp_path) == ["m.npz"]


def test_the_privacy_report_comes_back_word_for_word(tmp_path: Path) -> None:
    tables = [
        PrivateTable(rows, NAMES, name=name, budget=budget, noise=SimulatedNoise(1), bounds=3.0)
        for rows, name, budget in ((ROWS, "one", Budget(1, 1e-5)), (ROWS / 2, "two", Budget(rho=0.1)))
    ]
    released = release_moments(tables, method="covariance")
    save_moments(tmp_path / "m.npz", released.parts, privacy_report=released.privacy_report, rule=released.rule)
    stored = load_moments(tmp_path / "m.npz")
    assert [str(report) for report in stored.privacy_report] == [str(report) for report in released.privacy_report]
    assert [r.as_dict() for r in stored.privacy_report] == [r.as_dict() for r in released.privacy_report]


def test_files_that_hold_no_moments_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    with pytest.raises(InvalidParameter, match="no such file"):
        load_moments(path)
    for content in (b"", b"no zip", pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(InvalidParameter, match=r"m\.npz' is not a file of moments"):
            load_moments(path)
    np.savez(path, a=np.ones(3))
    with pytest.raises(InvalidParameter, match="not a file of moments"):
        load_moments(path)
    np.savez(path, header=np.array([{"format": "privfcd moments"}], dtype=object))
    with pytest.raises(InvalidParameter, match="not a file of moments"):
        load_moments(path)
    save_moments(path, parts())
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InvalidParameter, match="not a file of moments"):
        load_moments(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "its format is 'other'"),
        ({"version": 3}, "version 3, and this privfcd reads versions up to 2"),
        ({"origins": []}, "damaged"),
        ({"origins": [[], []]}, "damaged"),
        ({"origins": [[["a", "loud"]], [["b", "none"]]]}, "noise must be one of"),
        ({"rows": []}, "holds no moments"),
        ({"rows": [0, 7]}, "rows must be"),
        ({"terms": [3, 0]}, "damaged"),
        ({"columns": ["a"]}, "matrix must be finite and of shape"),
        ({"privacy_report": [{"party": "x"}]}, "damaged"),
        ({"columns": None}, "damaged"),
    ],
)
def test_damaged_headers_are_named(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    path = tmp_path / "m.npz"
    save_moments(path, parts())
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(arrays["header"].tobytes()) | changes
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(InvalidParameter, match=message):
        load_moments(path)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"path of a \.npz file"):
        save_moments(tmp_path / "m.csv", parts())
    with pytest.raises(InvalidParameter, match="cannot be written"):
        save_moments(tmp_path / "nowhere" / "m.npz", parts())
    with pytest.raises(InvalidParameter, match="at least one"):
        save_moments(tmp_path / "m.npz", [])
    with pytest.raises(InvalidParameter, match="same columns"):
        save_moments(tmp_path / "m.npz", [parts()[0], Moments(np.eye(1), 3, ("z",))])
    assert not list(tmp_path.iterdir())
