"""The descent's benchmark runs and prints what it measured; it asserts no speed."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import bench_descent
from benchmarks.bench import bench
from privfcd.data import fused


@pytest.mark.parametrize("with_numba", [True, False])
def test_a_quick_run_prints_every_figure(monkeypatch: pytest.MonkeyPatch, with_numba: bool) -> None:
    if with_numba:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr(fused.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(bench_descent, "QUICK", bench_descent.Size(8, 2, 100, 2, 3))
    ended = CliRunner().invoke(bench, ["descent", "--quick"])
    assert ended.exit_code == 0, ended.output
    for text in ("in two stages", "NumPy", "12 selections and updates", "times as long", "peak memory"):
        assert text in ended.output
    assert ("compiled loops are left out" in ended.output) != with_numba


def test_pairs_are_those_of_all_parties() -> None:
    assert bench_descent.FULL.pairs == 80_000
