"""Results that were recorded: a change of the code's place changes none of them, bit for bit under simulated noise.

A change of method may: `python -m tests.algorithms.test_recorded_runs` makes them again, and the commit says why.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.registry import LEARNERS, learner_class
from privfcd.data.private import PrivateTable
from privfcd.datasets.simulate import linear_gaussian
from privfcd.mechanisms import SimulatedNoise

RECORDS = Path(__file__).with_name("recorded_runs.json")
QUICK = {"fed-sparse": {"rounds": 3, "updates": 6}, "fed-bnsl": {"rounds": 5}}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, QUICK.get(method, {})) for method in LEARNERS},
    "fed-sparse, rounds of moments": ("fed-sparse", {"rounds": 3, "updates": 6, "release": "preconditioned"}),
    "equal-variance, one covariance": ("equal-variance", {"release": "covariance"}),
    "fedacd, votes": ("fedacd", {"combine": "vote"}),
    "peri, one covariance": ("peri", {"release": "covariance"}),
}


def run(name: str) -> dict[str, Any]:
    """Return what a run of a few rows comes to: weights, noisy moments, what was sent and spent."""
    method, parameters = RUNS[name]
    _, parts = linear_gaussian(5, 2, 600, seed=3)
    tables = [
        PrivateTable(rows, tuple("abcde"), name=f"p{k}", budget=Budget(10.0, 1e-6), noise=SimulatedNoise(7))
        for k, rows in enumerate(parts)
    ]
    learner: Any = learner_class(method)
    model = learner(**parameters).fit(tables)
    return {
        "weights": np.asarray(model.adjacency_matrix_, dtype=float).tolist(),
        "moments": [part.matrix.tolist() for part in model.released_moments_ or ()],
        "bytes": model.bytes_exchanged_,
        "epsilon": [report.epsilon for report in model.privacy_report_],
    }


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.filterwarnings("ignore")
def test_what_was_recorded_is_found_again(name: str) -> None:
    recorded, found = json.loads(RECORDS.read_text(encoding="utf-8"))[name], run(name)
    for key in ("weights", "moments"):  # the last bits are the processor's
        np.testing.assert_allclose(found.pop(key), recorded.pop(key), rtol=1e-7, atol=1e-10)
    assert found == recorded


if __name__ == "__main__":
    RECORDS.write_text(json.dumps({name: run(name) for name in RUNS}, indent=1) + "\n", encoding="utf-8")
