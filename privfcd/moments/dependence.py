"""Columns that others determine, and columns of which nothing is known: found in moments, exact or released.

A column that is a linear combination of others (the last of a full set of dummies, a total, a copy) or constant has no
residual: regressions on all of the set have no unique answer, and a test given the others divides 0 by 0. One column of each
such set is left out. The columns are taken in their order, and one goes where its residual given those kept before is 0:
the last of its set, whatever the noise, so that parties that look for themselves leave out the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfcd.moments.noise_law import NoiseTerm
from privfcd.moments.second_moments import Moments

Array = NDArray[np.float64]

EXACT = 1e-10
"""An exact residual variance below this share of the column's own is rounding."""

UNKNOWN_SDS = 2.0
"""A column's own second moment that is at most this many standard deviations of its noise is not known."""

ZERO_SDS, MOST_LEFT = 3.0, 0.05
"""A noisy residual variance is 0 if it is at most so many standard deviations of its noise, and if two more of these leave
at most this share of the column's own: what is only unknown, because the noise is loud, makes no column dependent."""

MEMBER = 0.05
"""Noisy coefficients below this, in standard deviations of the columns, are taken to be 0."""

_TERMS = 8


@dataclass(frozen=True)
class LeftOut:
    """A column that learners should not use.

    Attributes
    ----------
    column : str
    members : tuple of str
        The other columns of its set; empty for a constant column, or one of which nothing is known.
    relation : str
        In words.
    unknown : bool
        Whether it is left out because nothing is known of it.
    """

    column: str
    members: tuple[str, ...]
    relation: str
    unknown: bool = False


def left_out(moments: Moments) -> tuple[LeftOut, ...]:
    """Return the columns that others determine, or of which nothing is known, in their order.

    Parameters
    ----------
    moments : Moments
        Dependence is looked for in those of more than d + 1 rows only: what fewer rows determine is their number, not the
        columns.

    Returns
    -------
    tuple of LeftOut
        Empty where there are none.
    """
    d = len(moments.columns)
    enough = moments.rows > d + 1
    own = np.diag(moments.matrix)
    noise = np.zeros(d) if moments.noise_sd is None else np.diag(moments.noise_sd)
    level = np.zeros(d) if moments.mean is None else moments.mean
    rounding = np.maximum((1e-12 * level) ** 2, 1e-200)
    known = own > np.maximum(UNKNOWN_SDS * noise, rounding)
    scale = np.sqrt(np.where(known, own, 1.0))
    unit = moments.carried(np.diag(1 / scale))
    # Gram-Schmidt in the inner product of the moments: the columns of `bases` are uncorrelated residuals of kept columns
    bases, images, sizes = np.zeros((d, d)), np.zeros((d, d)), np.ones(d)
    kept = 0
    found = []
    for j in range(d):
        if not known[j]:
            found.append(_unknown(moments, j, noisy=noise[j] > 0))
            continue
        if not enough:
            continue
        w = np.zeros(d)
        w[j] = 1.0
        if kept:
            w -= bases[:, :kept] @ ((images[:, :kept].T @ w) / sizes[:kept])
        image = unit.matrix @ w
        left = float(w @ image)
        sd = float(np.sqrt(unit.noise_variances(w[:, None], w[:, None])[0]))
        # far below 0 the matrix does not follow its law, which says nothing of dependence
        if left <= EXACT if sd == 0 else (abs(left) <= ZERO_SDS * sd and left + 2 * sd <= MOST_LEFT):
            found.append(_dependent(moments, w / scale * scale[j], scale / scale[j], j, exact=sd == 0))
        elif left > max(ZERO_SDS * sd, EXACT):  # what noise may have made is no ground to project on
            bases[:, kept], images[:, kept], sizes[kept] = w, image, left
            kept += 1
    return tuple(found)


def without(moments: Moments, columns: Sequence[str]) -> Moments:
    """Return moments in which these columns are unrelated to all others, without noise: no learner finds an edge there.

    All keep their place. The second moment of those set aside is that of the smallest column in use.

    Parameters
    ----------
    moments : Moments
    columns : sequence of str
        Names of those to set aside.

    Returns
    -------
    Moments
        Of the same columns, with the law of the noise of those in use.
    """
    aside = np.isin(np.array(moments.columns, dtype=object), list(columns))
    if not aside.any():
        return moments
    keep = (~aside).astype(np.float64)
    own = np.diag(moments.matrix)[~aside]
    smallest = float(own[own > 0].min(initial=np.inf))
    matrix = moments.matrix * np.outer(keep, keep)
    matrix[aside, aside] = smallest if np.isfinite(smallest) else 1.0
    noise = tuple(_masked(term, keep) for term in moments.noise)
    return replace(moments, matrix=matrix, noise=noise)


def in_use(moments: Moments) -> NDArray[np.bool_]:
    """Return which columns of noisy moments have noise: those that were set aside have none, shape (d,)."""
    if moments.noise_sd is None:
        return np.ones(len(moments.columns), dtype=bool)
    noisy = moments.noise_sd.any(axis=1)
    return np.asarray(noisy if noisy.any() else ~noisy)


def _masked(term: NoiseTerm, keep: Array) -> NoiseTerm:
    if term.carry is None and not term.isotropic:
        return replace(term, sd=np.asarray(term.sd) * np.outer(keep, keep))
    return term.carried(np.diag(keep))


def _unknown(moments: Moments, j: int, *, noisy: bool) -> LeftOut:
    name = moments.columns[j]
    if noisy:
        return LeftOut(
            name, (), f"nothing is known of {name!r}: the noise in its second moment is as large as the moment", True
        )
    about_mean = moments.mean is not None or moments.differences
    return LeftOut(name, (), f"{name!r} is {'constant' if about_mean else 'always 0'}")


def _dependent(moments: Moments, contrast: Array, sizes: Array, j: int, *, exact: bool) -> LeftOut:
    """Return in words what the contrast, in the columns' own units, says."""
    least = 1e-6 if exact else MEMBER
    places = np.flatnonzero(np.abs(contrast) * sizes > least)
    members = tuple(moments.columns[k] for k in places if k != j)
    weights = np.where(np.isin(np.arange(len(contrast)), places), contrast, 0.0)
    whole = np.round(weights)
    if (np.abs(weights - whole) * sizes <= (1e-5 if exact else 0.15)).all() and (whole[places] != 0).all():
        weights = whole
    name = moments.columns[j]
    if not members:
        return LeftOut(name, (), f"{name!r} is constant")
    fixed = "constant" if moments.mean is not None or moments.differences else "0"
    if len(members) + 1 > _TERMS:
        listed = ", ".join(map(repr, members[:5]))
        return LeftOut(
            name, members, f"{name!r} is a linear combination of {listed} and {len(members) - 5} more columns"
        )
    terms = ""
    for k in sorted(places, key=lambda k: (weights[k] < 0, k)):
        size = abs(weights[k])
        factor = "" if size == 1 else f"{size:.3g} "
        terms += (" - " if weights[k] < 0 else " + ") + factor + moments.columns[k]
    return LeftOut(name, members, f"{terms.removeprefix(' + ').strip()} is {fixed}")
