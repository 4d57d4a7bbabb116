"""How much noise a plan needs for what is left of a budget."""

from __future__ import annotations

from collections.abc import Callable

from dp_accounting import DpEvent

from privfcd.accounting.accountants import ZCDPAccountant
from privfcd.accounting.calibration import smallest_scale
from privfcd.accounting.roots import falling_root
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger.ledger import Ledger


def affordable_scale(
    ledger: Ledger,
    plan: Callable[[float], DpEvent],
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    label: str = "run",
) -> tuple[float, float | None]:
    """Return the smallest noise scale for which `plan(scale)` fits, and the delta of its slice.

    Reads nothing but the ledger's balance and charges nothing.

    Parameters
    ----------
    ledger : Ledger
        With a budget of (epsilon, delta) or rho.
    plan : callable
        Returns the composed event at a scale; it must cost less at a larger one, and hold no pure-DP part only.
    epsilon, delta : float, optional
        What may be spent; all that is left by default. Under an (epsilon, delta) budget delta defaults to what is left of
        the budget's, in proportion to epsilon; under a rho it must be given with epsilon.
    label : str
        The run's name, for errors.

    Returns
    -------
    scale : float
    delta : float or None
        None where the slice has no delta, under a rho.

    Raises
    ------
    BudgetExceeded
        Nothing is left, or less than `epsilon` or `delta`.
    InvalidParameter
        The budget is pure, which cannot pay for Gaussian noise, or delta is missing.
    """
    left = ledger.left()
    if left is None:
        raise BudgetExceeded(f"{label!r} was refused: nothing is left of the budget {ledger.budget} of {ledger.name!r}")
    if left.notion == "pure":
        raise InvalidParameter(
            f"the budget of {ledger.name!r} is pure (delta = 0), which cannot pay for GaussianDpEvent: give a delta, or rho"
        )
    if left.notion == "approximate":
        assert left.epsilon is not None
        if delta is None:
            delta = left.delta * (1.0 if epsilon is None else min(1.0, epsilon / left.epsilon))
        for name, asked, have in (("epsilon", epsilon, left.epsilon), ("delta", delta, left.delta)):
            if asked is not None and have is not None and asked > have:
                raise BudgetExceeded(
                    f"{label!r} on {ledger.name!r} was refused: asked {name} {asked:.9g}, spent "
                    f"{ledger.spent().get(name, 0.0):.9g}, left {have:.9g} of {getattr(ledger.budget, name):.9g}"
                )
        return smallest_scale(plan, left.epsilon if epsilon is None else epsilon, delta, ledger.accountant), delta
    assert left.rho is not None
    if epsilon is not None:
        if delta is None:
            raise InvalidParameter(
                f"delta must be given with epsilon for {ledger.name!r}, whose budget is a rho, got None"
            )
        scale = smallest_scale(plan, epsilon, delta)
        asked = ZCDPAccountant().compose(plan(scale)).rho
        if asked > left.rho:
            raise BudgetExceeded(
                f"{label!r} on {ledger.name!r} was refused: asked rho {asked:.9g}, left {left.rho:.9g} of the budget "
                f"{ledger.budget}"
            )
        return scale, None
    limit = left.rho * (1 - 1e-12)
    return falling_root(lambda z: ZCDPAccountant().compose(plan(z)).rho, limit, 1.0, tolerance=1e-13), None
