"""Defaults: rounds, updates and step from public quantities, constants from released ones.

The rules were fitted on synthetic instances with seeds 1, 100, 400 and from 1000 on (d = 20 and 50, epsilon 1, 5 and 10, and
d = 200 at epsilon 10; 8 parties of 5000 rows). How they should change with the number of rows or parties was not studied.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse.losses import SQUARED, Loss

Array = NDArray[np.float64]

FLOOR = 1e-3
"""Released second moments below this share of their median are lifted to it: noise may leave them negative."""

CLIP_FACTOR = 2.0
"""A record's product x_i r_j is clipped at this many times its scale at the solution."""

KEEP = 0.05
"""Consensus weights below this are mostly noise in a private run."""

REFIT_STEPS = 3
"""Newton steps of the refit."""

REFIT_CLIP = 1.5
"""The refit clips at this many times the descent's clips: residuals are small by then, and few are cut."""

REFIT_PRUNE = 0.5
"""The refit keeps weights above this share of the threshold; what is below the threshold after it is dropped then."""


def default_rounds(epsilon: float) -> int:
    """Return T: 100, and 60 below epsilon = 5, where fewer and less noisy rounds do better."""
    return 100 if epsilon >= 5 else 60


def default_updates(d: int, epsilon: float) -> int:
    """Return K: 100 + d / 2, at most 5 d, without privacy, where it decides how much is sent.

    With privacy d / 2 or, if that is more, min(d, 20) epsilon / 4, at most 2.5 d.
    """
    if math.isinf(epsilon):
        return min(5 * d, 100 + d // 2)
    return round(max(min(min(d, 20) * epsilon / 4, 2.5 * d), d / 2, 1.0))


def default_step(epsilon: float) -> float:
    """Return gamma: 0.5 as in the paper without privacy; with it 1, which spends each paid update in full."""
    return 0.5 if math.isinf(epsilon) else 1.0


def default_keep(epsilon: float) -> float:
    """Return the size below which consensus weights are dropped: 0 without privacy; else what noise alone makes."""
    return 0.0 if math.isinf(epsilon) else KEEP


def lifted(moments: Array) -> Array:
    """Return second moments without the negative and vanishing ones that noise can leave."""
    middle = float(np.median(moments))
    if middle <= 0:
        positive = moments[moments > 0]
        middle = float(np.median(positive)) if len(positive) else 1.0
    return np.maximum(moments, FLOOR * middle)


def default_clip(second_moments: Array, rho2: float, loss: Loss = SQUARED) -> float:
    """Return C for which the products x_i r_j are clipped at `CLIP_FACTOR` times their scale at the solution.

    With C_i = C sqrt(M_i / (d sum M)) this is C = factor * s * sqrt(d sum M), where s is the slopes' scale: that of the
    residuals, or the loss's bound where that is smaller. Under equal error variances the smallest second moment
    estimates the residuals' s², because a variable without parents is its own error.
    """
    moments = lifted(second_moments)
    smoothness = loss.curvature * moments + rho2
    scale = min(math.sqrt(float(moments.min())), loss.bound)
    return CLIP_FACTOR * scale * math.sqrt(len(moments) * float(smoothness.sum()))
