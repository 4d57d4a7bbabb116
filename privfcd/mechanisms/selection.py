"""The exponential mechanism in exact arithmetic: P(i) = exp(s_i / b) / sum_j exp(s_j / b) for scores that are
floats.

Method: rejection from integer weights. With m the largest score, n the number of candidates, and F = 62 -
(bits of n),

1. every candidate gets an integer W_i >= 2^F exp((s_i - m) / b), hence sum W < 2^63;
2. i is drawn with probability W_i / sum W, exactly, by a uniform integer below the sum;
3. i is kept with probability 2^F exp((s_i - m) / b) / W_i, else back to 2.

Theorem. The kept i has the law of the exponential mechanism on the given doubles, exactly.
Proof. One round keeps i with probability W_i / sum W · 2^F exp((s_i - m)/b) / W_i, which is proportional to
exp(s_i / b); rounds are independent.

What has to be right is only that W is an upper bound, which takes no accuracy. In units of 1/1024 of a binary
digit the exponent is x = (s_i - m)/b · 1024/ln 2 <= 0, and W_i = (T[k mod 1024] shifted by k div 1024 and
rounded down) + 1 for an integer k >= x and integers T[j] >= 2^62 2^(j/1024). k is the floor of the
floating-point value of x + 1 + 2^-20. That is at least x: x is a difference, a quotient and two products, of
relative error below 2^-50 together and with |x| < 2^16, or it is cut off at -1024 F, where W = 2 is enough
(2^F exp(.) <= 1). NumPy's correctly rounded subtraction and multiplication are used, never its exp.

Step 3 compares a uniform of 53 bits with (1 - 1/W) · 2^(-1/1024) (1 - 10^-6), a lower bound of the
probability as k < x + 1 + 2^-19; below it, i is kept with no further arithmetic, in 99.9 % of the cases. The
others are decided by `lazy.below` with integers for this one candidate, and as many bits as it takes.

Time. Steps 1 and 2 are the same sequence of array operations for all scores: time depends on the number of
candidates only, but for memory caches. Step 3 needs integers with probability below 1/1400 + 3n / 2^F
whatever the scores are; a candidate far below the others is drawn in step 2 with probability at most 2 / 2^F.

Candidates with score -inf are never kept. Differences that overflow lie beyond the cut-off, and step 3 takes
the exact difference; scales so extreme that quotients would be wrong are first brought to the middle by a
power of two.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms import lazy
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.lazy import Lazy

Floats = NDArray[np.float64]
Weights = NDArray[np.uint64]

_STEPS = 1024
_LN2 = 0.6931471805599453
_STEP_BITS = 10
_WHOLE = 62
_CEILING = 1.0 + 2.0**-20
CERTAIN = 2.0 ** (-1 / _STEPS) * (1 - 1e-6)
_COIN_BITS = 53
_BLOCK = 16384
_GROUP = 256
_FAR = 200


@lru_cache(maxsize=1)
def _table() -> Weights:
    """Integers T[j] >= 2^62 2^(j/1024), above it by little more than 1, for j in 0..1023."""
    digits = 192
    root = 2 << digits
    for _ in range(_STEP_BITS):
        root = math.isqrt(root << digits) + 1
    power, steps = 1 << digits, []
    for _ in range(_STEPS):
        steps.append(-(-power >> (digits - _WHOLE)))
        power = -(-power * root >> digits)
    return np.array(steps, dtype=np.uint64)


def weight_bits(size: int) -> int:
    """Return F of the module's text for so many candidates."""
    return _WHOLE - size.bit_length()


def _normalised(scores: Floats, peak: float, scale: float) -> tuple[Floats, float, float]:
    """Return the same quotients with a scale that is neither so small nor so large that they overflow.

    Powers of two are exact, but for scores that are below 2^-800 scales either way.
    """
    if scale < 2.0**-900:
        # differences first: an overflow below is a quotient beyond 2^1000
        with np.errstate(over="ignore"):
            return np.ldexp(scores - peak, _FAR), 0.0, math.ldexp(scale, _FAR)
    if scale > 2.0**900:
        return np.ldexp(scores, -_FAR), math.ldexp(peak, -_FAR), math.ldexp(scale, -_FAR)
    return scores, peak, scale


def integer_weights(scores: Floats, scale: float, peak: float) -> Weights:
    """Return W of the module's text, for `scores` whose maximum is `peak`, finite, and a `scale` above 0."""
    size = len(scores)
    digits = size.bit_length()
    scores, peak, scale = _normalised(scores, peak, scale)
    slope = _STEPS / _LN2 / scale
    offset = _WHOLE * _STEPS + _CEILING
    least = digits * _STEPS + _CEILING
    table = _table()
    weights = np.empty(size, dtype=np.uint64)
    shift_from = np.int64(_WHOLE + digits)
    with np.errstate(over="ignore"):
        for start in range(0, size, _BLOCK):
            x = scores[start : start + _BLOCK] - peak
            x *= slope
            x += offset
            np.maximum(x, least, out=x)
            k = x.astype(np.int64)
            part = weights[start : start + _BLOCK]
            table.take(k & (_STEPS - 1), out=part, mode="wrap")
            k >>= _STEP_BITS
            np.subtract(shift_from, k, out=k)
            part >>= k.view(np.uint64)
            part += np.uint64(1)
    return weights


def _kept(entropy: Entropy, coin: int, weight: int, score: float, peak: float, scale: float, size: int) -> bool:
    """Step 3 for one candidate."""
    if (coin + 1) * 2.0**-_COIN_BITS <= (1.0 - 1.0 / weight) * CERTAIN and weight > 2:
        return True
    if score == -math.inf:
        return False
    factor = Fraction(1 << (_WHOLE - size.bit_length()), weight)
    gamma = (Fraction(peak) - Fraction(score)) / Fraction(scale)
    return lazy.below(entropy, Lazy(coin, _COIN_BITS), factor, gamma)


def select(entropy: Entropy, scores: Floats, scale: float, peak: float) -> int:
    """Return one index from the exponential mechanism.

    Parameters
    ----------
    scores : ndarray (n,)
        Doubles, -inf or finite; n < 2^31.
    scale : float
        b, finite and above 0.
    peak : float
        The largest score; finite.
    """
    size = len(scores)
    weights = integer_weights(scores, scale, peak)
    groups = size // _GROUP if size > 4 * _GROUP else 0
    totals = np.cumsum(weights[: groups * _GROUP].reshape(groups, _GROUP).sum(axis=1)) if groups else None
    before_rest = int(totals[-1]) if totals is not None else 0
    rest = np.cumsum(weights[groups * _GROUP :])
    total = before_rest + (int(rest[-1]) if len(rest) else 0)
    while True:
        drawn = entropy.below(total)
        if totals is None or drawn >= before_rest:
            index = groups * _GROUP + int(rest.searchsorted(np.uint64(drawn - before_rest), side="right"))
        else:
            group = int(totals.searchsorted(np.uint64(drawn), side="right"))
            inside = np.uint64(drawn - (int(totals[group - 1]) if group else 0))
            start = group * _GROUP
            index = start + int(np.cumsum(weights[start : start + _GROUP]).searchsorted(inside, side="right"))
        coin = entropy.word() >> (64 - _COIN_BITS)
        if _kept(entropy, coin, int(weights[index]), float(scores[index]), peak, scale, size):
            return index


def select_many(entropy: Entropy, scores: Floats, scale: float, peak: float, size: int) -> NDArray[np.int64]:
    """Return `size` independent indices from the exponential mechanism; arguments as for `select`."""
    weights = integer_weights(scores, scale, peak)
    candidates = len(scores)
    sums = np.cumsum(weights)
    total = int(sums[-1])
    picks = np.empty(size, dtype=np.int64)
    open_ = np.arange(size)
    while len(open_):
        index = sums.searchsorted(entropy.below_many(total, len(open_)), side="right")
        coins = entropy.bits_many(_COIN_BITS, len(open_))
        weight = weights[index]
        kept = (coins.astype(np.float64) + 1.0) * 2.0**-_COIN_BITS <= (1.0 - 1.0 / weight) * CERTAIN
        kept &= weight > 2
        for i in np.flatnonzero(~kept).tolist():
            j = int(index[i])
            kept[i] = _kept(entropy, int(coins[i]), int(weight[i]), float(scores[j]), peak, scale, candidates)
        picks[open_[kept]] = index[kept]
        open_ = open_[~kept]
    return picks
