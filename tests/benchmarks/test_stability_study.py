"""The study of edge stability, on tiny instances and on made-up edges."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import stability as study
from benchmarks.stability import Case, Edge, Job, Setting


def case(*edges: Edge, seed: int = 1, **changes: Any) -> Case:
    values: dict[str, Any] = {"label": "PC", "d": 5, "epsilon": 1.0, "seed": seed, "construction": "", "missed": 1}
    values |= {"alone_edges": 0.5, "alone_weight": None, "alone_most": 0.1, "draws": 9, "seconds": 1.0}
    return Case(edges=edges, **{**values, **changes})


def test_bands_count_each_edge_once() -> None:
    first = case(Edge(0.0, False, False), Edge(0.5, True, False, True), Edge(1.0, True, True, False))
    second = case(Edge(0.79, False, True), Edge(0.95, True, True), seed=2)
    rows = study.band_rows([first, second])
    assert [row["edges"] for row in rows] == [1, 2, 0, 2]
    assert [row["without noise"] for row in rows] == [0.0, 0.5, None, 1.0]
    assert [row["true"] for row in rows] == [0.0, 0.5, None, 1.0]
    both = study.band_rows([first, second, case(Edge(1.0, False, True), label="GES")])
    assert [row["learner"] for row in both] == ["PC"] * 4 + ["GES"] * 4 + ["all"] * 4
    assert [row["edges"] for row in both[8:]] == [1, 2, 0, 3]
    silent = study.band_rows([first, case(Edge(1.0, False, False, tested=False))])
    assert [row["edges"] for row in silent] == [1, 1, 0, 1, 1] and silent[-1]["frequency"] == "not tested"
    (line,) = study.run_rows([first, second])
    assert (line["runs"], line["edges a run"], line["missed a run"]) == (2, 2.5, 1)
    assert line["weights in interval"] == 0.5 and line["95 % of its weights"] is None


def test_edges_are_judged_by_direction_and_undirected_ones_by_adjacency() -> None:
    private = np.zeros((4, 4), dtype=bool)
    private[0, 1] = private[1, 2] = private[2, 1] = private[3, 0] = True
    free = np.zeros((4, 4), dtype=bool)
    free[0, 1] = free[2, 1] = free[0, 3] = True
    frequency, adjacency = np.full((4, 4), 0.25), np.full((4, 4), 0.75)
    model = SimpleNamespace(adjacency_matrix_=private, feature_names_in_=list("abcd"), untested_=[("d", "a")])
    nan = np.full((4, 4), np.nan)
    edges, missed = study.judged(model, free, free, frequency, adjacency, nan, nan)
    assert [(edge.frequency, edge.noise_free, edge.covered) for edge in edges] == [
        (0.25, True, None),
        (0.75, True, None),
        (0.25, False, None),
    ]
    assert [edge.tested for edge in edges] == [True, True, False]
    assert missed == 2  # 2 -> 1, which is not directed, and 0 -> 3, which points the other way


def test_the_plan_keeps_reported_seeds_and_settings() -> None:
    jobs = study.plan(list(range(2, 12)), False, False)
    assert {job.setting for job in jobs} == set(study.SETTINGS)
    assert len([job for job in jobs if job.setting.d == 200]) == 2
    assert all(job.setting.release is None for job in study.plan([1000], False, True))


@pytest.mark.parametrize("constructions", [False, True])
def test_the_command(constructions: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "ROWS", 1000)
    monkeypatch.setattr(study, "PARTIES", 2)
    monkeypatch.setattr(
        study, "plan", lambda seeds, quick, other: [Job(Setting("GES", 5.0, d=5, draws=3), 1000, other)]
    )
    table, picture = tmp_path / "bands.csv", tmp_path / "bands.png"
    words = ["--quick", "--jobs", "1", "--csv", str(table), "--plot", str(picture)]
    answer = CliRunner().invoke(study.stability, [*words, *(["--constructions"] if constructions else [])])
    assert answer.exit_code == 0, answer.output
    many = len(study.CONSTRUCTIONS) if constructions else 1
    assert table.read_text().count("\n") == 1 + 4 * many
    assert picture.stat().st_size > 0
    answer = CliRunner().invoke(study.stability, ["--quick", "--jobs", "1", "--json"])
    assert {row["learner"] for row in json.loads(answer.stdout)["runs"]} == {"GES"}


def test_coordinates_are_judged_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "ROWS", 1000)
    monkeypatch.setattr(study, "PARTIES", 2)
    (found,) = study.run_job(Job(Setting("FedSparseBNSL", 5.0, d=3, release="coordinates"), 1000))
    assert found.alone_edges is None and found.draws == 50
