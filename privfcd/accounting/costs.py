"""The cost of one simple event as an exact fraction, from the decimals in the event.

Where the cost is a rational function of the event's parameter it is exact, so that a hundred charges of a hundredth
are one; elsewhere it is the accountants' upper bound.
"""

from __future__ import annotations

import math
from fractions import Fraction

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, ZCDpEvent

from privfcd.accounting.accountants import pure_cost, zcdp_cost
from privfcd.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent
from privfcd.amounts import decimal


def exact_cost(event: DpEvent, notion: str) -> Fraction | None:
    """Return the pure epsilon (`notion` `"epsilon"`) or the zCDP rho (`"rho"`) of a simple event; None if infinite.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        A simple event that has a cost in this notion (see `pure_cost`, `zcdp_cost`).
    """
    bound = (pure_cost if notion == "epsilon" else zcdp_cost)(event)
    if bound is None or math.isinf(bound):
        return None
    if bound == 0:
        return Fraction(0)
    match notion, event:
        case "epsilon", LaplaceDpEvent():
            return 1 / decimal(event.noise_multiplier)
        case "epsilon", BoundedRangeDpEvent():
            return decimal(event.eta)
        case "epsilon", EpsilonDeltaDpEvent():
            return decimal(event.epsilon)
        case "rho", GaussianDpEvent():
            return 1 / (2 * decimal(event.noise_multiplier) ** 2)
        case "rho", ZCDpEvent():
            return decimal(event.rho)
        case "rho", EpsilonDeltaDpEvent():
            return decimal(event.epsilon) ** 2 / 2
        case "rho", BoundedRangeDpEvent():
            return min(decimal(bound), decimal(event.eta) ** 2 / 8)
        case "rho", LaplaceDpEvent():
            return min(decimal(bound), 1 / (2 * decimal(event.noise_multiplier) ** 2))
    return decimal(bound)
