"""Moments of columns that do not depend on each other, with the variances and the noise of released ones.

A release in rounds puts noise L E L' on the moments, with L L' close to the moments themselves: it is small in every
direction relative to what the rows vary there. On columns without dependence its maps would have been diagonal, and so
would L. Here the entries' noise is made independent: that on the diagonal keeps its variance, and that off it loses the part
that comes from what two rows of L have in common, at most half of it where E is isotropic. Such noise would suit a
structure which is not there. Noise without a carry (rows clipped in norm) stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfcd.data.encoding import CONSTANT
from privfcd.moments import Moments, NoiseTerm

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Independent:
    """Exact moments of independent columns, and the law of the noise that is put on them."""

    exact: Array
    like: Moments

    def with_noise(self, generator: np.random.Generator) -> Moments:
        """Return the moments with a draw of their noise, whose law they state."""
        return replace(self.like, matrix=self.exact + self.like.noise_draw(generator))


def without_dependence(moments: Moments, variables: tuple[str, ...] | None = None) -> Independent:
    """Return moments without dependence between columns.

    Parameters
    ----------
    moments : Moments
        Noisy. Their diagonal stays; where noise has brought it below its own standard deviation, it is lifted to that.
    variables : tuple of str, optional
        For moments of discrete columns that were encoded by `Contrasts`: the columns before. The moments within a
        variable stay, and those between two become the products of their means.
    """
    unit = np.eye(len(moments.columns))
    sds = np.sqrt(moments.noise_variances(unit, unit))
    diagonal = np.maximum(np.diag(moments.matrix), np.maximum(sds, np.finfo(float).tiny))
    like = replace(moments, noise=tuple(_diagonal(term) for term in moments.noise))
    if variables is None:
        return Independent(np.diag(diagonal), like)
    matrix = moments.matrix.copy()
    matrix[np.diag_indices_from(matrix)] = diagonal
    constant = moments.columns.index(CONSTANT)
    means = matrix[constant] / matrix[constant, constant]
    independent = np.outer(means, means) * matrix[constant, constant]
    of = np.array([-1 if name == CONSTANT else variables.index(name.rpartition(":")[0]) for name in moments.columns])
    independent[constant], independent[:, constant] = matrix[constant], matrix[constant]
    within = of[:, None] == of
    independent = np.where(within, matrix, independent)
    return Independent((independent + independent.T) / 2, like)


def _diagonal(term: NoiseTerm) -> NoiseTerm:
    """Return the noise as it is on columns without dependence, with independent entries."""
    if term.carry is None:
        return term
    squares = np.asarray(term.carry) ** 2
    if term.isotropic:
        return replace(term, carry=np.diag(np.sqrt(squares.sum(axis=1))))
    # of Var N_ij what is left on average if the signs in one of two different rows of L were drawn at random
    parts = np.asarray(term.sd) ** 2
    variances = squares @ (parts - np.diag(np.diag(parts)) / 2) @ squares.T
    variances[np.diag_indices_from(variances)] *= 2
    return NoiseTerm(np.sqrt((variances + variances.T) / 2))
