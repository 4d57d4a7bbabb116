"""G² tests in batches, against SciPy and causal-learn, and the contingency tables behind them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd import Budget, PrivateTable
from privfcd.accounting import NeighboringRelation
from privfcd.algorithms.constraint.g_squared import GSquared, g_squared
from privfcd.algorithms.constraint.skeleton import stable_skeleton
from privfcd.audits import search_sensitivity
from privfcd.data.contingency import ContingencyTables
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Gaussian, SimulatedNoise

LEVELS = (2, 3, 4, 2, 3)


def discrete_rows(n: int, seed: int, levels: tuple[int, ...] = LEVELS) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, level, n) for level in levels]).astype(float)
    for j in range(1, len(levels)):
        copied = rng.random(n) < 0.5
        rows[copied, j] = np.minimum(rows[copied, j - 1], levels[j] - 1)
    return rows


def test_on(rows: np.ndarray, levels: tuple[int, ...] = LEVELS, per_cell: float = 5.0) -> GSquared:
    return GSquared(levels, lambda query: query.evaluate(rows), len(rows), per_cell)


test_on.__test__ = False  # type: ignore[attr-defined]


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(0, 2))
def test_counts_are_those_of_a_loop(seed: int, size: int) -> None:
    rows = discrete_rows(60, seed)
    rng = np.random.default_rng(seed)
    tests = np.array([rng.permutation(5)[: size + 2] for _ in range(7)])
    query = ContingencyTables(LEVELS, tests[:, 0], tests[:, 1], tests[:, 2:])
    query.check(5)
    seen = set()
    for places, counts in query.split(query.evaluate(rows)):
        for place, table in zip(places, counts, strict=True):
            seen.add(int(place))
            i, j, *z = tests[place].tolist()
            expected = np.zeros_like(table)
            for row in rows.astype(int):
                stratum = 0
                for k in z:
                    stratum = stratum * LEVELS[k] + row[k]
                expected[stratum, row[i], row[j]] += 1
            np.testing.assert_array_equal(table, expected)
    assert seen == set(range(7))


@settings(max_examples=25)
@given(st.integers(0, 1000))
def test_g_squared_is_scipys_on_a_table_without_empty_margins(seed: int) -> None:
    table = np.random.default_rng(seed).integers(1, 30, size=(3, 4)).astype(float)
    statistic, degrees = g_squared(table[None, None])
    expected = stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")
    assert statistic[0] == pytest.approx(expected.statistic) and degrees[0] == expected.dof
    p = test_on(discrete_rows(500, seed)).p_values(np.array([0]), np.array([1]), np.empty((1, 0), int))
    rows = discrete_rows(500, seed)
    crossed = np.histogram2d(rows[:, 0], rows[:, 1], bins=(2, 3))[0]
    assert p[0] == pytest.approx(stats.chi2_contingency(crossed, correction=False, lambda_="log-likelihood").pvalue)


def test_strata_add_up_and_empty_margins_cost_degrees() -> None:
    rng = np.random.default_rng(0)
    tables = rng.integers(1, 20, size=(2, 3, 3)).astype(float)
    tables[1, :, 2] = 0
    statistic, degrees = g_squared(tables[None])
    parts = [
        stats.chi2_contingency(tables[0], correction=False, lambda_="log-likelihood"),
        stats.chi2_contingency(tables[1][:, :2], correction=False, lambda_="log-likelihood"),
    ]
    assert statistic[0] == pytest.approx(sum(part.statistic for part in parts))
    assert degrees[0] == sum(part.dof for part in parts)


def test_no_degrees_of_freedom_is_independence_and_few_rows_cannot_say() -> None:
    rows = discrete_rows(200, 1)
    rows[:, 0] = 1
    empty = np.empty((1, 0), int)
    assert test_on(rows).p_values(np.array([0]), np.array([1]), empty)[0] == 1.0
    few = test_on(discrete_rows(20, 1)).p_values(np.array([1]), np.array([2]), empty)
    assert np.isnan(few[0])
    assert np.isfinite(test_on(discrete_rows(20, 1), per_cell=0).p_values(np.array([1]), np.array([2]), empty)[0])


@pytest.mark.parametrize("seed", range(3))
def test_the_skeleton_is_that_of_an_independent_library(seed: int) -> None:
    pc = pytest.importorskip("causallearn.search.ConstraintBased.PC").pc
    levels = (2, 2, 3, 2, 2, 3)
    rows = discrete_rows(3000, seed, levels)
    ours = stable_skeleton(test_on(rows, levels, per_cell=0), 0.01, None)
    theirs = pc(rows.astype(int), 0.01, "gsq", True, 0, -1, show_progress=False).G.graph != 0
    np.testing.assert_array_equal(ours.adjacent, theirs)


@pytest.mark.parametrize("relation", [NeighboringRelation.REPLACE_ONE, NeighboringRelation.ADD_OR_REMOVE_ONE])
def test_sensitivity_is_attained_and_never_passed(relation: NeighboringRelation) -> None:
    query = ContingencyTables((2, 3, 2), np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([[2], [1], [0]]))
    report = search_sensitivity(query, 12, 3, evaluations=800, seed=0, relation=relation, removal="plain")
    assert report.verdict != "violated" and report.ratio == pytest.approx(1.0)


def test_absurd_records_count_once() -> None:
    query = ContingencyTables((2, 3), np.array([0]), np.array([1]), np.empty((1, 0), int))
    rows = np.array([[0.4, 1e300], [-1e300, -7.0], [5.0, 0.6]])
    counts = query.evaluate(rows).reshape(2, 3)
    assert counts.sum() == 3 and counts[0, 2] == 1 and counts[0, 0] == 1 and counts[1, 1] == 1


def test_a_private_table_pays_for_its_counts() -> None:
    query = ContingencyTables((2, 3), np.array([0]), np.array([1]), np.empty((1, 0), int))
    table = PrivateTable(discrete_rows(50, 0, (2, 3)), budget=Budget(rho=1.0), noise=SimulatedNoise(0))
    noisy = table.release(query, Gaussian(2.0))
    assert noisy.shape == (6,) and table.ledger.spent()["rho"] == pytest.approx(2 / (2 * 4), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (((2,), [0], [1], np.empty((1, 0), int)), "levels"),
        (((2, 0), [0], [1], np.empty((1, 0), int)), "levels"),
        (((2, 3), [0], [2], np.empty((1, 0), int)), "second"),
        (((2, 3), [0, 1], [1], np.empty((2, 0), int)), "as long as"),
        (((2, 3), [0], [1], np.array([[5]])), "given"),
        (((5000, 5000), [0], [1], np.empty((1, 0), int)), "cells"),
    ],
)
def test_malformed_queries_are_refused(
    arguments: tuple[tuple[int, ...], list[int], list[int], np.ndarray], name: str
) -> None:
    levels, first, second, given_ = arguments
    with pytest.raises(InvalidParameter, match=name):
        ContingencyTables(levels, np.array(first), np.array(second), given_).check(2)
