"""Parents of many variables at once: forward selection and backward elimination, with the noise in every test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.equal_variance.law import Array, Law

Indices = NDArray[np.int64]
_TINY = 1e-10
"""Residual variances below this share of the variable's own variance are rounding errors."""
_EXCESS = 2.0
"""Standard deviations, beside a parent's penalty, by which a residual variance is well above the common one."""
_REPEATS = 2
"""How often what the backward elimination left is added to again."""


@dataclass(frozen=True, eq=False)
class Fits:
    """Regressions of m variables on the parents that were chosen for them.

    Attributes
    ----------
    chosen : ndarray of bool, shape (d, m)
        Parents.
    weights : ndarray of shape (d, m)
        Coefficients; 0 where there is no parent.
    variances : ndarray of shape (m,)
        Residual variances, as the moments say; noise can make them negative.
    noise : ndarray of shape (m,)
        Standard deviations of the noise in them.
    """

    chosen: NDArray[np.bool_]
    weights: Array
    variances: Array
    noise: Array

    def subset(self, columns: Indices) -> Fits:
        """Return the fits of some of the variables."""
        return Fits(self.chosen[:, columns], self.weights[:, columns], self.variances[columns], self.noise[columns])

    def replaced(self, columns: Indices, by: Fits) -> Fits:
        """Return these fits with others in the places `columns`."""
        new = Fits(self.chosen.copy(), self.weights.copy(), self.variances.copy(), self.noise.copy())
        new.chosen[:, columns], new.weights[:, columns] = by.chosen, by.weights
        new.variances[columns], new.noise[columns] = by.variances, by.noise
        return new


def choose_parents(
    law: Law,
    nodes: Indices,
    allowed: NDArray[np.bool_],
    tau: float,
    start: NDArray[np.bool_] | None = None,
) -> Fits:
    """Choose parents for each of `nodes` among its allowed candidates.

    Forward: the candidate whose partial covariance with the residual is most standard deviations (sampling's and the
    noise's) away from 0 enters, while it is more than `tau` away. Backward: `thinned`. What is left may be added to and
    thinned out once more.

    Parameters
    ----------
    law : Law
        Moments of d variables.
    nodes : ndarray of int, shape (m,)
        Variables; one may come several times, with different candidates.
    allowed : ndarray of bool, shape (d, m)
        Candidates of each; a variable is never its own parent.
    tau : float
        Standard deviations.
    start : ndarray of bool, shape (d, m), optional
        Parents that are there when the forward selection begins.
    """
    chosen = _forward(law, nodes, allowed, tau, start)
    fits = thinned(law, nodes, chosen, tau)
    left = np.flatnonzero((fits.chosen != chosen).any(axis=0))
    for _ in range(_REPEATS):
        if not left.size:
            break
        again = _forward(law, nodes[left], allowed[:, left], tau, fits.chosen[:, left])
        grown = (again != fits.chosen[:, left]).any(axis=0)
        left, again = left[grown], again[:, grown]
        if not left.size:
            break
        fits = fits.replaced(left, thinned(law, nodes[left], again, tau))
        left = left[(fits.chosen[:, left] != again).any(axis=0)]
    return fits


def deepened(
    law: Law,
    nodes: Indices,
    allowed: NDArray[np.bool_],
    fits: Fits,
    tau: float,
    variance: float,
    rows: float,
    width: int = 8,
) -> Fits:
    """Search on where parents seem to be missing: where the residual variance is well above the common one.

    Parents can hide one another. For each such variable the forward selection begins anew from each of the `width`
    strongest single candidates, and from what was chosen with each of the `width` next strongest. The result of least
    cost is kept.

    Parameters
    ----------
    variance, rows : float
        The common residual variance, and the rows that estimate it as well.
    """
    excess = fits.variances / variance - 1 > tau * tau / rows + _EXCESS * np.sqrt(2 / rows)
    some = np.flatnonzero(excess)
    if not some.size:
        return fits
    width = min(width, len(law.matrix))
    bases = (np.zeros_like(fits.chosen[:, some]), fits.chosen[:, some])
    columns, starts = [], []
    for base in bases:
        strength = _strengths(law, nodes[some], base, allowed[:, some])
        top = np.argsort(-strength, axis=0, kind="stable")[:width]
        for rank in top:
            start = base.copy()
            usable = strength[rank, np.arange(some.size)] > 0
            start[rank, np.arange(some.size)] = True
            columns.append(some[usable])
            starts.append(start[:, usable])
    tried, start = np.concatenate(columns), np.concatenate(starts, axis=1)
    if not tried.size:
        return fits
    found = choose_parents(law, nodes[tried], allowed[:, tried], tau, start=start)
    cost = penalised(found, tau, variance, rows)
    before = penalised(fits, tau, variance, rows)
    best = np.lexsort((cost, tried))
    best = best[np.unique(tried[best], return_index=True)[1]]
    best = best[cost[best] < before[tried[best]]]
    return fits.replaced(tried[best], found.subset(best))


def penalised(fits: Fits, tau: float, variance: float, rows: float) -> Array:
    """Return each variable's cost: rows v / (2 variance) + tau² / 2 for each parent."""
    return np.asarray(rows / 2 * fits.variances / variance + tau * tau / 2 * fits.chosen.sum(axis=0))


def _strengths(law: Law, nodes: Indices, base: NDArray[np.bool_], allowed: NDArray[np.bool_]) -> Array:
    """Return squared standard deviations from 0 of each candidate's partial covariance given `base`."""
    strengths = np.zeros(allowed.shape)
    _forward(law, nodes, allowed, np.inf, base, strengths)
    return strengths


def _forward(
    law: Law,
    nodes: Indices,
    allowed: NDArray[np.bool_],
    tau: float,
    start: NDArray[np.bool_] | None = None,
    strengths: Array | None = None,
) -> NDArray[np.bool_]:
    """Return what the forward selection chooses; `strengths` gets the statistics of all candidates at its end."""
    matrix, spreads = law.matrix, law.spreads
    d, m = allowed.shape
    chosen = np.zeros((d, m), dtype=np.bool_)
    diagonal = np.diag(matrix).copy()
    floor = (_TINY * np.maximum(np.abs(diagonal), np.finfo(float).tiny))[:, None]
    columns = np.arange(m)
    open_to = allowed.copy()
    forced = np.zeros_like(allowed) if start is None else start.copy()
    open_to[nodes, columns] = False
    # of candidate k and node j, both without what the chosen parents of j explain:
    partial = np.repeat(diagonal[:, None], m, axis=1)  # variances of k
    cross = matrix[:, nodes].copy()  # covariances of k with j
    quiet = [np.repeat(np.diag(spread)[:, None], m, axis=1) for spread in spreads]  # the same of the noise
    mixed = [spread[:, nodes].copy() for spread in spreads]
    steps: list[tuple[Indices, Array, list[Array]]] = []  # pivots, multipliers, and the spreads times pivots' contrasts
    for _ in range(d):
        own = nodes[columns], np.arange(columns.size)
        loud = np.sqrt(sum((2 * q * q for q in quiet), np.zeros_like(partial)))
        known = np.maximum(partial, np.maximum(loud, floor))
        error = known * (known[own] / law.rows)
        for q, x in zip(quiet, mixed, strict=True):
            error += q * q[own] + x * x
        z = np.where(open_to & (partial > np.maximum(loud, floor)), cross * cross / error, 0.0)
        waiting = forced.any(axis=0)
        best = np.argmax(np.where(waiting, np.where(forced, z, -1.0), z), axis=0)
        strength = z[best, np.arange(columns.size)]
        entering = np.where(waiting, strength > 0, strength > tau * tau)
        if strengths is not None:
            strengths[:, columns[~entering]] = z[:, ~entering]
        if not entering.any():
            return chosen
        if not entering.all():
            columns, best = columns[entering], best[entering]
            open_to, forced = open_to[:, entering], forced[:, entering]
            partial, cross = partial[:, entering], cross[:, entering]
            quiet, mixed = [q[:, entering] for q in quiet], [x[:, entering] for x in mixed]
            steps = [(p[entering], r[:, entering], [x[:, entering] for x in xs]) for p, r, xs in steps]
        at = best, np.arange(columns.size)
        chosen[best, columns] = True
        open_to[at] = forced[at] = False
        new = matrix[:, best].copy()
        images = [spread[:, best].copy() for spread in spreads]
        for pivot, ratio, earlier in steps:
            share = ratio[at]
            new -= ratio * new[pivot, at[1]]
            for image, old in zip(images, earlier, strict=True):
                image -= share * old
        ratio = new / partial[at]
        for q, x, image in zip(quiet, mixed, images, strict=True):
            both = image.copy()
            for pivot, earlier_ratio, _ in steps:
                both -= earlier_ratio * both[pivot, at[1]]
            own_share, scale, with_node = ratio[nodes[columns], at[1]], q[at], x[at]
            x += ratio * (own_share * scale - with_node) - own_share * both
            q += ratio * (ratio * scale - 2 * both)
        cross -= ratio * cross[at]
        partial -= ratio * new
        steps.append((best, ratio, images))
    return chosen


def thinned(law: Law, nodes: Indices, chosen: NDArray[np.bool_], tau: float, least: float = 0.0) -> Fits:
    """Regress each of `nodes` on its chosen parents, again and again without the least one.

    A parent leaves while its coefficient is less than `tau` standard deviations away from 0, or at most `least`. With
    both 0 all stay.
    """
    d, m = chosen.shape
    chosen = chosen.copy()
    weights, variances, noise = np.zeros((d, m)), np.zeros(m), np.zeros(m)
    sizes = chosen.sum(axis=0)
    columns = np.arange(m)
    while columns.size:
        again = []
        for size in np.unique(sizes[columns]):
            some = columns[sizes[columns] == size]
            members = np.nonzero(chosen[:, some].T)[1].reshape(some.size, int(size))
            fit, v, loud, z = _regress(law, nodes[some], members)
            weights[:, some] = 0.0
            weights[members, some[:, None]] = fit
            variances[some], noise[some] = v, loud
            if size == 0 or (tau == 0 and least == 0):
                continue
            z = np.where(np.abs(fit) <= least, -1.0, z)
            worst = np.argmin(z, axis=1)
            leaving = z[np.arange(some.size), worst] < tau * tau
            chosen[members[leaving, worst[leaving]], some[leaving]] = False
            sizes[some[leaving]] -= 1
            again.append(some[leaving])
        columns = np.concatenate(again) if again else columns[:0]
    return Fits(chosen, weights, variances, noise)


def _regress(law: Law, nodes: Indices, members: Indices) -> tuple[Array, Array, Array, Array]:
    """Return coefficients, residual variances, their noise, and squared standard deviations of the coefficients from 0.

    All sets of parents have one size s: `members` has shape (m, s).
    """
    m, s = members.shape
    block = law.matrix[members[:, :, None], members[:, None, :]]
    right = law.matrix[members, nodes[:, None]]
    inverse = np.linalg.pinv(block, hermitian=True) if s else block
    fit = (inverse @ right[:, :, None])[:, :, 0]
    variances = law.matrix[nodes, nodes] - (fit * right).sum(axis=1)
    precision = np.maximum(np.diagonal(inverse, axis1=1, axis2=2), np.finfo(float).tiny)
    noise = np.zeros(m)
    error = np.zeros((m, s))
    for spread in law.spreads:
        inside = spread[members[:, :, None], members[:, None, :]]
        beside = spread[members, nodes[:, None]]
        turned = beside - (inside @ fit[:, :, None])[:, :, 0]  # of each parent with the residual
        own = spread[nodes, nodes] - (fit * (beside + turned)).sum(axis=1)
        noise += 2 * own**2
        quiet = np.einsum("mij,mjk,mik->mi", inverse, inside, inverse)
        error += quiet * own[:, None] + ((inverse @ turned[:, :, None])[:, :, 0]) ** 2
    noise = np.sqrt(noise)
    known = np.maximum(variances, np.maximum(noise, _TINY * np.abs(law.matrix[nodes, nodes])))
    error += precision * known[:, None] / law.rows
    return fit, variances, noise, fit * fit / error
