"""Studies whose file declares the columns: the same on all machines, and as in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import privfcd as pf
from privfcd.errors import InvalidParameter, InvalidTable
from privfcd.ledger.tools import init_ledger
from privfcd.runs.desk import Desk
from privfcd.runs.study_run import run_study
from privfcd.runs.wire.study_file import read_study, study_from

from .conftest import Wire

NUMBERS = {
    "age": {"range": [18, 90], "unit": "a", "tier": 0},
    "sbp": {"range": [80, 220]},
    "smoker": {"kind": "binary", "levels": ["no", "yes"]},
}
LEVELS = {
    "sex": {"kind": "categorical", "levels": ["f", "m"]},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": "category"},
    "smoker": {"kind": "binary", "levels": ["no", "yes"]},
}
BUDGET = {"epsilon": 20.0, "delta": 1e-6}


def frame(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(10, 100, 300)
    return pd.DataFrame(
        {
            "id": range(300),
            "age": age,
            "sbp": 90 + 0.6 * age + rng.normal(0, 9, 300),
            "smoker": np.where(rng.random(300) < age / 200, "yes", "no"),
            "sex": rng.choice(["f", "m"], 300),
            "ward": rng.choice(["a", "b", "c", None], 300),
        }
    )


def document(method: str, columns: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"format": 2, "name": "trial", "method": method, "parties": ["north", "south"], "columns": columns, **more}


def desks(study: Any, folder: Path, schemas: tuple[Any, Any] = (None, None), frames: Any = None) -> dict[str, Desk]:
    made = {}
    for k, (name, schema) in enumerate(zip(study.parties, schemas, strict=True)):
        (frame(k) if frames is None else frames[k]).to_csv(folder / f"{name}.csv", index=False)
        ledger = folder / f"{name}.sqlite"
        if not ledger.exists():
            init_ledger(ledger, name, pf.Budget(**BUDGET) if study.private else None)
        made[name] = Desk.open(study, name, folder / f"{name}.csv", ledger, noise=pf.SimulatedNoise(3), schema=schema)
    return made


@pytest.mark.parametrize(
    ("method", "columns", "parameters"),
    [("ges", NUMBERS, {"release": "covariance"}), ("pc", NUMBERS, {}), ("fedacd", LEVELS, {})],
)
def test_a_declared_study_is_as_in_one_process(method: str, columns: Any, parameters: Any, tmp_path: Path) -> None:
    study = study_from(document(method, columns, budget=BUDGET, parameters=parameters))
    found = run_study(study, Wire({name: desk.party() for name, desk in desks(study, tmp_path).items()}))
    local = pf.learn(
        [tmp_path / f"{name}.csv" for name in study.parties], method=method, schema=columns, **BUDGET, **parameters,
        noise=pf.SimulatedNoise(3),
    )  # fmt: skip
    np.testing.assert_allclose(found.model.adjacency_matrix_, local.adjacency_matrix_)
    assert not found.absent


def test_the_file_declares_or_names_columns(tmp_path: Path) -> None:
    declared = study_from(document("ges", NUMBERS))
    assert declared.columns == tuple(NUMBERS) and declared.bounds == (36, 70, 0.5)
    path = tmp_path / "study.toml"
    head = 'format = 2\nname = "trial"\nmethod = "ges"\nparties = ["north", "south"]\n'
    path.write_text(head + pf.Schema(NUMBERS).to_toml())
    assert read_study(path).digest == declared.digest
    assert pf.Schema.read(path) == pf.Schema(NUMBERS)
    wider = {**NUMBERS, "age": {"range": [0, 90], "unit": "a", "tier": 0}}
    other = study_from(document("ges", wider))
    assert other.digest != declared.digest
    assert {key for key in other.keys if other.keys[key] != declared.keys[key]} == {"bounds", "columns.age"}
    old = {**document("ges", {}), "columns": ["x", "y"]}
    old["schema"] = 1
    del old["format"]
    assert study_from(old).digest == study_from({**document("ges", {}), "columns": ["x", "y"]}).digest


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": 3}, "format"),
        ({"schema": 1}, "schema"),
        ({"bounds": 3.0}, "bounds"),
        ({"log1p": True}, "log1p"),
        ({"columns": {"age": {"range": [3, 1]}, "x": {"kind": "y"}}}, "(?s)'age'.*'x'"),
        ({"columns": ["x", "y"], "knowledge": {}}, "knowledge"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidParameter, match=word):
        study_from({**document("ges", NUMBERS), **change})


def test_a_party_may_write_its_cells_otherwise_and_nothing_else(tmp_path: Path) -> None:
    study = study_from(document("ges", NUMBERS))
    months = {**NUMBERS, "age": {**NUMBERS["age"], "unit": "mo", "factor": 1 / 12}}
    frames = [frame(0), frame(1).assign(age=frame(1)["age"] * 12)]
    found = run_study(
        study, Wire({n: d.party() for n, d in desks(study, tmp_path, (None, months), frames).items()})
    )
    plain = pf.learn([frame(0), frame(1)], private=False, method="ges", schema=NUMBERS)
    np.testing.assert_allclose(found.model.adjacency_matrix_, plain.adjacency_matrix_, atol=1e-9)
    wide = {**NUMBERS, "age": {**NUMBERS["age"], "range": [0, 90]}}
    with pytest.raises(InvalidParameter, match="age.range"):  # noqa: RUF043
        desks(study, tmp_path, (None, wide))
    with pytest.raises(InvalidTable, match="'maybe'"):
        desks(study, tmp_path, frames=[frame(0), frame(1).assign(smoker="maybe")])


def test_methods_that_do_not_take_the_columns_refuse_the_study(tmp_path: Path) -> None:
    study = study_from(document("ges", {**NUMBERS, "ward": LEVELS["ward"]}))
    with pytest.raises(InvalidParameter, match="'ward'"):
        desks(study, tmp_path)


def test_a_preview_says_what_is_declared(tmp_path: Path) -> None:
    study = study_from(document("ges", NUMBERS, budget=BUDGET))
    shown = desks(study, tmp_path)["north"].preview()
    assert any("18 to 90" in line for line in shown["declared (public)"])
