"""The smooth measure of acyclicity h(W) = tr exp(W∘W) - d, which is 0 exactly for the weights of a DAG.

Zheng, Aragam, Ravikumar and Xing 2018, Theorem 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

Array = NDArray[np.float64]


def acyclicity(weights: Array) -> tuple[float, Array]:
    """Return h and its gradient 2 exp(W∘W)' ∘ W, shape (d, d); h is inf and the gradient 0 where exp overflows."""
    with np.errstate(all="ignore"):
        exponential = expm(weights * weights)
        h = float(np.trace(exponential)) - len(weights)
    if not np.isfinite(h) or not np.isfinite(exponential).all():
        return np.inf, np.zeros_like(weights)
    return h, 2 * exponential.T * weights
