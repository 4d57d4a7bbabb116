"""Constants that are chosen from released second moments: post-processing, free of budget."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLOOR = 1e-3
"""Released second moments below this share of their median are lifted to it: noise may leave them negative."""

CLIP_FACTOR = 3.0
"""A record's product x_i r_j is clipped at this many times its scale at the solution."""


def lifted(moments: Array) -> Array:
    """Return second moments without the negative and vanishing ones that noise can leave."""
    middle = float(np.median(moments))
    if middle <= 0:
        positive = moments[moments > 0]
        middle = float(np.median(positive)) if len(positive) else 1.0
    return np.maximum(moments, FLOOR * middle)


def default_clip(second_moments: Array, rho2: float) -> float:
    """Return C for which the products x_i r_j are clipped at `CLIP_FACTOR` times their scale at the solution.

    With C_i = C sqrt(M_i / (d sum M)) this is C = factor * s * sqrt(d sum M), where s is the residuals' scale. Under
    equal error variances the smallest second moment estimates s², because a variable without parents is its own error.
    """
    moments = lifted(second_moments)
    smoothness = moments + rho2
    return CLIP_FACTOR * math.sqrt(float(moments.min()) * len(moments) * float(smoothness.sum()))
