"""What releases cost a group of records, such as one record that is in several tables of one sum.

Where one noise stands before a sum over several tables, a record in k of them moves the sum up to k times as far as each
table's event says: two such inputs are k steps apart, from neighbour to neighbour. That is not the composition of k costs:
Gaussian noise of mu costs k mu then, and composition would say sqrt(k) mu. With noise of its own in front of each table it
is the composition.

For a path of k steps, each law of the mechanism's against the next as the event says:

- Gaussian and Laplace noise: the sensitivity is k times as large, and the cost is exactly that of noise k times as small.
- rho-zCDP: k² rho (Bun and Steinke 2016, Proposition 1.9).
- A privacy loss within a range of eta: the losses of the steps add up, and so do their ranges: k eta.
- (epsilon, delta)-DP: (k epsilon, delta (1 + e^epsilon + ... + e^((k - 1) epsilon))), by putting
  P_i(S) <= e^epsilon P_(i+1)(S) + delta into itself k times.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, ZCDpEvent

from privfcd import checks
from privfcd.accounting.calibration import epsilon_of
from privfcd.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent, compose, leaves
from privfcd.amounts import float_down, float_up


def group_event(event: DpEvent, size: int) -> DpEvent:
    """Return what the releases of `event` cost where inputs differ by `size` steps from neighbour to neighbour.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        The cost for neighbours; simple or composed.
    size : int
        At least 1.

    Returns
    -------
    dp_accounting.DpEvent
        `NonPrivateDpEvent` for releases of which no bound is known.

    Raises
    ------
    InvalidParameter
        See `leaves`; or `size` is no whole number of at least 1.

    Examples
    --------
    >>> from dp_accounting import GaussianDpEvent
    >>> group_event(GaussianDpEvent(3.0), 2)
    GaussianDpEvent(noise_multiplier=1.5)
    """
    size = checks.count("size", size)
    return compose([(_of_one(leaf, size), times) for leaf, times in leaves(event)])


def _of_one(leaf: DpEvent, size: int) -> DpEvent:
    if size == 1:
        return leaf
    if isinstance(leaf, GaussianDpEvent | LaplaceDpEvent):
        return type(leaf)(float_down(Fraction(leaf.noise_multiplier) / size))
    if isinstance(leaf, ZCDpEvent):  # xi is 0, see `leaves`
        return ZCDpEvent(float_up(Fraction(leaf.rho) * size**2))
    if isinstance(leaf, BoundedRangeDpEvent):
        return BoundedRangeDpEvent(float_up(Fraction(leaf.eta) * size))
    if isinstance(leaf, EpsilonDeltaDpEvent):
        return _approximate(leaf.epsilon, leaf.delta, size)
    return _approximate(epsilon_of(leaf, 0.0, "tight"), 0.0, size)  # pure, or inf


def _approximate(epsilon: float, delta: float, size: int) -> DpEvent:
    if not math.isfinite(epsilon):
        return NonPrivateDpEvent()
    # every rounding upwards: the sum has `size` terms, none below the term before
    try:
        factor = math.fsum(math.nextafter(math.exp(step * epsilon), math.inf) for step in range(size))
    except OverflowError:
        factor = math.inf
    lost = min(1.0, math.nextafter(delta * factor * (1 + 1e-15), 1.0)) if delta else 0.0
    return EpsilonDeltaDpEvent(float_up(Fraction(epsilon) * size), lost)
