"""Second moments of rows that were multiplied by a public matrix: by their directions, or clipped in norm.

A direction has length 1 whatever the row is, so that the mean of u u' has a sensitivity that needs no clipping radius: for
one replaced record ‖uu' - vv'‖² = 2 - 2 (u·v)² <= 2, attained at orthogonal u, v; for one added or removed, ‖uu'‖ = 1.
What is lost is the rows' scale, which a histogram or a declaration has to supply. Rows may be differences of records, see
`pairs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.amounts import PlainNumbers
from privfcd.data.pairs import check_differences, moved_by, over_pairs
from privfcd.data.products import record_products
from privfcd.data.queries import Array, Kind, Norm, centred, check_centre, summation_slack
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import covariance_sensitivity

_ROUNDED = 1 + 1e-12
"""Lengths are rounded up by this much, so that no clipped row is longer than 1 or the norm."""


@dataclass(frozen=True, eq=False)
class DirectionMoments(PlainNumbers):
    """The mean of u u', where u = y / |y|, y = (x - centre) A; a row of zeros counts as u = 0.

    Frobenius sensitivity sqrt(2) / n for a replaced record, 1 / n for an added or removed one.

    Parameters
    ----------
    linear : ndarray of shape (d, d)
        A, public: declared, or computed from what was released before.
    centre : tuple of float, optional
        Public vector that is taken off every row first.
    differences : bool
        Whether rows are differences of records instead, see `pairs`; twice the sensitivity. Tables ask such queries of their
        rows in a secret order.
    """

    linear: Array
    centre: tuple[float, ...] | None = None
    differences: bool = False
    name: ClassVar[str] = "second moments of the rows' directions"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "symmetric"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        check_linear(self.linear, d)
        check_centre(self.centre, d)
        check_differences(self.differences, self.centre)

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; symmetric, shape (d, d)."""
        return over_pairs(rows, self.differences, lambda chosen: self._of(chosen, n or len(rows)))

    def _of(self, rows: Array, n: int) -> Array:
        _, vectors, lengths = _multiplied(rows, self.linear, self.centre)
        return _mean_of_squares(vectors / np.where(lengths > 0, lengths, 1.0), n)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        return covariance_sensitivity(1.0, n, relation) * _stretched(self.differences, n, relation)


@dataclass(frozen=True, eq=False)
class LinearMoments(PlainNumbers):
    """The mean of y y', where y = (x - centre) A is shortened to norm `row_norm` where it is longer.

    Frobenius sensitivity: see `privfcd.mechanisms.covariance_sensitivity`.

    Parameters
    ----------
    linear : ndarray of shape (d, d)
        A, public.
    row_norm : float
        Above 0.
    centre : tuple of float, optional
        Public vector that is taken off every row first.
    differences : bool
        Whether rows are differences of records instead, see `pairs`; twice the sensitivity. Tables ask such queries of their
        rows in a secret order.
    """

    linear: Array
    row_norm: float
    centre: tuple[float, ...] | None = None
    differences: bool = False
    name: ClassVar[str] = "second moments of rows times a matrix, clipped in norm"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "symmetric"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        check_linear(self.linear, d)
        checks.moderate("row_norm", self.row_norm)
        check_centre(self.centre, d)
        check_differences(self.differences, self.centre)

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; symmetric, shape (d, d)."""
        return over_pairs(rows, self.differences, lambda chosen: self._of(chosen, n or len(rows)))

    def _of(self, rows: Array, n: int) -> Array:
        units, vectors, lengths = _multiplied(rows, self.linear, self.centre)
        with np.errstate(over="ignore"):
            too_long = lengths * units > self.row_norm
        factors = np.where(too_long, self.row_norm / np.where(lengths > 0, lengths, 1.0), units)
        return _mean_of_squares(vectors * factors, n)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        return covariance_sensitivity(self.row_norm, n, relation) * _stretched(self.differences, n, relation)


def _stretched(differences: bool, n: int, relation: NeighboringRelation) -> float:
    """Return what pairs and rounding stretch a sensitivity by; each shift is a sum of its own over n terms."""
    return moved_by(differences, relation) * summation_slack(n, pairwise=False)


def check_linear(linear: Array, d: int) -> None:
    """Raise InvalidParameter unless `linear` is a (d, d) matrix of numbers that can be computed with."""
    if np.shape(linear) != (d, d) or not (np.abs(linear) <= 1e50).all():
        raise InvalidParameter(f"linear must have shape ({d}, {d}) and entries of at most 1e50, got {np.shape(linear)}")


def _multiplied(rows: Array, linear: Array, centre: tuple[float, ...] | None) -> tuple[Array, Array, Array]:
    """Return a unit for each row, (row / unit) A, and its length rounded up; rows of any finite size.

    The vectors' largest entries are 1, so that neither they nor their lengths are rounded among denormal numbers.
    """
    shifted = centred(rows, centre)
    largest = np.abs(shifted).max(axis=1, keepdims=True)
    units = np.where(largest > 0, largest, 1.0)
    vectors = record_products(shifted / units, np.asarray(linear))
    top = np.abs(vectors).max(axis=1, keepdims=True)
    safe = np.where(top > 0, top, 1.0)
    vectors = vectors / safe
    with np.errstate(over="ignore"):
        units = units * safe
    return units, vectors, np.linalg.norm(vectors, axis=1, keepdims=True) * _ROUNDED


def _mean_of_squares(vectors: Array, n: int) -> Array:
    moments = vectors.T @ vectors / n
    return np.asarray((moments + moments.T) / 2)
