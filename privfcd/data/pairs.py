"""Differences of records, in which their means do not appear, whatever they are.

**Why.** Directions of rows estimate a scatter matrix (Tyler's), not the covariance. Of independent columns that are not
symmetric about their means it is not diagonal: dependence would be seen that is not there (Nordhausen and Tyler 2015). The
difference of two records of independent columns has independent, symmetric columns, and then every affine equivariant
scatter matrix is diagonal (Dümbgen 1998; Oja, Sirkiä and Eriksson 2006). By equivariance it is A D A' with a diagonal D for
rows A s with independent s: a linear model with independent errors of any law keeps its graph.

**Which pairs.** The rows stand in a circle, and every record is paired with the one s places on, s = 1, ..., `SHIFTS`: n
pairs for each shift, of which a record is in at most two. So a record that is replaced where it stands moves at most
2 `SHIFTS` of the `SHIFTS` n pairs, and a mean over pairs moves at most twice as far as one over n single records. That
does not depend on `SHIFTS`, which only lessens the sampling error: Gaussian second moments have 1 + 1 / (2 `SHIFTS`) times
the variance of moments about a known mean.

**In which order.** A table may be sorted by what is in the records, and then a replaced record changes where others stand.
So a table asks such a query of its rows in a secret, uniformly random order, new for every release (`in_secret_order`).
*Proof that this is enough.* Let a permutation carry the neighbour, as it is sorted, to the one in which
the record is replaced where it stands. Composed with a uniform order it is uniform again: the answers on both have one law.
For the latter, given the order, the promise holds; both tables' answers are mixtures over the same orders, and
a mixture over a shared index is at most as easy to tell apart as the worst of its parts, in every trade-off function, Rényi
divergence and (epsilon, delta). Each release holds given the past, so they compose. The order is never sent. ∎

A record that is added or removed would move where all others stand, order or not: under that relation there are no pairs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoiseSource
from privfcd.mechanisms.orders import secret_order

Array = NDArray[np.float64]

SHIFTS = 2
"""With how many records after it each is paired."""

MOVED = 2.0
"""How many times further than a mean over records a mean over pairs moves with one replaced record."""


def check_differences(differences: bool, offset: tuple[float, ...] | None) -> None:
    """Raise InvalidParameter unless `differences` is True or False, and False with a offset."""
    if not isinstance(differences, bool):
        raise checks.refuse("differences", differences, "True or False")
    if differences and offset is not None:
        raise InvalidParameter("offset must be left out for differences of records, which it does not change")


def moved_by(differences: bool, relation: NeighboringRelation) -> float:
    """Return by how much differences stretch a sensitivity: `MOVED`, and 1 for the records themselves.

    Raises
    ------
    InvalidParameter
        Neighbours differ in an added or removed record, which would move all pairs.
    """
    if not differences:
        return 1.0
    if relation is not REPLACE_ONE:
        raise checks.refuse(
            "differences", differences, "False where a record is added or removed, which moves all pairs"
        )
    return MOVED


def share(differences: bool) -> float:
    """Return the weight of a pair in a mean over n records' pairs for each shift, times n; 1 for the records themselves."""
    return 1 / SHIFTS if differences else 1.0


def blocks(rows: Array, differences: bool, size: int) -> Iterator[Array]:
    """Yield the records, or their differences for every shift, in blocks of `size` rows and less: C-contiguous doubles.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        In the order in which they are paired.
    differences : bool
    size : int
    """
    for shift in range(1, SHIFTS + 1) if differences else (0,):
        for start in range(0, len(rows), size):
            block = np.ascontiguousarray(rows[start : start + size], dtype=np.float64)
            if shift:
                others = np.arange(start + shift, start + shift + len(block)) % len(rows)
                block = _differences(block, np.asarray(rows[others], dtype=np.float64))
            yield block


def in_secret_order(rows: Array, query: Any, source: NoiseSource, key: tuple[int, ...]) -> Array:
    """Return the rows for a query of differences in a secret, uniformly random order, and else as they are.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
    query : Query
    source : NoiseSource
        The table's; see `secret_order`.
    key : tuple of int
        Of the release.
    """
    return rows[secret_order(source, len(rows), key)] if getattr(query, "differences", False) else rows


def _differences(first: Array, second: Array) -> Array:
    """Return (first - second) / sqrt(2), of rows of any finite size."""
    most = sys.float_info.max / 2
    return np.clip(first / 2 - second / 2, -most, most) * np.sqrt(2.0)
