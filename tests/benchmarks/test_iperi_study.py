"""The study of I-PERI and its benchmark, on tiny instances."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import bench_iperi
from benchmarks import iperi as study


def test_the_plan_has_all_sections() -> None:
    plan = study.planned([2, 3], (1.0, 3.0), quick=False)
    assert {job.section for job in plan} == {"table", "exact", "epsilon"} and len(set(plan)) == len(plan)
    assert {job.p for job in plan if job.section == "table"} == {3, 4, 8, 10, 20}


def test_the_command_prints_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "QUICK_SIZES", (3,))
    monkeypatch.setattr(study, "PRIVATE_SIZE", 4)
    monkeypatch.setattr(study, "PRIVATE_ROWS", 2000)
    picture, table = tmp_path / "i.png", tmp_path / "i.csv"
    words = ["--quick", "--seeds", "1000,1001", "--jobs", "1", "--plot", str(picture), "--csv", str(table)]
    shown = CliRunner().invoke(study.iperi, words)
    assert shown.exit_code == 0, shown.output
    assert "exact CPDAGs" in shown.output and picture.stat().st_size > 0
    assert table.read_text().count("\n") == 1 + 2 * (5 + 4 + 1 + 3)
    answer = CliRunner().invoke(study.iperi, ["--quick", "--seeds", "1000", "--jobs", "1", "--json", "--epsilon", "2"])
    runs = json.loads(answer.stdout)["runs"]
    assert {run["epsilon"] for run in runs if run["section"] == "epsilon"} == {"inf", 2.0}
    right = [run for run in runs if run["section"] == "exact" and run["method"] == "ours"]
    assert all(run["phi"] and run["unsound"] == 0 for run in right)


def test_a_bad_epsilon_is_refused() -> None:
    assert CliRunner().invoke(study.iperi, ["--epsilon", "-1"]).exit_code == 2


def test_the_benchmark_measures() -> None:
    found = bench_iperi.measure("ours", 5, [1000])
    assert found.p == 5 and found.seconds[0] >= 0 and found.messages[0] > 0 and found.families[0] > 5
