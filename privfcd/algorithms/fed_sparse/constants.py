"""Defaults: rounds, updates and step from public quantities, constants from released ones.

The rules were fitted on synthetic instances with seeds 1, 100, 400 and from 1000 on (d = 20 and 50, 8 parties of 5000 rows,
epsilon 1, 5 and 10). How they should change with the number of rows or parties was not studied.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

FLOOR = 1e-3
"""Released second moments below this share of their median are lifted to it: noise may leave them negative."""

CLIP_FACTOR = 2.0
"""A record's product x_i r_j is clipped at this many times its scale at the solution."""


def default_rounds(epsilon: float) -> int:
    """Return T: 100, and 60 below epsilon = 5, where fewer and less noisy rounds do better."""
    return 100 if epsilon >= 5 else 60


def default_updates(d: int, epsilon: float) -> int:
    """Return K: 5 d without privacy; d epsilon / 4 with it, between d / 2 and 2.5 d."""
    if math.isinf(epsilon):
        return 5 * d
    return round(min(max(d * epsilon / 4, d / 2, 1.0), 2.5 * d))


def default_step(epsilon: float) -> float:
    """Return gamma: 0.5 as in the paper without privacy; with it 1, which spends each paid update in full."""
    return 0.5 if math.isinf(epsilon) else 1.0


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
