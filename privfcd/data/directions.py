"""Second moments of rows that were multiplied by a public matrix: by their directions, or clipped in norm.

A direction has length 1 whatever the row is, so that the mean of u u' has a sensitivity that needs no clipping radius: for
one replaced record ‖uu' - vv'‖² = 2 - 2 (u·v)² <= 2, attained at orthogonal u, v; for one added or removed, ‖uu'‖ = 1.
What is lost is the rows' scale, which a histogram or a declaration has to supply. Rows may be differences of records, see
`pairs`. Sums are exact (see `integer_sums`), of rows times a rounded matrix, `linear_on_grid`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.data.integer_sums import Grid, PublicMatrix, block_rows, of_length, on_grid, sum_of_products
from privfcd.data.pairs import blocks, check_differences, moved_by, share
from privfcd.data.queries import Array, IntegerQuery, Kind, Norm, centred, check_offset
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Exact, covariance_sensitivity

_UNIT = Grid(1.0)


@dataclass(frozen=True, eq=False)
class DirectionMoments(IntegerQuery):
    """The mean of u u', where u = y / |y|, y = (x - offset) A; a row of zeros counts as u = 0.

    Frobenius sensitivity sqrt(2) / n for a replaced record, 1 / n for an added or removed one.

    Parameters
    ----------
    linear : ndarray of shape (d, d)
        A, public: declared, or computed from what was released before. Rows are multiplied by `linear_on_grid` of it.
    offset : tuple of float, optional
        Public vector that is taken off every row first.
    differences : bool
        Whether rows are differences of records instead, see `pairs`; twice the sensitivity. Tables ask such queries of their
        rows in a secret order.
    """

    linear: Array
    offset: tuple[float, ...] | None = None
    differences: bool = False
    name: ClassVar[str] = "second moments of the rows' directions"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "symmetric"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        check_linear(self.linear, d)
        check_offset(self.offset, d)
        check_differences(self.differences, self.offset)

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (d, d)."""
        matrix = PublicMatrix(self.linear)

        def directions(block: Array) -> Array:
            return of_length(matrix.times(centred(block, self.offset))[0], _UNIT.most)

        return _moments(self, directions, rows, n, _UNIT, len(self.linear))

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        return covariance_sensitivity(1.0, n, relation) * moved_by(self.differences, relation)


@dataclass(frozen=True, eq=False)
class LinearMoments(IntegerQuery):
    """The mean of f f', where f is y = (x - offset) A, shortened to norm `row_norm` where it is longer.

    Frobenius sensitivity: see `privfcd.mechanisms.covariance_sensitivity`.

    With `constant`, f is (y, 1) and has the norm `row_norm` c at most, for which y is shortened to norm² c² - 1: means come
    with the second moments. The entry of the constant with itself is 1 and carries no noise; by n, which is declared, so
    that it says nothing of the true number. The sensitivity is the same, and attained where c² >= 2, by y and z with
    y·z = -1.

    Parameters
    ----------
    linear : ndarray of shape (d, d)
        A, public. Rows are multiplied by `linear_on_grid` of it.
    row_norm : float
        Above 0; with `constant` above 1 and at most 2^20.
    offset : tuple of float, optional
        Public vector that is taken off every row first.
    differences : bool
        Whether rows are differences of records instead, see `pairs`; twice the sensitivity. Tables ask such queries of their
        rows in a secret order.
    constant : bool
        Whether 1 is joined to every record; not for differences. The answer has shape (d + 1, d + 1) then.
    """

    linear: Array
    row_norm: float
    offset: tuple[float, ...] | None = None
    differences: bool = False
    constant: bool = False
    name: ClassVar[str] = "second moments of rows times a matrix, clipped in norm"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "symmetric"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        check_linear(self.linear, d)
        checks.moderate("row_norm", self.row_norm)
        check_offset(self.offset, d)
        check_differences(self.differences, self.offset)
        if not isinstance(self.constant, bool):
            raise checks.refuse("constant", self.constant, "True or False")
        if self.constant and self.differences:
            raise InvalidParameter("constant must be False for differences of records, whose means are 0")
        if self.constant and not 1 < self.row_norm <= 2**20:
            raise checks.refuse("row_norm", self.row_norm, "above 1 and at most 2**20 where a constant is joined")

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (d, d), or (d + 1, d + 1) with the constant last."""
        matrix, grid, d = PublicMatrix(self.linear), Grid(self.row_norm), len(self.linear)
        most = grid.squares(Fraction(self.row_norm) ** 2 - 1) if self.constant else grid.most

        def clipped(block: Array) -> Array:
            vectors, powers = matrix.times(centred(block, self.offset))
            whole = on_grid(vectors, powers + grid.power, most)
            one = np.full((len(whole), int(self.constant)), 2.0**grid.power)
            return np.hstack([whole, one]) if self.constant else whole

        known = None
        if self.constant:
            known = np.full((d + 1, d + 1), np.nan)
            known[d, d] = 1.0
        return _moments(self, clipped, rows, n, grid, d + self.constant, known)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        return covariance_sensitivity(self.row_norm, n, relation) * moved_by(self.differences, relation)


def linear_on_grid(linear: Array) -> Array:
    """Return the matrix that rows are multiplied by where `linear` is asked for: its entries rounded to a public grid.

    What is released is the law of the rows times this one. About 21 binary digits are kept at d = 200, 25 at d = 10, below
    the power of two above the largest entry of the row and column. Rounding it again changes nothing.

    Parameters
    ----------
    linear : ndarray of shape (d, d)
        Entries of at most 1e50.

    Returns
    -------
    ndarray of shape (d, d)
    """
    return PublicMatrix(linear).matrix


def check_linear(linear: Array, d: int) -> None:
    """Raise InvalidParameter unless `linear` is a (d, d) matrix of numbers that can be computed with."""
    if np.shape(linear) != (d, d) or not (np.abs(linear) <= 1e50).all():
        raise InvalidParameter(f"linear must have shape ({d}, {d}) and entries of at most 1e50, got {np.shape(linear)}")


def _moments(
    query: DirectionMoments | LinearMoments,
    whole: Callable[[Array], Array],
    rows: Array,
    n: int,
    grid: Grid,
    size: int,
    known: Array | None = None,
) -> Exact:
    """Return the mean of ff' over records or differences, where `whole` gives f in units of the grid."""
    made = (whole(block) for block in blocks(rows, query.differences, block_rows(size)))
    numbers, terms = sum_of_products(made, size, grid.most)
    return Exact(numbers, grid.unit / n * share(query.differences), terms, known)
