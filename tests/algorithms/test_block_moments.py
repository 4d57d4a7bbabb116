"""Tests and scores of discrete variables from pairs of marginals: against Fisher's z, at their level, and by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from privfcd.algorithms.constraint.block_moments import BlockMoments
from privfcd.algorithms.constraint.fisher_z import FisherZ
from privfcd.algorithms.constraint.skeleton import stable_skeleton
from privfcd.data.encoding import Contrasts
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm

NAMES = ("a", "b", "c", "d")


def moments_of(rows: np.ndarray, levels: tuple[int, ...], noise: tuple[NoiseTerm, ...] = ()) -> Moments:
    encoding = Contrasts(levels)
    encoded = encoding.apply(rows)
    matrix = encoded.T @ encoded / len(rows)
    return Moments((matrix + matrix.T) / 2, len(rows), encoding.columns(NAMES[: len(levels)]), noise)


def test_on(rows: np.ndarray, levels: tuple[int, ...]) -> BlockMoments:
    return BlockMoments(moments_of(rows, levels), Contrasts(levels))


test_on.__test__ = False  # type: ignore[attr-defined]


def chain(n: int, levels: tuple[int, ...], seed: int, copied: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, level, n) for level in levels])
    for j in range(1, len(levels)):
        same = rng.random(n) < copied
        rows[same, j] = np.minimum(rows[same, j - 1], levels[j] - 1)
    return rows.astype(float)


@pytest.mark.parametrize("given", [[], [2], [2, 3]])
def test_two_levels_are_fishers_z_to_first_order(given: list[int]) -> None:
    rows = chain(20_000, (2, 2, 2, 2), 1, copied=0.02)
    pairs = [(0, 1)]
    first, second = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    sets = np.array([given], dtype=np.int64).reshape(1, len(given))
    found = test_on(rows, (2, 2, 2, 2)).p_values(first, second, sets)
    centred = rows - rows.mean(axis=0)
    plain = Moments(centred.T @ centred / len(rows), len(rows), NAMES)
    assert found[0] == pytest.approx(FisherZ(plain).p_values(first, second, sets)[0], rel=1e-2)


def test_the_statistic_is_that_of_canonical_correlations() -> None:
    """n times the sum of squared canonical correlations of the residuals (Pillai's trace)."""
    levels = (3, 4, 2, 3)
    rows = chain(500, levels, 2)
    encoded = Contrasts(levels).apply(rows)
    blocks = Contrasts(levels).blocks
    given = np.column_stack([encoded[:, blocks[2]], encoded[:, blocks[3]], np.ones(500)])
    one, other = (
        encoded[:, block] - given @ np.linalg.lstsq(given, encoded[:, block], rcond=None)[0] for block in blocks[:2]
    )
    trace = np.trace(np.linalg.solve(one.T @ one, one.T @ other) @ np.linalg.solve(other.T @ other, other.T @ one))
    found = test_on(rows, levels).p_values(np.array([0]), np.array([1]), np.array([[2, 3]]))
    assert found[0] == pytest.approx(stats.chi2.sf(500 * trace, 6), rel=1e-8)


def test_without_a_set_it_is_pearsons_chi_square() -> None:
    levels = (3, 4)
    rows = chain(400, levels, 3, copied=0.1)
    table = np.histogram2d(rows[:, 0], rows[:, 1], bins=levels)[0]
    found = test_on(rows, levels).p_values(np.array([0]), np.array([1]), np.empty((1, 0), int))
    assert found[0] == pytest.approx(stats.chi2_contingency(table, correction=False).pvalue, rel=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.004])
def test_p_values_are_uniform_where_the_null_holds(noise: float) -> None:
    """x - z - y with more noise than sampling, and with none; the residuals' spread does not hang on z."""
    levels, found = (3, 2, 2), []
    rng = np.random.default_rng(4)
    encoding = Contrasts(levels)
    for _ in range(1500):
        n = 1500
        z = rng.integers(0, 2, n)
        rows = np.column_stack([np.where(rng.random(n) < 0.3, 0, rng.integers(0, 3, n)), z ^ (rng.random(n) < 0.2), z])
        moments = moments_of(rows.astype(float), levels)
        if noise:
            drawn = np.triu(rng.normal(size=moments.matrix.shape)) * noise / np.sqrt(2)
            drawn += np.triu(drawn, 1).T + np.diag(np.diag(drawn)) * (np.sqrt(2) - 1)
            moments = Moments(moments.matrix + drawn, n, moments.columns, (NoiseTerm(noise),))
        tested = BlockMoments(moments, encoding).p_values(np.array([0]), np.array([1]), np.array([[2]]))
        found.append(tested[0])
    assert stats.kstest(found, "uniform").pvalue > 1e-4


def test_many_tests_at_once_are_the_tests_one_by_one() -> None:
    levels = (2, 3, 4, 2)
    for noise in ((), (NoiseTerm(0.01),), (NoiseTerm(0.02, np.eye(8) + 0.1),)):
        tests = BlockMoments(moments_of(chain(300, levels, 5), levels, noise), Contrasts(levels))
        trios = np.array(list(itertools.permutations(range(4), 3)))
        together = tests.p_values(trios[:, 0], trios[:, 1], trios[:, 2:])
        alone = [tests.p_values(trio[:1], trio[1:2], trio[None, 2:])[0] for trio in trios]
        np.testing.assert_allclose(together, alone, rtol=1e-9, equal_nan=True)
        turned = tests.p_values(trios[:, 1], trios[:, 0], trios[:, 2:])
        np.testing.assert_allclose(together, turned, rtol=1e-6, equal_nan=True)


def test_noise_is_known_and_a_variable_below_it_cannot_be_tested() -> None:
    levels = (2, 2, 2)
    rows = chain(5000, levels, 6)
    at = (np.array([0]), np.array([1]), np.empty((1, 0), int))
    encoding = Contrasts(levels)
    exact = BlockMoments(moments_of(rows, levels), encoding).p_values(*at)[0]
    noisy = BlockMoments(moments_of(rows, levels, (NoiseTerm(0.1),)), encoding)
    assert exact < 1e-10 < noisy.p_values(*at)[0]
    assert noisy.rows < 200 and BlockMoments(moments_of(rows, levels), encoding).rows == 5000
    lost = BlockMoments(moments_of(rows, levels, (NoiseTerm(1.0),)), encoding)
    assert np.isnan(lost.p_values(*at)[0])
    assert stable_skeleton(lost, 0.01).adjacent[0, 1]


def test_a_constant_variable_cannot_be_tested() -> None:
    rows = chain(200, (3, 2, 2), 7)
    rows[:, 0] = 1
    found = test_on(rows, (3, 2, 2)).p_values(np.array([0, 1]), np.array([1, 2]), np.empty((2, 0), int))
    assert np.isnan(found[0]) and np.isfinite(found[1])
    assert np.isfinite(test_on(rows, (3, 2, 2)).p_values(np.array([1]), np.array([2]), np.array([[0]]))[0])


def test_the_score_is_a_regressions() -> None:
    levels = (3, 2, 4)
    rows = chain(400, levels, 8)
    encoded, blocks = Contrasts(levels).apply(rows), Contrasts(levels).blocks
    given = np.column_stack([encoded[:, blocks[1]], encoded[:, blocks[2]], np.ones(400)])
    left = encoded[:, blocks[0]] - given @ np.linalg.lstsq(given, encoded[:, blocks[0]], rcond=None)[0]
    expected = -200 * np.linalg.slogdet(left.T @ left / 400)[1] - np.log(400) / 2 * 2 * 5
    score = test_on(rows, levels)
    found = score.local([(0, 0b110), (1, 0)])
    assert found[0, 0] == pytest.approx(expected, rel=1e-9)
    assert score.total(found.sum(axis=0)) == pytest.approx(found.sum())


def test_the_score_does_not_tell_equivalent_graphs_of_two_apart() -> None:
    for levels in ((2, 2), (3, 4)):
        score = test_on(chain(300, levels, 9), levels)
        one, other = score.local([(0, 0), (1, 1)]).sum(), score.local([(1, 0), (0, 2)]).sum()
        assert one == pytest.approx(other, rel=1e-9)


def test_moments_of_other_columns_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="encoded columns"):
        BlockMoments(moments_of(chain(50, (2, 2), 0), (2, 2)), Contrasts((2, 3)))
