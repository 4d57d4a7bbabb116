"""Products of rows with a matrix in which every record's part is a function of that record alone, to the last bit.

A matrix library may add up in another order for other numbers of rows, or for other places of a row. Before a clip that
matters: a record whose product is a rounding error would move with the others, and its direction is anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_BLOCK = 256
"""Rows that are worked on at once, so that they stay in the cache."""


def record_products(rows: Array, linear: Array) -> Array:
    """Return rows @ linear, shape (n, k), each entry added up over the columns of `rows` in their order.

    Only entries of `linear`, shape (d, k), that are not 0 cost anything.
    """
    answer = np.empty((rows.shape[0], linear.shape[1]))
    used = [np.flatnonzero(factors) for factors in linear]
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), _BLOCK):
            columns = np.ascontiguousarray(rows[start : start + _BLOCK].T)
            block = np.zeros((linear.shape[1], columns.shape[1]))
            for column, factors, places in zip(columns, linear, used, strict=True):
                if len(places) == len(factors):
                    block += factors[:, None] * column
                elif len(places):
                    block[places] += factors[places, None] * column
            answer[start : start + _BLOCK] = block.T
    return answer
