"""Residual variances and partial correlations of noisy moments: values by regression, noise by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privfcd.errors import InvalidParameter
from privfcd.moments import Moments, NoiseTerm, contrasts, partial_correlation, residual, residual_effective_rows

D, N = 5, 4000
NAMES = tuple("abcde")
ROOT = np.linalg.inv(np.eye(D) - np.triu(np.random.default_rng(1).normal(size=(D, D)), 1))
TRUTH = ROOT.T @ ROOT
CARRY = np.random.default_rng(2).normal(size=(D, D)) / 2 + np.eye(D)
SDS = np.abs(np.random.default_rng(3).normal(size=(D, D)))
LAWS = {
    "isotropic": (NoiseTerm(0.004),),
    "carried": (NoiseTerm(0.003, CARRY), NoiseTerm(0.002)),
    "entries": (NoiseTerm(0.003 * (SDS + SDS.T), CARRY),),
}


def noise_of(terms: tuple[NoiseTerm, ...], rng: np.random.Generator) -> np.ndarray:
    total = np.zeros((D, D))
    for term in terms:
        sds = np.array(term.sd)
        if sds.ndim == 0:
            sds = np.where(np.eye(D, dtype=bool), float(sds), float(sds) / math.sqrt(2))
        upper = np.triu(rng.normal(size=(D, D)) * sds)
        e = upper + np.triu(upper, 1).T
        carry = np.eye(D) if term.carry is None else term.carry
        total += carry @ e @ carry.T
    return total


def left_of(moments: np.ndarray, given: list[int]) -> np.ndarray:
    """Second moments of what regression on `given` leaves: the Schur complement of every matrix of a stack."""
    across = moments[:, :, given]
    return moments - across @ np.linalg.solve(moments[:, given][:, :, given], across.transpose(0, 2, 1))


def test_exact_values_are_those_of_regression() -> None:
    rows = np.random.default_rng(4).normal(size=(60, D)) @ ROOT
    moments = Moments(rows.T @ rows / 60, 60, NAMES)
    given = [1, 3]
    base = rows[:, given]
    left = {j: rows[:, j] - base @ np.linalg.lstsq(base, rows[:, j], rcond=None)[0] for j in (0, 2, 4)}
    values, noise = residual(moments, [0, 2, 4], given)
    np.testing.assert_allclose(values, [np.mean(left[j] ** 2) for j in (0, 2, 4)], rtol=1e-9)
    assert not noise.any() and (residual_effective_rows(moments, [0, 2], given) == 60).all()
    r, rows_worth = partial_correlation(moments, [0, 0, 2], [2, 4, 4], given)
    expected = [
        np.mean(left[i] * left[j]) / math.sqrt(np.mean(left[i] ** 2) * np.mean(left[j] ** 2))
        for i, j in ((0, 2), (0, 4), (2, 4))
    ]
    np.testing.assert_allclose(r, expected, rtol=1e-9)
    np.testing.assert_allclose(rows_worth, 60)
    single, worth = partial_correlation(moments, 0, 2, given)
    assert (single, worth) == pytest.approx((expected[0], 60.0))
    assert residual(moments, 4)[0] == pytest.approx(moments.matrix[4, 4])
    np.testing.assert_allclose(contrasts(moments, 1)[:, 0], np.eye(D)[1])


@pytest.mark.parametrize("law", list(LAWS))
@pytest.mark.parametrize("given", [[], [1], [0, 3]])
def test_noise_is_what_simulation_shows(law: str, given: list[int]) -> None:
    """2500 draws: a standard deviation is known to 1.4 percent, and 0.08 is more than five times that."""
    rng = np.random.default_rng(5)
    free = [j for j in range(D) if j not in given]
    pairs = [(i, j) for i in free for j in free if i < j]
    first, second = np.array(pairs).T
    stated = Moments(TRUTH, N, NAMES, LAWS[law])
    draws = np.array([TRUTH + noise_of(LAWS[law], rng) for _ in range(2500)])
    draws = (draws + draws.transpose(0, 2, 1)) / 2
    left = left_of(draws, given)
    values = left[:, free, free]
    r = left[:, first, second] / np.sqrt(left[:, first, first] * left[:, second, second])
    for k in range(25):  # the statistics of single draws are these
        drawn = Moments(draws[k], N, NAMES)
        np.testing.assert_allclose(residual(drawn, free, given)[0], values[k], rtol=1e-9)
        np.testing.assert_allclose(partial_correlation(drawn, first, second, given)[0], r[k], rtol=1e-9, atol=1e-12)
    value, sd = residual(stated, free, given)
    np.testing.assert_allclose(np.std(values, axis=0), sd, rtol=0.08)
    worth = residual_effective_rows(stated, free, given)
    np.testing.assert_allclose(2 * value**2 / worth, 2 * value**2 / N + sd**2)
    r_stated, rows = partial_correlation(stated, first, second, given)
    noise = (1 / rows - 1 / N) * (1 - r_stated**2) ** 2
    np.testing.assert_allclose(np.std(r, axis=0), np.sqrt(noise), rtol=0.08)


def test_residuals_that_drown_say_so() -> None:
    matrix = np.eye(D)
    matrix[0, 1] = matrix[1, 0] = 2.0
    moments = Moments(matrix, N, NAMES, (NoiseTerm(1.0),))
    value, _ = residual(moments, 0, [1])
    assert value < 0 and residual_effective_rows(moments, 0, [1])[0] == 0
    r, rows = partial_correlation(moments, 0, 2, [1])
    assert math.isnan(r) and rows == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: residual(m, 5), "nodes must be whole numbers in"),
        (lambda m: residual(m, 1.5), "nodes must be"),
        (lambda m: residual(m, 1, [1]), "nodes must not be in given"),
        (lambda m: residual(m, 1, [2, 2]), "given must be different"),
        (lambda m: residual(m, 1, [-1]), "given must be"),
        (lambda m: partial_correlation(m, 1, 1), "different variables"),
        (lambda m: partial_correlation(m, [1, 2], [3]), "of one length"),
    ],
)
def test_refusals(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call(Moments(TRUTH, N, NAMES))  # type: ignore[operator]
