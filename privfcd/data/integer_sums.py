"""Sums over records of whole numbers: exact in any order, block, layout, number of threads, or on any machine.

**Records on a grid.** A record's vector f is clipped to norm c and rounded to a public grid g = 2^-k. What is summed is
w = f / g, a vector of whole numbers with |w|² <= (c/g)², which is checked in whole numbers: `on_grid` rounds to the nearest
point; what is too long is shortened and rounded, or cut off towards 0; what would still be too long counts as 0. No argument
about floating-point numbers is needed for the bound: it is what the check leaves.

k follows from c alone: c / g is in (0.7, 1.4] 2^20, so that the products of 4,096 records and more add up to less than 2^53.
An entry of a record moves by at most c / 1.4 million, to either side but for those of clipped records, which get smaller by
up to twice that.

**Sums.** A product of matrices of whole numbers is exact in double precision while no sum of absolute values of its terms
passes 2^53: every partial sum, in whatever order, is a whole number below 2^53, fused multiply-adds or not. For entry (i, j)
of the sum of ww' these terms are at most |w|² <= (c/g)² each (by Cauchy and Schwarz). So blocks are multiplied in doubles,
at the speed of the linear algebra library, and added up as int64, or as Python's integers once these could be too small.
Sensitivity: of the sum of ww' in units of g² it is that of vectors of norm c/g, sqrt(2) (c/g)² for a replaced record and
(c/g)² for one that is added or removed; noise is added to the whole numbers (see `mechanisms.exact`). Nothing is rounded
that depends on more than one record, so there is nothing to allow for, at any n.

**Rows times a public matrix.** What a record adds must be a function of this record alone, to the last bit. A matrix
library rounds a product differently at other places of a block, and then one record's neighbours would move by a g. So the
product is exact too. `PublicMatrix` puts A on a public grid; a record is put on one of its own: rounded to 24 bits below the
power of two above its largest entry (after columns are scaled by powers of two so that all rows of A are of one size). Both
are whole numbers, of at most 24 bits and 29 - ceil(log2 d): a sum of d of their products stays within 2^53, and is exact.
Everything else is done number by number, where IEEE 754 leaves no choice. What is released is the law of the rows times the
rounded A, `PublicMatrix.matrix`, which is public: who divides by A has to divide by that. Rounding it again changes nothing.

Rows may be any finite numbers. Records whose largest entry is below 2^-990 after scaling count as rows of zeros, or nearly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms.exact import added

Array = NDArray[np.float64]

_DIGITS = 53
"""Whole numbers of this many bits are doubles."""

MOST = 2**41
"""No product of two entries of a record on its grid is larger."""

SHARE = 2.0**-30
"""Grid for numbers in [-1, 1]."""

_RECORD_BITS = 24
_TINY, _FAR, _LEAST = 2.0**-500, 400, -990
_SHORTER = 1 - 1e-12
_CACHED = 2**17
"""Numbers of a block of records, so that it stays in the processor's cache."""


@dataclass(frozen=True)
class Grid:
    """The grid for vectors of a public norm.

    Parameters
    ----------
    norm : float
        c, in [1e-50, 1e50].
    """

    norm: float

    @cached_property
    def power(self) -> int:
        """k: the grid's spacing is 2^-k."""
        mantissa, exponent = math.frexp(self.norm)
        return (21 if mantissa <= 0.7 else 20) - exponent

    @cached_property
    def most(self) -> int:
        """The largest squared length of a vector of whole numbers."""
        return self.squares(Fraction(self.norm) ** 2)

    def squares(self, square: Fraction) -> int:
        """Return the largest whole number that is at most `square` in units of the grid's square."""
        return math.floor(square * Fraction(4) ** self.power)

    @property
    def unit(self) -> float:
        """g²: what 1 in a sum of products stands for."""
        return math.ldexp(1.0, -2 * self.power)


def block_rows(d: int) -> int:
    """Return how many records of `d` numbers are worked on at once; any number gives the same sums."""
    return min(2**12, max(64, _CACHED // d))


def on_grid(vectors: Array, power: int | NDArray[np.int64], most: int) -> Array:
    """Return vectors times 2^power as whole numbers of squared length at most `most`, each a function of it alone.

    Parameters
    ----------
    vectors : ndarray of shape (m, d)
        Finite.
    power : int or ndarray of int, shape (m, 1)
        One for all, or each vector's own.
    most : int
        At most `MOST`.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        whole = vectors * np.ldexp(1.0, power)
        np.rint(whole, out=whole)
        # squares of whole numbers: exact below 2^53, and above `most` otherwise; what is not finite is too long
        long = ~(np.einsum("ij,ij->i", whole, whole) <= most)
    if long.any():
        whole[long] = of_length(vectors[long], most)
    return whole


def of_length(vectors: Array, most: int) -> Array:
    """Return vectors in their directions, as whole numbers of squared length `most` or just below; zeros stay zeros."""
    columns = np.ascontiguousarray(vectors.T)
    largest = np.abs(columns).max(axis=0)
    columns = np.ldexp(columns, -np.frexp(largest)[1])
    squares = np.zeros(columns.shape[1])
    for column in columns:  # in their order: a sum in floating point, and so that of this record alone
        squares += column * column
    factors = math.sqrt(most) * _SHORTER / np.sqrt(np.where(squares > 0, squares, 1.0))
    columns *= factors
    whole = np.ascontiguousarray(np.rint(columns).T)
    long = np.einsum("ij,ij->i", whole, whole) > most
    whole[long] = np.trunc(columns[:, long]).T
    whole[~(np.einsum("ij,ij->i", whole, whole) <= most)] = 0.0  # none is: for certain, whatever was computed above
    return whole


def sum_of_products(blocks: Iterable[Array], size: int, most: int) -> tuple[NDArray[Any], int]:
    """Return the sum of ww' over all vectors, shape (size, size), and their number.

    Parameters
    ----------
    blocks : iterable of ndarray, shape (m, size)
        Whole numbers of squared length at most `most` in each row; m `most` at most 2^53.
    size, most : int
    """
    total: NDArray[Any] = np.zeros((size, size), np.int64)
    terms = waiting = 0
    part = np.zeros((size, size), np.int64)
    for block in blocks:
        if (waiting + len(block)) * most > 2**62:
            total, part, waiting = added(total.astype(object), part), np.zeros_like(part), 0
        part += (block.T @ block).astype(np.int64)
        waiting += len(block)
        terms += len(block)
    return added(total, part), terms


def column_powers(bounds: Array) -> NDArray[np.int64]:
    """Return k for the grid 2^-k of each column of `in_box`."""
    return np.array([Grid(float(bound)).power for bound in bounds], dtype=np.int64)


def in_box(vectors: Array, bounds: Array) -> Array:
    """Return vectors clipped to ±`bounds`, every column as whole numbers on a grid of its own, see `column_powers`.

    Parameters
    ----------
    vectors : ndarray of shape (m, d)
        Finite.
    bounds : ndarray of shape (d,)
        In [1e-50, 1e50]. Columns are at most 1.4 2^20 then, so that products of two are at most `MOST`.
    """
    powers = column_powers(bounds)
    limits = np.floor(np.ldexp(bounds, powers))
    with np.errstate(over="ignore"):
        return np.asarray(np.clip(np.rint(vectors * np.ldexp(1.0, powers)), -limits, limits))


def sum_of_shares(blocks: Iterable[Array], size: int) -> tuple[NDArray[Any], int]:
    """Return the sums of numbers in [-1, 1], in units of `SHARE`, and how many vectors they are sums of.

    Parameters
    ----------
    blocks : iterable of ndarray, shape (m, size)
        At most 2^23 rows each.
    size : int
    """
    total: NDArray[Any] = np.zeros(size, np.int64)
    terms = 0
    for block in blocks:
        total = added(total, np.rint(block / SHARE).sum(axis=0).astype(np.int64))
        terms += len(block)
    return total, terms


class PublicMatrix:
    """A public matrix on a grid, by which records are multiplied exactly.

    Parameters
    ----------
    linear : ndarray of shape (d, k)
        Entries of at most 1e50; those below 2^-500 are taken as 0.
    """

    def __init__(self, linear: Array) -> None:
        linear = np.asarray(linear, dtype=np.float64)
        linear = np.where(np.abs(linear) < _TINY, 0.0, linear)
        bits = _DIGITS - _RECORD_BITS - (len(linear) - 1).bit_length()
        columns = np.frexp(np.abs(linear).max(axis=0))[1]
        rows = np.frexp(np.abs(np.ldexp(linear, -columns)).max(axis=1))[1]
        # cut off towards 0, so that no largest entry reaches the next power of two: a second rounding changes nothing
        self._whole = np.trunc(np.ldexp(linear, bits - columns - rows[:, None]))
        self.matrix: Array = np.ldexp(self._whole, columns + rows[:, None] - bits)
        self._rows = np.ldexp(1.0, rows - rows.max())
        self._columns = np.ldexp(1.0, columns - columns.max())
        self._power = int(rows.max()) + int(columns.max()) - bits - _RECORD_BITS

    def times(self, rows: Array) -> tuple[Array, NDArray[np.int64]]:
        """Return the product of the rounded rows and matrix: vectors, shape (m, k), and powers of two, shape (m, 1).

        Parameters
        ----------
        rows : ndarray of shape (m, d)
            Finite; not changed.
        """
        first = _exponents(rows)
        far = np.abs(first) > _FAR
        first = np.where(far, first, 0)
        if far.any():  # so that no number leaves the doubles on the way
            rows = np.ldexp(rows, -first)
        scaled = rows * self._rows
        second = np.maximum(_exponents(scaled), _LEAST)
        scaled *= np.ldexp(1.0, _RECORD_BITS - second)
        np.rint(scaled, out=scaled)
        vectors = scaled @ self._whole
        vectors *= self._columns
        return vectors, first + second + self._power


def _exponents(rows: Array) -> NDArray[np.int64]:
    """Return for each row the exponent of the power of two above its largest entry, shape (m, 1); 0 for zeros."""
    largest = np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True))
    return np.frexp(largest)[1].astype(np.int64)
