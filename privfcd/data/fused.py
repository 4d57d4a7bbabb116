"""The loops over records as machine code, where numba is installed (the extra `fast`).

They do the operations of `row_sums` in the same order, each rounded once (no fused multiply-add, no reordering), so that
results agree to the last bit. Nothing relies on that: the allowance for rounding in the sensitivities covers any order
of addition within blocks of `row_sums.BLOCK` records and any order of the blocks.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]


class Kernels(NamedTuple):
    """Compiled loops; see `row_sums.predictions`, `row_sums.clipped_sums` and `MomentGradient.descend`, which call them."""

    predict: Callable[..., None]
    sums: Callable[..., None]
    descend: Callable[..., None]


def kernels(fast: bool | None) -> Kernels | None:
    """Return the compiled loops, or None for those in NumPy.

    Parameters
    ----------
    fast : bool, optional
        Whether to use them; by default where numba is installed.

    Raises
    ------
    InvalidParameter
        They are asked for, and numba is not installed.
    """
    if fast is not None and not isinstance(fast, bool):
        raise checks.refuse("fast", fast, "True, False or None")
    if fast is False:
        return None
    if importlib.util.find_spec("numba") is None:
        if fast:
            raise InvalidParameter("fast=True needs numba: pip install 'privfcd[fast]'")
        return None
    return _compiled()


@lru_cache(maxsize=1)
def _compiled() -> Kernels:
    import numba

    def compiled(function: Callable[..., None]) -> Any:
        try:
            return numba.njit(nogil=True, cache=True)(function)
        except RuntimeError:  # nowhere to keep compiled code
            return numba.njit(nogil=True)(function)

    return Kernels(compiled(_predict), compiled(_sums), compiled(_descend))


def _predict(rows: Array, offset: Array, support: NDArray[np.int64], weights: Array, out: Array) -> None:
    for k in range(rows.shape[0]):
        total = 0.0
        for place in range(support.shape[0]):
            i = support[place]
            total += (rows[k, i] - offset[i]) * weights[place]
        out[k] = total


def _sums(rows: Array, offset: Array, slopes: Array, limits: Array, largest: float, block: int, out: Array) -> None:
    n, d = rows.shape
    group = slopes.shape[0]
    part = np.empty((group, d))
    record = np.empty(d)
    for start in range(0, n, block):
        part[:] = 0.0
        for k in range(start, min(start + block, n)):
            for i in range(d):
                record[i] = max(min(rows[k, i] - offset[i], largest), -largest)
            for q in range(group):
                slope = slopes[q, k]
                for i in range(d):
                    term = record[i] * slope
                    part[q, i] += max(min(term, limits[i]), -limits[i])
        for q in range(group):
            for i in range(d):
                out[q, i] += part[q, i]


def _descend(
    weights: Array,
    gradient: Array,
    pull: Array,
    moments: Array,
    smoothness: Array,
    l1: float,
    ridge: float,
    step: float,
    updates: int,
) -> None:
    """Do exact greedy updates in place; `weights`, `gradient` and `pull` are transposed: [j, i] belongs to i -> j."""
    d = weights.shape[0]
    best = np.full(d, -1.0)
    place = np.zeros(d, np.int64)
    stale = 0
    root = np.sqrt(smoothness)
    for update in range(updates + 1):
        for j in range(d) if update == 0 else range(stale, stale + 1):
            best[j] = -1.0
            for i in range(d):
                if i == j:
                    continue
                value = weights[j, i]
                slope = gradient[j, i] + (pull[j, i] + ridge * value)
                moved = value - slope / smoothness[i]
                limit = l1 / smoothness[i]
                moved -= min(max(moved, -limit), limit)
                score = abs(moved - value) * root[i]
                if score > best[j]:
                    best[j] = score
                    place[j] = i
        if update == updates:
            return
        j = int(np.argmax(best))
        i = place[j]
        value = weights[j, i]
        rate = step / smoothness[i]
        moved = value - rate * (gradient[j, i] + (pull[j, i] + ridge * value))
        shrunk = max(abs(moved) - rate * l1, 0.0)
        new = shrunk if moved >= 0 else -shrunk
        weights[j, i] = new
        for k in range(d):
            gradient[j, k] += moments[i, k] * (new - value)
        stale = j
