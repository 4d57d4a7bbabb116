"""What is lost when rows are clipped in norm, for Gaussian rows.

Let y have second moments G with trace t, and let y be shortened to norm c where it is longer. Satterthwaite's law takes
|y|² / t for a chi-square variable over its degrees of freedom v, v = tr(G)² / tr(G²), which has the right mean and variance,
and is exact where G is a multiple of the identity. The share of the trace that is left is then

    kept(v, c² / t) = E min(|y|², c²) / t = F_{v+2}(v r) + r (1 - F_v(v r)),    r = c² / t,

F_v the chi-square distribution function. It falls short of 1 by what the longest rows lose.
"""

from __future__ import annotations

from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc

LEAST_KEPT = 0.05
"""A share that is estimated is at least this."""


def kept(freedom: float, ratio: float) -> float:
    """Return the share of the trace that is left when rows are clipped at norm² = `ratio` times the trace."""
    half = freedom / 2
    return float(gammainc(half + 1, half * ratio) + ratio * gammaincc(half, half * ratio))


def ratio_for(freedom: float, lost: float) -> float:
    """Return the ratio of norm² to the trace at which the share `lost` of the trace is lost, in (0, 1)."""
    return float(brentq(lambda ratio: 1 - kept(freedom, ratio) - lost, 1e-6, 1e6))


def kept_share(freedom: float, squared_norm: float, trace: float) -> float:
    """Return the share that was left of a trace, from the trace of clipped rows: t with t kept(v, c² / t) = `trace`.

    Parameters
    ----------
    freedom : float
        v.
    squared_norm : float
        c².
    trace : float
        Of the clipped rows' second moments, released; below c² but for its noise.
    """
    if trace <= 0:
        return 1.0  # nothing is seen, so that nothing can be said of what was lost
    seen = min(trace, 0.95 * squared_norm)
    whole = brentq(lambda t: t * kept(freedom, squared_norm / t) - seen, seen / 2, 1e6 * squared_norm)
    return max(kept(freedom, squared_norm / float(whole)), LEAST_KEPT)
