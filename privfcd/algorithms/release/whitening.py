"""From what is known of the moments so far to the matrix that the next round's rows are multiplied by.

Rows y = x A should have uncorrelated coordinates of variance 1: then every direction gets the same noise relative to its own
variance. An inverse root of a noisy matrix carries its noise into every coordinate; a sparse structure, in which only
weights that stand out of the noise are kept, does not, but may be wrong. So the structure is a prior that has to fit: what
the released moments say beyond it is kept as far as it is more than noise, and no direction is stretched further than its
noise allows. All of this is post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.moments import Moments

Array = NDArray[np.float64]

LEAST_VARIANCE = 0.05
"""Residual variances below this share of their median are lifted to it."""

CAUTION = 1.0
"""Standard deviations of its noise that are added to a residual variance before the smallest is taken."""

STANDS_OUT = 3.5
"""Standard deviations of noise from which on an entry that the structure does not explain is kept as it is."""

RIDGE = 0.5
"""What is added to all directions where the structure does not fit, in units of the noise's root mean square eigenvalue."""

MOST_TOTAL = 2.5
"""The rows' expected squared norm is at most this many times what the next round is made for."""


@dataclass(frozen=True, eq=False)
class Structure:
    """Linear equations x_j = sum_i B_ij x_i + e_j that say what the moments are.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        B, acyclic.
    variances : ndarray of shape (d,)
        Of e_j, above 0.
    """

    weights: Array
    variances: Array

    @property
    def whitening(self) -> Array:
        """A = (I - B) diag(v^-1/2): the rows' product with it is white if the equations hold."""
        return np.asarray((np.eye(len(self.variances)) - self.weights) / np.sqrt(self.variances))


Whitening = Callable[[Moments], Structure]
"""Takes noisy moments of d variables and returns a structure for them."""


@dataclass(frozen=True, eq=False)
class NextRows:
    """How the next round sees the rows.

    Attributes
    ----------
    linear : ndarray of shape (d, d)
        A.
    total : float
        Expected squared norm of y = x A: as the moments say, and for each coordinate one standard deviation
        of its noise more, by which a structure that was fitted to noisy moments flatters itself; in loud noise one
        standard deviation of the sum.
    freedom : float
        tr(G)² / tr(G²), G the expected second moments of y.
    unexplained : float
        Share of what the structure does not explain that was kept, 0 where it fits within the noise.
    """

    linear: Array
    total: float
    freedom: float
    unexplained: float


def structure_whitening(moments: Moments) -> Structure:
    """Return the weights and residual variances that an order search finds, without those that noise may have made.

    One top-down pass: a wrong turn of an edge whitens about as well, and is mended later by who learns from the moments. A
    residual variance is drawn towards the median by as much as its noise leaves open.
    """
    from privfcd.algorithms.equal_variance.search import order_search  # estimators there release moments themselves

    found = order_search(moments, cautions=(CAUTION,), local=False, polish=False)
    return Structure(found.structure, shrunk_variances(found.variances, found.noise))


def shrunk_variances(variances: Array, noise: Array) -> Array:
    """Return noisy variances drawn towards their median, and lifted where they are far below it."""
    positive = variances[variances > 0]
    middle = float(np.median(positive)) if positive.size else 1.0
    apart = variances - middle
    known = np.abs(apart) > noise
    share = np.where(known, 1 - (noise / np.where(known, apart, 1.0)) ** 2, 0.0)
    return np.asarray(np.maximum(middle + share * apart, LEAST_VARIANCE * middle))


def next_rows(moments: Moments, structure: Structure, extra: Array, loud: bool) -> NextRows:
    """Return the matrix of the next round.

    In the structure's coordinates the moments W should be the identity. What they are beyond it, R = W - I, has noise of
    known standard deviations. Entries that stand out of it are kept; the others are multiplied by one factor, 1 - 1 / m
    with m the mean square of R in units of its noise (James and Stein 1961), which is near 0 where the structure fits.
    Of the sum's eigenvalues none is taken to be smaller than the noise of the moments in its direction.

    Parameters
    ----------
    moments : Moments
        What is known so far.
    structure : Structure
    extra : ndarray of shape (d,)
        What is added to the variances of columns whose coordinates shall be smaller than the others'.
    loud : bool
        Whether noise is so loud that a norm that is too large costs more than one that cuts too much.
    """
    d = len(moments.columns)
    white = moments.carried(structure.whitening.T)
    away = white.matrix - np.eye(d)
    sds = np.zeros((d, d)) if white.noise_sd is None else white.noise_sd
    stands = np.abs(away) > STANDS_OUT * sds
    others = np.triu(~stands)
    mean = float(np.mean((away[others] / sds[others]) ** 2)) if others.any() else math.inf
    unexplained = 0.0 if mean <= 0 else max(0.0, 1 - 1.05 / mean)
    inner = np.eye(d) + np.where(stands, away, unexplained * away)
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    values = np.maximum(values, 0.0)
    ridge = RIDGE * unexplained * math.sqrt(float((sds**2).sum()) / d)
    noise = np.sqrt(white.noise_variances(vectors, vectors))
    full = np.maximum(np.maximum(values + ridge, noise), 1e-9 * values[-1])
    linear = structure.whitening @ (vectors / np.sqrt(full))
    expected = np.diag(np.minimum(values / full, 1.0))
    if extra.any():
        back = np.linalg.inv(linear)
        smaller = np.linalg.inv(np.linalg.cholesky(back.T @ back + np.diag(extra))).T
        through = back @ smaller
        linear, expected = smaller, through.T @ expected @ through
    made = max(float(np.trace(expected)), 0.3 * d)
    said = float(((linear.T @ moments.matrix) * linear.T).sum())
    if loud:
        said += math.sqrt(moments.form_noise_variance(linear @ linear.T))
    else:
        said += float(np.sqrt(moments.noise_variances(linear, linear)).sum())
    total = min(max(made, said), MOST_TOTAL * made)
    freedom = min(made**2 / max(float((expected**2).sum()), 1e-12), float(d))
    return NextRows(linear, total, freedom, unexplained)
