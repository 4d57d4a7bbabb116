"""From what is known of the moments so far to the matrix that the next round's rows are multiplied by.

Rows y = x A should have uncorrelated coordinates of variance 1: then every direction gets the same noise relative to its own
variance, and the rows' directions say most. An inverse root of a noisy matrix carries its noise into every coordinate; a
sparse structure, in which only weights that stand out of the noise are kept, does not. All of this is post-processing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfcd.moments import Moments

Array = NDArray[np.float64]

LEAST_VARIANCE = 0.05
"""Residual variances below this share of their median are lifted to it."""


CAUTION = 1.0
"""Standard deviations of its noise that are added to a residual variance before the smallest is taken."""


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

    @property
    def unwhitening(self) -> Array:
        """The inverse of A."""
        return np.asarray(np.linalg.inv(np.eye(len(self.variances)) - self.weights) * np.sqrt(self.variances)[:, None])

    @property
    def covariance(self) -> Array:
        """The second moments that the equations imply."""
        root = self.unwhitening
        return np.asarray(root.T @ root)

    def capped(self, most: Array) -> Structure:
        """Return the structure with residual variances of at most `most`, shape (d,)."""
        return replace(self, variances=np.minimum(self.variances, most))


Whitening = Callable[[Moments], Structure]
"""Takes noisy moments of d variables and returns a structure for them."""


def structure_whitening(moments: Moments) -> Structure:
    """Return the weights and residual variances that an order search finds, without those that noise may have made.

    One top-down pass: a wrong turn of an edge whitens about as well, and is mended later by who learns from the moments. A
    residual variance is drawn towards the median by as much as its noise leaves open.
    """
    from privfcd.algorithms.equal_variance.search import order_search  # estimators there release moments themselves

    found = order_search(moments, cautions=(CAUTION,), local=False)
    return Structure(found.structure, shrunk_variances(found.variances, found.noise))


def shrunk_variances(variances: Array, noise: Array) -> Array:
    """Return noisy variances drawn towards their median, and lifted where they are far below it."""
    positive = variances[variances > 0]
    middle = float(np.median(positive)) if positive.size else 1.0
    apart = variances - middle
    known = np.abs(apart) > noise
    kept = np.where(known, 1 - (noise / np.where(known, apart, 1.0)) ** 2, 0.0)
    return np.asarray(np.maximum(middle + kept * apart, LEAST_VARIANCE * middle))
