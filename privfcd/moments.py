"""Second moments of a table or of a federation, exact or released, with the law of their noise; no rows.

Learners consume Moments. One private release serves any number of them: what is computed from it is post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Raw second moments X'X / n, or centred ones where `mean` was taken off first.

    Attributes
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric; with noise it need not be positive semidefinite.
    rows : int
        n, public.
    columns : tuple of str
        Names.
    noise_sd : ndarray of shape (d, d), optional
        Standard deviation of the Gaussian noise in each entry; None for exact moments. Entries above the diagonal are
        independent of each other and of the diagonal.
    mean : ndarray of shape (d,), optional
        What was taken off the rows, itself exact or released.
    """

    matrix: Array
    rows: int
    columns: tuple[str, ...]
    noise_sd: Array | None = None
    mean: Array | None = None

    def __post_init__(self) -> None:
        d = len(self.columns)
        for name, value, shape in (("matrix", self.matrix, (d, d)), ("noise_sd", self.noise_sd, (d, d))):
            if value is not None and (value.shape != shape or not np.isfinite(value).all()):
                raise InvalidParameter(f"{name} must be finite and of shape {shape}, got shape {value.shape}")
        if not np.array_equal(self.matrix, self.matrix.T):
            raise InvalidParameter("matrix must be symmetric")
        if self.noise_sd is not None and (self.noise_sd < 0).any():
            raise InvalidParameter("noise_sd must be at least 0 everywhere")
        if self.mean is not None and (self.mean.shape != (d,) or not np.isfinite(self.mean).all()):
            raise InvalidParameter(f"mean must be {d} finite numbers, got shape {self.mean.shape}")
        checks.count("rows", self.rows)

    @property
    def exact(self) -> bool:
        """Whether there is no noise."""
        return self.noise_sd is None

    def repaired(self, floor: float = 0.0) -> Moments:
        """Return the nearest moments whose eigenvalues are at least `floor`; the stated noise law stays."""
        values, vectors = np.linalg.eigh(self.matrix)
        lifted = (vectors * np.maximum(values, floor)) @ vectors.T
        return Moments((lifted + lifted.T) / 2, self.rows, self.columns, self.noise_sd, self.mean)

    def effective_rows(self) -> Array:
        """Return for each entry how many exact Gaussian rows would estimate it as well, shape (d, d).

        The sampling variance of entry (i, j) of Gaussian second moments is (s_ii s_jj + s_ij²) / n; the noise adds its
        own. Without noise this is n everywhere.
        """
        if self.noise_sd is None:
            return np.full(self.matrix.shape, float(self.rows))
        diagonal = np.maximum(np.diag(self.matrix), np.finfo(float).tiny)
        spread = np.outer(diagonal, diagonal) + self.matrix**2
        return np.asarray(spread / (spread / self.rows + self.noise_sd**2))


def pooled(parts: Sequence[Moments]) -> Moments:
    """Return the moments of all parties' rows together, weighted by their numbers of rows.

    Means must be the same or absent. Noise of different parties is independent.
    """
    if not parts:
        raise InvalidParameter("parts must hold at least one Moments, got none")
    first = parts[0]
    for part in parts[1:]:
        if part.columns != first.columns:
            raise InvalidParameter(f"columns must agree, got {part.columns} and {first.columns}")
        if not np.array_equal(_or_zero(part.mean, first), _or_zero(first.mean, first)):
            raise InvalidParameter("means must agree before moments can be pooled")
    rows = sum(part.rows for part in parts)
    shares = [part.rows / rows for part in parts]
    matrix = sum((share * part.matrix for share, part in zip(shares, parts, strict=True)), np.zeros_like(first.matrix))
    noise: Array | None = None
    if any(part.noise_sd is not None for part in parts):
        variances = [
            share**2 * part.noise_sd**2 for share, part in zip(shares, parts, strict=True) if part.noise_sd is not None
        ]
        noise = np.sqrt(sum(variances, np.zeros_like(first.matrix)))
    return Moments((matrix + matrix.T) / 2, rows, first.columns, noise, first.mean)


def _or_zero(mean: Array | None, like: Moments) -> Array:
    return np.zeros(len(like.columns)) if mean is None else mean
