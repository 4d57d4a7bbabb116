"""`privfcd schema`, `--schema`, and options that are given more than once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privfcd as pf
from privfcd.cli import main
from privfcd.data.schema_draft import draft_schema


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    made = []
    for k in range(2):
        rng = np.random.default_rng(k)
        age = rng.integers(18, 90, 300)
        frame = pd.DataFrame(
            {
                "id": [f"p{k}-{i}" for i in range(300)],
                "age": np.where(rng.random(300) < 0.05, -999, age),
                "sbp": (90 + 0.6 * age + rng.normal(0, 8, 300)).round(1),
                "smoker": np.where(rng.random(300) < 0.4, "yes", "No"),
                "sex": rng.choice(["F", "M", "f"], 300),
                "ward": rng.choice(["a", "b", None], 300),
                "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 300), "D"),
            }
        )
        frame.to_csv(tmp_path / f"{'ab'[k]}.csv", index=False)
        made.append(tmp_path / f"{'ab'[k]}.csv")
    return made


def test_a_draft_is_for_the_owner_and_fits_its_table(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert run("schema", "draft", files[0]) == 0
    said = capsys.readouterr()
    assert "READ FROM THE ROWS" in said.out and "owner's eyes" in said.err
    made = pf.Schema.from_toml(said.out)
    assert {name: column.kind for name, column in made.columns.items() if not column.drop} == {
        "age": "count", "sbp": "continuous", "smoker": "categorical", "sex": "categorical", "ward": "categorical",
        "seen": "date",
    }  # fmt: skip
    assert made.columns["id"].drop and made.columns["age"].missing_values == ("-999",)
    assert made.columns["sex"].codes == ("F", "M") and made.columns["ward"].missing == "category"
    assert all(column.range is None for column in made.columns.values())  # the extremes are those of single records
    for target in (tmp_path / "s.toml", tmp_path / "s.json"):
        assert run("schema", "draft", files[0], "-o", target) == 0
        assert pf.Schema.read(target) == made
        assert run("schema", "check", target, files[0], files[1]) == 0
    assert "300 rows fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    "cells", [[None, None], [True, False], ["x"], [1.5], ["2020-01-01", "2020-01-02"], [0, 1], ["a", "A"]]
)
def test_every_draft_fits_the_rows_that_it_was_read_from(cells: list) -> None:
    frame = pd.DataFrame({"x": cells, "y": range(len(cells))})
    made = draft_schema(frame).schema
    assert pf.Schema.from_toml(draft_schema(frame).toml()) == made
    assert len(made.apply(frame).rows) == len(cells)


def test_check_says_all_that_is_wrong_and_ends_with_2(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    pf.Schema({"age": {"range": [18, 90]}, "sex": {"kind": "categorical", "levels": ["f", "m"]}, "bmi": {}}).write(
        tmp_path / "s.toml"
    )
    assert run("schema", "check", tmp_path / "s.toml", *files) == 2
    said = capsys.readouterr().err
    assert said.count("does not fit the schema") == 2 and said.count("'bmi'") == 2 and "'sex'" in said
    assert run("schema", "check", tmp_path / "s.toml", files[0], "--json") == 2
    assert run("schema", "check", files[0]) == 2


def test_diff(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    pf.Schema({"age": {"unit": "a"}}).write(tmp_path / "a.toml")
    pf.Schema({"age": {"unit": "mo", "factor": 0.0833}}).write(tmp_path / "b.toml")
    pf.Schema({"age": {"range": [0, 9]}}).write(tmp_path / "c.toml")
    assert run("schema", "diff", tmp_path / "a.toml", tmp_path / "b.toml", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["agree"] and len(found["differences"]) == 2
    assert run("schema", "diff", tmp_path / "a.toml", tmp_path / "c.toml") == 0
    assert "NOT agree" in capsys.readouterr().out


def test_learn_takes_a_schema(files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    columns = {
        "age": {"range": [0, 120]},
        "sbp": {"range": [60, 240]},
        "smoker": {"kind": "binary", "levels": ["No", "yes"]},
    }
    pf.Schema(columns).write(tmp_path / "s.toml")
    words = ["learn", *files, "--schema", tmp_path / "s.toml"]
    assert run(*words, "--no-privacy", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["configuration"]["options"]["method"] == "ges"
    assert run(*words, "--epsilon", 3, "--method", "ges", "--set", "release=covariance", "--dry-run") == 0
    assert "histogram" not in capsys.readouterr().out
    assert run(*words, "--epsilon", 3, "--bounds", 9) == 2
    assert "schema" in capsys.readouterr().err
    (tmp_path / "study.toml").write_text('[study]\nschema = "s.toml"\nno-privacy = true\ndrop = ["age"]\n')
    assert run("learn", *files, "--config", tmp_path / "study.toml", "--json") == 0
    assert "age" not in json.loads(capsys.readouterr().out)["configuration"]["command"].split("--drop")[0]


def test_lists_add_up_and_single_values_are_given_once(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    def dropped(*words: object) -> set[str]:
        assert run("learn", *files, "--no-privacy", "--method", "ges", "--json", *words) == 0
        return set(json.loads(capsys.readouterr().out)["configuration"]["options"]["drop"])

    texts = ["id", "smoker", "sex", "ward", "seen"]
    assert dropped(*(word for name in texts for word in ("--drop", name))) == set(texts)
    assert dropped("--drop", "id,smoker", "--drop", "sex,ward,seen", "--drop", "id") == set(texts)
    (tmp_path / "study.toml").write_text('[study]\ndrop = ["id", "smoker"]\n')
    assert dropped("--config", tmp_path / "study.toml", "--drop", "sex", "--drop", "ward,seen") == set(texts)
    for twice in (["--epsilon", 1, "--epsilon", 2], ["--center", "--no-center"], ["--delta", 1e-3, "--delta", 1e-4]):
        assert run("learn", *files, *twice) == 2
        assert "once" in capsys.readouterr().err
    for bounds, code in ((["--bounds", "age=3", "--bounds", "age=4"], 2), (["--bounds", "3", "--bounds", "age=4"], 2)):
        assert run("learn", *files, "--epsilon", 1, *bounds) == code


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["lern"], "learn"), (["schema", "chek"], "check"), (["learn", "a.csv", "--epsilom", "3"], "--epsilon")],
)
def test_what_is_meant_is_said(words: list[str], meant: str, capsys: pytest.CaptureFixture) -> None:
    assert run(*words) == 2
    assert "Did you mean" in (said := capsys.readouterr().err) and meant in said
