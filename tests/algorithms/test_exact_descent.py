"""A round of exact updates in compiled loops is the round that is made update by update."""

from __future__ import annotations

import numpy as np
import pytest

from privfcd import FedSparseBNSL, Moments, PrivateTable
from privfcd.datasets.simulate import linear_gaussian

pytest.importorskip("numba")


@pytest.mark.parametrize("step", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_rounds_give_the_same_bits(seed: int, step: float) -> None:
    _, parts = linear_gaussian(7, parties=2, rows=300, seed=seed, edges=9)
    found = []
    for fast in (False, True):
        tables = [PrivateTable(part, name=f"p{index}") for index, part in enumerate(parts)]
        found.append(FedSparseBNSL(rounds=12, updates=20, step=step, fast=fast).fit(tables))
        moments = [Moments(part.T @ part / 300, 300, tuple("abcdefg")) for part in parts]
        found.append(FedSparseBNSL(rounds=12, updates=20, step=step, fast=fast).fit(moments))
    np.testing.assert_array_equal(found[0].adjacency_matrix_, found[2].adjacency_matrix_)
    np.testing.assert_array_equal(found[1].adjacency_matrix_, found[3].adjacency_matrix_)
    assert found[0].bytes_exchanged_ == found[2].bytes_exchanged_
    drawn = [[(part.label, part.drawn) for part in report.parts] for report in found[0].privacy_report_]
    assert drawn == [[(part.label, part.drawn) for part in report.parts] for report in found[2].privacy_report_]
