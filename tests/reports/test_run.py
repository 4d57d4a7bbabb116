"""A run as plain data and as text."""

from __future__ import annotations

import json
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest

import privfcd as pf
from privfcd.reports import privacy_text, run_summary


def fitted(budget: pf.Budget | None, **changes: Any) -> pf.FedSparseBNSL:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(100, 3)) for _ in range(2)]
    for part in parts:
        part[:, 1] += 2 * part[:, 0]
    tables = [
        pf.PrivateTable(part, ["a", "b", "c"], name=name, budget=budget, bounds=9.0, noise=pf.SimulatedNoise(1))
        for name, part in zip(("north", "south"), parts, strict=True)
    ]
    parameters = {"rounds": 10, "updates": 6, "step": 0.5, "l1": 0.05, "threshold": 0.3, "center": False, **changes}
    return pf.FedSparseBNSL(**parameters).fit(tables)


@pytest.mark.parametrize("budget", [None, pf.Budget(epsilon=50, delta=1e-5)])
def test_the_summary_is_json_and_says_what_the_model_says(budget: pf.Budget | None) -> None:
    model = fitted(budget)
    target = nx.DiGraph([("a", "b"), ("b", "c")])
    summary = run_summary(model, 1.25, target)
    again = json.loads(json.dumps(summary, allow_nan=False))
    assert again["columns"] == ["a", "b", "c"] and again["seconds"] == 1.25 and again["bytes"] == model.bytes_exchanged_
    edges = {(edge["from"], edge["to"]): edge["weight"] for edge in again["edges"]}
    assert edges == {(a, b): w for a, b, w in model.causal_graph_.edges(data="weight")}
    assert [row["round"] for row in again["history"]] == list(range(1, 11))
    metrics = again["against_target"]
    hits = len(set(edges) & set(target.edges))
    assert metrics["directed_hits"] == hits and metrics["edges"] == len(edges) and metrics["edges_true"] == 2
    privacy = again["privacy"]
    assert (privacy["epsilon"] == "inf") == (budget is None) and len(privacy["parties"]) == 2
    for party, report in zip(privacy["parties"], model.privacy_report_, strict=True):
        assert party["party"] == report.party
        assert [part["label"] for part in party["parts"]] == [part.label for part in report.parts]
        assert sum(part["drawn"] for part in party["parts"]) >= 2 * 10 * 6
    assert again["parameters"]["rounds"] == 10 and run_summary(model, 1.0)["against_target"] is None


def test_text_page_and_json_name_the_versions_that_computed_them() -> None:
    model = fitted(None)
    known = run_summary(model, 1.0)["versions"]
    assert list(known) == ["privfcd", "Python", "numpy", "scipy", "dp-accounting", "networkx"]
    assert known["privfcd"] == pf.__version__ and known["numpy"] == np.__version__
    for text in (privacy_text(model), pf.reports.report_html(model)):
        assert all(number in text for number in known.values())


def test_what_was_dropped_for_cycles_is_named() -> None:
    model = fitted(None)
    from privfcd.graphs.dag import project_to_dag

    model.dropped_ = project_to_dag(np.array([[0, 2.0, 0.2], [1.0, 0, 0.1], [0, 0, 0]]), 0.3)
    dropped = json.loads(json.dumps(run_summary(model, 1.0)))["dropped"]
    assert dropped == {"by_threshold": 2, "for_cycles": [{"from": "b", "to": "a", "weight": 1.0}]}


def test_infinities_become_texts() -> None:
    model = fitted(None)
    model._fitted_with = {**model.get_params(), "clip": math.inf}
    assert json.loads(json.dumps(run_summary(model, 1.0), allow_nan=False))["parameters"]["clip"] == "inf"


def test_the_text_has_every_partys_report() -> None:
    text = privacy_text(fitted(pf.Budget(epsilon=50, delta=1e-5)))
    for words in (
        "'north'",
        "'south'",
        "epsilon = ",
        "coordinate selection",
        "Assumptions",
        "SIMULATED",
        "replace one",
    ):
        assert words in text
    assert text.endswith("\n")


def test_the_promise_is_made_in_numbers_that_are_true() -> None:
    model = fitted(pf.Budget(epsilon=2, delta=1e-5))
    (line,) = [line for line in privacy_text(model).splitlines() if "'north' had been" in line]
    factor = float(line.split(" = ")[1].split(" ")[0])
    assert factor == pytest.approx(math.exp(model.privacy_report_[0].epsilon), rel=1e-3)


def test_parameters_that_are_arrays_can_be_summed_up() -> None:
    model = fitted(pf.Budget(epsilon=50, delta=1e-5), smoothness=np.array([2.0, 3.0, 4.0]))
    assert json.dumps(run_summary(model, 1.0))


def test_an_open_run_does_not_praise_its_noise() -> None:
    table = pf.PrivateTable(np.random.default_rng(0).normal(size=(40, 2)))
    text = privacy_text(pf.FedSparseBNSL(rounds=1, updates=1, step=0.5).fit([table]))
    assert "Noise: secure" not in text
