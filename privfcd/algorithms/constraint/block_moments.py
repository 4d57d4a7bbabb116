"""Tests and scores of discrete variables from second moments of their encoded columns alone.

A variable is a block of columns, see `privfcd.data.encoding.Contrasts`. Two blocks are tested by the covariance of their
residuals given other blocks and the constant: with both sides whitened, each entry has variance about 1/n where the
blocks are independent given the others and regressions on indicators hold, plus the variance of its noise. The sum of
squared entries, each over its variance, is about chi-square with as many degrees of freedom as entries. For two levels
it is the square of Fisher's z to first order. It looks at pairs of marginals only: interactions of the conditioning
variables are not seen, which is the price of paying for pairs once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms.constraint.fisher_z import CAUTION
from privfcd.algorithms.constraint.g_squared import chi_square_tail
from privfcd.algorithms.scores import Family
from privfcd.data.encoding import Contrasts
from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import bits
from privfcd.moments import Moments

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

_FLOOR = 1e-9


class BlockMoments:
    """Second moments of encoded discrete variables, with tests and scores of the variables.

    Parameters
    ----------
    moments : Moments
        Of the encoded columns, not centred; noisy ones are repaired.
    encoding : Contrasts
        Which columns belong to which variable.
    """

    def __init__(self, moments: Moments, encoding: Contrasts) -> None:
        if len(moments.columns) != encoding.constant + 1:
            raise InvalidParameter(
                f"moments must be of {encoding.constant + 1} encoded columns, got {len(moments.columns)}"
            )
        self.moments = moments
        self.encoding = encoding
        self._blocks = encoding.blocks
        self._matrix = moments.matrix if moments.exact else moments.repaired().matrix

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self._blocks)

    def p_values(self, first: Indices, second: Indices, given: Indices) -> Array:
        """See `IndependenceTest.p_values`."""
        answer = np.full(len(first), np.nan)
        for set_, places in _by_set(given):
            contrasts, covariance = self._residuals(set_)
            for place in places:
                answer[place] = self._p_value(contrasts, covariance, int(first[place]), int(second[place]))
        return answer

    def local(self, families: Sequence[Family]) -> Array:
        """Return the block BIC of each family: -n/2 ln det C(x | S) - ln(n)/2 times its parameters; one column."""
        rows = self.rows
        answer = np.empty((len(families), 1))
        for index, (node, parents) in enumerate(families):
            members = list(bits(parents))
            _, covariance = self._residuals(tuple(members))
            block = self._blocks[node]
            values = np.linalg.eigvalsh(covariance[np.ix_(block, block)])
            size = sum(len(self._blocks[member]) for member in members) + 1
            fit = -rows / 2 * float(np.log(np.maximum(values, _FLOOR)).sum())
            answer[index, 0] = fit - math.log(rows) / 2 * len(block) * size
        return answer

    def total(self, sums: Array) -> Array:
        """See `LocalScore.total`."""
        return np.asarray(sums[..., 0])

    @property
    def rows(self) -> float:
        """The number of rows; with noise, how many exact ones tell entries apart as well, the median over entries."""
        if self.moments.exact:
            return float(self.moments.rows)
        return max(2.0, float(np.median(self.moments.effective_rows())))

    def _residuals(self, given: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the residual contrasts of all columns given blocks and the constant, and their covariance."""
        columns = np.concatenate([*(self._blocks[k] for k in given), [self.encoding.constant]]).astype(np.int64)
        inner = self._matrix[np.ix_(columns, columns)]
        values, vectors = np.linalg.eigh(inner)
        kept = values > max(_FLOOR, float(self._floor(columns)))
        pseudo = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        contrasts = np.eye(len(self._matrix))
        contrasts[columns] -= pseudo @ self._matrix[columns]
        covariance = contrasts.T @ self._matrix @ contrasts
        return contrasts, (covariance + covariance.T) / 2

    def _floor(self, columns: Indices) -> float:
        """Directions of conditioning columns below their noise are not divided by."""
        if self.moments.exact:
            return 0.0
        unit = np.eye(len(self._matrix))[:, columns]
        return math.sqrt(float(self.moments.noise_variances(unit, unit).max()))

    def _p_value(self, contrasts: Array, covariance: Array, i: int, j: int) -> float:
        sides = []
        for block in (self._blocks[i], self._blocks[j]):
            values, vectors = np.linalg.eigh(covariance[np.ix_(block, block)])
            directions = contrasts[:, block] @ vectors
            if not self.moments.exact:
                noise = self.moments.noise_variances(directions, directions)
                known = values > CAUTION * np.sqrt(noise)
            else:
                known = values > _FLOOR
            if not known.any():
                return math.nan
            sides.append(directions[:, known] / np.sqrt(values[known]))
        cross = sides[0].T @ self._matrix @ sides[1]
        spread = np.full(cross.shape, 1 / self.moments.rows)
        if not self.moments.exact:
            rows, columns = cross.shape
            left, right = np.repeat(sides[0], columns, axis=1), np.tile(sides[1], (1, rows))
            spread = spread + self.moments.noise_variances(left, right).reshape(cross.shape)
        statistic = float((cross**2 / spread).sum())
        return float(chi_square_tail(np.array([statistic]), np.array([float(cross.size)]))[0])


def _by_set(given: Indices) -> list[tuple[tuple[int, ...], list[int]]]:
    groups: dict[tuple[int, ...], list[int]] = {}
    for place, members in enumerate(given.tolist()):
        groups.setdefault(tuple(members), []).append(place)
    return list(groups.items())


def check_blocks(levels: Sequence[int]) -> None:
    """Raise InvalidParameter for variables with one level, which have no columns to test."""
    for level in levels:
        checks.count("levels", level, least=2)
