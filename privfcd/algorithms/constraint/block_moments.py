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
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

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

_BLOCK = 500_000
"""Numbers of the largest arrays that are worked on at once."""


class BlockMoments:
    """Second moments of encoded discrete variables, with tests and scores of the variables.

    Parameters
    ----------
    moments : Moments
        Of the encoded columns, not centred; noisy ones are repaired.
    encoding : Contrasts
        Which columns belong to which variable.

    Raises
    ------
    InvalidParameter
        The moments have another number of columns than the encoding.
    """

    def __init__(self, moments: Moments, encoding: Contrasts) -> None:
        if len(moments.columns) != encoding.constant + 1:
            raise InvalidParameter(
                f"moments must be of {encoding.constant + 1} encoded columns, got {len(moments.columns)}"
            )
        self.moments = moments
        self.encoding = encoding
        self._blocks = encoding.blocks
        self._sizes = np.array([len(block) for block in self._blocks])
        self._matrix = moments.matrix if moments.exact else moments.repaired().matrix
        sd = np.zeros(self._matrix.shape) if moments.noise_sd is None else moments.noise_sd
        self._noise_sd = sd.diagonal()

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self._blocks)

    @property
    def rows(self) -> float:
        """The number of rows; with noise, how many exact ones tell entries apart as well, the median over entries."""
        if self.moments.exact:
            return float(self.moments.rows)
        return max(2.0, float(np.median(self.moments.effective_rows())))

    def p_values(self, first: Indices, second: Indices, given: Indices) -> Array:
        """Return the p-value of each test; NaN where noise leaves nothing of one of the two variables to be tested.

        Parameters
        ----------
        first, second : ndarray of int, shape (m,)
            Variables.
        given : ndarray of int, shape (m, l)
            The conditioning sets, all of one size.
        """
        answer = np.full(len(first), np.nan)
        tests = np.column_stack([first, second, given]).astype(np.int64)
        for places, columns in self._alike(tests, 2):
            left, right = self._sizes[tests[places[0], :2]].tolist()
            for some, block in _steps(places, columns, len(self._matrix) * left * right):
                answer[some] = self._test(block, left, right)
        return answer

    def local(self, families: Sequence[Family]) -> Array:
        """Return the block BIC of each family: -n/2 ln det C(x | S) - ln(n)/2 times its parameters; one column."""
        rows = self.rows
        answer = np.empty((len(families), 1))
        groups: dict[int, list[int]] = {}
        for index, (_, parents) in enumerate(families):
            groups.setdefault(parents.bit_count(), []).append(index)
        for indices in groups.values():
            members = np.array([[families[index][0], *bits(families[index][1])] for index in indices])
            for places, columns in self._alike(members, 1):
                free = int(self._sizes[members[places[0], 0]])
                _, covariance = self._residuals(columns, free)
                determinant = np.log(np.maximum(np.linalg.eigvalsh(covariance), _FLOOR)).sum(axis=1)
                penalty = math.log(rows) / 2 * free * (columns.shape[1] - free)
                answer[np.array(indices)[places], 0] = -rows / 2 * determinant - penalty
        return answer

    def total(self, sums: Array) -> Array:
        """See `LocalScore.total`."""
        return np.asarray(sums[..., 0])

    def _alike(self, members: Indices, free: int) -> Iterator[tuple[Indices, Indices]]:
        """Yield places of equal shape with their columns: `free` variables, the rest of them, and the constant.

        Of equal shape: the free variables and the conditioning set have as many columns each.
        """
        sizes = self._sizes[members]
        shapes = np.column_stack([sizes[:, :free], sizes[:, free:].sum(axis=1)])
        _, which = np.unique(shapes, axis=0, return_inverse=True)
        for index in range(int(which.max(initial=-1)) + 1):
            places = np.flatnonzero(which.ravel() == index)
            chosen = [self._columns(row) for row in members[places].tolist()]
            yield places, np.array(chosen, dtype=np.int64)

    def _columns(self, variables: Iterable[int]) -> Indices:
        return np.concatenate([*(self._blocks[variable] for variable in variables), [self.encoding.constant]])

    def _residuals(self, columns: Indices, free: int) -> tuple[Array, Array]:
        """Return the residual contrasts of the first `free` of the columns given the others, and their covariance.

        Parameters
        ----------
        columns : ndarray of int, shape (m, s)
        free : int

        Returns
        -------
        contrasts : ndarray of shape (m, s, free)
        covariance : ndarray of shape (m, free, free)
        """
        inner = self._matrix[columns[:, :, None], columns[:, None, :]]
        values, vectors = np.linalg.eigh(inner[:, free:, free:])
        # directions below their noise are not divided by
        kept = values > np.maximum(_FLOOR, self._noise_sd[columns[:, free:]].max(axis=1))[:, None]
        scaled = vectors * (kept / np.where(kept, values, 1.0))[:, None, :]
        contrasts = np.zeros((*columns.shape, free))
        contrasts[:, :free] = np.eye(free)
        contrasts[:, free:] = -(scaled @ (vectors.transpose(0, 2, 1) @ inner[:, free:, :free]))
        covariance = contrasts.transpose(0, 2, 1) @ inner @ contrasts
        return contrasts, (covariance + covariance.transpose(0, 2, 1)) / 2

    def _test(self, columns: Indices, left: int, right: int) -> Array:
        """Return the p-values of tests whose first two variables have `left` and `right` columns."""
        free = left + right
        contrasts, covariance = self._residuals(columns, free)
        one, ones = self._whitened(columns, contrasts[:, :, :left], covariance[:, :left, :left])
        other, others = self._whitened(columns, contrasts[:, :, left:], covariance[:, left:, left:])
        inner = self._matrix[columns[:, :, None], columns[:, None, :]]
        cross = one.transpose(0, 2, 1) @ inner @ other
        spread = np.full(cross.shape, 1 / self.moments.rows)
        if not self.moments.exact:
            spread += self._noise_variances(
                columns, np.repeat(one, right, axis=2), np.tile(other, (1, 1, left))
            ).reshape(cross.shape)
        degrees = (ones * others).astype(np.float64)
        return np.where(degrees > 0, chi_square_tail((cross**2 / spread).sum(axis=(1, 2)), degrees), np.nan)

    def _whitened(self, columns: Indices, contrasts: Array, covariance: Array) -> tuple[Array, Indices]:
        """Return contrasts of unit residual variance, 0 where it is not known, and how many are known."""
        values, vectors = np.linalg.eigh(covariance)
        directions = contrasts @ vectors
        least = np.full(values.shape, _FLOOR)
        if not self.moments.exact:
            least = np.maximum(least, CAUTION * np.sqrt(self._noise_variances(columns, directions, directions)))
        known = values > least
        return directions * (known / np.sqrt(np.where(known, values, 1.0)))[:, None, :], known.sum(axis=1)

    def _noise_variances(self, columns: Indices, left: Array, right: Array) -> Array:
        """Return Var(u' N v) for the columns u, v of `left` and `right`, shape (m, s, k) each; shape (m, k)."""
        tests, _, many = left.shape
        whole = np.zeros((2, len(self._matrix), tests, many))
        place = np.arange(tests)[:, None]
        whole[0, columns, place], whole[1, columns, place] = left, right
        flat = whole.reshape(2, len(self._matrix), -1)
        return np.asarray(self.moments.noise_variances(flat[0], flat[1])).reshape(tests, many)


def _steps(places: Indices, columns: Indices, each: int) -> Iterator[tuple[Indices, Indices]]:
    step = max(1, _BLOCK // each)
    for start in range(0, len(places), step):
        yield places[start : start + step], columns[start : start + step]
