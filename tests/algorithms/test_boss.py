"""Best order score search: against the best of all DAGs, greedy search, and scores that are asked one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfcd as pf
from privfcd.algorithms.boss import best_order_search
from privfcd.algorithms.ges import greedy_search
from privfcd.algorithms.scores import GaussianBIC
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm


def moments_of(d: int, seed: int, rows: int = 2000, edges: float = 0.5) -> Moments:
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    weights = np.zeros((d, d))
    for i, j in itertools.combinations(order, 2):
        if rng.random() < edges:
            weights[i, j] = rng.uniform(0.3, 1.2) * rng.choice([-1, 1])
    x = rng.normal(size=(rows, d)) * rng.uniform(0.5, 2, d) @ np.linalg.inv(np.eye(d) - weights)
    return Moments(np.cov(x.T, bias=True), rows, tuple(f"v{k}" for k in range(d)))


def best_of_all(score: GaussianBIC) -> float:
    """The best score of any DAG, by the best parents among the variables before it, over all orders."""
    d = score.d
    local = {(j, mask): float(score.local([(j, mask)])[0, 0]) for j in range(d) for mask in range(1 << d)}
    best = [{0: local[j, 0]} for j in range(d)]

    def within(j: int, allowed: int) -> float:
        if allowed not in best[j]:
            inner = [within(j, allowed & ~(1 << k)) for k in range(d) if allowed >> k & 1]
            best[j][allowed] = max([local[j, allowed], *inner])
        return best[j][allowed]

    totals = []
    for order in itertools.permutations(range(d)):
        before, total = 0, 0.0
        for j in order:
            total += within(j, before)
            before |= 1 << j
        totals.append(total)
    return max(totals)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(6))
def test_it_finds_the_best_of_all_graphs(d: int, seed: int) -> None:
    score = GaussianBIC(moments_of(d, seed))
    found = best_order_search(score, starts=5)
    assert found.score == pytest.approx(best_of_all(score), abs=1e-6)
    each = score.local(list(enumerate(found.parents)))[:, 0]
    assert found.score == pytest.approx(each.sum(), abs=1e-6)
    places = {node: at for at, node in enumerate(found.order)}
    for node, mask in enumerate(found.parents):
        assert all(places[k] < places[node] for k in range(d) if mask >> k & 1), "parents come first"


@settings(max_examples=30)
@given(st.integers(2, 7), st.integers(0, 10_000), st.integers(0, 127), st.sampled_from([0.0, 0.02]))
def test_additions_are_the_scores_that_are_asked_one_by_one(d: int, seed: int, mask: int, noise: float) -> None:
    exact = moments_of(d, seed)
    moments = Moments(exact.matrix, exact.rows, exact.columns, (NoiseTerm(noise),)) if noise else exact
    score = GaussianBIC(moments)
    node = seed % d
    mask &= (1 << d) - 1 & ~(1 << node)
    found = score.additions(node, mask)
    for k in range(d):
        if k == node or mask >> k & 1:
            assert found[k] == -np.inf
        else:
            assert found[k] == pytest.approx(score.local([(node, mask | 1 << k)])[0, 0], rel=1e-7, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_it_is_no_worse_than_greedy_search_and_the_order_of_columns_changes_nothing(seed: int) -> None:
    moments = moments_of(12, seed, edges=0.25)
    found = best_order_search(GaussianBIC(moments), starts=4)
    assert found.score >= greedy_search(GaussianBIC(moments)).score - 1e-6
    turn = np.random.default_rng(seed).permutation(12)
    turned = Moments(moments.matrix[np.ix_(turn, turn)], moments.rows, tuple(moments.columns[k] for k in turn))
    again = best_order_search(GaussianBIC(turned), starts=4)
    assert again.score == pytest.approx(found.score, rel=1e-3)


def test_limits_are_kept_and_bad_numbers_refused() -> None:
    moments = moments_of(8, 1, edges=0.8)
    for most in (0, 1, 2):
        model = pf.BOSS(max_parents=most).fit(moments)
        assert all(mask.bit_count() <= most for mask in model.search_.parents)
    bad: list[dict[str, Any]] = [{"penalty": 0.0}, {"starts": 0}, {"max_parents": -1}]
    for options in bad:
        with pytest.raises(InvalidParameter, match=next(iter(options))):
            pf.BOSS(**options).fit(moments)


def test_a_private_run_pays_as_greedy_search_does() -> None:
    parts = pf.simulate.linear_gaussian(d=6, parties=3, rows=3000, seed=1).tables

    def tables() -> list[pf.PrivateTable]:
        budget = pf.Budget(epsilon=3, delta=1e-6)
        return [
            pf.PrivateTable(x, name=f"p{k}", budget=budget, noise=pf.SimulatedNoise(5)) for k, x in enumerate(parts)
        ]

    boss, ges = pf.BOSS().fit(tables()), pf.GES().fit(tables())
    assert boss.privacy_spent_ == ges.privacy_spent_
    np.testing.assert_array_equal(boss.moments_.matrix, ges.moments_.matrix)
    assert boss.adjacency_matrix_.any()
