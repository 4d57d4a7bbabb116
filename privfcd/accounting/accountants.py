"""Accountants: what a sequence of releases costs in total.

All are `dp_accounting.PrivacyAccountant`s. They refuse events about which they can prove nothing, and what they
answer is an upper bound. The order of the releases does not matter, and each may be chosen after seeing the answers
of the earlier ones, as long as the events are fixed in advance or held to a filter (see `ledger`).
"""

from __future__ import annotations

import math
import sys
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Self

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    PrivacyAccountant,
    SelfComposedDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import SampledWithoutReplacementDpEvent

from privfcd import checks
from privfcd.accounting.conversions import (
    bounded_range_rho,
    laplace_rho,
    pure_rho,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from privfcd.accounting.events import REPLACE_ONE, BoundedRangeDpEvent, EpsilonDeltaDpEvent, leaves, simple
from privfcd.amounts import decimal, float_up


def pure_cost(event: DpEvent) -> float | None:
    """Return the pure epsilon of one simple event; None where it has none."""
    match event:
        case NonPrivateDpEvent():
            return math.inf
        case BoundedRangeDpEvent():
            return event.eta
        case LaplaceDpEvent():
            return _inverse(event.noise_multiplier)
        case EpsilonDeltaDpEvent(delta=0):
            return event.epsilon
        case SampledWithoutReplacementDpEvent():
            return _sampled(event)
    return None


def _sampled(event: SampledWithoutReplacementDpEvent) -> float | None:
    """Return log(1 + q (exp(epsilon) - 1)), for one replaced row of which a secret share q is used (see `imported`)."""
    whole = _sum_of(event.event, pure_cost)
    if whole is None or whole > 700:
        return whole
    share = event.sample_size / event.source_dataset_size
    return min(whole, math.log1p(share * math.expm1(whole)) * (1 + 16 * sys.float_info.epsilon))


def _sum_of(event: DpEvent, cost: Callable[[DpEvent], float | None]) -> float | None:
    costs = [(cost(leaf), count) for leaf, count in leaves(event)]
    known = [(one, count) for one, count in costs if one is not None]
    return sum_up(known) if len(known) == len(costs) else None


def zcdp_cost(event: DpEvent) -> float | None:
    """Return the zCDP rho of one simple event; None where it has none."""
    match event:
        case NonPrivateDpEvent():
            return math.inf
        case ZCDpEvent():
            return event.rho
        case GaussianDpEvent():
            if event.noise_multiplier == 0:
                return math.inf
            return 0.0 if event.noise_multiplier == math.inf else _gaussian_rho(event.noise_multiplier)
        case BoundedRangeDpEvent():
            return bounded_range_rho(event.eta) if event.eta < math.inf else math.inf
        case LaplaceDpEvent():
            epsilon = _inverse(event.noise_multiplier)
            return laplace_rho(epsilon) if epsilon < math.inf else math.inf
        case EpsilonDeltaDpEvent(delta=0):
            return pure_rho(event.epsilon) if event.epsilon < math.inf else math.inf
        case SampledWithoutReplacementDpEvent():
            return _sum_of(event.event, zcdp_cost)
    return None


@lru_cache(maxsize=4096)
def _gaussian_rho(multiplier: float) -> float:
    """Return 1 / (2 multiplier²), rounded up and above 0; kept, because one event's cost is asked for many times."""
    return float_up(1 / (2 * decimal(multiplier) ** 2)) or math.nextafter(0, 1)


class CheckedAccountant(PrivacyAccountant):
    """An accountant that sees every event as `leaves` gives it: flat, and in Python numbers."""

    def compose(self, event: DpEvent, count: int = 1) -> Self:
        """Account for `count` times `event`; InvalidParameter for what is no event, UnsupportedEventError as ever."""
        if not isinstance(event, DpEvent):
            raise checks.refuse("event", event, "a dp_accounting.DpEvent")
        counted = SelfComposedDpEvent(event, checks.count("count", count, least=0))
        return super().compose(simple(counted))

    def supports(self, event: DpEvent) -> bool:
        """Return whether `event` can be accounted for."""
        return bool(super().supports(simple(event)))


class SummingAccountant(CheckedAccountant):
    """An accountant whose composition is a sum of one number an event."""

    _notion = ""

    def __init__(self, neighboring_relation: NeighboringRelation = REPLACE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._costs: list[tuple[float, int]] = []

    @staticmethod
    @abstractmethod
    def cost(event: DpEvent) -> float | None:
        """Return the cost of one simple event, or None where this notion has none."""

    @property
    def total(self) -> float:
        """The sum of all costs, rounded up."""
        return sum_up(self._costs)

    def _maybe_compose(
        self, event: DpEvent, count: int, do_compose: bool
    ) -> PrivacyAccountant.CompositionErrorDetails | None:
        for leaf, times in leaves(event):
            cost = self.cost(leaf)
            if cost is None:
                return PrivacyAccountant.CompositionErrorDetails(leaf, f"it has no {self._notion} cost")
            if do_compose:
                self._record(leaf, cost, count * times)
        return None

    def _record(self, leaf: DpEvent, cost: float, count: int) -> None:
        self._costs.append((cost, count))


class PureDPAccountant(SummingAccountant):
    """Pure differential privacy: epsilons add up (Dwork and Roth 2014, Theorem 3.16).

    Supports selections, Laplace noise and (epsilon, 0) events; Gaussian noise has no pure epsilon and is refused.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        What neighbouring tables differ in; `REPLACE_ONE` by default.
    """

    _notion = "pure-DP"
    cost = staticmethod(pure_cost)

    def get_epsilon(self, target_delta: float = 0.0) -> float:
        """Return the sum of the epsilons; a larger `target_delta` does not lower it."""
        checks.delta("target_delta", target_delta)
        return self.total

    def get_delta(self, target_epsilon: float) -> float:
        """Return 0 where the total is at most `target_epsilon`, else 1: pure DP alone says no more."""
        return 0.0 if self.total <= checks.non_negative("target_epsilon", target_epsilon, "down") else 1.0


class ZCDPAccountant(SummingAccountant):
    """Zero-concentrated differential privacy: rhos add up (Bun and Steinke 2016, Lemma 1.7).

    Epsilon and delta come from the conversion of Canonne, Kamath and Steinke 2020, or with `tight=False` from
    rho + 2 sqrt(rho log(1/delta)); where every event is pure they are capped by the sum of the pure epsilons.

    Supports Gaussian and Laplace noise, selections, zCDP and (epsilon, 0) events. (epsilon, delta) events with
    delta > 0 have no rho and are refused.

    Parameters
    ----------
    tight : bool
        Which conversion to (epsilon, delta) is used.
    neighboring_relation : dp_accounting.NeighboringRelation
        What neighbouring tables differ in; `REPLACE_ONE` by default.
    """

    _notion = "zCDP"
    cost = staticmethod(zcdp_cost)

    def __init__(self, tight: bool = True, neighboring_relation: NeighboringRelation = REPLACE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._tight = tight
        self._pure: list[tuple[float, int]] | None = []

    @property
    def rho(self) -> float:
        """The total rho."""
        return self.total

    def get_epsilon(self, target_delta: float) -> float:
        """Return an epsilon at `target_delta`; inf where a non-private release is among the events."""
        checks.delta("target_delta", target_delta)
        if math.isinf(self.total):
            return math.inf
        epsilon = zcdp_to_epsilon(self.total, target_delta, self._tight)
        return epsilon if self._pure is None else min(epsilon, sum_up(self._pure))

    def get_delta(self, target_epsilon: float) -> float:
        """Return a delta at `target_epsilon`."""
        epsilon = checks.non_negative("target_epsilon", target_epsilon, "down")
        if self._pure is not None and sum_up(self._pure) <= epsilon:
            return 0.0
        if math.isinf(self.total):
            return 1.0
        if self._tight:
            return zcdp_to_delta(self.total, epsilon)
        gap = max(0.0, epsilon - self.total)
        return min(1.0, _up(math.exp(-gap * gap / (4 * self.total)))) if self.total else 0.0

    def _record(self, leaf: DpEvent, cost: float, count: int) -> None:
        super()._record(leaf, cost, count)
        pure = pure_cost(leaf)
        if pure is None:
            self._pure = None
        elif self._pure is not None:
            self._pure.append((pure, count))


def sum_up(costs: list[tuple[float, int]]) -> float:
    """Return the sum of cost * count, each read as the decimal that it prints as, rounded up once."""
    total = Fraction(0)
    for cost, count in costs:
        if count and math.isinf(cost):
            return math.inf
        total += decimal(cost) * count if count else 0
    return float_up(total)


def _inverse(multiplier: float) -> float:
    """Return 1 / multiplier rounded up; inf where there is no noise."""
    if multiplier == 0:
        return math.inf
    return 0.0 if math.isinf(multiplier) else float_up(1 / decimal(multiplier))


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)
