"""The study of one release for all learners, on tiny instances."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import moments as study
from benchmarks.moments_limits import Setting, limit_settings, run_setting, simulate
from benchmarks.moments_speed import Timing, exponent, time_search
from benchmarks.progress import with_progress


def test_the_plan_covers_both_dimensions_and_the_coordinates() -> None:
    plan = study.plan_epsilons(list(range(2, 12)), quick=False)
    assert {job.d for job in plan} == {20, 200}
    assert {job.seed for job in plan if job.d == 200} == {2, 3, 4, 5, 6}
    assert {job.epsilon for job in plan if job.coordinates and job.d == 20} == set(study.COORDINATE_EPSILONS[20])
    assert len(set(plan)) == len(plan)


def test_all_learners_run_on_the_same_moments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "ROWS", 2000)
    monkeypatch.setattr(study, "PARTIES", 2)
    monkeypatch.setattr(study, "LEARNERS", {5: ("order search", "NOTEARS")})
    jobs = [study.Job(5, 1, None), study.Job(5, 1, 5.0)]
    outcomes = [outcome for job in jobs for outcome in study.run_job(job)]
    assert [outcome.label for outcome in outcomes] == ["order search", "NOTEARS, moments"] * 2
    assert outcomes[0].shd == 0 and math.isinf(outcomes[0].epsilon)
    assert 0 < outcomes[2].epsilon <= 5.0
    assert outcomes[2].megabytes == outcomes[3].megabytes > 0


def test_the_command_prints_json_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "plan_epsilons", lambda seeds, quick: [study.Job(20, 1, None), study.Job(20, 1, 10.0)])
    monkeypatch.setattr(study, "LEARNERS", {20: ("order search",)})
    picture, table = tmp_path / "moments.png", tmp_path / "moments.csv"
    words = ["--quick", "--seeds", "1", "--jobs", "1", "--json", "--plot", str(picture), "--csv", str(table)]
    answer = CliRunner().invoke(study.moments, words)
    assert answer.exit_code == 0, answer.output
    assert len(json.loads(answer.stdout)["runs"]) == 2
    assert picture.stat().st_size > 0
    assert table.read_text().count("\n") == 3


def test_limits_change_what_they_name_and_nothing_else() -> None:
    plain = Setting("plain", 1, None, d=6, parties=2, rows=20_000)
    weights, _ = simulate(plain)
    through = np.eye(6) - weights
    for change, check in (
        ({"ratio": 4.0}, lambda e: np.sort(e.var(axis=0))[[0, -1]] == pytest.approx([1, 4], rel=0.1)),
        ({"freedom": 5.0}, lambda e: (e**4).mean() > 4 and e.var(axis=0) == pytest.approx(np.ones(6), rel=0.2)),
    ):
        setting: dict[str, Any] = {"d": 6, "parties": 2, "rows": 20_000, **change}
        same, changed = simulate(Setting("changed", 1, None, **setting))
        assert np.array_equal(same, weights)
        assert check(changed[0] @ through)
    names = {setting.name for setting in limit_settings([2], quick=False)}
    assert {"heterogeneous weights", "200 rows a party", "50 parties", "t errors, 5 degrees"} <= names


def test_one_limit_runs_and_a_refusal_is_a_line_too() -> None:
    found = run_setting(Setting("plain", 1, None, d=5, parties=2, rows=2000))
    assert found.shd == 0 and found.p_value is not None
    refused = run_setting(Setting("tiny", 1, 0.01, d=5, parties=1, rows=20))
    assert refused.shd is None


def test_time_is_measured_and_the_exponent_is_a_slope() -> None:
    timing = time_search(10, 1, 1)
    assert timing.shd == 0 and timing.seconds >= 0
    assert exponent([Timing(d, 1e-6 * d**2.5, 0) for d in (10, 100, 1000, 2000)]) == pytest.approx(2.5)


def test_progress_keeps_the_order() -> None:
    assert with_progress(abs, [-3, 1, -2], 1, "numbers") == [3, 1, 2]
