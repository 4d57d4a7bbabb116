"""The FedACD study on tiny instances."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import fedacd as study
from benchmarks import fedacd_runs as runs
from benchmarks.__main__ import studies


def test_the_plans_cover_what_they_say() -> None:
    seeds = list(range(10))
    networks = runs.plan_networks(seeds, False)
    assert {(job.data, job.parties) for job in networks if job.rate == 0.6} == {
        (name, many) for name in runs.NETWORKS for many in (3, 5, 10, 15, 20)
    }
    assert {job.rate for job in runs.plan_rates(seeds, False)} == {step / 10 for step in range(10)}
    assert {job.data.split()[0] for job in runs.plan_different(seeds, False)} == {"20/40", "30/60"}
    assert {job.way for job in runs.plan_private(seeds, False)} == {"open", *runs.WAYS}
    for plan in (runs.plan_networks, runs.plan_different, runs.plan_rates, runs.plan_private):
        assert len(plan([0], True)) < len(plan([0], False)) == len(set(plan([0], False)))


@pytest.mark.parametrize("kind", [*(f"20/40 {kind}" for kind in runs.KINDS), runs.PRIVATE])
def test_data_are_split_among_the_parties(kind: str) -> None:
    truth, parts, columns, levels = runs.data_of(runs.Job(kind, 3, 0.0, 1))
    assert sum(len(part) for part in parts) == runs.ROWS and levels is None
    assert truth.shape == (20, 20) == (len(columns), parts[0].shape[1]) and (truth != 0).sum() == 40


def test_a_private_run_and_votes_spend_what_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "ROWS", 1000)
    for way in runs.WAYS:
        found = runs.run(runs.Job("child", 2, 0.6, 1000, way, 5.0))
        assert 0 < found.skeleton <= 1 and math.isnan(found.f1) == (way == "noisy votes")
    assert runs.skeleton_f1(np.zeros((3, 3)), np.zeros((3, 3), dtype=bool)) == 1.0


def test_the_command_prints_draws_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "ROWS", 600)
    small = {
        "rates": lambda seeds, quick: [runs.Job("child", 2, rate, seed) for rate in (0.0, 0.6) for seed in seeds],
        "private": lambda seeds, quick: [runs.Job("child", 2, 0.6, seed, "moments", 5.0) for seed in seeds],
    }
    monkeypatch.setattr(study, "SECTIONS", small)
    picture, table = tmp_path / "fedacd.png", tmp_path / "fedacd.csv"
    words = ["fedacd", "--quick", "--seeds", "1000-1001", "--jobs", "1", "--plot", str(picture), "--csv", str(table)]
    answer = CliRunner().invoke(studies, words)
    assert answer.exit_code == 0, answer.output
    assert "skeleton F1" in answer.output and "masks of r = 0.6 add" in answer.output
    assert picture.stat().st_size > 0 and table.read_text().count("\n") == 7
    answer = CliRunner().invoke(studies, ["fedacd", "--section", "rates", "--seeds", "1000", "--jobs", "1", "--json"])
    assert len(json.loads(answer.stdout)["runs"]) == 2
    assert CliRunner().invoke(studies, ["fedacd", "--check", str(tmp_path)]).exit_code == 2
