"""Sums over records of clipped products, in blocks that stay in the processor's cache; no copy of the rows.

The sum for (i, j) is that of clip(x_i slope_j, ±limit_i). What one record adds depends on this record only, computed by
the same operations wherever the record stands (sums within a record have a fixed order), so that removing another
record changes none of it.

Sums are added up within blocks of `BLOCK` records and then block by block: no term passes more than BLOCK + n / BLOCK
additions, which is what `blocked_slack` allows for (see `queries.summation_slack`), in whatever order the additions
within a block, and those of blocks, are done.
"""

from __future__ import annotations

import math
import sys

import numpy as np
from numpy.typing import NDArray

from privfcd.data.fused import Kernels
from privfcd.data.queries import rounding_slack

Array = NDArray[np.float64]

BLOCK = 128
LARGEST = sys.float_info.max


def blocked_slack(n: int) -> float:
    """Return the factor by which rounding can stretch the sensitivity of sums of up to 2 `n` bounded terms made here."""
    return rounding_slack(n, BLOCK + math.ceil(2 * n / BLOCK))


def predictions(rows: Array, offset: Array, weights: Array, kernels: Kernels | None) -> Array:
    """Return (x - offset) · weights for each record, shape (n,); only weights that are not 0 are looked at."""
    support = np.flatnonzero(weights)
    out = np.zeros(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        if kernels is not None:
            kernels.predict(rows, offset, support, weights[support], out)
            return out
        for i in support.tolist():
            term = rows[:, i] - offset[i]
            term *= weights[i]
            out += term
    return out


def clipped_sums(rows: Array, offset: Array, slopes: Array, limits: Array, kernels: Kernels | None) -> Array:
    """Return the sums for some variables.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Contiguous.
    offset : ndarray of shape (d,)
        Taken off each row.
    slopes : ndarray of shape (variables, n)
        Finite.
    limits : ndarray of shape (d,)
        Above 0; inf for none.
    kernels : Kernels, optional
        Compiled loops.

    Returns
    -------
    ndarray of shape (variables, d)
    """
    out = np.zeros((len(slopes), rows.shape[1]))
    if kernels is not None:
        kernels.sums(rows, offset, slopes, limits, LARGEST, BLOCK, out)
        return out
    terms, shifted = np.empty((BLOCK, rows.shape[1])), np.empty((BLOCK, rows.shape[1]))
    moved, below = bool(offset.any()), -limits
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            part = terms[: len(block)]
            if moved:
                block = np.subtract(block, offset, out=shifted[: len(block)])
                np.clip(block, -LARGEST, LARGEST, out=block)
            for q, slope in enumerate(slopes):
                np.multiply(block, slope[start : start + BLOCK, None], out=part)
                np.maximum(part, below, out=part)
                np.minimum(part, limits, out=part)
                out[q] += np.add.reduce(part, axis=0)
    return out


def finite(slopes: Array) -> Array:
    """Return slopes without infinities and NaN, which a record of absurd size can give; changed in place."""
    if not np.isfinite(slopes).all():
        np.nan_to_num(slopes, copy=False, nan=0.0, posinf=LARGEST, neginf=-LARGEST)
    return slopes
