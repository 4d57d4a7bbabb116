"""Edge stability of a run between machines: from what the coordinator was sent, and the same as in one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms import FedSparseBNSL, edge_stability
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import SimulatedNoise
from privfcd.runs.study_run import run_study

from .conftest import DELTA, EPSILON, PARTIES, SEED, Place, Wire


def test_rounds_tell_the_coordinator_what_they_tell_one_process(place: Place) -> None:
    parameters: dict[str, Any] = {"rounds": 4, "updates": 5, "refit_share": 0.2}
    study = place.study("fed-sparse", True, parameters=parameters)
    place.ledgers(EPSILON)
    far = edge_stability(run_study(study, Wire(place.halves(study))).model)
    tables = [
        PrivateTable(rows, study.columns, name=name, budget=Budget(EPSILON, DELTA), noise=SimulatedNoise(SEED))
        for name, rows in zip(PARTIES, place.parts, strict=True)
    ]
    near = edge_stability(FedSparseBNSL(**parameters, epsilon=EPSILON, delta=DELTA).fit(tables))
    for name in ("frequency", "adjacency", "weight_low", "weight_high"):
        assert np.array_equal(getattr(far, name), getattr(near, name))
    assert far.draws == 2


@pytest.mark.parametrize("method", ["ges", "equal-variance"])
def test_released_moments_are_redrawn_where_they_were_learnt_from(place: Place, method: str) -> None:
    study = place.study(method, True)
    place.ledgers(EPSILON)
    model = run_study(study, Wire(place.halves(study))).model
    assert edge_stability(model, draws=2).draws == 2


@pytest.mark.parametrize("method", ["fed-bnsl", "peri"])
def test_noisy_moments_that_parties_keep_are_sent_once_and_redrawn(place: Place, method: str) -> None:
    study = place.study(method, True, parameters={} if method == "peri" else {"rounds": 3})
    place.ledgers(EPSILON)
    model = run_study(study, Wire(place.halves(study))).model
    assert edge_stability(model, draws=2).draws == 2


@pytest.mark.parametrize("method", ["fed-bnsl", "peri", "fed-sparse"])
def test_open_runs_have_none(place: Place, method: str) -> None:
    study = place.study(method, False, parameters={} if method == "peri" else {"rounds": 3})
    place.ledgers(None)
    model = run_study(study, Wire(place.halves(study))).model
    with pytest.raises(InvalidParameter, match="no noise"):
        edge_stability(model)
