"""What the search needs of the moments: the matrix, the rows, and the noise as few isotropic terms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.moments import Moments, NoiseTerm

Array = NDArray[np.float64]


LEAST, TINY = 1e-14, 1e-200
"""Exact variances below this share of the largest one, or all of them below this, are none."""


@dataclass(frozen=True, eq=False)
class Law:
    """Second moments S with the law of their error.

    For contrasts u and v (columns of weights) the value u'Sv has the variance of Gaussian sampling,
    ((u'Su)(v'Sv) + (u'Sv)²) / rows, and that of the noise, sum over terms of scale² / 2 ((u'Qu)(v'Qv) + (u'Qv)²).

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
    rows : int
    spreads : tuple of ndarray of shape (d, d)
        sd² / 2 times Q ⊗ Q is a term of the noise: each is sqrt(sd² / 2) Q.
    """

    matrix: Array
    rows: int
    spreads: tuple[Array, ...]

    @classmethod
    def of(cls, moments: Moments) -> Law:
        """Return the law of `moments`; terms whose entries differ are replaced by the isotropic term next to them."""
        d = len(moments.columns)
        spreads = [spread for term in moments.noise if (spread := _spread(term, d)).any()]
        matrix = moments.matrix
        largest = float(np.abs(np.diag(matrix)).max(initial=0.0))
        if not spreads:  # variables without variation are lifted to rounding level, where they have no parents
            least = LEAST * largest if largest > TINY else 1.0
            matrix = matrix + np.diag(np.where(np.diag(matrix) < least, least, 0.0))
        return cls(matrix, moments.rows, tuple(spreads))

    def residual_variances(self, weights: Array) -> tuple[Array, Array]:
        """Return the variance of x - x B for weights B, as the moments say, and the standard deviation of its noise."""
        contrasts = np.eye(len(weights)) - weights
        variances = np.einsum("ij,ij->j", contrasts, self.matrix @ contrasts)
        noise = np.zeros(len(weights))
        for spread in self.spreads:
            noise += 2 * np.einsum("ij,ij->j", contrasts, spread @ contrasts) ** 2
        return np.asarray(variances), np.sqrt(noise)


def _spread(term: NoiseTerm, d: int) -> Array:
    """Return sqrt(sd² / 2) L diag(g) L', with g_i g_j for the entries' own variances where they differ."""
    if np.ndim(term.sd) == 0:
        return np.asarray(float(term.sd) / np.sqrt(2) * term.spread(d))
    variances = np.asarray(term.sd, dtype=np.float64) ** 2
    # off the diagonal Var E_ij, on it Var E_ii / 2, is read as g_i g_j
    halved = variances - np.diag(np.diag(variances)) / 2
    if (halved > 0).all():  # the best such g in the logarithm's least squares
        logs = np.log(halved)
        g = np.exp(logs.mean(axis=1) - logs.mean() / 2)
    else:  # right on the diagonal
        g = np.sqrt(np.diag(halved))
    carry = np.eye(d) if term.carry is None else term.carry
    return np.asarray((carry * g) @ carry.T)
