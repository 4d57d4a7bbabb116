"""NOTEARS: stationarity of its steps, optima found by brute force, and the estimator on every kind of source."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.acyclicity import acyclicity
from privfcd.algorithms.notears import NOTEARS
from privfcd.algorithms.notears.solver import lagrangian_step, penalised_loss, solve
from privfcd.algorithms.usable import usable
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_moments
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.graphs.dag import is_acyclic, project_to_dag
from privfcd.graphs.metrics import compare
from privfcd.moments import Moments, NoiseTerm, pooled
from tests.support.helpers import exact

Tables = Callable[..., list[PrivateTable]]
SETTINGS: dict[str, Any] = {"l1": 0.1, "max_iter": 100, "h_tolerance": 1e-9, "rho_max": 1e16}


def moments_of(weights: np.ndarray, rows: int, seed: int) -> np.ndarray:
    d = len(weights)
    values = np.random.default_rng(seed).normal(size=(rows, d)) @ np.linalg.inv(np.eye(d) - weights)
    return np.asarray(values.T @ values / rows)


def lasso(moments: np.ndarray, child: int, parents: tuple[int, ...], l1: float) -> tuple[float, np.ndarray]:
    """The smallest penalised loss of one variable on some others, by going through all sign patterns."""
    best, found = moments[child, child] / 2, np.zeros(len(moments))
    for signs in itertools.product((-1, 0, 1), repeat=len(parents)):
        active = [p for p, sign in zip(parents, signs, strict=True) if sign]
        chosen = np.array([sign for sign in signs if sign], dtype=float)
        if not active:
            continue
        values = np.linalg.solve(moments[np.ix_(active, active)], moments[active, child] - l1 * chosen)
        if (np.sign(values) != chosen).any():
            continue
        weights = np.zeros(len(moments))
        weights[active] = values
        gap = -weights
        gap[child] += 1
        loss = gap @ moments @ gap / 2 + l1 * np.abs(weights).sum()
        if loss < best:
            best, found = loss, weights
    return best, found


def best_dag(moments: np.ndarray, l1: float) -> tuple[float, np.ndarray]:
    """The smallest penalised loss of any DAG: over all orders, every variable on what comes before it."""
    d, best, found = len(moments), math.inf, np.zeros_like(moments)
    for order in itertools.permutations(range(d)):
        fits = [lasso(moments, child, order[:place], l1) for place, child in enumerate(order)]
        if sum(loss for loss, _ in fits) < best:
            best, found = sum(loss for loss, _ in fits), np.zeros_like(moments)
            for child, (_, weights) in zip(order, fits, strict=True):
                found[:, child] = weights
    return best, found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("alpha", "rho"), [(0.0, 1.0), (5.0, 100.0)])
def test_a_step_is_a_stationary_point_of_the_lagrangian(seed: int, alpha: float, rho: float) -> None:
    rng = np.random.default_rng(seed)
    moments = moments_of(np.triu(rng.normal(size=(5, 5)), 1), 60, seed)
    l1 = 0.2
    weights, h = lagrangian_step(moments, np.zeros((5, 5)), alpha, rho, l1)
    assert h == pytest.approx(acyclicity(weights)[0]) and not np.diag(weights).any()
    slope = moments @ (weights - np.eye(5)) + (rho * h + alpha) * acyclicity(weights)[1]
    off = ~np.eye(5, dtype=bool)
    tolerance = 2e-3 * np.abs(moments).max()
    assert (weights[off] == 0).any() and (weights[off] != 0).any()
    np.testing.assert_allclose((slope + l1 * np.sign(weights))[off & (weights != 0)], 0, atol=tolerance)
    assert (np.abs(slope)[off & (weights == 0)] <= l1 + tolerance).all()


def test_the_answer_is_optimal_for_its_own_graph_and_mostly_the_best_of_all() -> None:
    best = []
    for d, seed in itertools.product((2, 3, 4), range(5)):
        rng = np.random.default_rng([d, seed])
        truth = np.triu(rng.uniform(0.6, 1.8, (d, d)) * rng.choice([-1, 1], (d, d)) * (rng.random((d, d)) < 0.7), 1)
        order = rng.permutation(d)
        moments = moments_of(truth[np.ix_(order, order)], 4000, seed)
        loss, _ = best_dag(moments, SETTINGS["l1"])
        last = solve(moments, **SETTINGS)[-1]
        assert last.h <= 1e-9 and last.loss == penalised_loss(moments, last.weights, SETTINGS["l1"]) > loss - 1e-3
        found = project_to_dag(last.weights, 1e-3).weights
        for child in range(d):
            parents = tuple(np.flatnonzero(found[:, child]).tolist())
            np.testing.assert_allclose(found[:, child], lasso(moments, child, parents, SETTINGS["l1"])[1], atol=0.03)
        best.append(last.loss < loss + 1e-3)
    assert sum(best) >= 12, "the problem is not convex: a few of 15 may end elsewhere"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e4])
def test_without_a_penalty_entries_may_cross_zero_and_units_do_not_matter(scale: float) -> None:
    moments = scale * moments_of(np.array([[0, 1.5, 0], [0, 0, -1.0], [0, 0, 0]]), 500, 3)
    weights, _ = lagrangian_step(moments, np.full((3, 3), 0.2) - 0.2 * np.eye(3), 0.0, 1e-9, 0.0)
    slope = moments @ (weights - np.eye(3))
    np.testing.assert_allclose(slope[~np.eye(3, dtype=bool)] / scale, 0, atol=1e-3)
    constant = np.zeros((3, 3))
    constant[:2, :2] = moments[:2, :2]
    for l1 in (0.0, 0.1 * scale):
        last = solve(constant, **{**SETTINGS, "l1": l1})[-1]
        assert not last.weights[2].any() and not last.weights[:, 2].any() and np.count_nonzero(last.weights) > 0


@pytest.mark.parametrize("seed", [1, 1000])
def test_fifty_variables_are_found_and_every_entry_is_stationary(seed: int) -> None:
    truth, rows = linear_gaussian(50, 2, 5000, seed)
    values = np.concatenate(rows)
    moments = values.T @ values / len(values)
    last = solve(moments, **SETTINGS)[-1]
    assert last.h <= 1e-9 and compare(truth, project_to_dag(last.weights, 0.3).weights).shd <= 2
    slope = moments @ (last.weights - np.eye(50)) + (last.rho * last.h + last.alpha) * acyclicity(last.weights)[1]
    zero = (last.weights == 0) & ~np.eye(50, dtype=bool)
    assert (np.abs(slope)[zero] <= 0.11).all() and zero.sum() > 2000
    unit = np.sqrt(np.diag(moments))[:, None]
    assert (np.abs(slope + 0.1 * np.sign(last.weights)) / unit)[np.abs(last.weights) > 0.3].max() < 0.02


def test_the_history_is_that_of_an_augmented_lagrangian(parts: list[np.ndarray]) -> None:
    seen: list[Any] = []
    steps = solve(exact(parts[0]).matrix, **SETTINGS, on_step=seen.append)
    assert seen == steps and [step.number for step in steps] == list(range(1, len(steps) + 1))
    for before, after in itertools.pairwise(steps):
        assert after.alpha == pytest.approx(before.alpha + before.rho * before.h)
        assert after.rho >= before.rho and after.h <= 0.25 * before.h


def test_the_graph_is_found_and_moments_give_the_same_as_tables(
    tables: Tables, parts: list[np.ndarray], weights: np.ndarray
) -> None:
    made = tables()
    fitted = NOTEARS(l1=0.02, center=False).fit(made)
    assert set(fitted.causal_graph_.edges) == {("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")}
    np.testing.assert_allclose(fitted.adjacency_matrix_, weights, atol=0.15)
    assert fitted.privacy_spent_ == (math.inf, 0.0) and fitted.bytes_exchanged_ > 0
    assert [len(table.ledger.entries()) > 0 for table in made] == [True] * 3
    for source in ([exact(part) for part in parts], pooled([exact(part) for part in parts])):
        other = NOTEARS(l1=0.02).fit(source)
        np.testing.assert_allclose(other.adjacency_matrix_, fitted.adjacency_matrix_, atol=1e-5)
        assert other.privacy_report_ is None and other.privacy_spent_ == (math.inf, 0.0) and other.bytes_exchanged_ == 0


def test_each_party_alone(tables: Tables, parts: list[np.ndarray]) -> None:
    model = NOTEARS(l1=0.05, center=False)
    alone = model.fit_each(tables())
    assert not hasattr(model, "adjacency_matrix_") and len(alone) == 3
    for one, part, moments in zip(alone, parts, model.fit_each([exact(part) for part in parts]), strict=True):
        own = NOTEARS(l1=0.05).fit(exact(part))
        np.testing.assert_allclose(one.adjacency_matrix_, own.adjacency_matrix_, atol=1e-5)
        np.testing.assert_array_equal(moments.adjacency_matrix_, own.adjacency_matrix_)
        assert one.bytes_exchanged_ == 0 and one.privacy_report_ is not None and len(one.privacy_report_) == 1
        assert one.get_params() == model.get_params()


def test_columns_are_aligned_by_name(parts: list[np.ndarray]) -> None:
    first = [exact(part) for part in parts]
    turned = [
        first[0],
        exact(parts[1][:, [2, 0, 3, 1]], ("c", "a", "d", "b")),
        exact(parts[2][:, ::-1], ("d", "c", "b", "a")),
    ]
    plain, other = NOTEARS().fit(first), NOTEARS().fit(turned)
    np.testing.assert_allclose(plain.adjacency_matrix_, other.adjacency_matrix_, atol=1e-6)


def test_a_private_run_pays_before_rows_are_read(tables: Tables, arm: Any, rows_touched: Any) -> None:
    made = [arm(table) for table in tables(budget=Budget(5, 1e-5), bounds=8.0)]
    with pytest.raises(rows_touched):
        NOTEARS().fit(made)
    assert all(table.ledger.spent()["epsilon"] > 0 for table in made)


def test_a_private_run_reports_what_it_spent(tables: Tables, many: list[np.ndarray]) -> None:
    made = tables(many, budget=Budget(50, 1e-5), bounds=8.0)
    fitted = NOTEARS(release="covariance", l1=0.05).fit(made)
    assert is_acyclic(fitted.adjacency_matrix_)
    assert set(fitted.causal_graph_.edges) == {("a", "b"), ("b", "c"), ("d", "c"), ("a", "d")}
    epsilon, delta = fitted.privacy_spent_
    assert 0 < epsilon <= 50 and delta == 1e-5 and fitted.privacy_report_ is not None
    assert all(table.ledger.left() is None or table.ledger.left().epsilon < 1 for table in made)  # type: ignore[union-attr]


def test_noisy_moments_are_repaired_first(parts: list[np.ndarray]) -> None:
    clean = exact(parts[0])
    values, vectors = np.linalg.eigh(clean.matrix)
    values[0] = -0.5
    broken = (vectors * values) @ vectors.T
    moments = Moments((broken + broken.T) / 2, clean.rows, clean.columns, (NoiseTerm(0.05),))
    (moments,), _ = usable([moments])
    repaired = NOTEARS().fit(Moments(moments.repaired().matrix + 1e-7 * np.eye(4), clean.rows, clean.columns))
    fitted = NOTEARS().fit(moments)
    np.testing.assert_allclose(fitted.adjacency_matrix_, repaired.adjacency_matrix_, atol=1e-3)
    assert np.isfinite(fitted.adjacency_matrix_).all()


def test_released_moments_cost_nothing_more(tables: Tables) -> None:
    table = tables(budget=Budget(5, 1e-5), bounds=8.0)[0]
    moments = table_moments(table, epsilon=2.0, delta=1e-6)
    spent = table.ledger.spent()
    NOTEARS().fit(moments)
    assert table.ledger.spent() == spent


@pytest.mark.parametrize(
    "parameters",
    [
        {"l1": -1},
        {"threshold": math.nan},
        {"max_iter": 0},
        {"h_tolerance": 0},
        {"rho_max": math.inf},
        {"center": 1},
    ],
)
def test_bad_parameters_are_refused_before_a_charge(tables: Tables, parameters: dict[str, Any]) -> None:
    made = tables(budget=Budget(5, 1e-5), bounds=8.0)
    for call in ("fit", "fit_each"):
        with pytest.raises(InvalidParameter, match=next(iter(parameters))):
            getattr(NOTEARS(**parameters), call)(made)
    assert not any(table.ledger.entries() for table in made)


def test_bad_sources_are_refused(tables: Tables, parts: list[np.ndarray]) -> None:
    with pytest.raises(InvalidParameter, match="tables"):
        NOTEARS().fit(parts[0])  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match=r"source\[1\] must be Moments"):
        NOTEARS().fit([exact(parts[0]), tables()[0]])  # type: ignore[list-item]
    with pytest.raises(InvalidParameter, match=r"columns of source\[0\]"):
        NOTEARS().fit([exact(parts[0]), exact(parts[1], ("a", "b", "c", "e"))])
    with pytest.raises(InvalidTable, match="other columns"):
        NOTEARS().fit(tables(columns=[("a", "b", "c", "d"), ("a", "b", "c", "e"), ("a", "b", "c", "d")]))
    with pytest.raises(InvalidParameter, match="epsilon must be left"):
        NOTEARS(epsilon=1.0).fit(exact(parts[0]))
    with pytest.raises(InvalidParameter, match="number of columns"):
        NOTEARS().fit(Moments(np.eye(1), 10, ("a",)))
    with pytest.raises(BudgetExceeded):
        NOTEARS(epsilon=9.0).fit(tables(budget=Budget(5, 1e-5), bounds=8.0))


def test_parameters_can_be_set() -> None:
    model = NOTEARS().set_params(l1=0.3)
    assert model.get_params()["l1"] == 0.3 and repr(model) == "NOTEARS(l1=0.3)"
    with pytest.raises(InvalidParameter, match="rho"):
        model.set_params(rho=1)
