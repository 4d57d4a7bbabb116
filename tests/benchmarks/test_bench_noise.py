"""The benchmark's parts: medians in turns, scores, the grid, and the command."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import bench_noise
from benchmarks.__main__ import studies
from privfcd.mechanisms import SecureNoise


def test_works_are_measured_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    now = [0.0]
    monkeypatch.setattr(bench_noise, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def work(number: int, seconds: float) -> None:
        seen.append(number)
        now[0] += seconds

    works = [lambda: work(0, 0.5), lambda: work(1, 0.125)]
    assert bench_noise.in_turns(works, 4) == [0.5, 0.125]
    assert seen == [0, 1, 0, 1, 1, 0, 0, 1, 1, 0]


def test_scores_differ_in_one_winner_only() -> None:
    flat, far = bench_noise.scores_of(400)
    assert np.count_nonzero(flat != far) == 1


def test_outputs_are_on_the_grid() -> None:
    assert bench_noise.on_grid(1_000)


def test_times_are_positive() -> None:
    assert all(seconds > 0 for seconds in bench_noise.numbers("Laplace", 1_000, 10, 1))
    assert all(seconds > 0 for seconds in bench_noise.selections(SecureNoise(), 100, 1))


def test_the_command_is_there() -> None:
    answer = CliRunner().invoke(studies, ["bench", "noise", "--help"])
    assert answer.exit_code == 0
    assert "Secure noise" in answer.output
