"""Fed-BNSL: its local steps against numeric minimisers, its halves and messages, and what they give away."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as settings_of
from hypothesis import strategies as st
from scipy.optimize import minimize

from privfcd.algorithms.acyclicity import acyclicity
from privfcd.algorithms.fed_bnsl import (
    FedBNSL,
    FedBNSLCoordinator,
    FedBNSLParty,
    messages,
    reconstructed_moments,
)
from privfcd.algorithms.fed_bnsl.local_steps import ClosedForm, FrankWolfe
from privfcd.algorithms.fed_bnsl.settings import Settings
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.protocol import SparseMatrix
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.graphs.dag import is_acyclic
from privfcd.moments import pooled
from tests.support.helpers import exact, wiretapped

Tables = Callable[..., list[PrivateTable]]
NAMES = ("a", "b", "c", "d")
EDGES = {("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")}


def settings(**changes: Any) -> Settings:
    values: dict[str, Any] = {"rounds": 4, "l1": 0.1, "rho1": 1000.0, "rho2": 1.0, "growth": 1.0, "rho1_max": 1e5}
    values |= {"threshold": 0.3, "local_step": "closed-form", "steps": 5, "radius": 4.0}
    return Settings(**{**values, **changes})


def problem(seed: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Moments, W and beta."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(d + 3, d)) @ rng.normal(size=(d, d))
    consensus = rng.normal(size=(d, d)) * (rng.random((d, d)) < 0.5)
    np.fill_diagonal(consensus, 0)
    return rows.T @ rows / len(rows), consensus, rng.normal(size=(d, d))


def lagrangian(moments: np.ndarray, local: np.ndarray, consensus: np.ndarray, dual: np.ndarray, rho2: float) -> float:
    """A party's objective, as the paper writes it."""
    gap = np.eye(len(moments)) - local
    loss = np.trace(gap.T @ moments @ gap) / 2
    return float(loss + np.trace(dual.T @ (local - consensus)) + rho2 / 2 * np.linalg.norm(local - consensus) ** 2)


@settings_of(max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 5), st.sampled_from([0.01, 1.0, 30.0]))
def test_the_closed_form_is_the_minimum(seed: int, d: int, rho2: float) -> None:
    moments, consensus, dual = problem(seed, d)
    local = ClosedForm(moments, rho2).solve(consensus, dual)
    direct = np.linalg.inv(moments + rho2 * np.eye(d)) @ (rho2 * consensus - dual + moments)
    np.testing.assert_allclose(local, direct, rtol=1e-6, atol=1e-8 * np.abs(direct).max())
    lowest = lagrangian(moments, local, consensus, dual, rho2)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        step = rng.normal(size=(d, d)) * 10 ** rng.uniform(-4, 1)
        assert lagrangian(moments, local + step, consensus, dual, rho2) > lowest
    if rho2 < 1:
        return
    found = minimize(
        lambda b: lagrangian(moments, b.reshape(d, d), consensus, dual, rho2), np.zeros(d * d), method="BFGS"
    )
    assert found.fun == pytest.approx(lowest, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(found.x.reshape(d, d), local, atol=1e-3)


def in_the_ball(moments: np.ndarray, consensus: np.ndarray, dual: np.ndarray, radius: float, child: int) -> Any:
    """One column's minimum over the l1 ball, by a general solver over positive and negative parts."""
    d = len(moments)
    curvature = moments + np.eye(d)
    pull = (moments + consensus - dual)[:, child]
    others = [k for k in range(d) if k != child]

    def objective(halves: np.ndarray) -> float:
        column = np.zeros(d)
        column[others] = halves[: d - 1] - halves[d - 1 :]
        return float(column @ curvature @ column / 2 - pull @ column)

    return minimize(
        objective,
        np.zeros(2 * d - 2),
        bounds=[(0, None)] * (2 * d - 2),
        constraints={"type": "ineq", "fun": lambda halves: radius - halves.sum()},
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 1000},
    ).fun


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("radius", [0.3, 2.0, 50.0])
def test_frank_wolfe_converges_to_the_minimum_in_the_ball(seed: int, radius: float) -> None:
    d = 4
    moments, consensus, dual = problem(seed, d)
    solver = FrankWolfe(moments, 1.0, radius, 5000)
    local = solver.solve(consensus, dual)
    assert (np.abs(local).sum(axis=0) <= radius * (1 + 1e-9)).all() and not np.diag(local).any()
    pull = moments + consensus - dual
    values = ((local * ((moments + np.eye(d)) @ local)) / 2 - local * pull).sum(axis=0)
    best = np.array([in_the_ball(moments, consensus, dual, radius, child) for child in range(d)])
    gap = solver.gap(local, consensus, dual)
    scale = 1 + np.abs(best)
    assert (values - best <= 1e-2 * scale).all() and (best - values <= 1e-5 * scale).all()
    assert (values - best <= gap + 1e-5 * scale).all(), "the gap bounds the distance from the minimum"


def test_frank_wolfe_steps_are_sparse_and_never_go_up() -> None:
    moments, consensus, dual = problem(3, 6)
    start = np.zeros((6, 6))
    values = []
    for steps in range(1, 8):
        local = FrankWolfe(moments, 1.0, 3.0, steps).solve(start, dual)
        assert ((local != 0).sum(axis=0) <= steps).all()
        values.append(lagrangian(moments, local, start, dual, 1.0))
    assert (np.diff(values) <= 1e-9).all() and values[0] <= lagrangian(moments, start, start, dual, 1.0)
    shortened = FrankWolfe(moments, 1.0, 0.1, 1).solve(consensus, dual)
    assert (np.abs(shortened).sum(axis=0) <= 0.1 * (1 + 1e-12)).all()


@pytest.fixture
def wiretap(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[Any]]]:
    return wiretapped(monkeypatch, messages)


def test_the_graph_is_found(tables: Tables, weights: np.ndarray) -> None:
    seen: list[Any] = []
    fitted = FedBNSL(rounds=40, l1=0.06).fit(tables(), on_round=seen.append)
    assert set(fitted.causal_graph_.edges) == EDGES and nx.is_directed_acyclic_graph(fitted.causal_graph_)
    np.testing.assert_allclose(fitted.adjacency_matrix_, weights, atol=0.15)
    assert fitted.privacy_spent_ == (math.inf, 0.0)
    assert fitted.privacy_report_ is not None and all("NO PRIVACY" in str(report) for report in fitted.privacy_report_)
    assert [row["round"] for row in fitted.history_] == [record.number for record in seen] == list(range(1, 41))
    assert list(fitted.feature_names_in_) == list(NAMES) and fitted.n_features_in_ == 4


SIZES = 3 * 4 * 8
"""Bytes of the columns' sizes, which each of three open tables' parties says once."""


@pytest.mark.parametrize("local_step", ["closed-form", "frank-wolfe"])
def test_bytes_are_those_of_the_papers_rule(
    tables: Tables, local_step: Any, wiretap: list[tuple[Any, list[Any]]]
) -> None:
    fitted = FedBNSL(rounds=5, local_step=local_step, steps=2).fit(tables())
    if local_step == "closed-form":
        assert fitted.bytes_exchanged_ == 2 * 5 * 3 * 4 * 4 * 8 + SIZES
    else:
        entries = 0
        for message, answers in wiretap:
            for one in (*([message] * 3), *answers):
                matrix = getattr(one, "weights", None)
                entries += 0 if matrix is None else int((matrix.dense() != 0).sum())
        assert fitted.bytes_exchanged_ == entries * (8 + 1) + SIZES
    assert [type(message).__name__ for message, _ in wiretap] == ["Offer", *["Round"] * 5, "Finish"]


def test_moments_and_tables_give_the_same(tables: Tables, parts: list[np.ndarray]) -> None:
    fitted = FedBNSL(rounds=15, center=False).fit(tables())
    other = FedBNSL(rounds=15).fit([exact(part) for part in parts])
    np.testing.assert_allclose(fitted.adjacency_matrix_, other.adjacency_matrix_, atol=1e-6)
    assert other.privacy_report_ is None and other.privacy_spent_ == (math.inf, 0.0)
    assert other.bytes_exchanged_ == fitted.bytes_exchanged_ - SIZES
    names = [NAMES, ("c", "a", "d", "b"), ("d", "c", "b", "a")]
    turned = [parts[0], parts[1][:, [2, 0, 3, 1]], parts[2][:, ::-1]]
    for source in (tables(turned, columns=names), [exact(p, n) for p, n in zip(turned, names, strict=True)]):
        aligned = FedBNSL(rounds=15, center=False).fit(source)
        np.testing.assert_allclose(aligned.adjacency_matrix_, fitted.adjacency_matrix_, atol=1e-6)


def test_alike_parties_are_as_one(parts: list[np.ndarray]) -> None:
    """P parties with the same moments minimise P times what one of them minimises, with l1 and rho1 divided by P."""
    one, three = exact(parts[0]), [exact(parts[0])] * 3
    single = FedBNSL(rounds=25, l1=0.05, rho1=300.0).fit(one)
    many = FedBNSL(rounds=25, l1=0.15, rho1=900.0).fit(three)
    np.testing.assert_allclose(single.adjacency_matrix_, many.adjacency_matrix_, atol=0.02)
    assert FedBNSL()._settings().l1_for(3) == 3 * FedBNSL()._settings().l1_for(1)


def test_a_long_run_ends_at_a_stationary_point_of_the_pooled_problem(parts: list[np.ndarray]) -> None:
    """Where all B agree with W, the parties' slopes, the constraint's and the penalty's cancel on W's support."""
    moments = [exact(part) for part in parts]
    l1, records = 0.2, []
    FedBNSL(rounds=400, l1=l1, rho1=100.0).fit(moments, on_round=records.append)
    weights = records[-1].weights
    alpha = 100.0 * sum(record.h for record in records)
    slope = 3 * pooled(moments).matrix @ (weights - np.eye(4)) + alpha * acyclicity(weights)[1]
    present = np.abs(weights) > 0.05
    assert present.sum() >= 4
    np.testing.assert_allclose((slope + l1 * np.sign(weights))[present], 0, atol=0.15)


@pytest.mark.parametrize("rounds", [1, 4])
def test_every_message_gives_the_second_moments_away(
    tables: Tables, parts: list[np.ndarray], wiretap: list[tuple[Any, list[Any]]], rounds: int
) -> None:
    """Appendix A.1: in the first round from B alone, later with the multipliers that follow from earlier messages."""
    rho2 = 1.7
    FedBNSL(rounds=rounds, rho2=rho2, center=False).fit(tables())
    passed = [(message, answers) for message, answers in wiretap if isinstance(message, messages.Round)]
    for index, part in enumerate(parts):
        dual, before = np.zeros((4, 4)), None
        for message, answers in passed:
            consensus = np.zeros((4, 4)) if message.weights is None else message.weights.dense()
            if before is not None:
                dual += rho2 * (before - consensus)
            local = before = answers[index].weights.dense()
            found = reconstructed_moments(local, consensus, dual, rho2)
            np.testing.assert_allclose(found, exact(part).matrix, rtol=1e-6, atol=1e-8)


def test_reconstruction_needs_matrices_of_one_shape() -> None:
    with pytest.raises(InvalidParameter, match="one shape"):
        reconstructed_moments(np.zeros((3, 3)), np.zeros((2, 2)), np.zeros((3, 3)), 1.0)
    with pytest.raises(InvalidParameter, match="invertible"):
        reconstructed_moments(np.eye(3), np.zeros((3, 3)), np.zeros((3, 3)), 1.0)


def test_what_growth_does_to_rho1(parts: list[np.ndarray]) -> None:
    moments = [exact(part) for part in parts]
    constant = FedBNSL(rounds=8, rho1=10.0).fit(moments)
    grown = FedBNSL(rounds=8, rho1=10.0, growth=3.0, rho1_max=1e4).fit(moments)
    kept = FedBNSL(rounds=8, rho1=10.0, growth=3.0, rho1_max=1.0).fit(moments)
    assert grown.history_[-1]["h"] < constant.history_[-1]["h"]
    np.testing.assert_array_equal(kept.adjacency_matrix_, constant.adjacency_matrix_)


def test_the_frank_wolfe_variant_learns_a_dag(tables: Tables) -> None:
    fitted = FedBNSL(local_step="frank-wolfe", rounds=30, steps=20).fit(tables())
    assert is_acyclic(fitted.adjacency_matrix_)
    assert {frozenset(edge) for edge in EDGES} <= {frozenset(edge) for edge in fitted.causal_graph_.edges}


def test_a_party_answers_in_order_only(parts: list[np.ndarray]) -> None:
    party = FedBNSLParty("north", exact(parts[0]))
    with pytest.raises(PartyFailed, match="before it was offered"):
        party.answer(messages.Round(1, None))
    with pytest.raises(PartyFailed, match="columns"):
        party.answer(messages.Offer(settings(), ("a", "b", "c", "x")))
    with pytest.raises(PartyFailed, match="does not know"):
        party.answer(messages.Quote(3))
    assert party.answer(messages.Offer(settings(), NAMES)) == messages.Quote(200)
    with pytest.raises(PartyFailed, match="round 2 after round 0"):
        party.answer(messages.Round(2, None))
    for bad in (
        messages.DenseMatrix(np.zeros((3, 3))),
        messages.DenseMatrix(np.full((4, 4), np.nan)),
        SparseMatrix(5, np.array([0]), np.array([1.0])),
    ):
        with pytest.raises(PartyFailed, match="the coordinator sent"):
            party.answer(messages.Round(1, bad))
    first = party.answer(messages.Round(1, None))
    party.answer(messages.Offer(settings(), NAMES))
    with pytest.raises(PartyFailed, match="round 1 after round 1"):
        party.answer(messages.Round(1, None))
    other = FedBNSLParty("north", exact(parts[0]))
    other.answer(messages.Offer(settings(), NAMES))
    again = other.answer(messages.Round(1, messages.DenseMatrix(np.zeros((4, 4)))))
    assert isinstance(first, messages.LocalUpdate) and isinstance(again, messages.LocalUpdate)
    np.testing.assert_array_equal(first.weights.dense(), again.weights.dense())
    party.answer(messages.Finish(first.weights))
    with pytest.raises(PartyFailed, match="before it was offered"):
        party.answer(messages.Round(2, first.weights))


class Liar:
    """A party that answers rounds with whatever it was made with."""

    def __init__(self, answer: Any) -> None:
        self.name = "liar"
        self._answer = answer

    def answer(self, message: Any) -> Any:
        return messages.Quote(10) if isinstance(message, messages.Offer) else self._answer


@pytest.mark.parametrize(
    "answer",
    [
        messages.Quote(1),
        messages.LocalUpdate(messages.DenseMatrix(np.zeros((3, 4)))),
        messages.LocalUpdate(messages.DenseMatrix(np.full((4, 4), np.inf))),
        messages.LocalUpdate(SparseMatrix(4, np.array([99]), np.array([1.0]))),
    ],
)
def test_the_coordinator_refuses_malformed_answers(answer: Any) -> None:
    with pytest.raises(PartyFailed, match="liar"):
        FedBNSLCoordinator(settings(), NAMES).run(LocalFederation([Liar(answer)]))


def test_a_message_is_a_copy() -> None:
    matrix = np.ones((2, 2))
    sent = messages.DenseMatrix.of(matrix)
    matrix[:] = 5
    sent.dense()[:] = 7
    assert (sent.values == 1).all() and sent.payload_bytes() == 32
