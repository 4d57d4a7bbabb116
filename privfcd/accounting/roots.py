"""The smallest scale that meets a target, for costs that fall as the scale grows."""

from __future__ import annotations

import math
from collections.abc import Callable

from privfcd import checks


def falling_root(
    cost: Callable[[float], float], target: float, start: float, *, tolerance: float = 1e-9, power: float = 1.0
) -> float:
    """Return a scale with cost(scale) <= target, at most about `tolerance` above the smallest; in few evaluations.

    For costs that are expensive and nearly a power of the scale, as all epsilons are: secant steps for log cost in
    log scale, kept inside a bracket; where they do not end soon, as over a jump, every other step halves the bracket.
    They end where the bracket is narrow enough, or where a short step by the slope between two near points came out as
    it was meant to. The returned scale was evaluated: it never overspends.

    Parameters
    ----------
    cost : callable
        Falls as the scale grows.
    target : float
        Above 0.
    start : float
        A guess, for instance the scale that a quicker accountant gives.
    power : float
        A guess of p where the cost falls like scale^-p.
    """

    def excess(log_scale: float) -> float:
        value = cost(math.exp(log_scale))
        return min(max(math.log(value / target), -700.0), 700.0) if value > 0 else -700.0

    target = checks.positive("target", target)
    start = checks.positive("start", start)
    low, high = -math.inf, math.inf  # excess(low) > 0 >= excess(high)
    at, slope, previous, meant = math.log(start), -checks.positive("power", power), None, False
    inside = 0  # how many steps the bracket has had two ends
    for _ in range(200):
        value = excess(at)
        low, high = (at, high) if value > 0 else (low, at)
        inside += math.isfinite(low + high)
        if high - low <= tolerance:
            return math.exp(high)
        if meant and slope * tolerance <= value <= 0:
            return math.exp(at)
        if abs(value) >= 700.0:  # a cost of 0 or inf says nothing about the slope: halve, or step on
            outward = at + math.copysign(1.0, value)
            at, previous, meant = (low + high) / 2 if math.isfinite(low + high) else outward, None, False
            continue
        local = previous is not None and abs(at - previous[0]) < 0.01
        if previous is not None and value != previous[1]:
            slope = min((value - previous[1]) / (at - previous[0]), -1e-3)
        previous = (at, value)
        # near the root aim a little above it, where the scale may be returned; before the slope is known, beyond it,
        # so that both ends of the bracket close in
        step = -value / slope
        beyond = 0.0 if abs(step) >= 1e-4 else 0.4 * tolerance * (1.0 if local else math.copysign(1.0, value))
        wanted = at + min(max(step, -3.0), 3.0) + beyond
        if not low < wanted < high or (inside > 8 and inside % 2):
            wanted, local = (low + high) / 2 if math.isfinite(low + high) else at + (1.0 if value > 0 else -1.0), False
        at, meant = wanted, local and abs(step) < 1e-4 and slope > -100.0  # steeper: over a jump
    if math.isfinite(high):
        return math.exp(high)
    raise checks.refuse("target", target, "a cost that some finite scale meets")
