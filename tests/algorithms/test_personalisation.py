"""A party's own weights: least squares on the graph, what it costs, and what must stay with the owner."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import pytest

from privfcd.accounting import ADD_OR_REMOVE_ONE, Budget
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.personalisation import (
    personalise,
    personalise_for_owner,
    prediction_error_for_owner,
    refit,
)
from privfcd.algorithms.personalisation.release import FAMILIES, HISTOGRAM, MEAN
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_moments
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.graphs.dag import to_networkx
from privfcd.moments import Moments, NoiseTerm

Tables = Callable[..., list[PrivateTable]]
NAMES = ("a", "b", "c", "d")
BUDGET = Budget(10, 1e-5)


@pytest.fixture
def graph(weights: np.ndarray) -> Any:
    return to_networkx(weights, NAMES)


def regression(rows: np.ndarray, structure: np.ndarray) -> np.ndarray:
    """Least squares of every column on its parents, by numpy's own solver on the rows."""
    found = np.zeros_like(structure)
    for child in range(structure.shape[1]):
        parents = np.flatnonzero(structure[:, child])
        if len(parents):
            found[parents, child] = np.linalg.lstsq(rows[:, parents], rows[:, child], rcond=None)[0]
    return found


def test_open_tables_moments_and_the_owner_agree_with_least_squares(
    tables: Tables, parts: list[np.ndarray], weights: np.ndarray, graph: Any
) -> None:
    made = tables()
    shown = personalise(graph, made, center=False)
    released = personalise(graph, [table_moments(table) for table in made])
    for party, (part, open_one, free) in enumerate(zip(parts, shown, released, strict=True)):
        own = personalise_for_owner(graph, part, NAMES, party="ward", center=False)
        truth = regression(part, weights)
        for one in (open_one, free, own):
            np.testing.assert_allclose(one.weights, truth, rtol=1e-9, atol=1e-12)
            assert one.columns == NAMES and one.noise_sd is None
        assert own.for_owner_only and not open_one.for_owner_only and not free.for_owner_only
        assert "FOR THE OWNER ONLY" in repr(own) and "OWNER" not in repr(open_one)
        assert open_one.party == made[party].name and free.party == f"party-{party + 1}"
        assert open_one.privacy_report is not None and open_one.privacy_report.epsilon == math.inf
        assert free.privacy_report is None and own.privacy_report is None
        assert set(own.graph.edges) == set(graph.edges)


def test_a_fitted_estimator_is_a_graph_too(tables: Tables, parts: list[np.ndarray]) -> None:
    model = FedBNSL(rounds=20).fit(tables())
    found = personalise(model, tables(), center=False)
    np.testing.assert_allclose(found[0].weights, regression(parts[0], model.adjacency_matrix_), rtol=1e-8, atol=1e-12)
    with pytest.raises(InvalidParameter, match="fitted first"):
        personalise(FedBNSL(), tables())


def test_centred_weights_are_those_of_a_regression_with_an_intercept(
    tables: Tables, parts: list[np.ndarray], weights: np.ndarray, graph: Any
) -> None:
    moved = [part + np.array([3, -5, 0, 10]) for part in parts]
    found = personalise(graph, tables(moved), center=True)
    own = personalise_for_owner(graph, moved[0], NAMES, center=True)
    truth = regression(parts[0] - parts[0].mean(axis=0), weights)
    np.testing.assert_allclose(found[0].weights, truth, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(own.weights, truth, rtol=1e-8, atol=1e-10)


def test_columns_are_aligned_by_name(tables: Tables, parts: list[np.ndarray], graph: Any) -> None:
    turned = [parts[0], parts[1][:, [2, 0, 3, 1]], parts[2][:, ::-1]]
    names = [NAMES, ("c", "a", "d", "b"), ("d", "c", "b", "a")]
    straight, other = personalise(graph, tables()), personalise(graph, tables(turned, columns=names))
    for one, two in zip(straight, other, strict=True):
        np.testing.assert_allclose(one.weights, two.weights, rtol=1e-9, atol=1e-12)
    own = personalise_for_owner(graph, turned[2], names[2])
    np.testing.assert_allclose(own.weights, straight[2].weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("bounds", "center", "row_norms", "planned"),
    [
        (8.0, False, None, [FAMILIES]),
        (8.0, True, None, [MEAN, FAMILIES]),
        (None, False, None, [HISTOGRAM, FAMILIES]),
        (None, True, 6.0, [HISTOGRAM, MEAN, FAMILIES]),
        (None, False, 6.0, [FAMILIES]),
    ],
)
def test_a_paid_release_is_planned_charged_and_reported(
    tables: Tables,
    many: list[np.ndarray],
    weights: np.ndarray,
    graph: Any,
    bounds: float | None,
    center: bool,
    row_norms: float | None,
    planned: list[str],
) -> None:
    made = tables(many, budget=BUDGET, bounds=bounds)
    found = personalise(graph, made, center=center, row_norms=row_norms)
    for table, part, one in zip(made, many, found, strict=True):
        report = one.privacy_report
        assert report is not None and 9.9 < report.epsilon <= 10 and report.delta == 1e-5
        assert [part.label for part in report.parts] == planned
        assert all(part.planned == part.drawn == 1 for part in report.parts)
        assert 9.9 < table.ledger.spent()["epsilon"] <= 10
        assert one.noise_sd is not None and ((one.noise_sd > 0) == (weights != 0)).all()
        assert not one.for_owner_only and (one.weights[weights == 0] == 0).all()
        exact = regression(part - part.mean(axis=0) * center, weights)
        assert np.abs(one.weights - exact).max() < 0.3
        assert not np.isclose(one.weights, exact, rtol=1e-6)[weights != 0].any()


def test_all_pay_before_any_row_is_read(tables: Tables, graph: Any, arm: Any, rows_touched: Any) -> None:
    made = [arm(table) for table in tables(budget=BUDGET, bounds=8.0)]
    with pytest.raises(rows_touched):
        personalise(graph, made, epsilon=2.0)
    assert all(1.9 < table.ledger.spent()["epsilon"] <= 2 for table in made)
    short = [arm(table) for table in tables(budget=[BUDGET, BUDGET, Budget(1, 1e-5)], bounds=8.0)]
    with pytest.raises(BudgetExceeded):
        personalise(graph, short, epsilon=2.0)
    blind = [arm(table) for table in tables(budget=Budget(0.01, 1e-9))]
    with pytest.raises(BudgetExceeded, match="histogram"):
        personalise(graph, blind)
    for table in (*short, *blind):
        assert not table.ledger.entries()


def test_a_graph_without_edges_costs_nothing(tables: Tables, arm: Any) -> None:
    empty: nx.DiGraph[str] = nx.DiGraph()
    empty.add_nodes_from(NAMES)
    made = [arm(table) for table in tables(budget=BUDGET, bounds=8.0)]
    assert not any(one.weights.any() for one in personalise(empty, made))
    assert not any(table.ledger.entries() for table in made)


def test_neighbours_by_addition_and_removal(tables: Tables, many: list[np.ndarray], graph: Any) -> None:
    made = tables(many, budget=BUDGET, bounds=8.0, relation=ADD_OR_REMOVE_ONE, declared_rows=5100)
    report = personalise(graph, made)[0].privacy_report
    assert report is not None and "add or remove" in report.relation


def test_the_stated_noise_is_that_of_the_weights(weights: np.ndarray, many: list[np.ndarray]) -> None:
    """Weights from noisy moments scatter about the exact ones with the standard deviation that is stated."""
    clean = many[0].T @ many[0] / len(many[0])
    clean = (clean + clean.T) / 2
    rng = np.random.default_rng(3)
    draws, runs, s = [], 400, 0.02
    for _ in range(runs):
        noise = np.triu(rng.normal(size=(4, 4)) * s / math.sqrt(2), 1)
        noise = noise + noise.T + np.diag(rng.normal(size=4) * s)
        moments = Moments(clean + noise, 5000, NAMES, (NoiseTerm(s),))
        found, sd = refit(moments, (1, 3), 2)
        draws.append(found)
    exact, _ = refit(Moments(clean, 5000, NAMES), (1, 3), 2)
    _, stated = refit(Moments(clean, 5000, NAMES, (NoiseTerm(s),)), (1, 3), 2)
    assert stated is not None and sd is not None
    scatter = np.std(draws, axis=0)
    # the sd of 400 draws is within 4 of its own standard errors, 1 / sqrt(2 runs), of the truth
    np.testing.assert_allclose(scatter, stated, rtol=4 / math.sqrt(2 * runs) + 0.03)
    np.testing.assert_allclose(np.mean(draws, axis=0), exact, atol=5 * stated.max() / math.sqrt(runs) + 1e-3)


def test_parents_that_determine_each_other_get_finite_weights() -> None:
    column = np.random.default_rng(0).normal(size=50)
    rows = np.column_stack([column, column, 3 * column])
    graph = to_networkx(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]]), ("x", "y", "z"))
    own = personalise_for_owner(graph, rows, ("x", "y", "z"), center=False)
    np.testing.assert_allclose(own.weights[:2, 2], [1.5, 1.5])


def test_held_out_rows_of_heterogeneous_parties_are_predicted_better() -> None:
    simulated = linear_gaussian(6, parties=3, rows=400, seed=1000, heterogeneous=True)
    graph = to_networkx(simulated.weights, [f"x{k}" for k in range(6)])
    for rows, truth in zip(simulated.tables, simulated.party_weights, strict=True):
        own = personalise_for_owner(graph, rows[:200], center=False)
        error = prediction_error_for_owner(own, rows[200:], center=False)
        np.testing.assert_allclose(error, ((rows[200:] - rows[200:] @ own.weights) ** 2).mean(axis=0))
        shared = ((rows[200:] - rows[200:] @ simulated.weights) ** 2).mean(axis=0)
        assert error.sum() < shared.sum()
        assert np.linalg.norm(own.weights - truth) < np.linalg.norm(simulated.weights - truth)


def test_what_is_refused(tables: Tables, parts: list[np.ndarray], graph: Any) -> None:
    made = tables(budget=BUDGET, bounds=8.0)
    with pytest.raises(InvalidParameter, match="PrivateTable"):
        personalise_for_owner(graph, made[0])
    with pytest.raises(InvalidParameter, match="columns"):
        personalise_for_owner(graph, parts[0], ("a", "b", "c", "x"))
    with pytest.raises(InvalidParameter, match="columns"):
        personalise(graph, tables(columns=("a", "b", "c", "x")))
    with pytest.raises(InvalidParameter, match="belong to tables"):
        personalise(graph, Moments(np.eye(4), 5, NAMES), epsilon=1.0)
    cycle: nx.DiGraph[str] = nx.DiGraph([("a", "b"), ("b", "a"), ("c", "d")])
    with pytest.raises(InvalidParameter, match="acyclic"):
        personalise(cycle, made)
    with pytest.raises(InvalidParameter):
        personalise("a graph", made)
    for options in ({"epsilon": -1}, {"delta": 3}, {"row_norms": 0}, {"center": 2}, {"mean_share": 1.5}):
        with pytest.raises(InvalidParameter):
            personalise(graph, made, **options)
    assert not any(table.ledger.entries() for table in made)
