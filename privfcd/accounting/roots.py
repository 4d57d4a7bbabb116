"""The smallest scale that meets a target, for costs that fall as the scale grows."""

from __future__ import annotations

import math
from collections.abc import Callable

from privfcd import checks


def falling_root(cost: Callable[[float], float], target: float, start: float, *, tolerance: float = 1e-9) -> float:
    """Return a scale with cost(scale) <= target, at most about `tolerance` above the smallest; in few evaluations.

    For costs that are expensive and nearly a power of the scale, as all epsilons are: secant steps for log cost in
    log scale, kept inside a bracket. The returned scale was evaluated: it never overspends.

    Parameters
    ----------
    cost : callable
        Falls as the scale grows.
    target : float
        Above 0.
    start : float
        A guess, for instance the scale that a quicker accountant gives.
    """

    def excess(log_scale: float) -> float:
        value = cost(math.exp(log_scale))
        return min(max(math.log(value / target), -700.0), 700.0) if value > 0 else -700.0

    target = checks.positive("target", target)
    start = checks.positive("start", start)
    low, high = -math.inf, math.inf  # excess(low) > 0 >= excess(high)
    at, slope, previous = math.log(start), -1.0, None
    for _ in range(200):
        value = excess(at)
        low, high = (at, high) if value > 0 else (low, at)
        if high - low <= tolerance:
            return math.exp(high)
        if abs(value) >= 700.0:  # a cost of 0 or inf says nothing about the slope: halve, or step on
            outward = at + math.copysign(1.0, value)
            at, previous = (low + high) / 2 if math.isfinite(low + high) else outward, None
            continue
        if previous is not None and value != previous[1]:
            slope = min((value - previous[1]) / (at - previous[0]), -1e-3)
        previous = (at, value)
        # near the root aim a little beyond it, so that both ends of the bracket close in
        step = -value / slope
        beyond = math.copysign(0.4 * tolerance, value) if abs(step) < 1e-4 else 0.0
        wanted = at + min(max(step, -3.0), 3.0) + beyond
        if not low < wanted < high:
            wanted = (low + high) / 2 if math.isfinite(low + high) else at + (1.0 if value > 0 else -1.0)
        at = wanted
    if math.isfinite(high):
        return math.exp(high)
    raise checks.refuse("target", target, "a cost that some finite scale meets")
