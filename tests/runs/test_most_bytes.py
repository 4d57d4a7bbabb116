"""Bounds on the size of messages hold for every run, and are near where the messages are as large as they can be."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.runs import plan_run
from privfcd.runs.most_bytes import most_vote_bytes

BUDGET = pf.Budget(5.0, 1e-6)


def tables_of(d: int, parties: int, budget: Any = BUDGET, *, seed: int = 1, rows: int = 200) -> list[pf.PrivateTable]:
    made = pf.simulate.linear_gaussian(d, parties, rows, seed=seed).tables
    noise = pf.SimulatedNoise(seed)
    return [pf.PrivateTable(x, name=f"p{k}", budget=budget, bounds=8.0, noise=noise) for k, x in enumerate(made)]


def coins(d: int, parties: int, budget: Any) -> list[pf.PrivateTable]:
    rows = np.random.default_rng(1).integers(0, 3, size=(parties, 150, d)).astype(float)
    noise = pf.SimulatedNoise(1)
    return [pf.PrivateTable(x, name=f"p{k}", budget=budget, noise=noise) for k, x in enumerate(rows)]


def held(model: Any, tables: list[pf.PrivateTable]) -> tuple[int, int]:
    """Return what was sent and the bound of the plan."""
    plan = plan_run(model, tables, rehearse=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sent = model.fit(tables).bytes_exchanged_
    assert plan.most_bytes is not None and sent <= plan.most_bytes == plan.as_dict()["most_bytes"]
    return sent, plan.most_bytes


@pytest.mark.parametrize("budget", [BUDGET, None])
@pytest.mark.parametrize(
    "model",
    [
        pf.FedACD(combine="vote"),
        pf.FedACD(combine="vote", max_cond_vars=0),
        pf.FedACD(combine="vote", alpha=0.9, max_cond_vars=9, center=False),
        pf.PERI(),
        pf.PERI(worst="node", max_parents=1, local="ges", penalty=1e-3),
        pf.PERI(privacy="regret", max_regrets=20),
        pf.PERI(privacy="regret", max_regrets=500),
        pf.IPERI(),
        pf.IPERI(orientation="regret", penalty=1e-3),
        pf.IPERI(orientation="authors", refine=False, worst="node"),
        pf.IPERI(privacy="regret", max_regrets=40, orientation="authors"),
        pf.FedBNSL(local_step="frank-wolfe", rounds=6),
        pf.FedBNSL(local_step="frank-wolfe", rounds=4, steps=1, l1=0.0, center=True),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("d", "parties"), [(2, 1), (4, 3), (5, 2)])
def test_bounds_hold(model: Any, budget: Any, d: int, parties: int) -> None:
    held(model.__class__(**model.get_params()), tables_of(d, parties, budget))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    "model",
    [pf.PC(), pf.GES(), pf.NOTEARS(), pf.EqualVarianceSearch(), pf.FedACD(), pf.FedACD(sum="trusted")],
    ids=repr,
)
def test_releases_in_rounds_are_bounded(model: Any, center: bool) -> None:
    sent, most = held(model.__class__(**{**model.get_params(), "center": center}), tables_of(6, 3))
    assert sent > 0.7 * most  # most of it is of known size


@pytest.mark.parametrize("budget", [BUDGET, None])
@pytest.mark.parametrize("combine", ["vote", "sum"])
def test_discrete_columns(budget: Any, combine: str) -> None:
    tables = coins(4, 2, budget)
    model = pf.FedACD(levels=3, combine=combine)
    if combine == "vote":
        held(model, tables)
        return
    plan = plan_run(model, tables)
    sent = model.fit(tables).bytes_exchanged_
    assert plan.most_bytes is None and (budget is None or plan.bytes is not None) and sent > 0


def test_votes_reach_their_bound() -> None:
    """On dependent columns no edge goes, so that every layer is asked for."""
    x = np.random.default_rng(1).normal(size=(2, 5000, 1)) + np.random.default_rng(2).normal(size=(2, 5000, 4)) / 2
    tables = [pf.PrivateTable(each, name=f"p{k}") for k, each in enumerate(x)]
    sent, most = held(pf.FedACD(max_cond_vars=3, variant="paper"), tables)
    assert most == most_vote_bytes(4, 2, 3, "paper") == 2 * (4 * (1 + 2) + 4 * 6 + 4)
    assert sent == most - 2 * 3, "a party may name four columns that others determine; here it names none: 1 byte, not 4"


@pytest.mark.parametrize("d", range(1, 6))
def test_no_graph_has_more_unshielded_triples_than_the_bound_counts(d: int) -> None:
    pairs = list(itertools.combinations(range(d), 2))
    most = 0
    for mask in range(2 ** len(pairs)):
        adjacent = np.zeros((d, d), dtype=bool)
        for place, (i, j) in enumerate(pairs):
            adjacent[i, j] = adjacent[j, i] = mask >> place & 1
        degrees = adjacent.sum(axis=1)
        # pairs of edges at a node, less those whose ends are joined too
        most = max(
            most, int((degrees * (degrees - 1)).sum() // 2 - np.trace(adjacent.astype(int) @ adjacent @ adjacent) // 2)
        )
    bound = most_vote_bytes(d, 1, 0, "stable") - most_vote_bytes(d, 1, 0, "paper") - -(-len(pairs) // 8)
    assert most <= bound <= most + d


def test_of_moments_too() -> None:
    parts = pf.release_moments(tables_of(4, 3)).parts
    for model in (pf.PERI(), pf.IPERI(), pf.FedACD(combine="vote"), pf.FedBNSL(local_step="frank-wolfe", rounds=3)):
        plan = plan_run(model, parts, rehearse=False)
        assert plan.most_bytes is not None and model.fit(parts).bytes_exchanged_ <= plan.most_bytes
    assert plan_run(pf.GES(), parts, rehearse=False).most_bytes is None


@pytest.mark.parametrize("d", [40, 2000])
def test_why_there_is_none_is_said(d: int) -> None:
    nothing = pf.Moments(np.eye(d), 3000, tuple(f"x{j}" for j in range(d)))
    plan = plan_run(pf.IPERI(), [nothing, nothing], rehearse=False)
    assert plan.most_bytes is None and f"of which there are {d} x 2^{d - 1}" in plan.notes[-1]
    text = " ".join(str(plan).split())
    assert "no bound on the messages is worth stating" in text
    paid = plan_run(pf.PERI(privacy="regret", max_regrets=10_000), tables_of(30, 2), rehearse=False)
    assert paid.most_bytes == 2 * (10_000 + 30) * (5 + 8)
