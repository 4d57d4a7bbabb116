"""The mathematics of rounds: mean directions and their inverse, combination, whitening, and the noise's law of it all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privfcd.algorithms.release.angular import mean_direction
from privfcd.algorithms.release.combine import Round, combine, settled
from privfcd.algorithms.release.whitening import Structure, shrunk_variances, structure_whitening
from privfcd.moments import Moments

WEIGHTS = np.array([[0, 1.5, 0, 0.8], [0, 0, -1.2, 0], [0, 0, 0, 0], [0, 0, 1.0, 0]])
STRUCTURE = Structure(WEIGHTS, np.array([1.0, 0.5, 2.0, 1.0]))
TRUTH = STRUCTURE.covariance
NAMES = tuple("abcd")


def directions(rows: np.ndarray) -> np.ndarray:
    u = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return u.T @ u / len(u)


def test_mean_directions_of_gaussian_rows() -> None:
    """Against 400,000 rows, whose sampling error is below 0.0008 in every entry (5 sd)."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400_000, 4)) @ np.linalg.cholesky(TRUTH).T
    expected, _ = mean_direction(TRUTH)
    np.testing.assert_allclose(expected, directions(rows), atol=0.002)
    assert np.trace(expected) == pytest.approx(1.0, abs=1e-8)
    heavy = rows[:100_000] / np.sqrt(rng.chisquare(2, size=(100_000, 1)))
    np.testing.assert_allclose(expected, directions(heavy), atol=0.004)


@pytest.mark.parametrize("d", [2, 5, 50])
def test_at_the_identity_the_solution_is_the_known_one(d: int) -> None:
    expected, back = mean_direction(3.0 * np.eye(d))
    np.testing.assert_allclose(expected, np.eye(d) / d, atol=1e-8)
    np.testing.assert_allclose(back @ back.T, 3.0 * (d + 2) * np.eye(d), rtol=1e-7)


def test_the_linear_solution_is_the_derivative() -> None:
    """Off the diagonal of the eigenbasis, where scale plays no part."""
    _, vectors = np.linalg.eigh(TRUTH)
    expected, back = mean_direction(TRUTH)
    for i in range(4):
        for j in range(i):
            change = 1e-4 * (np.outer(vectors[:, i], vectors[:, j]) + np.outer(vectors[:, j], vectors[:, i]))
            moved, _ = mean_direction(TRUTH + change)
            solved = vectors.T @ (back @ (moved - expected) @ back.T) @ vectors
            assert solved[i, j] == pytest.approx(1e-4, rel=0.25), "the product c_i c_j approximates kappa_ij"


def test_steps_settle_at_the_inverse() -> None:
    linear = np.diag(np.diag(TRUTH) ** -0.4)
    inner, _ = mean_direction(linear.T @ TRUTH @ linear)
    one = Round(linear, inner[None], np.array([1e-9]), True)
    guess = settled([one], np.ones(1), np.diag(np.diag(TRUTH)), 25, 2.0)
    np.testing.assert_allclose(guess * np.trace(TRUTH) / np.trace(guess), TRUTH, rtol=1e-3, atol=1e-3)


def test_a_structure_whitens_what_it_describes() -> None:
    np.testing.assert_allclose(STRUCTURE.whitening.T @ TRUTH @ STRUCTURE.whitening, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(STRUCTURE.whitening @ STRUCTURE.unwhitening, np.eye(4), atol=1e-12)
    rows = np.random.default_rng(1).normal(size=(5000, 4)) @ Structure(WEIGHTS, np.ones(4)).unwhitening
    found = structure_whitening(Moments(rows.T @ rows / 5000, 5000, NAMES))
    white = found.whitening.T @ (rows.T @ rows / 5000) @ found.whitening
    assert np.abs(white - np.eye(4)).max() < 0.1


def test_residual_variances_are_drawn_to_the_median_by_their_noise() -> None:
    variances = np.array([1.0, 1.1, 4.0, -3.0, 0.9])
    np.testing.assert_allclose(shrunk_variances(variances, np.zeros(5)), [1.0, 1.1, 4.0, 0.0525, 0.9], atol=0.01)
    np.testing.assert_allclose(shrunk_variances(variances, np.full(5, 100.0)), 1.05, atol=1e-9)
    assert (shrunk_variances(-np.ones(3), np.ones(3)) > 0).all()


def test_the_law_of_combined_rounds_is_what_simulation_shows() -> None:
    """Standard deviations of single entries are exact; 1000 draws know them to 2.3 percent."""
    rng = np.random.default_rng(2)
    linears = [np.diag(np.diag(TRUTH) ** -0.4), Structure(0.8 * WEIGHTS, np.ones(4)).whitening]
    scales, weights = [np.array([0.01, 0.02]), np.array([0.03, 0.01])], np.array([0.3, 0.7])
    exact = [mean_direction(linear.T @ TRUTH @ linear)[0] for linear in linears]

    def noisy(matrix: np.ndarray, scale: float) -> np.ndarray:
        upper = np.triu(rng.normal(size=(4, 4)) * scale / math.sqrt(2), 1)
        return matrix + upper + upper.T + np.diag(rng.normal(size=4) * scale)

    def drawn(rounds: int, silent: bool = False) -> list[Round]:
        return [
            Round(
                linears[r],
                np.array([exact[r] if silent else noisy(exact[r], scale) for scale in scales[r]]),
                scales[r],
                True,
            )
            for r in range(rounds)
        ]

    for rounds in (1, 2):
        stated = combine(drawn(rounds, silent=True), weights, TRUTH).whitened(weights, 100, NAMES)
        last = linears[rounds - 1]
        np.testing.assert_allclose(stated.matrix, last.T @ TRUTH @ last, atol=1e-9)
        draws = [combine(drawn(rounds), weights, TRUTH).whitened(weights, 100, NAMES).matrix for _ in range(1000)]
        np.testing.assert_allclose(np.std(draws, axis=0), stated.noise_sd, rtol=0.11)
        back = combine(drawn(rounds, silent=True), weights, TRUTH).moments(weights, 100, NAMES)
        np.testing.assert_allclose(back.matrix, TRUTH, atol=1e-9)
    single = combine(drawn(2), weights, TRUTH).moments(np.array([1.0, 0.0]), 100, NAMES)
    both = combine(drawn(2), weights, TRUTH).moments(weights, 100, NAMES)
    assert single.noise_sd is not None and both.noise_sd is not None
    assert (single.noise_sd > both.noise_sd).mean() > 0.5


def test_two_rounds_are_better_than_each() -> None:
    weights = np.ones(1)
    rounds = [
        Round(np.diag(np.diag(TRUTH) ** -0.4), np.eye(4)[None] / 4, np.array([0.02]), True),
        Round(STRUCTURE.whitening, np.eye(4)[None] / 4, np.array([0.02]), True),
    ]
    both = combine(rounds, weights, TRUTH).whitened(weights, 100, NAMES).noise_sd
    last = combine(rounds[1:], weights, TRUTH).whitened(weights, 100, NAMES).noise_sd
    assert both is not None and last is not None and (both < last).all()
