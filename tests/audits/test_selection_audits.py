"""Audits of the other mechanisms: the right one passes, the one at half scale is caught, both at alpha = 1e-6."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from privfcd.accounting import REPLACE_ONE
from privfcd.audits import audit, search_sensitivity
from privfcd.audits.standard import standard_queries
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import (
    GaussianVector,
    LaplaceNoisyMax,
    LaplaceVector,
    PermuteAndFlip,
    SecureNoise,
    SimulatedNoise,
    TopM,
)

GATE = 1e-6
MAKERS: dict[str, Callable[[float], Any]] = {
    "top-1": lambda scale: TopM(scale, 1),
    "top-3": lambda scale: TopM(scale, 3),
    "permute and flip": PermuteAndFlip,
    "Laplace noisy max": LaplaceNoisyMax,
    "Gaussian vector": lambda scale: GaussianVector(scale, (1.0, 10.0, 0.0)),
    "Gaussian vector, joint": lambda scale: GaussianVector(scale, (1.0, 10.0), joint=1.2),
    "Laplace vector": lambda scale: LaplaceVector(scale, (1.0, 10.0)),
}
SELECTIONS = [name for name in MAKERS if "vector" not in name]


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("noise", [SimulatedNoise(6), SecureNoise()])
def test_right_ones_pass_and_half_scale_is_caught(name: str, noise: Any) -> None:
    make = MAKERS[name]
    # exact coins are slow, and 8000 of them show more than 20 000 runs of the other selections
    runs = 8_000 if noise.secure and name == "permute and flip" else 20_000
    right = audit(make(2.0), runs=runs, alpha=GATE, noise=noise)
    assert not right.refuted
    assert right.tightness > 0.2
    wrong = audit(make(1.0), right.claim, runs=runs, alpha=GATE, noise=noise)
    assert wrong.verdict == "violated"


@pytest.mark.parametrize("name", SELECTIONS)
def test_monotone_claims(name: str) -> None:
    make = MAKERS[name]
    right = audit(make(1.0), runs=20_000, alpha=GATE, monotone=True)
    assert not right.refuted
    # the claim of monotone scores, for scores that are not
    wrong = audit(make(1.0), make(1.0).event(1.0, monotone=True), runs=20_000, alpha=GATE)
    assert wrong.verdict == "violated"


def test_audits_are_tight_at_many_runs() -> None:
    assert audit(LaplaceNoisyMax(2.0), runs=10**6).tightness > 0.75
    assert audit(GaussianVector(2.0, (1.0, 10.0)), runs=300_000).tightness > 0.95
    assert audit(LaplaceVector(2.0, (1.0, 10.0)), runs=300_000).tightness > 0.95
    assert audit(TopM(2.0, 2), runs=300_000).verdict == "consistent"


def test_pairs_further_apart_than_neighbours_are_refused() -> None:
    for mechanism, pair in (
        (TopM(1.0, 1), ([0.0, 0.0], [2.0, 0.0])),
        (PermuteAndFlip(1.0), ([0.0, 0.0], [2.0, 0.0])),
        (GaussianVector(1.0, (1.0, 1.0)), ([0.0, 0.0], [2.0, 0.0])),
        (LaplaceVector(1.0, (1.0, 1.0), joint=1.0), ([0.0, 0.0], [1.0, 1.0])),
    ):
        with pytest.raises(InvalidParameter, match="within the sensitivity"):
            audit(mechanism, pair=pair, runs=100)


@pytest.mark.parametrize("query", standard_queries(3), ids=lambda query: query.name)
def test_no_standard_query_moves_further_than_it_says(query: Any) -> None:
    assert search_sensitivity(query, 20, 3, relation=REPLACE_ONE, evaluations=400).verdict != "violated"
