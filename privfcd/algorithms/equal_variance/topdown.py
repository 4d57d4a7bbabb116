"""A causal order from second moments: again and again the variable of smallest residual variance.

Under equal error variances a source has the smallest variance of all, and a variable whose parents have been taken the
smallest residual variance given those taken (Chen, Drton and Wang 2019, "On causal discovery with an equal-variance
assumption", algorithm 1, top-down).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.equal_variance.law import Array, Law

_TINY = 1e-10
"""Residual variances below this share of the variable's own variance are rounding errors."""

_PASSES = 4
"""How often residuals are taken out again after others were: on noisy moments, which need not be positive semidefinite,
more passes can grow without bound."""


def top_down(law: Law, tau: float, caution: float) -> NDArray[np.int64]:
    """Return an order of the variables, causes first.

    Every variable's residual starts as itself. Once u is taken, its residual e_u is taken out of those residuals
    with which its covariance is more than `tau` standard deviations away from 0: sampling's and the noise's. What is
    not seen above the noise is left in, for to take it out would add more error than it removes. A residual that has
    become smaller is tested against all earlier ones again.

    Parameters
    ----------
    law : Law
        Moments of d variables.
    tau : float
        Standard deviations.
    caution : float
        How many standard deviations of its noise are added to a residual variance before the smallest is taken.
    """
    matrix, rows, spreads = law.matrix, law.rows, law.spreads
    d = len(matrix)
    contrasts = np.asfortranarray(np.eye(d))  # column j: the residual of j as a combination of the variables
    variances = np.diag(matrix).copy()
    floor = _TINY * np.maximum(np.abs(variances), np.finfo(float).tiny)
    inner = [np.diag(spread).copy() for spread in spreads]
    covariances = np.zeros((d, d))  # row k: of the residual of k, when taken, with every residual
    crossed = [np.zeros((d, d)) for _ in spreads]
    waiting = np.ones(d, dtype=np.bool_)
    order = np.empty(d, dtype=np.int64)
    for step in range(d):
        noise = np.sqrt(sum((2 * h * h for h in inner), np.zeros(d)))
        used = np.maximum(variances, np.maximum(noise, floor))
        bound = np.where(waiting, variances + caution * noise, np.inf)
        u = int(np.argmin(bound))
        order[step] = u
        waiting[u] = False
        if step == d - 1:
            break
        support = np.flatnonzero(contrasts[:, u])
        own = contrasts[support, u]
        left = np.flatnonzero(waiting)
        covariances[step, left] = (matrix[:, support] @ own) @ contrasts[:, left]
        for cross, spread in zip(crossed, spreads, strict=True):
            cross[step, left] = (spread[:, support] @ own) @ contrasts[:, left]
        taken = order[: step + 1]
        columns, rounds = left, 0
        first = step  # at first only the new one is tested, then, where residuals changed, all that were taken
        while columns.size and rounds <= min(step, _PASSES):
            rounds += 1
            tested = taken[first:]
            c = covariances[first : step + 1, columns]
            error = np.outer(used[tested], used[columns]) / rows
            for h, cross in zip(inner, crossed, strict=True):
                error += np.outer(h[tested], h[columns]) + cross[first : step + 1, columns] ** 2
            z = c * c / error
            best = np.argmax(z, axis=0)
            entering = z[best, np.arange(columns.size)] > tau * tau
            columns, best = columns[entering], best[entering] + first
            for k in np.unique(best):
                _take_out(int(k), columns[best == k], taken, contrasts, covariances, crossed, variances, inner, used)
            noise = np.sqrt(sum((2 * h[columns] ** 2 for h in inner), np.zeros(columns.size)))
            used[columns] = np.maximum(variances[columns], np.maximum(noise, floor[columns]))
            first = 0
    return order


def _take_out(
    k: int,
    columns: NDArray[np.int64],
    taken: NDArray[np.int64],
    contrasts: Array,
    covariances: Array,
    crossed: list[Array],
    variances: Array,
    inner: list[Array],
    used: Array,
) -> None:
    """Take the residual of the k-th variable out of the residuals of `columns`."""
    u, steps = taken[k], len(taken)
    most = np.sqrt(used[columns] / used[u])  # noise can leave covariances larger than variances allow
    shares = np.clip(covariances[k, columns] / used[u], -most, most)
    support = np.flatnonzero(contrasts[:, u])
    contrasts[np.ix_(support, columns)] -= np.outer(contrasts[support, u], shares)
    variances[columns] += shares * (shares * variances[u] - 2 * covariances[k, columns])
    for h, cross in zip(inner, crossed, strict=True):
        h[columns] += shares * (shares * h[u] - 2 * cross[k, columns])
    # covariances with those taken earlier stand in their rows, with those taken later in the row of u
    for table, own in ((covariances, variances), *zip(crossed, inner, strict=True)):
        among = table[:steps, u].copy()
        among[k] = own[u]
        after = min(k + 1, steps)
        among[after:] = table[k, taken[after:]]
        table[:steps, columns] -= np.outer(among, shares)
