"""Private quantiles: scores, sensitivities and an end-to-end release."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, Budget, NeighboringRelation
from privfcd.audits import search_sensitivity
from privfcd.data import PrivateTable, QuantileScores, quantiles
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.mechanisms import GumbelMax, LaplaceNoisyMax, PermuteAndFlip, SimulatedNoise

GRID = tuple(np.linspace(-2, 2, 41).tolist())
LEVELS = st.floats(0.01, 0.99)
VALUES = st.lists(st.sampled_from([*GRID, -1e300, 1e300, 0.01]), min_size=1, max_size=12)


@settings(deadline=None)
@given(VALUES, LEVELS, st.sampled_from(GRID), st.integers(0, 11))
def test_one_record_moves_scores_by_at_most_the_sensitivity(
    values: list[float], level: float, other: float, index: int
) -> None:
    query, n = QuantileScores(0, level, GRID), len(values)
    rows = np.array(values)[:, None]
    replaced = rows.copy()
    replaced[index % n] = other
    scores = query.evaluate(rows, n)
    assert np.abs(scores - query.evaluate(replaced, n)).max() <= query.sensitivity(n)
    added = query.evaluate(np.vstack([rows, [[other]]]), n)
    assert np.abs(scores - added).max() <= query.sensitivity(n, ADD_OR_REMOVE_ONE)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.75])
@pytest.mark.parametrize("relation", [REPLACE_ONE, ADD_OR_REMOVE_ONE])
def test_the_search_comes_to_the_claim_and_not_beyond(level: float, relation: NeighboringRelation) -> None:
    report = search_sensitivity(QuantileScores(1, level, GRID), 9, 2, relation=relation)
    assert report.verdict == "consistent"
    assert report.ratio > 0.99


def test_one_replaced_record_moves_scores_in_both_directions() -> None:
    query = QuantileScores(0, 0.5, GRID)
    before, after = np.linspace(-1.5, 1.5, 10)[:, None], np.linspace(-1.5, 1.5, 10)[:, None]
    before[0], after[0] = 3.0, -3.0
    moves = query.evaluate(after) - query.evaluate(before)
    assert moves.min() < 0 < moves.max()


@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_without_noise_it_is_the_quantile(level: float) -> None:
    rows = np.random.default_rng(2).normal(size=(2_001, 2))
    query = QuantileScores(1, level, GRID)
    best = query.decode(GumbelMax(0.0).release(query.evaluate(rows), SimulatedNoise(0).stream()))
    assert abs(best - np.quantile(rows[:, 1], level)) <= 0.1


@pytest.mark.parametrize("make", [GumbelMax, PermuteAndFlip, LaplaceNoisyMax])
def test_release_through_a_table(make: type) -> None:
    rows = np.random.default_rng(2).normal(size=(2_000, 1))
    table = PrivateTable(rows, budget=Budget(epsilon=2.0), noise=SimulatedNoise(3))
    query = QuantileScores(0, 0.5, GRID)
    pick = table.release(query, make(2 * query.sensitivity(2_000)))
    assert abs(query.decode(pick)) < 0.4
    one = PrivateTable(np.array([[1.0]]), budget=Budget(epsilon=1e-3), noise=SimulatedNoise(3))
    assert 0 <= one.release(query, make(2e4)) < len(GRID)


def test_bad_parameters_are_refused() -> None:
    for query, name in (
        (QuantileScores(2, 0.5, GRID), "column"),
        (QuantileScores(-1, 0.5, GRID), "column"),
        (QuantileScores(0, 0.0, GRID), "level"),
        (QuantileScores(0, math.nan, GRID), "level"),
        (QuantileScores(0, 0.5, ()), "grid"),
        (QuantileScores(0, 0.5, (1.0, 1.0)), "grid"),
        (QuantileScores(0, 0.5, (0.0, math.inf)), "grid"),
    ):
        with pytest.raises(InvalidParameter, match=name):
            query.check(2)


def quantile_table(**more: Any) -> PrivateTable:
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    return PrivateTable(rows, ["a", "b"], bounds=5.0, noise=SimulatedNoise(1), **more)


@pytest.mark.parametrize("budget", [Budget(epsilon=1.0, delta=1e-6), Budget(epsilon=1.0), Budget(rho=0.5)])
@pytest.mark.parametrize("levels", [[0.5], [0.9, 0.1, 0.5], [0.25, 0.25]])
def test_quantiles_are_paid_together_and_rise_with_their_levels(budget: Budget, levels: list[float]) -> None:
    table = quantile_table(budget=budget)
    found = quantiles(table, "b", levels, epsilon=0.9, delta=1e-7 if budget.delta else 0.0)
    paired = sorted(zip(levels, found, strict=True))
    assert [value for _, value in paired] == sorted(found)
    exact = np.quantile(np.random.default_rng(0).normal(size=(2000, 2))[:, 1], levels)
    assert np.abs(np.array(found) - exact).max() < 0.35, "2000 rows at epsilon 0.9"
    spent = table.ledger.spent()
    if "epsilon" in spent:
        assert 0.89 < spent["epsilon"] <= 0.9 + 1e-12
    else:
        assert 0 < spent["rho"] <= 0.9**2 / 8 * len(levels)


def test_open_tables_give_the_best_points_and_bad_words_cost_nothing() -> None:
    assert quantiles(quantile_table(), "a", [0.5], grid=[-3.0, 0.0, 3.0]) == (0.0,)
    table = quantile_table(budget=Budget(epsilon=1.0))
    for words, more in (
        ("column", {"column": "c"}),
        ("levels", {"levels": []}),
        ("level", {"levels": [1.0]}),
        ("grid", {"grid": [1.0, 0.0]}),
        ("epsilon", {"epsilon": None}),
    ):
        with pytest.raises(InvalidParameter, match=words):
            quantiles(table, **{"column": "a", "epsilon": 0.1, **more})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="PrivateTable"):
        quantiles(np.zeros((3, 1)), "a", epsilon=0.1)  # type: ignore[arg-type]
    with pytest.raises(BudgetExceeded):
        quantiles(table, "a", epsilon=1.1)
    assert not any(table.ledger.spent().values())
