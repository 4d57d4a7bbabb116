"""Private quantiles: scores, sensitivities and an end-to-end release."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE, Budget, NeighboringRelation
from privfcd.audits import search_sensitivity
from privfcd.data import PrivateTable, QuantileScores
from privfcd.errors import InvalidParameter
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
