"""The benchmark of FedACD, on small instances."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import bench_fedacd as bench


def test_the_least_of_several_runs_and_the_last_value_are_returned() -> None:
    values = iter(range(3))
    seconds, value = bench.least(lambda: next(values), 3)
    assert value == 2 and 0 <= seconds


def test_skeletons_are_compared(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("causallearn")
    monkeypatch.setattr(bench, "VARIABLES", 8)
    monkeypatch.setattr(bench, "ROWS", 300)
    monkeypatch.setattr(bench, "EDGES", 9)
    monkeypatch.setattr(bench, "RATIO", 0.0)
    assert bench.against_causal_learn([1])
    monkeypatch.setattr(bench, "own_skeleton", lambda rows: np.zeros((8, 8), dtype=bool))
    assert not bench.against_causal_learn([1])
    assert "NO" in capsys.readouterr().out


def test_whole_runs_are_timed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(bench, "ROWS", 500)
    monkeypatch.setattr(bench, "PARTIES", 2)
    monkeypatch.setattr(bench, "WHOLE", {"child": 100.0})
    assert bench.whole_run("child", 1, 1)
    assert "2 parties" in capsys.readouterr().out
