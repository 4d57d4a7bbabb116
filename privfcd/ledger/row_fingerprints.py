"""Recognise the same rows under another name, without keeping them.

A ledger's file knows the tables that were charged to it by one keyed hash each (`rows_fingerprint`). Within a process
every table with a budget has a `RowsMark`: hashes that depend neither on the order of rows nor on that of columns, under a
key that is drawn when the process starts. A mark is a function of rows. It warns the owner who makes the tables, or ends
this owner's run before a charge; it enters no report, no ledger, no file and no message.

What is recognised: the same rows in any order of rows and columns, in double or single precision, as a view or a copy, under
other names of columns; and a subset of their columns, where one of these tells tables apart by itself. What is not: rows
that are a part of another table's, rows with one value changed, and columns in other units.

Two different tables must not be taken for one. Constant columns say nothing and are left out. For the others there is a
bound: two tables of n rows that are drawn independently from any law whatever have the same multiset of rows, with counts
c_1, c_2, ..., with chance at most

    n! / (c_1! c_2! ...) * (c_1/n)^c_1 (c_2/n)^c_2 ...,

the largest that this multinomial probability can be; and the same rows in the same order with chance at most the product
of the powers alone. Tables count as the same only where such a bound is at most 10^-6: 17 different rows, or 8 in the same
order, are enough; a single 0/1 column is not, but for 20 rows or more in the same order.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
import threading
import warnings
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from privfcd import checks
from privfcd.ledger.journal_errors import SameRows

CHANCE = math.log(1e-6)
"""Log of the largest chance with which two different tables may be taken for one."""

_REMEMBERED = 4096
"""Of how many tables, the last ones, marks are kept after the tables themselves are gone."""

_KEY = np.uint64(int.from_bytes(os.urandom(8), "little"))


def rows_fingerprint(key: bytes, rows: NDArray[np.float64]) -> str:
    """Return a keyed hash of the rows that does not depend on their order.

    The key keeps it from telling anything to who sees fingerprints only. Who has the key as well can test guesses of
    the whole table.
    """
    table = np.ascontiguousarray(rows, dtype="<f8") + 0.0  # -0.0 becomes 0.0
    if table.ndim != 2:
        raise checks.refuse("rows", table.shape, "of shape (n, d)")
    lines = np.sort(table.view(f"V{8 * table.shape[1]}").ravel()) if table.size else table
    return hmac.new(key, repr(table.shape).encode() + lines.tobytes(), hashlib.sha256).hexdigest()


def warn_of_same_rows(scope: str, others: Sequence[str]) -> None:
    """Warn the owner that the rows of `scope` are known under other names."""
    if others:
        names = ", ".join(("another " if other == scope else "") + repr(other) for other in others)
        warnings.warn(
            f"the rows of {scope!r} are also those of {names}: each name has a budget of its own, and what is learnt "
            "under all of them adds up",
            SameRows,
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class RowsMark:
    """What a process remembers of one table's rows.

    Attributes
    ----------
    name : str
        The data set's.
    account : tuple
        Where its budget is: tables of one account share one budget, and are no fault.
    n : int
        How many rows there are.
    columns : Counter of int
        A hash of each column that is not constant: of its values, in any order.
    rows, in_order : int
        Hashes of the rows, in any order, and in theirs.
    chance, chance_in_order : float
        Logs of the bounds on the chance that another table has the same.
    """

    name: str
    account: tuple[object, str]
    n: int
    columns: Counter[int]
    rows: int
    in_order: int
    chance: float
    chance_in_order: float

    def same_rows(self, other: RowsMark) -> bool:
        """Return whether the two tables have the same columns and rows, in whatever order, beyond chance."""
        if (self.n, self.rows, self.columns) != (other.n, other.rows, other.columns):
            return False
        return self.chance <= CHANCE or (self.in_order == other.in_order and self.chance_in_order <= CHANCE)


def mark_rows(name: str, account: tuple[object, str], rows: NDArray[np.float64]) -> RowsMark:
    """Return the mark of a table's rows, shape (n, d), for the owner's process only."""
    each = np.zeros(len(rows), dtype=np.uint64)
    columns: Counter[int] = Counter()
    for column in rows.T:
        bits = _single(column)
        if len(bits) and (bits != bits[0]).any():
            hashed = _mixed(bits ^ _KEY)
            columns[int(hashed.sum(dtype=np.uint64))] += 1
            each += _mixed(hashed)
    chance, in_order = _log_chances(each)
    places = _mixed(np.arange(len(rows), dtype=np.uint64) ^ _KEY)
    whole, ordered = int(_mixed(each).sum(dtype=np.uint64)), int(_mixed(each ^ places).sum(dtype=np.uint64))
    return RowsMark(name, account, len(rows), columns, whole, ordered, chance, in_order)


def known_before(mark: RowsMark, rows: NDArray[np.float64]) -> list[str]:
    """Remember a table with a budget, and return the names under which its rows, or some columns, have another budget."""
    with _LOCK:
        before = [other for other in _MARKS if other.n == mark.n and other.account != mark.account]
        _MARKS.append(mark)
    return sorted({other.name for other in before if mark.same_rows(other) or _shares_columns(mark, other, rows)})


def _shares_columns(mark: RowsMark, other: RowsMark, rows: NDArray[np.float64]) -> bool:
    """Return whether all columns of one table are among those of the other, and one of them alone is beyond chance."""
    shared = mark.columns & other.columns
    if not shared or shared not in (mark.columns, other.columns) or mark.columns == other.columns:
        return False
    hashes = [_mixed(_single(column) ^ _KEY) for column in rows.T]
    return any(int(each.sum(dtype=np.uint64)) in shared and _log_chances(each)[0] <= CHANCE for each in hashes)


def _single(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return the bits of doubles rounded, half to even, to single precision; -0.0 as 0.0."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)
    dropped = np.uint64(29)
    return (bits + np.uint64(0xFFFFFFF) + (bits >> dropped & np.uint64(1))) >> dropped


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of SplitMix64 (Steele, Lea and Flood 2014), a bijection that spreads every bit."""
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(values ^ values >> np.uint64(31))


def _log_chances(values: NDArray[np.uint64]) -> tuple[float, float]:
    """Return the logs of the module's two bounds for the counts of equal values."""
    counts = np.unique(values, return_counts=True)[1].astype(np.float64)
    in_order = float(xlogy(counts, counts / max(len(values), 1)).sum())
    return in_order + float(gammaln(len(values) + 1) - gammaln(counts + 1).sum()), in_order


_MARKS: deque[RowsMark] = deque(maxlen=_REMEMBERED)
_LOCK = threading.Lock()
