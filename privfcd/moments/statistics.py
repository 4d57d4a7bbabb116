"""Residual variances and partial correlations from noisy moments, with what the noise adds, by the delta method.

Let w be the contrast of j after regression on a set Z: w_j = 1, w_Z = minus the coefficients. The residual variance is
w'Sw, and its first-order change under a change N of the moments is w'Nw: the coefficients are at a minimum, so that their
own change counts in second order only (the Schur complement's derivative). For two residuals a, b, each divided by its
standard deviation, the partial correlation r = a'Sb changes by

    a'Nb - r/2 (a'Na + b'Nb) = u'Nv,    u = p - q, v = p + q, p = sqrt((1 - r)/4) (a + b), q = sqrt((1 + r)/4) (a - b),

one bilinear form, whose variance the noise's law states exactly. Gaussian sampling of n rows gives r a variance of about
(1 - r²)² / n, hence the effective number of rows 1 / (1/n + Var(u'Nv) / (1 - r²)²).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.moments.second_moments import Moments

Array = NDArray[np.float64]
Index = int | Sequence[int] | NDArray[np.int64]


def contrasts(moments: Moments, nodes: Index, given: Iterable[int] = ()) -> Array:
    """Return the residual contrasts of variables after regression on a set, one column each.

    Parameters
    ----------
    moments : Moments
        Of d variables.
    nodes : int or sequence of int
        Which, m in number; none in `given`.
    given : iterable of int
        The set.

    Returns
    -------
    ndarray of shape (d, m)

    Raises
    ------
    InvalidParameter
        An index is not one of the variables', or a variable is in the set.
    """
    d = len(moments.columns)
    some, base = _indices("nodes", nodes, d), _indices("given", list(given), d)
    if len(set(base.tolist())) < len(base):
        raise checks.refuse("given", base.tolist(), "different variables")
    if set(some.tolist()) & set(base.tolist()):
        raise InvalidParameter(f"nodes must not be in given, got {some.tolist()} and {base.tolist()}")
    answer = np.zeros((d, len(some)))
    answer[some, np.arange(len(some))] = 1.0
    if len(base):
        block = moments.matrix[np.ix_(base, base)]
        answer[base] = -(np.linalg.pinv(block, hermitian=True) @ moments.matrix[np.ix_(base, some)])
    return answer


@overload
def residual(moments: Moments, node: int, given: Iterable[int] = ()) -> tuple[float, float]: ...
@overload
def residual(
    moments: Moments, node: Sequence[int] | NDArray[np.int64], given: Iterable[int] = ()
) -> tuple[Array, Array]: ...
def residual(moments: Moments, node: Index, given: Iterable[int] = ()) -> tuple[float, float] | tuple[Array, Array]:
    """Return the residual variance of a variable after regression on a set, and the noise's standard deviation in it.

    Parameters
    ----------
    moments : Moments
        Of d variables.
    node : int or sequence of int
        The variable, or m of them, which are all regressed on the same set.
    given : iterable of int
        The set.

    Returns
    -------
    value, noise_sd : float, or ndarray of shape (m,)
        In squared units of the variable. Noise can make the value negative. The noise's standard deviation is to first
        order: it holds where the noise is small against the set's own moments.
    """
    w = contrasts(moments, [node] if isinstance(node, int | np.integer) else node, given)
    values = np.einsum("im,im->m", w, moments.matrix @ w)
    noise = np.sqrt(moments.noise_variances(w, w))
    if isinstance(node, int | np.integer):
        return float(values[0]), float(noise[0])
    return values, noise


def residual_effective_rows(moments: Moments, node: Index, given: Iterable[int] = ()) -> Array:
    """Return how many exact Gaussian rows would estimate the residual variances as well, shape (m,).

    The sampling variance of a residual variance v is about 2 v² / n; 0 where noise leaves nothing above 0.

    Parameters
    ----------
    moments : Moments
        Of d variables.
    node : int or sequence of int
        The variable, or m variables, all given the same set.
    given : iterable of int
        The set.
    """
    values, noise = residual(moments, [node] if isinstance(node, int | np.integer) else node, given)
    known = np.maximum(values, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(1 / (1 / moments.rows + np.where(noise > 0, noise**2 / (2 * known**2), 0.0)))


@overload
def partial_correlation(moments: Moments, i: int, j: int, given: Iterable[int] = ()) -> tuple[float, float]: ...
@overload
def partial_correlation(
    moments: Moments,
    i: Sequence[int] | NDArray[np.int64],
    j: Sequence[int] | NDArray[np.int64],
    given: Iterable[int] = (),
) -> tuple[Array, Array]: ...
def partial_correlation(
    moments: Moments, i: Index, j: Index, given: Iterable[int] = ()
) -> tuple[float, float] | tuple[Array, Array]:
    """Return the partial correlation of two variables given a set, and its effective number of rows.

    Parameters
    ----------
    moments : Moments
        Of d variables.
    i, j : int or sequence of int
        The variables, or m pairs, all given the same set.
    given : iterable of int
        The set.

    Returns
    -------
    r, effective_rows : float, or ndarray of shape (m,)
        NaN and 0 where noise leaves no residual variance above 0. r is cut off at -1 and 1.

    Raises
    ------
    InvalidParameter
        The pairs are not of one length, or a variable is paired with itself.
    """
    single = isinstance(i, int | np.integer) and isinstance(j, int | np.integer)
    first = np.atleast_1d(np.asarray(i))
    second = np.atleast_1d(np.asarray(j))
    if first.shape != second.shape:
        raise InvalidParameter(f"i and j must be of one length, got {first.shape} and {second.shape}")
    base = list(given)
    a, b = contrasts(moments, first, base), contrasts(moments, second, base)
    if (first == second).any():
        raise InvalidParameter(f"i and j must be different variables, got {first.tolist()} and {second.tolist()}")
    left, right = (np.einsum("im,im->m", each, moments.matrix @ each) for each in (a, b))
    known = (left > 0) & (right > 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        a, b = a / np.sqrt(np.where(known, left, np.nan)), b / np.sqrt(np.where(known, right, np.nan))
    r = np.clip(np.einsum("im,im->m", a, moments.matrix @ b), -1.0, 1.0)
    p, q = np.sqrt((1 - r) / 4) * (a + b), np.sqrt((1 + r) / 4) * (a - b)
    noise = moments.noise_variances(p - q, p + q)
    spread = np.maximum(1 - r**2, np.finfo(float).eps) ** 2
    rows = np.where(known, 1 / (1 / moments.rows + noise / spread), 0.0)
    return (float(r[0]), float(rows[0])) if single else (r, rows)


def _indices(name: str, values: Index, d: int) -> NDArray[np.int64]:
    array = np.atleast_1d(np.asarray(values))
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not ((array >= 0) & (array < d)).all():
        raise checks.refuse(name, values, f"whole numbers in [0, {d})")
    return array.astype(np.int64)
