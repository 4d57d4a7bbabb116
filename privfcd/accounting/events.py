"""What one release costs, as `dp_accounting.DpEvent`s.

Everything that dp_accounting has is used as it is; added here are the
exponential mechanism's event and that of a release of which only (epsilon, delta) is known. A cost is a
statement about one neighbouring relation: the sensitivity that went into the event was taken under it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from numbers import Real

import attr
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
)

from privfcd import checks
from privfcd.accounting.units import decimal, float_down, float_up

REPLACE_ONE = NeighboringRelation.REPLACE_ONE
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE


@attr.s(frozen=True, slots=True, auto_attribs=True)
class BoundedRangeDpEvent(DpEvent):
    """One release whose privacy loss lies, for each pair of neighbours, in an interval of width `eta`.

    The exponential mechanism with probabilities proportional to exp(score / b) has eta = 2 D / b for scores of
    sensitivity D, and eta = D / b when one record moves all scores in the same direction (Durfee and Rogers 2019,
    "Practical differentially private top-k selection with pay-what-you-get composition", Lemma 4.2). It is
    eta-DP, and eta²/8-zCDP (Cesar and Rogers 2021, Theorem 3).

    Parameters
    ----------
    eta : float
        Width of the range of the privacy loss, in nats; at least 0.
    """

    eta: float


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(DpEvent):
    """One release of which only (epsilon, delta)-DP is known; pure where delta is 0.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In [0, 1].
    """

    epsilon: float
    delta: float


def selection_event(sensitivity: float, scale: float, *, monotone: bool = False) -> DpEvent:
    """Return the event of one selection by the exponential mechanism.

    Parameters
    ----------
    sensitivity : float
        How far one record can move any score, under the neighbouring relation of the accounting. Where it is inf
        no noise helps and the event is non-private; where it is 0 nothing is released and the event is a no-op.
    scale : float
        b in P(i) ∝ exp(score_i / b), the scale of the Gumbel noise.
    monotone : bool
        Whether one record moves all scores in the same direction, which halves the range.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted.
    """
    if not isinstance(monotone, bool):
        raise checks.refuse("monotone", monotone, "True or False")
    return _scaled(sensitivity, scale, lambda ratio: BoundedRangeDpEvent(float_up(ratio * (1 if monotone else 2))))


def gaussian_event(sensitivity: float, scale: float) -> DpEvent:
    """Return the event of Gaussian noise of standard deviation `scale` on an answer of l2 `sensitivity`.

    Parameters
    ----------
    sensitivity : float
        In l2 norm, under the neighbouring relation of the accounting; at least 0.
    scale : float
        At least 0; 0 adds no noise and is non-private.
    """
    return _scaled(sensitivity, scale, lambda ratio: GaussianDpEvent(float_down(1 / ratio)))


def laplace_event(sensitivity: float, scale: float) -> DpEvent:
    """Return the event of Laplace noise of scale `scale` on an answer of l1 `sensitivity`.

    Parameters
    ----------
    sensitivity : float
        In l1 norm, under the neighbouring relation of the accounting; at least 0.
    scale : float
        At least 0; 0 adds no noise and is non-private.
    """
    return _scaled(sensitivity, scale, lambda ratio: LaplaceDpEvent(float_down(1 / ratio)))


def compose(events: Iterable[tuple[DpEvent, int]]) -> DpEvent:
    """Return one event for all of `events`, each an event and how often it happens.

    Parameters
    ----------
    events : iterable of (dp_accounting.DpEvent, int)
        What happens, and how often.
    """
    parts = [event if count == 1 else SelfComposedDpEvent(event, count) for event, count in events if count]
    if not parts:
        return NoOpDpEvent()
    return parts[0] if len(parts) == 1 else ComposedDpEvent(parts)


def leaves(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """Flatten compositions: the simple events in `event`, each with how often it happens, in order.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        Simple or composed.

    Returns
    -------
    list of (dp_accounting.DpEvent, int)
        Without compositions.

    Raises
    ------
    InvalidParameter
        `event` is no DpEvent, a count is not a whole number of at least 0, or a parameter is NaN or out of range:
        such an event has no cost that could be charged.
    """
    if not isinstance(event, DpEvent):
        raise checks.refuse("event", event, "a dp_accounting.DpEvent")
    if isinstance(event, SelfComposedDpEvent):
        count = checks.count("count of a SelfComposedDpEvent", event.count, least=0)
        return [(leaf, inner * count) for leaf, inner in leaves(event.event) if inner * count]
    if isinstance(event, ComposedDpEvent):
        return [pair for part in event.events for pair in leaves(part)]
    if isinstance(event, NoOpDpEvent):
        return []
    _check_parameters(event)
    return [(event, 1)]


def _check_parameters(event: DpEvent) -> None:
    for field in attr.fields(type(event)):
        value = getattr(event, field.name)
        if isinstance(value, float) and math.isnan(value):
            raise checks.refuse(f"{field.name} of {type(event).__name__}", value, "a number, not NaN")
    if isinstance(event, GaussianDpEvent | LaplaceDpEvent):
        _check_range(event, "noise_multiplier", event.noise_multiplier)
    elif isinstance(event, BoundedRangeDpEvent):
        _check_range(event, "eta", event.eta)
    elif isinstance(event, ZCDpEvent):
        _check_range(event, "rho", event.rho)
        if event.xi:
            raise checks.refuse("xi of ZCDpEvent", event.xi, "0 (no accountant here proves anything for xi > 0)")
    elif isinstance(event, EpsilonDeltaDpEvent):
        _check_range(event, "epsilon", event.epsilon)
        checks.delta("delta of EpsilonDeltaDpEvent", event.delta, one=True)


def _check_range(event: DpEvent, name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or value < 0:
        raise checks.refuse(f"{name} of {type(event).__name__}", value, "a number of at least 0")


def _scaled(sensitivity: float, scale: float, make: Callable[[Fraction], DpEvent]) -> DpEvent:
    unbounded = isinstance(sensitivity, float) and sensitivity == math.inf
    amount = math.inf if unbounded else checks.non_negative("sensitivity", sensitivity)
    noise = checks.scale("scale", scale)
    if amount == 0:
        return NoOpDpEvent()
    if noise == 0 or unbounded:
        return NonPrivateDpEvent()
    return make(decimal(amount) / decimal(noise))
