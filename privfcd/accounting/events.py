"""What one release costs, as `dp_accounting.DpEvent`s.

Everything that dp_accounting has is used as it is; added here are the
exponential mechanism's event and that of a release of which only (epsilon, delta) is known. A cost is a
statement about one neighbouring relation: the sensitivity that went into the event was taken under it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from typing import Any

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
from dp_accounting.dp_event import (
    DiscreteLaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)

from privfcd import checks
from privfcd.accounting.units import MOST_RELEASES
from privfcd.amounts import Towards, as_float, exact, float_down, float_up
from privfcd.errors import InvalidParameter

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


@attr.s(frozen=True, slots=True, auto_attribs=True)
class PrivacyLossDpEvent(DpEvent):
    """One release whose privacy loss distribution is given as numbers: a dominating pair (P, Q) of the release.

    Parameters
    ----------
    losses : sequence of float
        log(P/Q) of each outcome; inf where Q has none of it.
    masses : sequence of float
        P of each outcome; what is missing to 1 counts as an infinite loss.
    reverse_losses, reverse_masses : sequence of float, optional
        The same of (Q, P); left out where the pair is symmetric, so that both laws are one.
    """

    losses: Sequence[float]
    masses: Sequence[float]
    reverse_losses: Sequence[float] | None = None
    reverse_masses: Sequence[float] | None = None


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
    """Flatten compositions: the different simple events in `event`, each with how often it happens.

    All accountants, ledgers and audits see events through here. Parameters come back as Python numbers, rounded to the
    side of more cost where no double holds them, so that nothing is computed in the caller's number type. Compositions
    may be nested deeply and shared: the work grows with the number of different objects, not with depth or counts.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        Simple or composed.

    Returns
    -------
    list of (dp_accounting.DpEvent, int)
        Without compositions and without repetitions, in the order of their first appearance (a list of 1000 and more is
        taken kind by kind).

    Raises
    ------
    InvalidParameter
        `event` is no DpEvent, a count is not a whole number of at least 0, events of a composition are no list or tuple,
        or a parameter is no number or out of range: such an event has no cost that could be charged.
    """
    counts: dict[DpEvent | _Same, int] = {}
    simple: dict[int, DpEvent | _Same] = {}
    for part, times in _multiplicities(event):
        if isinstance(part, NoOpDpEvent):
            continue
        key = simple.get(id(part))
        if key is None:
            key = simple[id(part)] = _checked(part)
        counts[key] = counts.get(key, 0) + times
    for key, times in counts.items():
        if times > MOST_RELEASES:
            raise InvalidParameter(
                f"the count of {checks.shown(_event_of(key))} must be at most {MOST_RELEASES} in all, "
                f"got one of {times.bit_length()} bits"
            )
    return [(_event_of(key), times) for key, times in counts.items() if times]


def simple(event: DpEvent) -> DpEvent:
    """Return the same releases as one flat event of Python numbers: what is stored, shown and compared."""
    return compose(leaves(event))


@dataclass(frozen=True, eq=False)
class _Same:
    """An event that cannot be a key itself: it is equal to itself alone."""

    event: DpEvent


def _event_of(key: DpEvent | _Same) -> DpEvent:
    return key.event if isinstance(key, _Same) else key


def _parts(event: DpEvent) -> Sequence[tuple[DpEvent, int]] | None:
    """Return what a composition consists of, each different object once; None for what is no composition."""
    if isinstance(event, SelfComposedDpEvent):
        return [(event.event, checks.count("count of a SelfComposedDpEvent", event.count, least=0))]
    if isinstance(event, ComposedDpEvent):
        if not isinstance(event.events, list | tuple):  # an iterator would be empty when it is read again
            raise checks.refuse("events of a ComposedDpEvent", event.events, "a list or a tuple")
        return _counted(event.events)
    return None


def _counted(events: Sequence[DpEvent]) -> list[tuple[DpEvent, int]]:
    """Return each different object with how often it is there; many of one number are read by loops in C."""
    if len(events) < _MANY:
        return _different(events)
    answer: list[tuple[DpEvent, int]] = []
    for kind, times in Counter(map(type, events)).items():
        own = events if times == len(events) else [part for part in events if type(part) is kind]
        fields = _FIELDS.get(kind, ())
        values = list(map(attrgetter(fields[0][0]), own)) if len(fields) == 1 else []
        if set(map(type, values)) == {float}:  # True and 1.0 are equal, and are not accepted alike
            answer += [(kind(value), count) for value, count in Counter(values).items()]
        else:
            answer += _different(own)
    return answer


def _different(events: Sequence[DpEvent]) -> list[tuple[DpEvent, int]]:
    found = {id(part): part for part in events}
    return [(found[key], count) for key, count in Counter(map(id, events)).items()]


def _multiplicities(event: DpEvent) -> list[tuple[DpEvent, int]]:
    """Return the objects in `event` that are no compositions, each once, with how often it happens.

    The compositions are put in topological order, a composition before its parts, without recursion; one pass then adds
    up how often each happens.
    """
    parts: dict[int, Sequence[tuple[DpEvent, int]] | None] = {}
    order: list[DpEvent] = []  # compositions, after those that are in them
    found: list[DpEvent] = []
    below: set[int] = set()  # compositions that are being opened
    stack: list[tuple[DpEvent, bool]] = [(event, False)]
    while stack:
        part, opened = stack.pop()
        if opened:
            below.discard(id(part))
            order.append(part)
            continue
        if id(part) in parts:
            if id(part) in below:
                raise InvalidParameter("event must not contain itself")
            continue
        if not isinstance(part, DpEvent):
            raise checks.refuse("event", part, "a dp_accounting.DpEvent")
        inner = parts[id(part)] = _parts(part)
        if inner is None:
            found.append(part)
            continue
        below.add(id(part))
        stack.append((part, True))
        stack.extend((one, False) for one, _ in reversed(inner))  # the first part is taken first
    times: dict[int, int] = {id(event): 1}
    for part in reversed(order):
        for one, count in parts[id(part)] or ():
            times[id(one)] = times.get(id(one), 0) + times[id(part)] * count
    return [(part, times[id(part)]) for part in found]


_MANY = 1000
_AMOUNT = "a number of at least 0, not NaN"
_FIELDS: dict[type[DpEvent], tuple[tuple[str, Towards | None, str], ...]] = {
    GaussianDpEvent: (("noise_multiplier", "down", _AMOUNT),),
    LaplaceDpEvent: (("noise_multiplier", "down", _AMOUNT),),
    DiscreteLaplaceDpEvent: (("noise_parameter", "up", _AMOUNT), ("sensitivity", None, "")),
    RandomizedResponseDpEvent: (("noise_parameter", "down", "in [0, 1]"), ("num_buckets", None, "")),
    ZCDpEvent: (("rho", "up", _AMOUNT), ("xi", "up", "0 (no accountant here proves anything for xi > 0)")),
    BoundedRangeDpEvent: (("eta", "up", _AMOUNT),),
    EpsilonDeltaDpEvent: (("epsilon", "up", _AMOUNT), ("delta", "up", "in [0, 1]")),
    PoissonSampledDpEvent: (("sampling_probability", "up", "in [0, 1]"), ("event", None, "an event")),
    SampledWithoutReplacementDpEvent: (
        ("source_dataset_size", None, ""),
        ("sample_size", None, ""),
        ("event", None, "an event"),
    ),
    TruncatedSubsampledGaussianDpEvent: (
        ("dataset_size", None, ""),
        ("sampling_probability", "up", "in [0, 1]"),
        ("truncated_batch_size", None, ""),
        ("noise_multiplier", "down", _AMOUNT),
    ),
    MixtureOfGaussiansDpEvent: (
        ("standard_deviation", "down", _AMOUNT),
        ("sensitivities", None, "a row of numbers"),
        ("sampling_probs", None, "a row of numbers"),
    ),
}
"""The parameters of simple events: to which side they are rounded (None for whole numbers of at least 1), and what is
accepted."""


def _checked(event: DpEvent) -> DpEvent | _Same:
    """Return a simple event with Python numbers in it, or raise InvalidParameter by the name of the parameter."""
    for kind in type(event).__mro__:
        fields = _FIELDS.get(kind)
        if fields is not None:
            made = kind(*[_value(event, *field) for field in fields])
            if isinstance(made, SampledWithoutReplacementDpEvent) and made.sample_size > made.source_dataset_size:
                accepted = f"at most source_dataset_size, {made.source_dataset_size}"
                raise checks.refuse("sample_size of SampledWithoutReplacementDpEvent", made.sample_size, accepted)
            return made
    if isinstance(event, PrivacyLossDpEvent):
        return _checked_losses(event)
    for field in attr.fields(type(event)) if attr.has(type(event)) else ():
        value = getattr(event, field.name)
        if isinstance(value, float) and math.isnan(value):
            raise checks.refuse(f"{field.name} of {type(event).__name__}", value, "a number, not NaN")
    try:
        hash(event)
    except (TypeError, RecursionError):
        return _Same(event)
    return event


def _checked_losses(event: PrivacyLossDpEvent) -> PrivacyLossDpEvent:
    """Return the event with tuples of floats, each pair of which is a law that some pair (P, Q) can have."""
    pairs = [("losses", "masses")]
    if event.reverse_losses is not None or event.reverse_masses is not None:
        pairs.append(("reverse_losses", "reverse_masses"))
    found: list[tuple[float, ...]] = []
    for names in pairs:
        losses, masses = (_row(event, name) for name in names)
        title = f"{names[1]} of PrivacyLossDpEvent"
        if len(losses) != len(masses) or not any(map(math.isfinite, losses)):
            raise checks.refuse(title, checks.shown(getattr(event, names[1])), "one for each loss, at least one finite")
        if min(losses) == -math.inf or min(masses) < 0 or math.fsum(masses) > 1 + 1e-9:
            raise checks.refuse(title, math.fsum(masses), "at least 0 and at most 1 together, at losses above -inf")
        with_q = math.fsum(mass * math.exp(-max(loss, -700.0)) for loss, mass in zip(losses, masses, strict=True))
        if with_q > 1 + 1e-6:
            raise checks.refuse(title, with_q, "such that the sum of mass * exp(-loss), which is Q's, is at most 1")
        found += [losses, masses]
    return PrivacyLossDpEvent(*found)


def _row(event: DpEvent, name: str) -> tuple[float, ...]:
    given = getattr(event, name)
    title = f"{name} of {type(event).__name__}"
    try:
        numbers = [as_float(one, "up") for one in given] if not isinstance(given, str | bytes) else []
    except TypeError:
        numbers = []
    if not numbers or any(number is None or math.isnan(number) for number in numbers):
        raise checks.refuse(title, checks.shown(given), "a row of numbers")
    return tuple(number for number in numbers if number is not None)


def _value(event: DpEvent, name: str, towards: Towards | None, accepted: str) -> Any:
    given = getattr(event, name)
    title = f"{name} of {type(event).__name__}"
    if accepted == "an event":
        try:
            return simple(given)
        except RecursionError:
            raise checks.refuse(title, given, "nested less deeply") from None
    if accepted == "a row of numbers":
        return _row(event, name)
    if towards is None:
        return checks.count(title, given)
    number = as_float(given, towards)
    most = 1.0 if accepted == "in [0, 1]" else 0.0 if accepted.startswith("0 ") else math.inf
    if number is None or not 0 <= number <= most:
        raise checks.refuse(title, given, accepted)
    return number + 0.0  # -0.0 is 0.0


def _scaled(sensitivity: float, scale: float, make: Callable[[Fraction], DpEvent]) -> DpEvent:
    unbounded = isinstance(sensitivity, float) and sensitivity == math.inf
    amount = math.inf if unbounded else checks.non_negative("sensitivity", sensitivity, "up")
    noise = checks.scale("scale", scale)
    if amount == 0:
        return NoOpDpEvent()
    if noise == 0 or unbounded:
        return NonPrivateDpEvent()
    return make(_ratio(sensitivity) / _ratio(scale))


def _ratio(value: float) -> Fraction:
    number = exact(value)
    assert isinstance(number, Fraction)
    return number
