"""The study of engines: three parties on Flower against one process; the whole is `python -m benchmarks flower`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="the extra `flower` is not installed")

from benchmarks.flower import compare_engines


@pytest.mark.slow
def test_flower_and_one_process_learn_the_same_bits(tmp_path: Path) -> None:
    found = compare_engines(tmp_path, "fed-sparse", epsilon=5.0, seed=1, rows=3000)
    assert found.same
    assert found.run.questions == 13
    assert found.run.paper_bytes == found.local.bytes_exchanged_
