"""Rounds in different coordinates made one estimate, with the law of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.release.angular import mean_direction
from privfcd.moments import Moments, NoiseTerm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Round:
    """What one round released.

    Attributes
    ----------
    linear : ndarray of shape (d, d)
        A, by which rows were multiplied.
    parts : ndarray of shape (P, d, d)
        Each party's mean of u u' for the directions u of y = x A; or of y y'.
    scales : ndarray of shape (P,)
        The noise's scale in each, see `AnalyticGaussian`.
    directions : bool
        Whether directions were taken.
    """

    linear: Array
    parts: Array
    scales: Array
    directions: bool

    def solved(self, guess: Array) -> tuple[Array, Array]:
        """Return each party's second moments of y, shape (P, d, d), and L for their noise's law L E L'.

        Parameters
        ----------
        guess : ndarray of shape (d, d)
            Second moments of x near which mean directions are turned into second moments.
        """
        if not self.directions:
            return self.parts, np.eye(len(self.linear))
        inner = self.linear.T @ guess @ self.linear
        expected, back = mean_direction((inner + inner.T) / 2)
        return inner + back @ (self.parts - expected) @ back.T, back


@dataclass(frozen=True, eq=False)
class Combined:
    """All rounds as one estimate, in the last one's coordinates.

    Attributes
    ----------
    linear : ndarray of shape (d, d)
        The last round's A.
    parts : ndarray of shape (P, d, d)
        Second moments of y = x A, each party's.
    sds : ndarray of shape (P, d, d)
        Of the noise in every entry of E, the noise being L E L'.
    back : ndarray of shape (d, d)
        L.
    """

    linear: Array
    parts: Array
    sds: Array
    back: Array

    def whitened(self, weights: Array, rows: int, columns: tuple[str, ...]) -> Moments:
        """Return the moments of y in the parties' weighted mean."""
        matrix = np.tensordot(weights, self.parts, axes=1)
        sds = np.sqrt(np.tensordot(weights**2, self.sds**2, axes=1))
        sds = (sds + sds.T) / 2
        scale = _isotropic(sds)
        term = NoiseTerm(sds if scale is None else scale, self.back)
        return Moments((matrix + matrix.T) / 2, rows, columns, (term,) if sds.any() else ())

    def moments(self, weights: Array, rows: int, columns: tuple[str, ...]) -> Moments:
        """Return the moments of x in the parties' weighted mean."""
        return self.whitened(weights, rows, columns).carried(np.asarray(np.linalg.inv(self.linear).T))


def combine(rounds: Sequence[Round], weights: Array, guess: Array) -> Combined:
    """Return the rounds' mean in the last one's coordinates, each entry weighted by the inverse of its noise's variance.

    Weights are the same for all parties, from the noise in their weighted mean. The noise of one carried round is
    correlated between entries; these correlations are left out of the law of several rounds, whose variances of single
    entries in the last coordinates are exact. The law of one round is exact.

    Parameters
    ----------
    rounds : sequence of Round
    weights : ndarray of shape (P,)
        Each party's share of the rows.
    guess : ndarray of shape (d, d)
        Second moments of x near which the rounds are solved.
    """
    last = rounds[-1]
    newest, back = last.solved(guess)
    if len(rounds) == 1:
        d = len(back)
        unit = NoiseTerm(1.0).entry_variances(d)
        return Combined(last.linear, newest, np.sqrt(unit) * last.scales[:, None, None], back)
    values, units = [newest], [NoiseTerm(1.0, back).entry_variances(len(back))]
    for one in rounds[:-1]:
        parts, own = one.solved(guess)
        carry = np.linalg.solve(one.linear, last.linear).T
        values.append(carry @ parts @ carry.T)
        units.append(NoiseTerm(1.0, carry @ own).entry_variances(len(back)))
    order = [last, *rounds[:-1]]
    precision = np.array([1 / (unit * _pooled(one, weights) ** 2) for unit, one in zip(units, order, strict=True)])
    share = precision / precision.sum(axis=0)
    mean = np.einsum("rij,rpij->pij", share, np.array(values))
    noise = np.array([one.scales**2 for one in order])
    variances = np.einsum("rij,rp->pij", share**2 * np.array(units), noise)
    return Combined(last.linear, mean, np.sqrt(variances), np.eye(len(back)))


def _pooled(one: Round, weights: Array) -> float:
    return math.hypot(*(weights * one.scales))


def _isotropic(sds: Array) -> float | None:
    """Return the scale s if the entries' standard deviations are s on and s / sqrt(2) off the diagonal."""
    s = float(sds[0, 0])
    like = np.full_like(sds, s / math.sqrt(2))
    np.fill_diagonal(like, s)
    return s if np.allclose(sds, like, rtol=1e-12, atol=0) else None


def settled(rounds: Sequence[Round], weights: Array, guess: Array, steps: int, sds: float) -> Array:
    """Return second moments of x near which the rounds are solved, found from the rounds themselves in a few steps.

    In each the rounds are solved near the guess; the next guess is what they say in the last one's coordinates, without the
    entries off the diagonal that are within `sds` standard deviations of the noise, made positive definite.
    """
    linear = rounds[-1].linear
    inverse = np.linalg.inv(linear)
    for _ in range(steps):
        found = combine(rounds, weights, guess).whitened(weights, 1, tuple(map(str, range(len(linear)))))
        mean, noise = found.matrix, np.zeros_like(guess) if found.noise_sd is None else found.noise_sd
        scale = np.sqrt(np.maximum(np.diag(mean), np.diag(noise)))
        kept = np.where((np.abs(mean) > sds * noise) | np.eye(len(mean), dtype=bool), mean, 0.0) / np.outer(
            scale, scale
        )
        values, vectors = np.linalg.eigh((kept + kept.T) / 2)
        least = max(float(np.median(noise / np.outer(scale, scale))), 1e-3)
        inner = (vectors * np.maximum(values, least)) @ vectors.T * np.outer(scale, scale)
        guess = inverse.T @ inner @ inverse
        guess = (guess + guess.T) / 2
    return guess
