"""Independent coins with probabilities exp((score_i - max) / b), decided exactly on the doubles as given.

Method. `selection.integer_weights` gives integers W_i with 2^F exp((s_i - m) / b) <= W_i, F = 62 - (bits of n), and a
lower bound of the same number is (W_i - 1) times 2^(-1/1024) (1 - 10^-6), where W_i > 2. A uniform U of F bits is a sure
tail at or above W_i / 2^F and a sure head where its interval is below the lower bound. What is between, one in 1400 heads
and what lies within a few 2^-F of 0, is decided by `lazy.below` in integers, with as many more bits as it takes.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms import lazy
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.lazy import Lazy
from privfcd.mechanisms.selection import CERTAIN, integer_weights, weight_bits

_ROUNDING = 1.0 - 2.0**-40  # of the three conversions and products below


def heads(entropy: Entropy, scores: NDArray[np.float64], scale: float, peak: float) -> NDArray[np.bool_]:
    """Return which coins show heads; the largest score's always does.

    Parameters
    ----------
    scores : ndarray (n,)
        Doubles, -inf (never a head) or finite; n < 2^31.
    scale : float
        b, finite and above 0.
    peak : float
        The largest score; finite.
    """
    size = len(scores)
    bits = weight_bits(size)
    weights = integer_weights(scores, scale, peak)
    coins = entropy.bits_many(bits, size)
    sure = (coins.astype(np.float64) + 1.0) <= (weights.astype(np.float64) - 1.0) * (CERTAIN * _ROUNDING)
    shown: NDArray[np.bool_] = (sure & (weights > 2)) | (scores == peak)
    for i in np.flatnonzero(~shown & (coins < weights)).tolist():
        if scores[i] != -math.inf:
            gamma = (Fraction(peak) - Fraction(float(scores[i]))) / Fraction(scale)
            shown[i] = lazy.below(entropy, Lazy(int(coins[i]), bits), Fraction(1), gamma)
    return shown
