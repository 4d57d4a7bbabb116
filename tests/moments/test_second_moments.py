"""Moments: pooling, repair, and how many rows they are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm, pooled

NAMES = ("a", "b", "c")


def moments_of(rows: np.ndarray, sd: float | None = None, mean: np.ndarray | None = None) -> Moments:
    noise = () if sd is None else (NoiseTerm(np.full((3, 3), sd)),)
    return Moments(rows.T @ rows / len(rows), len(rows), NAMES, noise, mean)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(3, 40), min_size=1, max_size=5), st.integers(0, 100))
def test_pooled_moments_are_those_of_all_rows(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(size, 3)) for size in sizes]
    together = np.vstack(parts)
    answer = pooled([moments_of(part) for part in parts])
    np.testing.assert_allclose(answer.matrix, together.T @ together / len(together), rtol=1e-11, atol=1e-12)
    assert answer.rows == len(together) and answer.exact and answer.columns == NAMES and answer.mean is None


def test_pooled_noise_is_that_of_the_weighted_sum() -> None:
    rng = np.random.default_rng(0)
    sizes, sds = (10, 30, 60), (0.5, None, 0.2)
    parts = [moments_of(rng.normal(size=(n, 3)), sd) for n, sd in zip(sizes, sds, strict=True)]
    answer = pooled(parts)
    expected = math.sqrt((0.1 * 0.5) ** 2 + (0.6 * 0.2) ** 2)
    assert answer.noise_sd is not None
    np.testing.assert_allclose(answer.noise_sd, expected)
    draws = [sum(n / 100 * rng.normal(scale=sd) for n, sd in zip(sizes, sds, strict=True) if sd) for _ in range(4000)]
    assert np.std(draws) == pytest.approx(expected, rel=0.05)


def test_pooling_refuses_moments_that_do_not_fit_together() -> None:
    rows = np.random.default_rng(1).normal(size=(9, 3))
    one = moments_of(rows)
    with pytest.raises(InvalidParameter, match="at least one"):
        pooled([])
    with pytest.raises(InvalidParameter, match="columns must agree"):
        pooled([one, Moments(one.matrix, 9, ("a", "c", "b"))])
    with pytest.raises(InvalidParameter, match="moments about a mean cannot be pooled with moments about 0"):
        pooled([one, moments_of(rows, mean=np.ones(3))])
    same = pooled([moments_of(rows, mean=np.ones(3)), moments_of(rows, mean=np.ones(3))])
    assert same.mean is not None and same.mean.tolist() == [1.0] * 3
    pooled([one, moments_of(rows, mean=np.zeros(3))])
    own = pooled([moments_of(rows, mean=np.ones(3)), moments_of(rows, mean=np.full(3, 4.0))])
    assert own.mean is not None and own.mean.tolist() == [2.5] * 3, "of all rows"


def test_effective_rows_run_from_none_to_all() -> None:
    rows = np.random.default_rng(2).normal(size=(200, 3))
    assert (moments_of(rows).effective_rows() == 200).all()
    np.testing.assert_allclose(moments_of(rows, 1e-9).effective_rows(), 200, rtol=1e-6)
    assert (moments_of(rows, 1e9).effective_rows() < 1e-9).all()
    shares = [moments_of(rows, sd).effective_rows() for sd in (0.01, 0.1, 1.0)]
    assert (shares[0] > shares[1]).all() and (shares[1] > shares[2]).all()


def test_effective_rows_are_as_good_as_that_many_exact_rows() -> None:
    """Noise on n rows' moments, against moments of m = effective_rows() fewer rows without noise."""
    rng = np.random.default_rng(3)
    root = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.5, 1.0]])
    truth = root @ root.T
    n, sd = 300, 0.15
    expected = Moments(truth, n, NAMES, (NoiseTerm(np.full((3, 3), sd)),)).effective_rows()
    samples = [rng.normal(size=(n, 3)) @ root.T for _ in range(3000)]
    noisy = np.array([rows.T @ rows / n + rng.normal(scale=sd, size=(3, 3)) for rows in samples])
    spread = np.outer(np.diag(truth), np.diag(truth)) + truth**2
    np.testing.assert_allclose(spread / noisy.var(axis=0), expected, rtol=0.12)


def test_repair_lifts_eigenvalues_and_nothing_else() -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
    repaired = Moments(matrix, 9, NAMES, (NoiseTerm(np.ones((3, 3))),)).repaired(0.25)
    np.testing.assert_allclose(np.linalg.eigvalsh(repaired.matrix), [0.25, 3.0, 3.0])
    assert repaired.noise_sd is not None and (repaired.noise_sd == 1).all() and repaired.rows == 9
    fine = moments_of(np.random.default_rng(4).normal(size=(50, 3)))
    np.testing.assert_allclose(fine.repaired().matrix, fine.matrix, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.ones((2, 3)), 9, NAMES), "matrix must be finite and of shape"),
        ((np.full((3, 3), math.nan), 9, NAMES), "matrix must be finite"),
        ((np.triu(np.ones((3, 3))), 9, NAMES), "symmetric"),
        ((np.ones((3, 3)), 0, NAMES), "rows must be a whole number of at least 1"),
        ((np.ones((3, 3)), 9, NAMES, np.ones((3, 3))), "noise must be a tuple of NoiseTerm"),
        ((np.ones((3, 3)), 9, NAMES, (NoiseTerm(np.ones((2, 2))),)), "noise sd must have shape"),
        ((np.ones((3, 3)), 9, NAMES, (NoiseTerm(1.0, np.ones((2, 2))),)), "noise carry must have shape"),
    ],
)
def test_moments_refuse_what_is_none(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        Moments(*arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [{"mean": np.ones(2)}, {"mean": np.full(3, math.nan)}],
    ids=["mean's length", "mean NaN"],
)
def test_moments_check_their_mean(arguments: dict[str, np.ndarray]) -> None:
    with pytest.raises(InvalidParameter):
        Moments(np.eye(3), 9, NAMES, **arguments)


def test_shrinkage_is_the_factor_that_loses_least() -> None:
    """On 400 draws the mean squared error of correlations is lower than without, and close to the best factor's."""
    rng = np.random.default_rng(6)
    truth = np.array([[1.0, 0.3, 0.0], [0.3, 4.0, 0.2], [0.0, 0.2, 1.0]])
    scale = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    sd = 0.3
    losses: dict[str, list[float]] = {"shrunk": [], "plain": [], "none": [], "best": []}
    best = ((truth / scale)[~np.eye(3, dtype=bool)] ** 2).sum()
    errors = (sd / scale)[~np.eye(3, dtype=bool)] ** 2
    factor = best / (best + errors.sum())
    for _ in range(400):
        noise = np.triu(rng.normal(scale=sd, size=(3, 3)))
        noisy = truth + noise + np.triu(noise, 1).T
        moments = Moments(noisy, 10**6, NAMES, (NoiseTerm(np.full((3, 3), sd)),))
        off = ~np.eye(3, dtype=bool)
        for name, value in (
            ("shrunk", moments.shrunk().matrix),
            ("plain", noisy),
            ("none", np.diag(np.diag(noisy))),
            ("best", np.where(off, factor * noisy, noisy)),
        ):
            losses[name].append(float((((value - truth) / scale)[off] ** 2).sum()))
    means = {name: float(np.mean(values)) for name, values in losses.items()}
    assert means["best"] < means["shrunk"] < 0.8 * means["plain"]


def test_shrinkage_of_good_moments_changes_little_and_keeps_the_law() -> None:
    rows = np.random.default_rng(7).normal(size=(4000, 3)) @ np.array([[1.0, 2.0, 0.0], [0, 1, 1], [0, 0, 1]])
    fine = moments_of(rows).shrunk()
    np.testing.assert_allclose(fine.matrix, moments_of(rows).matrix, rtol=2e-3)
    assert fine.exact
    noisy = moments_of(rows, 0.5)
    shrunk = noisy.shrunk()
    factor = shrunk.matrix[0, 1] / noisy.matrix[0, 1]
    assert 0 < factor < 1 and shrunk.noise_sd is not None and noisy.noise_sd is not None
    np.testing.assert_allclose(shrunk.noise_sd[0, 1], factor * noisy.noise_sd[0, 1])
    np.testing.assert_allclose(np.diag(shrunk.matrix), np.diag(noisy.matrix))
    drowned = Moments(np.eye(3), 9, NAMES, (NoiseTerm(1.0),)).shrunk()
    np.testing.assert_array_equal(drowned.matrix, np.eye(3))
