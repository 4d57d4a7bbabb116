"""The analytic Gaussian mechanism for covariances and other symmetric matrices.

Theorem. Let a symmetric matrix have Frobenius sensitivity D, and add a symmetric noise matrix whose entries on the
diagonal are N(0, s²) and above it N(0, s²/2), copied below. This is mu-Gaussian-DP with mu = D / s.

Proof. The map that takes a symmetric matrix to its diagonal and sqrt(2) times its upper triangle is an isometry from
the Frobenius norm to the Euclidean one. In these coordinates the noise is N(0, s²) on each, so the Gaussian mechanism's
theorem applies; mapping back is post-processing.

Theorem. For rows of Euclidean norm at most c, one replaced record moves X'X / n by at most sqrt(2) c²/n in Frobenius
norm, and one added or removed record (n public and fixed) by at most c²/n.

Proof. |xx' - yy'|² = |x|⁴ + |y|⁴ - 2 (x·y)² <= 2 c⁴, with equality at orthogonal x, y of norm c; and |xx'| = |x|².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.accounting import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    NeighboringRelation,
    epsilon_of,
    gaussian_event,
    gaussian_sigma,
)
from privfcd.errors import InvalidParameter
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.noise import Array, NoiseStream, finite

_ROUNDED = 1 + 2.0**-50
"""Sensitivities are rounded up."""


def covariance_sensitivity(row_norm: float, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
    """Return the Frobenius sensitivity of X'X / n for rows of norm at most `row_norm`; n is public.

    Parameters
    ----------
    row_norm : float
        Above 0, at most 1e150.
    n : int
        At least 1.
    relation : dp_accounting.NeighboringRelation
        One record replaced, or one added or removed with n kept.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted.
    """
    row_norm = checks.non_negative("row_norm", row_norm, "up")
    if row_norm > 1e150:
        raise checks.refuse("row_norm", row_norm, "at most 1e150")
    if relation not in (REPLACE_ONE, ADD_OR_REMOVE_ONE):
        raise checks.refuse("relation", relation, "REPLACE_ONE or ADD_OR_REMOVE_ONE")
    n = checks.count("n", n)
    return (math.sqrt(2) if relation is REPLACE_ONE else 1.0) * row_norm**2 / n * _ROUNDED


@dataclass(frozen=True)
class NoisyCovariance:
    """A symmetric matrix that was released with symmetric Gaussian noise.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric; with noise it need not be positive semidefinite.
    scale : float
        Standard deviation of the noise on the diagonal; off it the standard deviation is scale / sqrt(2).
    known : ndarray of bool, optional
        Entries that carry no noise, because no record moves them.
    """

    matrix: Array
    scale: float
    known: NDArray[np.bool_] | None = None

    @property
    def noise_sd(self) -> Array:
        """Standard deviation of the noise in each entry, shape (d, d)."""
        sd = np.full(self.matrix.shape, self.scale / math.sqrt(2))
        np.fill_diagonal(sd, self.scale)
        return sd if self.known is None else np.where(self.known, 0.0, sd)

    def positive_semidefinite(self, floor: float = 0.0) -> NoisyCovariance:
        """Return the nearest matrix whose eigenvalues are at least `floor`: post-processing, free of budget."""
        values, vectors = np.linalg.eigh(self.matrix)
        lifted = (vectors * np.maximum(values, floor)) @ vectors.T
        return NoisyCovariance((lifted + lifted.T) / 2, self.scale)


@dataclass(frozen=True)
class AnalyticGaussian:
    """Symmetric Gaussian noise on a symmetric matrix, at a scale found by the analytic calibration.

    Parameters
    ----------
    scale : float
        Standard deviation on the diagonal; off it the noise has scale / sqrt(2). 0 adds nothing and is charged as
        non-private.
    """

    scale: float
    norm: ClassVar[str] = "l2"
    kind: ClassVar[str] = "symmetric"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.scale("scale", self.scale))

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: float) -> AnalyticGaussian:
        """Return the mechanism with the least noise that is (epsilon, delta)-DP at this Frobenius `sensitivity`."""
        mechanism = cls(gaussian_sigma(epsilon, delta, sensitivity))
        while sensitivity and epsilon_of(mechanism.event(sensitivity), delta) > epsilon:
            mechanism = cls(mechanism.scale * (1 + 1e-15))  # the event's multiplier is rounded down
        return mechanism

    def event(self, sensitivity: float) -> DpEvent:
        """Return the cost of one release of a matrix of this Frobenius `sensitivity`."""
        return gaussian_event(sensitivity, self.scale)

    def release(self, value: ArrayLike | Exact, stream: NoiseStream) -> NoisyCovariance:
        """Return the symmetric matrix `value` with noise."""
        matrix = value.numbers if isinstance(value, Exact) else finite("value", value)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.array_equal(matrix, matrix.T):
            raise InvalidParameter(f"value must be a symmetric matrix, got shape {matrix.shape}")
        known = None if not isinstance(value, Exact) or value.known is None else ~np.isnan(value.known)
        upper = np.triu_indices(len(matrix))
        off_diagonal = math.nextafter(self.scale / math.sqrt(2), math.inf) if self.scale else 0.0
        scales = np.where(upper[0] == upper[1], self.scale, off_diagonal)
        if known is not None:
            scales[known[upper]] = 0.0
        noisy = np.empty(matrix.shape)
        noisy[upper] = noisy.T[upper] = stream.gaussian(
            value[upper] if isinstance(value, Exact) else matrix[upper], scales
        )
        return NoisyCovariance(noisy, self.scale, known)
