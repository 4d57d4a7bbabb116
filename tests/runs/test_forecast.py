"""What a run can find, said before it: monotone in what is paid, and what simulated runs come to."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

import privfcd as pf
from privfcd.errors import InvalidParameter

Run = Callable[..., tuple[int, str, str]]


def test_more_of_anything_never_finds_less() -> None:
    base = pf.forecast([1000, 1000], 6, 1.0)
    assert 0 < base.half < base.most < 1 and base.possible
    better = (
        pf.forecast([1000, 1000], 6, 3.0),
        pf.forecast([3000, 3000], 6, 1.0),
        pf.forecast([1000] * 6, 6, 1.0),
        pf.forecast([1000, 1000], 6),
    )
    for each in better:
        assert each.half < base.half and each.most < base.most and each.found[2][0] >= base.found[2][0]
    assert all(value < base.half for value in base.more.values())
    three = pf.forecast([1000, 1000], 6, 3.0)
    assert base.more["epsilon x 3"] == pytest.approx(three.half, rel=0.15)


def test_one_noise_finds_more_than_one_for_each_party() -> None:
    halves = [pf.forecast([800] * 5, 6, 0.5, sum=kind).half for kind in ("trusted", "secure", "per-party")]
    assert halves == sorted(halves) and halves[0] < halves[2]


def test_without_privacy_the_line_is_that_of_chance() -> None:
    found = pf.forecast([500, 1500], 10)
    critical = 3.26  # two-sided normal quantile at .05 / 45
    assert found.half == pytest.approx(critical / math.sqrt(2000), rel=0.01)
    assert found.noise_sd == 0 and found.text.count("\n") == 3


def test_a_hopeless_run_is_said_to_be_one_and_what_would_do() -> None:
    found = pf.forecast([144, 144, 144], 9, 1.0)
    assert not found.possible and found.half == 1 and found.found[1][0] == 0
    assert "NO EDGE" in found.text and 0 < found.more["epsilon x 10"] < 0.5
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False))["noise_sd"] == "inf"


def test_bad_numbers_are_refused() -> None:
    for words, arguments in (
        ("rows", ([], 5, 1.0)),
        ("rows", ("100", 5, 1.0)),
        ("rows", ([100, 1], 5, 1.0)),
        ("columns", ([100], 1, 1.0)),
        ("epsilon", ([100], 5, 0.0)),
        ("delta", ([100], 5, 1.0, 0.0)),
    ):
        with pytest.raises(InvalidParameter, match=words):
            pf.forecast(*arguments)  # type: ignore[arg-type]


def test_the_command(run: Run) -> None:
    code, out, _ = run("forecast", "--rows", "2000,2000", "--columns", "5", "--epsilon", "2")
    assert code == 0 and "probability 0.9" in out and "epsilon x 3" in out
    code, out, _ = run("forecast", "--rows", "2000", "--columns", "5", "--json")
    assert code == 0 and json.loads(out)["possible"] is True
    assert run("forecast", "--rows", "2000;3", "--columns", "5")[0] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parties", "rows", "d", "epsilon"), [(5, 2000, 10, 1.0), (3, 1000, 6, 3.0), (5, 400, 8, None)]
)
def test_simulated_runs_find_what_was_forecast(parties: int, rows: int, d: int, epsilon: float | None) -> None:
    """One pair depends; the share of runs in which it stands clear is within 10 points and 3 standard errors."""
    found = pf.forecast([rows] * parties, d, epsilon)
    for size, share in ((found.half, 0.5), (found.most, 0.9)):
        hits = 0
        for seed in range(100):
            x = np.random.default_rng(5000 + seed).normal(size=(parties * rows, d))
            x[:, 1] = size * x[:, 0] + math.sqrt(1 - size**2) * x[:, 1]
            budget = None if epsilon is None else pf.Budget(epsilon=epsilon, delta=1 / rows**2)
            tables = [
                pf.PrivateTable(part, name=f"p{k}", budget=budget, noise=pf.SimulatedNoise(seed))
                for k, part in enumerate(np.split(x, parties))
            ]
            hits += any(set(edge) == {"x0", "x1"} for edge in pf.GES().fit(tables).judgement_.edges)
        print(parties, rows, d, epsilon, share, hits)
    assert abs(hits / 100 - share) <= 0.1 + 3 * math.sqrt(share * (1 - share) / 100)
