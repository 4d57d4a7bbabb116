"""`learn` takes the columns that the command line takes: the same meaning, and the same refusals before a charge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privfcd as pf
from privfcd.accounting import Budget
from privfcd.cli.main import cli, main
from privfcd.errors import InvalidParameter, InvalidTable, PrivfcdError
from privfcd.ledger import Ledger
from privfcd.runs import learn

SMALL: dict[str, Any] = {"method": "ges", "noise": pf.SimulatedNoise(1), "epsilon": 5.0, "bounds": 9.0}


@pytest.fixture
def frames() -> list[pd.DataFrame]:
    made = []
    for seed in range(2):
        values = np.random.default_rng(seed).normal(size=(90, 3))
        frame = pd.DataFrame(values, columns=["a", "b", "c"])
        frame.insert(1, "id", [f"person {k}" for k in range(90)])
        frame["day"] = None  # cells that are not looked at may be anything
        made.append(frame)
    made[1] = made[1][["day", "c", "id", "b", "a"]]
    return made


@pytest.fixture
def paths(frames: list[pd.DataFrame], tmp_path: Path) -> list[str]:
    made = [str(tmp_path / f"{name}.csv") for name in ("north", "south")]
    for frame, path in zip(frames, made, strict=True):
        frame.to_csv(path, index=False, float_format="%.17g")
    return made


def test_taking_and_leaving_out(frames: list[pd.DataFrame], paths: list[str]) -> None:
    plain = learn([frame[["a", "b", "c"]] for frame in frames], names=["north", "south"], **SMALL)
    for options in (
        {"drop": ["id", "day"]},
        {"columns": ["a", "b", "c"]},
        {"columns": ("a", "id", "b", "c"), "drop": ("id",)},
    ):
        for sources, names in ((frames, ["north", "south"]), (paths, None)):
            model = learn(sources, names=names, **options, **SMALL)
            assert list(model.feature_names_in_) == ["a", "b", "c"]
            np.testing.assert_array_equal(model.adjacency_matrix_, plain.adjacency_matrix_)
            assert model.privacy_report_[0].declared["columns"] == ["a", "b", "c"]
    assert list(learn(paths, columns=["c", "a"], **SMALL).feature_names_in_) == ["c", "a"]


def test_arrays_get_names() -> None:
    rows = np.random.default_rng(1).normal(size=(200, 2))
    assert list(learn([rows], columns=["dose", "age"], **SMALL).causal_graph_) == ["dose", "age"]
    with pytest.raises(InvalidParameter, match="drop must be left out for an array"):
        learn([rows], drop=["dose"], **SMALL)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({"columns": ["a", "z"]}, ["--columns", "a,z"]),
        ({"drop": ["z"]}, ["--drop", "z"]),
        ({"columns": ["a", "a"]}, ["--columns", "a,a"]),
        ({"columns": ["a", "b"], "drop": ["a", "b"]}, ["--columns", "a,b", "--drop", "a,b"]),
        ({"columns": ["a", "b"], "drop": ["z"]}, ["--columns", "a,b", "--drop", "z"]),
        ({}, []),
    ],
)
def test_what_the_command_refuses_is_refused_before_a_charge(
    paths: list[str], options: dict[str, Any], flags: list[str], capsys: Any
) -> None:
    ledgers = [Ledger(Budget(9.0, 1e-6), name=name) for name in ("north", "south")]
    with pytest.raises(PrivfcdError) as error:
        learn(paths, **{**SMALL, "ledgers": ledgers, "bounds": None}, **options)
    assert isinstance(error.value, InvalidTable | InvalidParameter)
    assert not any(ledger.entries() for ledger in ledgers)
    with pytest.raises(SystemExit) as ended:
        main(["learn", *paths, "--epsilon", "5", "--method", "ges", *flags])
    assert ended.value.code == 2
    if "--columns" not in flags or "a,a" not in flags:  # the command refuses repeated names as it parses them
        said = " ".join(capsys.readouterr().err.split())
        assert " ".join(str(error.value).split()) in said


def test_they_belong_to_tables_that_are_read_here(frames: list[pd.DataFrame]) -> None:
    tables = [pf.PrivateTable(frame[["a", "b"]], name=f"p{k}") for k, frame in enumerate(frames)]
    moments = pf.release_moments(tables)
    for options in ({"columns": ["a", "b"]}, {"drop": ["a"]}):
        with pytest.raises(InvalidParameter, match="columns, drop and schema belong to the PrivateTables"):
            learn(tables, method="ges", **options)
        with pytest.raises(InvalidParameter, match=f"{next(iter(options))} must be left out for moments"):
            learn(moments, method="ges", **options)


def test_the_command_has_no_other_way() -> None:
    names = {parameter.name for parameter in cli.get_command(None, "learn").params}  # type: ignore[attr-defined]
    assert {"columns", "drop"} <= names
