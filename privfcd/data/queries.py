"""Queries: what may be asked of a table's rows, each with the sensitivity that its own clipping enforces.

A query clips the contribution of every record, never an aggregate, so that its sensitivity holds whatever the rows are.
Sums over records are divided by a public n: the number of rows, or the number that the owner declared. Sensitivities
are stated for that n, for one replaced record or one added or removed record. Sums are sums of whole numbers, exact (see
`integer_sums`): their sensitivity is that of the mathematics, at any n. The gradient, which is added up in floating point,
has an allowance for rounding (Casacuberta, Shoemate, Vadhan and Wagaman 2022 show what is lost without one).

`offset` is a public vector, such as a mean that was released before, which is taken off every row first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.amounts import PlainNumbers
from privfcd.data.integer_sums import SHARE, Grid, block_rows, on_grid, sum_of_products, sum_of_shares
from privfcd.data.pairs import blocks
from privfcd.data.products import record_products
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Exact, covariance_sensitivity

Array = NDArray[np.float64]
Norm = Literal["l1", "l2", "linf"]
Kind = Literal["numbers", "scores", "symmetric"]

_ROUNDED = 1 + 2.0**-50
"""Sensitivities are rounded up."""


class Query(Protocol):
    """A question about rows that knows how far one record can move its answer."""

    @property
    def name(self) -> str:
        """What is asked, in words."""

    @property
    def norm(self) -> Norm:
        """The norm in which the sensitivity is stated."""

    @property
    def kind(self) -> Kind:
        """What the answer is: numbers, the scores of candidates, or a symmetric matrix."""

    def check(self, d: int) -> None:
        """Raise InvalidParameter unless the query fits tables of `d` columns."""

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """Return the exact answer on `rows`, sums divided by the public `n` (their number by default)."""

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """Return how far one record can move the answer on `n` rows; inf where nothing is clipped."""


class IntegerQuery(PlainNumbers):
    """A query whose answer is a sum of whole numbers over records: exact, and answers on parts of a table add up."""

    def exact(self, rows: Array, n: int) -> Exact:
        """Return what these rows add to the answer, divided by the public `n`."""
        raise NotImplementedError

    @property
    def bounded(self) -> bool:
        """Whether records are clipped; what is not, for open tables only, is added up in doubles."""
        return True

    def unbounded(self, rows: Array, n: int) -> Array:
        """Return the answer of a query that clips nothing."""
        raise NotImplementedError

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`."""
        size = n or len(rows)
        return np.asarray(self.exact(rows, size) if self.bounded else self.unbounded(rows, size))


def answer(query: Query, rows: Array, n: int) -> Array | Exact:
    """Return what noise is added to: the exact answer of a query that has one."""
    if not isinstance(query, IntegerQuery):
        return query.evaluate(rows, n)
    return query.exact(rows, n) if query.bounded else query.unbounded(rows, n)


def summation_slack(n: int) -> float:
    """Return the factor by which rounding in a float sum of bounded terms can stretch its sensitivity.

    There may be up to 2 n terms, n being a declared number (see `PrivateTable`). Both neighbours' sums are off by at most g
    times the sum of the terms' bounds, g = (25 + log2 n) ulp where numpy sums pairwise in blocks of 128 (Higham 1993),
    against a sensitivity of one or two terms: a relative allowance of 4 n g.
    """
    return rounding_slack(n, 25 + math.log2(n))


def rounding_slack(n: int, growth: float) -> float:
    """Return the factor of `summation_slack` for up to 2 n terms, none of which passes more than `growth` additions."""
    return 1 + 4 * n * growth * sys.float_info.epsilon


@dataclass(frozen=True)
class ClippedMean(IntegerQuery):
    """The mean of each column in units of its bound, every value clipped to [-bound, bound].

    l2 sensitivity 2 sqrt(d) / n for a replaced record and sqrt(d) / n for an added or removed one.

    Parameters
    ----------
    bounds : tuple of float
        Bound on |x_j| for each column, above 0; inf for no clipping (unit 1, and an unbounded sensitivity).
    """

    bounds: tuple[float, ...]
    name: ClassVar[str] = "mean, clipped to the columns' bounds"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        _check_bounds(self.bounds, d)

    @property
    def bounded(self) -> bool:
        """See `IntegerQuery.bounded`."""
        return math.inf not in self.bounds

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (d,), in units of the bounds."""
        return _mean_share(map(self._terms, blocks(rows, False, block_rows(len(self.bounds)))), len(self.bounds), n)

    def unbounded(self, rows: Array, n: int) -> Array:
        """See `IntegerQuery.unbounded`."""
        return column_sums(self._terms(rows)) / n

    def _terms(self, rows: Array) -> Array:
        bounds = np.array(self.bounds)
        return np.asarray(np.clip(rows, -bounds, bounds) / _units(bounds))

    def decode(self, answer: Array) -> Array:
        """Return the answer in the columns' own units, within the bounds: noise may have carried it out of them."""
        bounds = np.array(self.bounds)
        return np.asarray(np.clip(answer * _units(bounds), -bounds, bounds))

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        width = 2.0 if relation is REPLACE_ONE else 1.0
        unit = math.inf if math.inf in self.bounds else width
        return unit * math.sqrt(len(self.bounds)) / n * _ROUNDED


@dataclass(frozen=True)
class ColumnSquares(IntegerQuery):
    """The mean of each squared column in units of its bound, every square cut off at the bound.

    l2 sensitivity sqrt(d) / n for a replaced, an added or a removed record, because the terms lie in [0, 1] (the
    paper's A.3.2, with the columns scaled to one noise multiplier).

    Parameters
    ----------
    bounds : tuple of float
        Bound on x_j² for each column, above 0; inf for no cut (unit 1, and an unbounded sensitivity).
    offset : tuple of float, optional
        Taken off the rows first.
    """

    bounds: tuple[float, ...]
    offset: tuple[float, ...] | None = None
    name: ClassVar[str] = "second moment of each column, cut off at its bound"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        _check_bounds(self.bounds, d)
        check_offset(self.offset, d)

    @property
    def bounded(self) -> bool:
        """See `IntegerQuery.bounded`."""
        return math.inf not in self.bounds

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (d,), in units of the bounds."""
        return _mean_share(map(self._terms, blocks(rows, False, block_rows(len(self.bounds)))), len(self.bounds), n)

    def unbounded(self, rows: Array, n: int) -> Array:
        """See `IntegerQuery.unbounded`."""
        return column_sums(self._terms(rows)) / n

    def _terms(self, rows: Array) -> Array:
        bounds = np.array(self.bounds)
        with np.errstate(over="ignore"):
            return np.asarray(np.minimum(centred(rows, self.offset) ** 2, bounds) / _units(bounds))

    def decode(self, answer: Array) -> Array:
        """Return the answer in the columns' own units."""
        return np.asarray(answer * _units(np.array(self.bounds)))

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        unit = math.inf if math.inf in self.bounds else 1.0
        return unit * math.sqrt(len(self.bounds)) / n * _ROUNDED


@dataclass(frozen=True)
class SecondMoments(IntegerQuery):
    """X'X / n with every row shortened to Euclidean norm `row_norm` where it is longer.

    Frobenius sensitivity: see `privfcd.mechanisms.covariance_sensitivity`.

    Parameters
    ----------
    row_norm : float
        Above 0; inf for no clipping (and an unbounded sensitivity).
    offset : tuple of float, optional
        Taken off the rows first.
    """

    row_norm: float
    offset: tuple[float, ...] | None = None
    name: ClassVar[str] = "second moments of rows clipped in norm"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "symmetric"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if self.row_norm != math.inf:
            checks.moderate("row_norm", self.row_norm)
        check_offset(self.offset, d)

    @property
    def bounded(self) -> bool:
        """See `IntegerQuery.bounded`."""
        return self.row_norm != math.inf

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (d, d)."""
        grid, d = Grid(self.row_norm), rows.shape[1]
        parts = blocks(rows, False, block_rows(d))
        made = (on_grid(centred(block, self.offset), grid.power, grid.most) for block in parts)
        numbers, terms = sum_of_products(made, d, grid.most)
        return Exact(numbers, grid.unit / n, terms)

    def unbounded(self, rows: Array, n: int) -> Array:
        """See `IntegerQuery.unbounded`; symmetric."""
        shifted = centred(rows, self.offset)
        moments = shifted.T @ shifted / n
        return np.asarray((moments + moments.T) / 2)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        if self.row_norm == math.inf:
            return math.inf
        return covariance_sensitivity(self.row_norm, n, relation)


@dataclass(frozen=True)
class ClippedGradient(PlainNumbers):
    """The gradient of ‖X - XB‖² / (2n) with each record's part of entry (i, j) clipped to [-clips_i, clips_i].

    Entry (i, j) is the mean over records of clip(-x_i r_j), r = x - xB; the diagonal is 0. One replaced record moves
    entry (i, j) by at most 2 clips_i / n and the whole by at most 2/n sqrt((d - 1) sum clips²) in Frobenius norm; an
    added or removed one by half of that. Clipping the mean instead would leave a sensitivity of 2 clips_i, n times as
    much.

    Parameters
    ----------
    weights : tuple of tuples of float
        B, shape (d, d).
    clips : tuple of float
        One for each row i, above 0; inf for no clipping (and an unbounded sensitivity).
    offset : tuple of float, optional
        Taken off the rows first.
    """

    weights: tuple[tuple[float, ...], ...]
    clips: tuple[float, ...]
    offset: tuple[float, ...] | None = None
    name: ClassVar[str] = "gradient of the least-squares loss, clipped by record"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        _check_bounds(self.clips, d)
        check_offset(self.offset, d)
        if np.shape(self.weights) != (d, d) or not np.isfinite(np.array(self.weights)).all():
            raise checks.refuse("weights", np.shape(self.weights), f"finite and of shape ({d}, {d})")

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; shape (d, d)."""
        shifted = centred(rows, self.offset)
        with np.errstate(over="ignore", invalid="ignore"):
            residuals = shifted - record_products(shifted, np.array(self.weights))
        columns = np.ascontiguousarray(shifted.T)
        clips = np.array(self.clips)
        sums = [gradient_sums(columns, residual, clips) for residual in residuals.T]
        gradient = np.column_stack(sums) / (n or len(rows))
        np.fill_diagonal(gradient, 0.0)
        return gradient

    def entry_sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> Array:
        """Return how far one record can move entries (i, .), shape (d,)."""
        width = 2.0 if relation is REPLACE_ONE else 1.0
        return np.asarray(width * np.array(self.clips) / n * summation_slack(n))

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        entries = self.entry_sensitivity(n, relation)
        return float(math.sqrt(len(entries) - 1) * np.linalg.norm(entries)) * (1 + 8 * sys.float_info.epsilon)


def _mean_share(parts: Iterable[Array], size: int, n: int) -> Exact:
    numbers, terms = sum_of_shares(parts, size)
    return Exact(numbers, SHARE / n, terms)


def column_sums(rows: Array) -> Array:
    """Return the sum of each column, added up pairwise."""
    return np.asarray(np.ascontiguousarray(rows.T).sum(axis=1))


def gradient_sums(columns: Array, residual: Array, clips: Array) -> Array:
    """Return the sum over records of clip(-x_i r, ±clips_i) for all i, from contiguous columns of shape (d, n)."""
    limits = clips[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        terms = np.clip(columns * -residual, -limits, limits)
        sums = np.asarray(terms.sum(axis=1))
    if np.isfinite(sums).all():
        return sums
    return np.asarray(np.nan_to_num(terms, nan=0.0).sum(axis=1))  # 0 * inf of an absurd record counts as 0


def centred(rows: Array, offset: tuple[float, ...] | None) -> Array:
    """Return `rows` without `offset`."""
    return rows if offset is None else rows - np.array(offset)


def shortened(rows: Array, row_norm: float) -> Array:
    """Return `rows` with those that are longer than `row_norm` scaled down to it.

    Works on rows of any finite size: lengths are taken after dividing by the largest entry, and a length is rounded up.
    """
    largest = np.abs(rows).max(axis=1, keepdims=True)
    safe = np.where(largest > 0, largest, 1.0)
    directions = rows / safe
    lengths = np.linalg.norm(directions, axis=1, keepdims=True) * (1 + 1e-12)
    with np.errstate(over="ignore"):
        too_long = lengths * safe > row_norm
    return np.where(too_long, directions * (row_norm / np.where(lengths > 0, lengths, 1.0)), rows)


def check_offset(offset: tuple[float, ...] | None, d: int) -> None:
    """Raise InvalidParameter unless `offset` is None or `d` numbers that any record can be shifted by."""
    if offset is not None and (len(offset) != d or not (np.abs(offset) <= 1e50).all()):
        raise checks.refuse("offset", offset, f"{d} numbers of at most 1e50")


def _check_bounds(bounds: tuple[float, ...], d: int) -> None:
    if len(bounds) != d:
        raise InvalidParameter(f"bounds must have one number for each of the {d} columns, got {len(bounds)}")
    for bound in bounds:
        if bound != math.inf:
            checks.moderate("bound", bound)


def _units(bounds: Array) -> Array:
    return np.where(np.isinf(bounds), 1.0, bounds)
