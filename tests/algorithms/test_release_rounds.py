"""The mathematics of rounds: clipping, combination, whitening, and the noise's law of it all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privfcd import Budget, PrivateTable, SimulatedNoise
from privfcd.accounting import ADD_OR_REMOVE_ONE, REPLACE_ONE
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.release.clipping import kept, kept_share, ratio_for
from privfcd.algorithms.release.combine import Round, alone, combine
from privfcd.algorithms.release.whitening import Structure, next_rows, shrunk_variances, structure_whitening
from privfcd.data.pairs import SHIFTS
from privfcd.moments import Moments, NoiseTerm

WEIGHTS = np.array([[0, 1.5, 0, 0.8], [0, 0, -1.2, 0], [0, 0, 0, 0], [0, 0, 1.0, 0]])
STRUCTURE = Structure(WEIGHTS, np.array([1.0, 0.5, 2.0, 1.0]))
BACK = np.linalg.inv(STRUCTURE.whitening)
TRUTH = BACK.T @ BACK
NAMES = tuple("abcd")
NONE = np.zeros(4)


@pytest.mark.parametrize("d", [2, 7])
def test_what_clipping_leaves_of_gaussian_rows(d: int) -> None:
    """Against 200,000 rows."""
    squares = np.random.default_rng(d).normal(size=(200_000, d)) ** 2
    lengths = squares.sum(axis=1)
    for ratio in (0.3, 1.0, 2.5):
        assert kept(d, ratio) == pytest.approx(np.minimum(lengths, ratio * d).mean() / d, rel=0.01)
    assert kept(d, ratio_for(d, 0.05)) == pytest.approx(0.95)
    for trace in (0.5, 3.0):
        left = trace * kept(d, 2.0 / trace)
        assert kept_share(d, 2.0, left) == pytest.approx(left / trace, rel=1e-6)
    assert kept_share(d, 2.0, -1.0) == 1.0


def noisy(rng: np.random.Generator, matrix: np.ndarray, scale: float) -> np.ndarray:
    return matrix + NoiseTerm(scale).sample(rng, len(matrix))


def rounds(rng: np.random.Generator | None) -> list[Round]:
    """Two parties' two rounds, without noise if there is no generator."""
    linears = [np.diag(np.diag(TRUTH) ** -0.4), Structure(0.8 * WEIGHTS, np.ones(4)).whitening]
    made = []
    for linear, scales in zip(linears, (np.array([0.01, 0.02]), np.array([0.03, 0.01])), strict=True):
        inner = linear.T @ TRUTH @ linear
        parts = [inner if rng is None else noisy(rng, inner, scale) for scale in scales]
        made.append(Round(linear, np.array(parts), scales))
    return made


def test_the_law_of_combined_rounds_is_exact() -> None:
    """Variances of entries and of a form, over 600 draws that know a standard deviation to 3 percent."""
    rng, weights, form = np.random.default_rng(2), np.array([0.3, 0.7]), np.ones((4, 4))
    for of in (lambda made: alone(made[0]), lambda made: combine(*made, weights)):
        stated = of(rounds(None)).moments(weights, 100, NAMES)
        np.testing.assert_allclose(stated.matrix, TRUTH, rtol=1e-9, atol=1e-9)
        draws = np.array([of(rounds(rng)).moments(weights, 100, NAMES).matrix for _ in range(600)])
        np.testing.assert_allclose(draws.std(axis=0), stated.noise_sd, rtol=0.13)
        assert (draws * form).sum(axis=(1, 2)).std() == pytest.approx(
            math.sqrt(stated.form_noise_variance(form)), rel=0.13
        )


def test_combining_is_generalised_least_squares() -> None:
    """By brute force: the normal equations of all entries at once."""
    made = rounds(np.random.default_rng(3))
    weights = np.array([0.5, 0.5])
    left, right = np.zeros((16, 16)), np.zeros(16)
    for one in made:
        design = np.kron(one.linear.T, one.linear.T)  # of vec(A'SA), rows first
        w = 1 / one.scale(weights) ** 2
        left += w * design.T @ design
        right += w * design.T @ np.tensordot(weights, one.parts, axes=1).ravel()
    expected = np.linalg.solve(left, right).reshape(4, 4)
    np.testing.assert_allclose(
        combine(*made, weights).moments(weights, 9, NAMES).matrix, expected, rtol=1e-8, atol=1e-8
    )


def test_a_bad_round_takes_nothing_away() -> None:
    """Whatever the second matrix is, the combination is at least as good as the first round alone in every direction."""
    weights, rng = np.ones(1), np.random.default_rng(4)
    first = Round(np.eye(4), np.eye(4)[None], np.array([0.02]))
    one = alone(first).moments(weights, 9, NAMES)
    for _ in range(20):
        linear = rng.normal(size=(4, 4)) * 10 ** rng.uniform(-3, 3, 4)
        second = Round(linear, (linear.T @ linear)[None], np.array([0.02]))
        both = combine(first, second, weights).moments(weights, 9, NAMES)
        some = rng.normal(size=(4, 50))
        assert (both.noise_variances(some, some) <= one.noise_variances(some, some) * (1 + 1e-6)).all()


def known(sd: float, matrix: np.ndarray = TRUTH) -> Moments:
    return Moments(matrix, 1000, NAMES, (NoiseTerm(sd),))


def test_the_next_rows_are_white_where_the_moments_are_known() -> None:
    for structure in (STRUCTURE, Structure(np.zeros((4, 4)), np.diag(TRUTH)), Structure(-WEIGHTS, np.ones(4))):
        rows = next_rows(known(1e-5), structure, NONE, False)
        np.testing.assert_allclose(rows.linear.T @ TRUTH @ rows.linear, np.eye(4), atol=0.01)
        assert rows.total == pytest.approx(4, rel=0.01) and rows.freedom == pytest.approx(4, rel=0.01)


def test_no_direction_is_stretched_beyond_its_noise() -> None:
    """Whatever the structure says, noise in the variance of y = x A is at most 1 in every direction."""
    rng = np.random.default_rng(5)
    for sd in (0.01, 0.3, 5.0):
        wrong = Structure(np.triu(rng.normal(size=(4, 4)), 1), 10 ** rng.uniform(-6, 1, 4))
        moments = known(sd, noisy(rng, TRUTH, sd))
        linear = next_rows(moments, wrong, NONE, False).linear
        stretched = np.sqrt(moments.noise_variances(linear, linear))
        assert (stretched <= 1 + 1e-9).all()


def test_columns_that_shall_be_smaller_are() -> None:
    extra = np.array([0.0, 9.0, 0.0, 0.0]) * TRUTH[1, 1]
    rows = next_rows(known(1e-5), STRUCTURE, extra, False)
    larger = TRUTH + np.diag(extra)
    np.testing.assert_allclose(rows.linear.T @ larger @ rows.linear, np.eye(4), atol=0.01)
    assert rows.total == pytest.approx(np.trace(rows.linear.T @ TRUTH @ rows.linear), rel=0.01)


def test_a_structure_whitens_what_it_describes() -> None:
    np.testing.assert_allclose(STRUCTURE.whitening.T @ TRUTH @ STRUCTURE.whitening, np.eye(4), atol=1e-12)
    root = np.linalg.inv(Structure(WEIGHTS, np.ones(4)).whitening)
    rows = np.random.default_rng(1).normal(size=(5000, 4)) @ root
    found = structure_whitening(Moments(rows.T @ rows / 5000, 5000, NAMES))
    white = found.whitening.T @ (rows.T @ rows / 5000) @ found.whitening
    assert np.abs(white - np.eye(4)).max() < 0.1


def test_residual_variances_are_drawn_to_the_median_by_their_noise() -> None:
    variances = np.array([1.0, 1.1, 4.0, -3.0, 0.9])
    np.testing.assert_allclose(shrunk_variances(variances, np.zeros(5)), [1.0, 1.1, 4.0, 0.0525, 0.9], atol=0.01)
    np.testing.assert_allclose(shrunk_variances(variances, np.full(5, 100.0)), 1.05, atol=1e-9)
    assert (shrunk_variances(-np.ones(3), np.ones(3)) > 0).all()


def rows_of(kind: str, seed: int) -> np.ndarray:
    """Return 10,000 rows of six columns."""
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.uniform(0.5, 2, (6, 6)) * rng.choice([-1, 1], (6, 6)) * (rng.random((6, 6)) < 0.4), 1)
    sds = np.exp(rng.uniform(math.log(0.5), math.log(2), 6)) if "sds" in kind else 1.0
    rows = rng.normal(size=(10_000, 6)) * sds @ np.linalg.inv(np.eye(6) - weights)
    if "standardised" in kind:
        rows /= rows.std(axis=0)
    if "units" in kind:
        rows = rows * 10.0 ** np.arange(-3, 3)
    return rows + (100 * rows.std(axis=0) if "means" in kind else 0.0)


@pytest.mark.parametrize("kind", ["raw", "standardised", "sds", "sds standardised", "units", "means standardised"])
def test_the_stated_noise_is_that_of_whole_releases(kind: str) -> None:
    """Means taken off; 9 releases of 21 entries, whose root mean square lies well within the limits, and no gross error."""
    squares = []
    for seed in range(9):
        relation = ADD_OR_REMOVE_ONE if seed % 2 and "means" not in kind else REPLACE_ONE
        rows = rows_of(kind, seed)
        tables = [
            PrivateTable(
                part,
                name=f"p{k}",
                budget=Budget((1.0, 3.0, 10.0)[seed % 3], 2.5e-7),
                noise=SimulatedNoise(seed),
                relation=relation,
                declared_rows=len(part) if relation is ADD_OR_REMOVE_ONE else None,
            )
            for k, part in enumerate(np.split(rows, 2))
        ]
        found = release_moments(tables, center=True).moments
        exact = np.cov(rows.T, bias=True)
        factor = np.median(np.diag(found.matrix) / np.diag(exact))
        away = (found.matrix - factor * exact) / found.noise_sd
        squares.append(float(np.mean(away[np.triu_indices(6)] ** 2)))
        size = np.sqrt(np.diag(exact))
        assert not ((np.abs(away) > 5) & (np.abs(found.matrix / factor - exact) > 0.2 * np.outer(size, size))).any()
    assert 0.6 < math.sqrt(np.mean(squares)) < 1.25


def test_the_law_of_differences_states_what_their_pairs_add() -> None:
    """With next to no noise, errors against the exact covariance are those of the pairs."""
    squares = []
    for seed in range(8):
        rows = np.random.default_rng(seed).exponential(size=(2000, 3)) @ np.array([[1, 1, 0], [0, 1, 0], [0, 0, 3.0]])
        table = PrivateTable(rows, name="p", budget=Budget(1e4, 1e-6), noise=SimulatedNoise(seed))
        found = release_moments([table], center=True, histogram_share=1e-5).moments
        assert any(not isinstance(term.sd, np.ndarray) for term in found.noise)
        squares.append(((found.matrix - np.cov(rows.T, bias=True)) / found.noise_sd)[np.triu_indices(3, 1)] ** 2)
    assert 0.5 < math.sqrt(np.mean(squares)) < 1.5 and SHIFTS == 2
