"""Selections as Gaussians: a closed form for any number of bounded-range releases, in any adaptive order.

Write G_s for the privacy curve of a Gaussian pair whose loss has variance s = mu², q = eta²/4, and T for one
eta-bounded-range release on what remains of the game, T g = max over t of the chord in `selections`.

**Lemma.** T G_s <= G_{s'} with s' = s²/(s - q) = s + q + q²/(s - q), for every s > q.

*Proof.* Fix t. Under Q the loss of the release's two outcomes and of the pair together has the density f1, a
mixture of two normals of variance s whose means are eta apart; f2 is the density of the loss under the pair of
variance s'. (log f1)'' = -1/s + eta² w (1 - w) / s², w being a posterior weight, which is at most
-1/s + q/s² = -1/s' = (log f2)''. So log(f1/f2) is concave, and f2 - f1 has at most the signs +, -, +. Both have the
same mass, and the same mean, 1, of exp(loss), so that fewer than two changes of sign leave f1 = f2. With two, a convex
function of exp(loss) has under f2 at least its mean under f1: subtract the linear function that agrees with it at
the two changes. A privacy curve is such a mean. ∎

**Theorem 1.** Let q_i belong to the releases of a game and s_0 >= 2 max q_i. In any order, each release and which
comes next chosen adaptively, the game is bounded by G_s, s being the result of s -> s²/(s - q_i) applied to s_0 in the
order of falling q_i.

*Proof.* Induction on the multiset of releases that are left; with none left, H_0 <= G_{s_0}. If release i comes next,
the rest is bounded by G_{s(rest)}, and the whole by the map of i applied to s(rest) (Lemma). In u = 1/s the map is
u -> u - q u²; of two neighbours, the larger q first gives the larger s; and for s >= 2q the map rises with s. So
moving i from the end to its place in the order only raises the result. ∎

For n equal ranges and s_0 = 2q the result is at most q (n + 2 + 1 + 1/2 + ... + 1/n), because s_j >= s_0 + j q.

**Theorem 2.** For n equal ranges one may start from any certified H_j <= G_s: the other n - j steps follow by the
Lemma. The certificate compares the piecewise linear bound on H_j with the two tangents of G_s in each cell of the
grid, which lie below the convex G_s; the reflection covers e < 0. With j = 64 the variance is about
q (n + 1 + log(n/64)), and repeating one t gives about q n, so that for large n little is left between the bound and
the optimum.

An epsilon-DP release has its loss within [-epsilon, epsilon]: it is a bounded-range release with eta = 2 epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from scipy.special import erfcx

from privfcd.accounting.curves import EPS, FLOOR, Curve, gaussian_values
from privfcd.accounting.selections import LARGEST_ETA, selection_curve

CERTIFIED = 64
"""How many selections are compared with a Gaussian on the grid before the Lemma takes over."""

ALLOWANCE = 4 * FLOOR
"""Theorem 2 is certified for the grid's bound less this, the size of its floor: a delta from it is raised by this."""


def chained_variance(ranges: Iterable[tuple[float, int]]) -> float:
    """Return a variance s with H <= G_s for selections of unequal ranges in any adaptive order (Theorem 1).

    Parameters
    ----------
    ranges : iterable of (eta, count)
        Widths in nats, counts at least 1.
    """
    ordered = sorted(ranges, reverse=True)
    if not ordered:
        return 0.0
    if ordered[0][0] > 1e150:
        return math.inf
    variance = ordered[0][0] ** 2 / 2
    for eta, count in ordered:
        variance = _after(variance, eta * eta / 4, count)
    return variance * (1 + 4 * EPS)


@lru_cache(maxsize=1024)
def equal_variance(eta: float, count: int) -> float:
    """Return a variance s with H_count <= G_s for `count` selections of range `eta` (Theorem 2)."""
    if eta > LARGEST_ETA:
        return chained_variance([(eta, count)])
    first = min(count, CERTIFIED)
    return _after(_certified_variance(eta, first), eta * eta / 4, count - first)


def _after(variance: float, q: float, count: int) -> float:
    """Return an upper bound on the result of `count` times s -> s + q + q²/(s - q), from s >= 2q."""
    if count == 0:
        return variance
    start = max(variance / q - 1, 1.0)
    explicit = min(count, 8)
    extra = math.fsum(1 / (start + j) for j in range(explicit))
    # 1/x is convex, so each further term is below its integral over half a step on both sides
    extra += math.log1p((count - explicit) / (start + explicit - 0.5))
    return (variance + q * (count + extra)) * (1 + 16 * EPS)


@lru_cache(maxsize=1024)
def _certified_variance(eta: float, count: int) -> float:
    curve = selection_curve(eta, count, math.inf, 32)
    q = eta * eta / 4
    # the bound of Theorem 1 is certified without looking at the grid
    low, high = 0.25 * q * count, chained_variance([(eta, count)])
    for _ in range(30):
        middle = (low + high) / 2
        if _dominated(curve, middle):
            high = middle
        else:
            low = middle
    return high


def _dominated(curve: Curve, variance: float) -> bool:
    """Return whether `curve` lies below G_variance, up to `ALLOWANCE`: a certificate and not a guess.

    The values of G are lowered by more than their rounding. Where it underflows, larger values of the curve fail.
    """
    mu = math.sqrt(variance)
    epsilons = curve.nodes()
    x = epsilons / mu - mu / 2
    rounding = 1e-12 * np.exp(-0.5 * np.maximum(x, 0.0) ** 2)
    lower = np.maximum(gaussian_values(variance, epsilons) * (1 - 1e-10) - rounding, 0.0)
    values = np.where(curve.values <= ALLOWANCE, 0.0, curve.values)
    if not np.all(values <= lower):
        return False
    # With exp(e) measured from the cell's left end in units of its value there, G' = -Φ(-epsilon/mu - mu/2)
    # exp(epsilon) = -φ(x) R(x + mu), R being Mills' ratio
    slope = np.exp(-0.5 * x * x) * 0.5 * erfcx((x + mu) / math.sqrt(2))
    # each tangent is turned to where it lies lower, by more than its slope's rounding
    left, right = slope[:-1] * (1 + 1e-12), slope[1:] * math.exp(-curve.step) * (1 - 1e-12)
    width = math.expm1(curve.step)
    with np.errstate(divide="ignore", invalid="ignore"):
        meeting = (lower[:-1] - lower[1:] - right * width) / (left - right)
    # any point does: left of it the chord is compared with the left tangent, right of it with the right one
    meeting = np.clip(np.nan_to_num(meeting), 0.0, width)
    tangents = np.minimum(lower[:-1] - left * meeting, lower[1:] + right * (width - meeting))
    chord = values[:-1] + (values[1:] - values[:-1]) * (meeting / width)
    return bool(np.all(chord <= np.maximum(tangents, 0.0)))
