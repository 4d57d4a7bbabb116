"""PC and GES as estimators: from tables, private tables and moments to a class of graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd import GES, PC, Budget, Moments, PrivateTable, SimulatedNoise
from privfcd.algorithms.constraint.orientation import oriented
from privfcd.algorithms.constraint.skeleton import Skeleton
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.graphs import dag_to_cpdag, is_cpdag


def population(seed: int, d: int = 8, edges: int = 9) -> tuple[np.ndarray, Moments]:
    weights, _ = linear_gaussian(d, parties=1, rows=10, seed=seed, edges=edges)
    inverse = np.linalg.inv(np.eye(d) - weights)
    covariance = inverse.T @ inverse
    return weights, Moments((covariance + covariance.T) / 2, 10**8, tuple(f"x{j}" for j in range(d)))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("model", [PC(alpha=1e-4, max_cond_vars=None), GES()])
def test_population_moments_give_the_class(model: PC | GES, seed: int) -> None:
    weights, moments = population(seed)
    model.fit(moments)
    assert model.cpdag_ == dag_to_cpdag(weights != 0)
    np.testing.assert_array_equal(model.adjacency_matrix_, model.cpdag_.matrix())
    for i, j, data in model.causal_graph_.edges(data=True):
        both = model.causal_graph_.has_edge(j, i)
        assert data["undirected"] == both, (i, j)
    assert model.privacy_report_ is None and model.privacy_spent_ == (np.inf, 0.0) and model.bytes_exchanged_ == 0


@pytest.mark.parametrize("model", [PC(), GES()])
def test_open_tables_are_centred_and_pooled(model: PC | GES) -> None:
    _, parts = linear_gaussian(6, parties=3, rows=400, seed=2)
    shift = np.arange(6) * 10.0
    model.fit([PrivateTable(part + shift) for part in parts])
    rows = np.vstack(parts)
    rows = rows - rows.mean(axis=0)
    same = type(model)().fit(Moments(rows.T @ rows / len(rows), len(rows), model.moments_.columns))
    assert model.cpdag_ == same.cpdag_
    assert model.privacy_report_ is not None and model.privacy_spent_[0] == np.inf


@pytest.mark.parametrize("model", [PC(center=False), GES(center=False)])
def test_private_tables_pay_once_and_learn(model: PC | GES) -> None:
    weights, parts = linear_gaussian(6, parties=3, rows=5000, seed=3)
    tables = [
        PrivateTable(part, name=f"p{index}", budget=Budget(5.0, 1e-6), noise=SimulatedNoise(1))
        for index, part in enumerate(parts)
    ]
    model.fit(tables)
    skeleton = model.adjacency_matrix_ | model.adjacency_matrix_.T
    truth = (weights != 0) | (weights.T != 0)
    assert (skeleton != truth).sum() // 2 <= 2
    assert 0 < model.privacy_spent_[0] <= 5.0 and not model.moments_.exact
    with pytest.raises(BudgetExceeded):
        type(model)(center=False).fit(tables)
    again = type(model)().fit(model.moments_)
    assert again.cpdag_ == model.cpdag_


@settings(max_examples=30)
@given(st.integers(0, 10_000))
def test_orientation_of_any_skeleton_ends_without_directed_cycles(seed: int) -> None:
    rng = np.random.default_rng(seed)
    adjacent = np.triu(rng.random((6, 6)) < 0.5, 1)
    adjacent |= adjacent.T
    skeleton = Skeleton(adjacent)
    for i in range(6):
        for j in range(i + 1, 6):
            if not adjacent[i, j]:
                chosen = [k for k in range(6) if k not in (i, j) and rng.random() < 0.4]
                skeleton.separators[i, j] = tuple(chosen)
                skeleton.p_values[i, j] = float(rng.random())
    found = oriented(skeleton)
    np.testing.assert_array_equal(found.graph.matrix() | found.graph.matrix().T, adjacent)
    assert found.valid == is_cpdag(found.graph) or not found.valid


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (PC(alpha=2.0), "alpha"),
        (PC(max_cond_vars=-1), "max_cond_vars"),
        (PC(release="none"), "release"),
        (PC(center="yes"), "center"),  # type: ignore[arg-type]
        (GES(penalty=-1.0), "penalty"),
        (GES(turning=1), "turning"),  # type: ignore[arg-type]
        (GES(max_parents=-1), "max_parents"),
        (GES(release="exactly"), "release"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(model: PC | GES, name: str) -> None:
    _, parts = linear_gaussian(4, parties=1, rows=50, seed=0)
    table = PrivateTable(parts[0], budget=Budget(1.0, 1e-6))
    with pytest.raises(InvalidParameter, match=name):
        model.fit([table])
    left = table.ledger.left()
    assert left is not None and left.epsilon == 1.0
    with pytest.raises(InvalidParameter, match="row_norm"):
        type(model)(row_norm=3.0).fit(population(0)[1])
