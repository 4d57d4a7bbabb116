"""Products of rows with a matrix in which every record's part is a function of that record alone, to the last bit.

A matrix library may add up in another order for other numbers of rows, or for other places of a row. Before a clip that
matters: a record whose product is a rounding error would move with the others, and its direction is anything.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def record_products(rows: Array, linear: Array) -> Array:
    """Return rows @ linear, shape (n, k), each entry added up over the columns of `rows` in their order.

    Only entries of `linear`, shape (d, k), that are not 0 cost anything.
    """
    columns = np.ascontiguousarray(rows.T)
    answer = np.zeros((linear.shape[1], rows.shape[0]))
    with np.errstate(over="ignore", invalid="ignore"):
        for i, factors in enumerate(linear):
            used = np.flatnonzero(factors)
            if len(used) == len(factors):
                answer += factors[:, None] * columns[i]
            elif len(used):
                answer[used] += factors[used, None] * columns[i]
    return np.ascontiguousarray(answer.T)
