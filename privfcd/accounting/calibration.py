"""The noise for a target: one release, many, or a plan that mixes selections, Gaussians and Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from dp_accounting import DpEvent, UnsupportedEventError

from privfcd import checks
from privfcd.accounting.accountants import ZCDPAccountant
from privfcd.accounting.events import compose, gaussian_event, laplace_event, leaves, selection_event
from privfcd.accounting.registry import DEFAULT_ACCOUNTANT, accountant_named
from privfcd.accounting.roots import falling_root
from privfcd.accounting.tight import TightAccountant
from privfcd.errors import InvalidParameter


def epsilon_of(event: DpEvent, delta: float, accountant: str = DEFAULT_ACCOUNTANT) -> float:
    """Return the epsilon at `delta` of any composed event.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What was or will be released, under one neighbouring relation.
    delta : float
        In [0, 1).
    accountant : str
        `"tight"` (default), `"zcdp"`, `"zcdp-loose"` or `"pure"`.

    Raises
    ------
    InvalidParameter
        The accountant can prove nothing about one of the events.
    """
    try:
        composed = accountant_named(accountant)().compose(event)
    except UnsupportedEventError as error:
        raise InvalidParameter(f"the {accountant!r} accountant cannot price the event: {error}") from error
    return composed.get_epsilon(delta)


def delta_of(event: DpEvent, epsilon: float) -> float:
    """Return the delta at `epsilon` of any composed event, by the tight accountant.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        What was or will be released, under one neighbouring relation.
    epsilon : float
        At least 0.

    Raises
    ------
    InvalidParameter
        The accountant can prove nothing about one of the events.

    Examples
    --------
    >>> from privfcd.accounting import GaussianDpEvent
    >>> round(delta_of(GaussianDpEvent(1.0), 1.0), 4)
    0.1269
    """
    try:
        composed = TightAccountant().compose(event)
    except UnsupportedEventError as error:
        raise InvalidParameter(f"the tight accountant cannot price the event: {error}") from error
    return composed.get_delta(checks.non_negative("epsilon", epsilon, "down"))


@dataclass(frozen=True)
class NoisePlan:
    """Noise scales that meet a target, and what they really cost.

    Attributes
    ----------
    gaussian_scale, selection_scale, laplace_scale : float or None
        Standard deviation of the Gaussian noise; b of the Gumbel noise in a selection with P ∝ exp(score/b) (its
        standard deviation is pi/sqrt(6) b); b of the Laplace noise (standard deviation sqrt(2) b). In the units of
        the sensitivity. None where the plan has no such release.
    rho : float
        The plan's zCDP.
    event : dp_accounting.DpEvent
        All releases, composed.
    epsilon, delta : float
        What is really spent: epsilon is at most what was asked for.
    accountant : str
        Who says so.
    method : str
        For the tight accountant, by which of its bounds: `"gaussian"`, `"grid"`, `"basic"`, `"zcdp"` or `"pure"` (see
        `TightAccountant`); otherwise the accountant's name.
    """

    gaussian_scale: float | None
    selection_scale: float | None
    laplace_scale: float | None
    rho: float
    event: DpEvent
    epsilon: float
    delta: float
    accountant: str
    method: str

    @property
    def events(self) -> list[tuple[DpEvent, int]]:
        """The simple events, each with how often it happens."""
        return leaves(self.event)


def calibrate(
    epsilon: float,
    delta: float,
    *,
    selections: int = 0,
    gaussians: int = 0,
    laplaces: int = 0,
    sensitivity: float = 1.0,
    accountant: str = DEFAULT_ACCOUNTANT,
) -> NoisePlan:
    """Return the smallest common noise scale for which all releases together are (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In [0, 1). At 0 only selections and Laplace noise can be planned.
    selections, gaussians, laplaces : int
        How many releases of each kind; at least one in all. A selection is the exponential mechanism on scores
        that one record may move in both directions.
    sensitivity : float
        Of every release: of any score, in l2 norm for Gaussian noise, in l1 norm for Laplace noise; above 0.
    accountant : str
        `"tight"` (default), `"zcdp"`, `"zcdp-loose"` or `"pure"`.

    Returns
    -------
    NoisePlan
        Never overspends: its epsilon was evaluated at its scale and is at most `epsilon`.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted, there is no release, or delta = 0 with Gaussian noise, which is never
        purely private.
    """
    epsilon = checks.positive("epsilon", epsilon, "down")
    delta = checks.delta("delta", delta)
    counts = [
        checks.count(name, value, least=0)
        for name, value in (("selections", selections), ("gaussians", gaussians), ("laplaces", laplaces))
    ]
    if not any(counts):
        raise InvalidParameter("selections, gaussians and laplaces are all 0: there is no noise to find")
    sensitivity = checks.positive("sensitivity", sensitivity, "up")
    accountant_named(accountant)
    if delta == 0 and gaussians:
        raise InvalidParameter("delta must be above 0 for Gaussian noise, got 0: no Gaussian noise is purely private")

    def plan(scale: float) -> DpEvent:
        makers = (selection_event, gaussian_event, laplace_event)
        return compose((make(sensitivity, scale), count) for make, count in zip(makers, counts, strict=True) if count)

    scale = smallest_scale(plan, epsilon, delta, accountant, start=sensitivity)
    event = plan(scale)
    return NoisePlan(
        gaussian_scale=scale if gaussians else None,
        selection_scale=scale if selections else None,
        laplace_scale=scale if laplaces else None,
        rho=ZCDPAccountant().compose(event).rho,
        event=event,
        epsilon=epsilon_of(event, delta, accountant),
        delta=delta,
        accountant=accountant,
        method=TightAccountant().compose(event).method(delta) if accountant == "tight" else accountant,
    )


def smallest_scale(
    plan: Callable[[float], DpEvent],
    epsilon: float,
    delta: float,
    accountant: str = DEFAULT_ACCOUNTANT,
    *,
    start: float = 1.0,
) -> float:
    """Return the smallest scale for which `plan(scale)` costs at most `epsilon` at `delta`.

    `plan` must cost less at a larger scale. The answer is evaluated before it is returned, so that it never
    overspends, and is at most about a part in 10⁹ above the smallest.
    """
    epsilon = checks.positive("epsilon", epsilon, "down")

    def cost(name: str) -> Callable[[float], float]:
        return lambda scale: epsilon_of(plan(scale), delta, name)

    if accountant == "tight":
        power = 1.0
        with suppress(InvalidParameter):  # zCDP may not know the events; its scale and slope are only where to begin
            start = falling_root(cost("zcdp"), epsilon, start, tolerance=1e-3)
            near, far = map(cost("zcdp"), (start, 1.1 * start))
            power = math.log(near / far) / math.log(1.1) if near > far > 0 else power
        return falling_root(cost(accountant), epsilon, start, power=power)
    return falling_root(cost(accountant), epsilon, start, tolerance=1e-13)
