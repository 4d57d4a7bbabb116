"""Fisher's z test of zero partial correlation, on moments whose noise it knows.

For Gaussian rows atanh(r) sqrt(n - |Z| - 3) is about standard normal where the partial correlation of i and j given Z
is 0. Noise in the moments adds its own variance to r. With a, b the residual contrasts of i and j, each divided by its
residual's standard deviation, the first-order change of r under a change N of the moments is <N, M> with
M = (ab' + ba')/2 - r/2 (aa' + bb'): regression coefficients are at an optimum, so that their change counts in second
order only. Hence n_eff = 1 / (1/n + Var<N, M> / (1 - r²)²).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privfcd import checks
from privfcd.moments import Moments, NoiseTerm

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

CAUTION = 2.0
"""A residual variance below this many standard deviations of its noise is not known: the test cannot say."""

_BLOCK = 200_000
"""Numbers of a block of small matrices that are worked on at once."""


@dataclass(frozen=True, eq=False)
class FisherZ:
    """Fisher's z on one party's, or pooled, moments.

    Parameters
    ----------
    moments : Moments
        Centred, or of data whose means are 0. Noisy ones are repaired first: eigenvalues are lifted to 0.
    centred : bool
        Whether a mean was estimated, which costs one row. Default True, the usual n - |Z| - 3.
    """

    moments: Moments
    centred: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.moments, Moments):
            raise checks.refuse("moments", type(self.moments).__name__, "Moments")
        matrix = self.moments.matrix if self.moments.exact else self.moments.repaired().matrix
        object.__setattr__(self, "_matrix", matrix)
        spreads = [None if term.carry is None else term.spread(len(matrix)) for term in self.moments.noise]
        object.__setattr__(self, "_spreads", spreads)

    @property
    def d(self) -> int:
        """The number of variables."""
        return len(self.moments.columns)

    def p_values(self, first: Indices, second: Indices, given: Indices) -> Array:
        """Return the two-sided p-value of each test; NaN where the test cannot say.

        Parameters
        ----------
        first, second : ndarray of int, shape (m,)
            Variables i and j.
        given : ndarray of int, shape (m, l)
            The conditioning sets, all of one size.
        """
        correlation, rows = self.correlations(first, second, given)
        spare = rows - given.shape[1] - (3 if self.centred else 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            statistic = np.abs(np.arctanh(np.clip(correlation, -1 + 1e-15, 1 - 1e-15))) * np.sqrt(spare)
        return np.where(spare > 0, 2 * ndtr(-statistic), np.nan)

    def correlations(self, first: Indices, second: Indices, given: Indices) -> tuple[Array, Array]:
        """Return the partial correlations and their effective numbers of rows, shape (m,) each.

        Both are NaN where a residual variance is not above its noise.
        """
        tests = np.column_stack([first, second, given]).astype(np.int64)
        size = tests.shape[1]
        step = max(1, _BLOCK // size**2)
        blocks = [self._block(tests[start : start + step]) for start in range(0, len(tests), step)]
        if not blocks:
            return np.empty(0), np.empty(0)
        return np.concatenate([block[0] for block in blocks]), np.concatenate([block[1] for block in blocks])

    def _block(self, tests: Indices) -> tuple[Array, Array]:
        matrix: Array = self._matrix  # type: ignore[attr-defined]
        inner = matrix[tests[:, :, None], tests[:, None, :]]
        contrasts, known = _contrasts(inner)
        covariance = contrasts.transpose(0, 2, 1) @ (inner @ contrasts)
        variances = np.maximum(covariance[:, [0, 1], [0, 1]], 0.0)
        known &= (variances > 1e-12 * inner[:, [0, 1], [0, 1]]).all(axis=1)
        scale = np.sqrt(np.where(variances > 0, variances, 1.0))
        correlation = np.clip(covariance[:, 0, 1] / (scale[:, 0] * scale[:, 1]), -1.0, 1.0)
        noise = np.zeros(len(tests))
        if self.moments.noise:
            unit = contrasts / scale[:, None, :]
            half = -correlation / 2
            form = np.stack(
                [np.stack([half, np.full_like(half, 0.5)], -1), np.stack([np.full_like(half, 0.5), half], -1)], -2
            )
            own = np.zeros((len(tests), 2))
            for term, spread in zip(self.moments.noise, self._spreads, strict=True):  # type: ignore[attr-defined]
                noise += _form_variances(term, spread, tests, unit, form)
                for side in (0, 1):
                    single = np.zeros((len(tests), 2, 2))
                    single[:, side, side] = 1.0
                    own[:, side] += _form_variances(term, spread, tests, unit, single)
            known &= (own * CAUTION**2 < 1).all(axis=1)
        with np.errstate(divide="ignore"):
            rows = 1 / (1 / self.moments.rows + noise / np.maximum(1 - correlation**2, 1e-12) ** 2)
        return np.where(known, correlation, np.nan), np.where(known, rows, np.nan)


def _contrasts(inner: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the residual contrasts of the first two variables given the rest, (m, size, 2), and where they exist."""
    count, size = inner.shape[:2]
    contrasts = np.zeros((count, size, 2))
    contrasts[:, 0, 0] = contrasts[:, 1, 1] = 1.0
    known = np.ones(count, dtype=np.bool_)
    if size > 2:
        scale = np.sqrt(np.maximum(np.diagonal(inner, axis1=1, axis2=2)[:, 2:], np.finfo(float).tiny))
        given = inner[:, 2:, 2:] / (scale[:, :, None] * scale[:, None, :])
        known = np.linalg.eigvalsh(given)[:, 0] > 1e-10
        given[~known] = np.eye(size - 2)
        coefficients = np.linalg.solve(given, inner[:, 2:, :2] / scale[:, :, None]) / scale[:, :, None]
        contrasts[:, 2:, :] = -coefficients
    return contrasts, known


def _form_variances(term: NoiseTerm, spread: Array | None, tests: Indices, unit: Array, form: Array) -> Array:
    """Return Var <N, W form W'> for each test, W = `unit` on the test's variables, for one term of the noise."""
    if term.isotropic:
        if spread is None:
            gram = np.einsum("mka,mkb->mab", unit, unit)
        else:
            gram = np.einsum("mka,mkl,mlb->mab", unit, spread[tests[:, :, None], tests[:, None, :]], unit)
        product = form @ gram
        return np.asarray(float(term.sd) ** 2 * np.einsum("mab,mba->m", product, product))
    whole = np.einsum("mka,mab,mlb->mkl", unit, form, unit)
    if term.carry is None:
        variances = np.asarray(term.sd)[tests[:, :, None], tests[:, None, :]] ** 2
        weight = np.full(whole.shape[1:], 2.0)
        np.fill_diagonal(weight, 1.0)
        return np.asarray((weight * variances * whole**2).sum(axis=(1, 2)))
    answer = np.empty(len(tests))
    d = len(term.carry)
    for index, (variables, small) in enumerate(zip(tests, whole, strict=True)):
        big = np.zeros((d, d))
        big[np.ix_(variables, variables)] = small
        answer[index] = term.form_variance(big)
    return answer
