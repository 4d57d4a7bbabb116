"""Two rounds in different coordinates made one estimate by generalised least squares, with the exact law of its noise.

Round r released M_r = A_r' S A_r + E_r. The noise E_r of the analytic Gaussian mechanism is isotropic in the Frobenius
norm: independent entries, standard deviation s_r on the diagonal and s_r / sqrt(2) off it. So the most likely S is the least
of sum_r |M_r - A_r' S A_r|² / s_r². Let A_1^-1 A_2 = U D V' (singular values), T = A_1^-T U. Then T'A_1 = U',
T'A_2 = D V', and for S = T Z T' the rounds are

    U' M_1 U = Z + U' E_1 U,        V' M_2 V = D Z D + V' E_2 V,

where rotations leave the law of E_r as it is. Entries are apart now: with weights w_r = 1 / s_r²

    Z_ij = (w_1 (U' M_1 U)_ij + w_2 d_i d_j (V' M_2 V)_ij) / (w_1 + w_2 d_i² d_j²),

and its noise is independent between entries, with variance 1 / (w_1 + w_2 d_i² d_j²), half of it off the diagonal. A
direction that the second matrix blows up (d large) has the second round's word, one that it shrinks the first one's: a round
whose matrix was a bad choice has no weight where it is bad.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.moments import Moments, NoiseTerm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Round:
    """What one round released.

    Attributes
    ----------
    linear : ndarray of shape (d, d)
        A, by which rows were multiplied; invertible.
    parts : ndarray of shape (P, d, d)
        Each party's second moments of y = x A.
    scales : ndarray of shape (P,)
        The noise's scale in each, see `AnalyticGaussian`.
    """

    linear: Array
    parts: Array
    scales: Array

    def scale(self, weights: Array) -> float:
        """Return the noise's scale in the parties' weighted mean."""
        return math.hypot(*(weights * self.scales))


@dataclass(frozen=True, eq=False)
class Combined:
    """Rounds as one estimate S_p = T Z_p T' of each party p.

    Attributes
    ----------
    carry : ndarray of shape (d, d)
        T.
    parts : ndarray of shape (P, d, d)
        Z_p.
    sds : ndarray of shape (P, d, d)
        Of the independent noise in the entries of Z_p.
    """

    carry: Array
    parts: Array
    sds: Array

    def moments(self, weights: Array, rows: int, columns: tuple[str, ...]) -> Moments:
        """Return the second moments of x in the parties' weighted mean."""
        inner = np.tensordot(weights, self.parts, axes=1)
        matrix = self.carry @ inner @ self.carry.T
        sds = np.sqrt(np.tensordot(weights**2, self.sds**2, axes=1))
        noise = (NoiseTerm((sds + sds.T) / 2, self.carry),) if sds.any() else ()
        return Moments((matrix + matrix.T) / 2, rows, columns, noise)


def combine(first: Round, second: Round, weights: Array) -> Combined:
    """Return two rounds as one estimate; the same weights for all parties, from the noise in their weighted mean.

    Parameters
    ----------
    first, second : Round
    weights : ndarray of shape (P,)
        Each party's share of the rows.
    """
    scales = [first.scale(weights), second.scale(weights)]
    top = max(scales)
    if top == 0:
        w1, w2 = 1.0, 1.0  # without noise both are exact
    else:
        w1, w2 = ((top / max(scale, 1e-12 * top)) ** 2 for scale in scales)
    left, stretch, right = np.linalg.svd(np.linalg.solve(first.linear, second.linear))
    carry = np.linalg.solve(first.linear.T, left)
    product = np.outer(stretch, stretch)
    precision = w1 + w2 * product**2
    one, two = w1 / precision, w2 * product / precision
    parts = one * (left.T @ first.parts @ left) + two * (right @ second.parts @ right.T)
    off = np.full(product.shape, 0.5)
    np.fill_diagonal(off, 1.0)
    variances = off * ((one * first.scales[:, None, None]) ** 2 + (two * second.scales[:, None, None]) ** 2)
    return Combined(carry, np.asarray(parts), np.sqrt(variances))


def alone(one: Round) -> Combined:
    """Return one round as an estimate."""
    d = len(one.linear)
    unit = np.full((d, d), math.sqrt(0.5))
    np.fill_diagonal(unit, 1.0)
    return Combined(np.asarray(np.linalg.inv(one.linear).T), one.parts, np.asarray(unit * one.scales[:, None, None]))
