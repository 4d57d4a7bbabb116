"""Every method over the wire learns what its estimator learns in one process, bit for bit for the same simulated seed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms import BOSS, GES, IPERI, NOTEARS, PC, PERI, EqualVarianceSearch, FedBNSL, FedSparseBNSL
from privfcd.algorithms.fedacd import FedACD
from privfcd.algorithms.registry import LEARNERS
from privfcd.data.private import PrivateTable
from privfcd.mechanisms import SimulatedNoise
from privfcd.reports.run import run_summary
from privfcd.runs.study_run import run_study

from .conftest import COLUMNS, DELTA, EPSILON, PARTIES, SEED, Place, Wire

CASES: list[tuple[str, type, dict[str, Any], bool]] = [
    ("fed-sparse", FedSparseBNSL, {"rounds": 4, "updates": 5}, True),
    ("fed-sparse", FedSparseBNSL, {"rounds": 4, "updates": 5, "refit_share": 0.2}, True),
    ("fed-sparse", FedSparseBNSL, {"rounds": 3, "updates": 5}, False),
    ("equal-variance", EqualVarianceSearch, {"threshold": 0.25, "center": True}, True),
    ("equal-variance", EqualVarianceSearch, {"release": "covariance", "row_norm": 8.0}, True),
    ("equal-variance", EqualVarianceSearch, {}, False),
    ("notears", NOTEARS, {}, True),
    ("pc", PC, {"alpha": 0.05}, True),
    ("ges", GES, {}, True),
    ("boss", BOSS, {}, True),
    ("fedacd", FedACD, {}, True),
    ("fed-bnsl", FedBNSL, {"rounds": 4}, True),
    ("fed-bnsl", FedBNSL, {"rounds": 4, "local_step": "frank-wolfe"}, False),
    ("peri", PERI, {}, True),
    ("peri", PERI, {"release": "covariance", "row_norm": 8.0}, True),
    ("iperi", IPERI, {}, False),
]


@pytest.mark.parametrize(("method", "kind", "parameters", "private"), CASES)
def test_the_same_bits_as_in_one_process(
    place: Place, method: str, kind: type, parameters: dict[str, Any], private: bool
) -> None:
    study = place.study(method, private, parameters=parameters)
    place.ledgers(EPSILON if private else None)
    desks = {name: place.desk(study, name) for name in PARTIES}
    run = run_study(study, Wire({name: desk.party() for name, desk in desks.items()}))
    tables = [
        PrivateTable(
            rows,
            COLUMNS,
            name=name,
            budget=Budget(EPSILON, DELTA) if private else None,
            noise=SimulatedNoise(SEED),
        )
        for name, rows in zip(PARTIES, place.parts, strict=True)
    ]
    demand = {"epsilon": EPSILON, "delta": DELTA} if private else {}
    local = kind(**parameters, **demand).fit(tables)
    assert run.model.adjacency_matrix_.tobytes() == local.adjacency_matrix_.tobytes()
    assert sorted(run.model.causal_graph_.edges) == sorted(local.causal_graph_.edges)
    if private:
        assert {place.spent(study, name) for name in PARTIES} == {table.ledger.spent()["epsilon"] for table in tables}
    assert run.wire_bytes > run.paper_bytes > 0
    # what is promised is the same too: each owner has the report, and the coordinator what the study allows
    for name, report in zip(PARTIES, local.privacy_report_, strict=True):
        own = desks[name].report()
        assert own is not None and own.head
        assert replace(own, head="") == replace(report, head="")
    assert run.model.privacy_report_ is None and not run.model.paid_before_
    assert run.model.privacy_spent_ == ((EPSILON, DELTA) if private else (math.inf, 0.0))
    assert run.model.privacy_spent_ >= local.privacy_spent_
    assert any(note.startswith("NO PRIVACY") for note in run.model.notes_) != private
    assert run_summary(run.model, 1.0)["privacy"]["paid"] == "at the parties"


def test_all_methods_are_compared() -> None:
    assert {method for method, *_ in CASES} == set(LEARNERS)


def test_the_papers_count_is_the_local_engines(place: Place) -> None:
    study = place.study("fed-bnsl", parameters={"rounds": 3})
    place.ledgers()
    run = run_study(study, Wire(place.halves(study)))
    d, parties = len(COLUMNS), len(PARTIES)
    kept = parties * (d + d * (d + 1) // 2 + 1) * 8  # noisy moments, for what the coordinator says of them
    assert run.paper_bytes == 2 * 3 * parties * d * d * 8 + kept
    assert np.isfinite(run.model.adjacency_matrix_).all()
