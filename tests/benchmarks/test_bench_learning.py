"""The benchmark's parts, and its yardstick as an oracle of Fed-BNSL."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import bench_learning
from benchmarks.__main__ import studies
from benchmarks.notears_admm_port import notears_admm
from privfcd import FedBNSL, PrivateTable
from privfcd.datasets.simulate import linear_gaussian
from privfcd.graphs import compare, project_to_dag


def test_the_port_learns_a_graph_and_is_an_oracle_of_fed_bnsl() -> None:
    truth, tables = linear_gaussian(6, parties=3, rows=2000, seed=1)
    moments = [rows.T @ rows / len(rows) for rows in tables]
    result = notears_admm(moments, 60, l1=3 / 16)
    assert len(result.h) == 60 and result.h[-1] < 0.02 and result.evaluations >= 60
    assert not np.diag(result.weights).any()
    port = project_to_dag(result.weights, 0.3).weights
    ours = FedBNSL(rounds=60).fit([PrivateTable(rows, name=str(p)) for p, rows in enumerate(tables)])
    assert compare(truth, port).shd <= 1 and compare(truth, ours.adjacency_matrix_).shd <= 1
    np.testing.assert_allclose(ours.adjacency_matrix_[port != 0], port[port != 0], atol=0.1)


def test_growing_penalties_end_nearer_to_a_dag() -> None:
    _, tables = linear_gaussian(5, parties=2, rows=500, seed=1)
    moments = [rows.T @ rows / len(rows) for rows in tables]
    constant, growing = notears_admm(moments, 12, rho1=10.0), notears_admm(moments, 12, rho1=10.0, growth1=1.75)
    assert growing.h[-1] < constant.h[-1]


def test_exponents() -> None:
    assert bench_learning.exponent([1, 2, 4], [3, 12, 48]) == pytest.approx(2)


def test_core_seconds_are_those_of_the_process_and_of_its_ended_children(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = {"own": 5.0, "children_user": 2.0, "children_system": 1.0}
    monkeypatch.setattr(bench_learning.time, "process_time", lambda: spent["own"])
    monkeypatch.setattr(bench_learning.os, "times", lambda: SimpleNamespace(**spent))

    def work() -> None:
        for name, seconds in (("own", 4.0), ("children_user", 0.5), ("children_system", 0.25)):
            spent[name] += seconds

    assert bench_learning.core_seconds(work) == 4.75 and bench_learning.core_seconds(lambda: None) == 0


def test_every_method_is_measured() -> None:
    for name, learn in (("port", bench_learning.port), *bench_learning.LEARNERS.items()):
        row = bench_learning.measure(name, learn, 4, [1], 3, rows=200)
        assert len(row.shd) == 1 and row.megabytes[0] > 0 and math.isfinite(row.seconds[0])


def test_a_small_run_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_learning, "ROWS", 200)
    monkeypatch.setitem(bench_learning.FLOORS, 5, 0.0)
    assert bench_learning.against_the_port(5, [1], 2)
    bench_learning.growth("d", (4, 8), lambda d: (d, 100), 2)
    text = capsys.readouterr().out
    assert "times as fast" in text and "exponent" in text and "Fed-Sparse-BNSL" in text


def test_the_command_is_there() -> None:
    answer = CliRunner().invoke(studies, ["bench", "learning", "--help"])
    assert answer.exit_code == 0 and "plain port" in answer.output
