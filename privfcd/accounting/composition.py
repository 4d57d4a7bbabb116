"""What a composition consists of, sorted by what is known about each part, and the bounds that each notion
gives.

See `tight` for the theorem that the bounds rest on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, ZCDpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent

from privfcd import checks
from privfcd.accounting.accountants import pure_cost, sum_up, zcdp_cost
from privfcd.accounting.conversions import pure_rho
from privfcd.accounting.curves import (
    EPS,
    Curve,
    discrete_laplace_curve,
    gaussian_values,
    laplace_curve,
    power,
    product,
    response_curve,
)
from privfcd.accounting.domination import ALLOWANCE, chained_variance, equal_variance
from privfcd.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent
from privfcd.accounting.selections import LARGEST_ETA, selection_curve

GRID_LIMIT = 512
"""Groups of more selections than this enter as Gaussians: their curves would take long and gain little."""

_PURE_LIMIT = 2**12
"""The same for releases whose law is fixed, which compose by repeated squaring."""

_GROUPS = 32
"""Up to so many unequal groups are treated one by one; beyond, ranges are raised to common ones first."""
_NODES = 2048
_LONGEST = 2**14
_LEAST = 1e-100
"""Smaller ranges, variances and rhos are raised to this, so that nothing underflows."""
_BIN = 16

Group = tuple[float, int]


@dataclass(frozen=True)
class PureRelease:
    """A release of which the pure epsilon and perhaps the law is known.

    Attributes
    ----------
    epsilon : float
        Above 0.
    law : str
        `"laplace"`, `"discrete"`, `"response"` (randomised response, or any law of this epsilon), or `"bounded"`
        (a law that is known to be better than that, but is charged like it).
    sensitivity : int
        Of the discrete law.
    """

    epsilon: float
    law: str
    sensitivity: int = 1

    def curve(self, count: int, reach: float) -> Curve:
        """Return the curve of `count` releases up to the epsilon `reach`."""
        match self.law:
            case "laplace":
                # The atoms at ±epsilon lie on nodes; what is between matters less the smaller epsilon is
                base = laplace_curve(self.epsilon, 32 if count <= 16 else 8 if count <= 128 else 4)
            case "discrete" if reach * self.sensitivity <= _LONGEST * self.epsilon:
                base = discrete_laplace_curve(self.epsilon / self.sensitivity, self.sensitivity)
            case _:
                base = response_curve(self.epsilon)
        return power(base, count, max(1, math.ceil(reach / base.step)))


@dataclass(frozen=True)
class Composition:
    """A fixed multiset of releases.

    Attributes
    ----------
    variance : float
        mu² of all Gaussian noise together.
    selections : tuple of (eta, count)
        Bounded-range selections, rising in eta.
    pure : tuple of (PureRelease, count)
        Releases of known pure epsilon.
    rho : float
        Of the releases of which only a rho is known.
    failure : float
        The chance that some release has no privacy at all.
    pure_epsilon : float
        Sum of the pure epsilons; inf where some release has none.
    total_rho : float
        Sum of the rhos.
    """

    variance: float
    selections: tuple[Group, ...]
    pure: tuple[tuple[PureRelease, int], ...]
    rho: float
    failure: float
    pure_epsilon: float
    total_rho: float

    @classmethod
    def of(cls, events: Iterable[tuple[DpEvent, int]]) -> Composition:
        """Return the composition of simple events, each with how often it happens.

        Raises
        ------
        InvalidParameter
            An event is none that `why_not` accepts.
        """
        variances: list[float] = []
        selections: Counter[float] = Counter()
        pure: Counter[PureRelease] = Counter()
        alone: list[tuple[float, int]] = []
        epsilons: list[tuple[float, int]] = []
        rhos: list[tuple[float, int]] = []
        survivals: list[float] = []  # logs of the chance that nothing fails
        for event, count in events:
            reason = why_not(event)
            if reason is not None:
                raise checks.refuse("event", event, f"an event that the tight accountant can charge: {reason}")
            epsilon, rho, failure = _epsilon(event), _rho(event), _failure(event)
            if not count:
                continue
            certain = failure == 1 or math.isinf(rho)
            survivals.append(-math.inf if certain else count * math.log1p(-failure))
            if certain or _says_nothing(event):
                continue
            epsilons.append((epsilon, count))
            rhos.append((max(rho, _LEAST), count))
            match event:
                case GaussianDpEvent():
                    variances.append(max(count * (1 / event.noise_multiplier) ** 2 * (1 + 4 * EPS), _LEAST))
                case BoundedRangeDpEvent():
                    selections[max(float(event.eta), _LEAST)] += count
                case ZCDpEvent():
                    alone.append((rho, count))
                case _:
                    pure[_release(event, max(epsilon, _LEAST))] += count
        return cls(
            variance=math.fsum(variances) * (1 + EPS),
            selections=tuple(sorted(selections.items())),
            pure=tuple(sorted(pure.items(), key=repr)),
            rho=sum_up(alone),
            failure=min(1.0, -math.expm1(math.fsum(survivals)) * (1 + 8 * EPS)),
            pure_epsilon=sum_up(epsilons),
            total_rho=sum_up(rhos),
        )

    @property
    def ranges(self) -> list[Group]:
        """All releases but the Gaussian ones as bounded ranges."""
        return [*self.selections, *((2 * release.epsilon, count) for release, count in self.pure)]

    @property
    def only_gaussian(self) -> bool:
        """Whether nothing but Gaussian noise is in it."""
        return not self.selections and not self.pure

    @property
    def kinds(self) -> int:
        """How many groups of equal releases there are besides the Gaussian noise."""
        return len(self.selections) + len(self.pure)

    def gaussian_variance(self) -> float:
        """Return mu² of a Gaussian pair that dominates everything (see `domination`)."""
        ranges = self.ranges
        if not ranges:
            return self.variance
        options = [chained_variance(ranges)]
        options += [math.fsum(equal_variance(*group) for group in groups) for groups in _groupings(ranges)]
        return (self.variance + min(options)) * (1 + 4 * EPS)

    def grids(self, level: float) -> Iterator[tuple[Curve, float]]:
        """Yield pairs of a curve and a Gaussian variance, each pair a bound on the whole.

        Parameters
        ----------
        level : float
            Values of the curve below this are of no interest.
        """
        for groups in _groupings(self.selections):
            parts: list[tuple[float | PureRelease, int]] = [*groups, *self.pure]
            if len(parts) > _GROUPS:
                continue
            variance, spread, support = self.variance, 0.0, 0.0
            curves = []
            for part, count in parts:
                if isinstance(part, float):
                    eta, most, limit = part, part, GRID_LIMIT
                else:
                    eta, most, limit = 2 * part.epsilon, part.epsilon, _PURE_LIMIT
                dominating = equal_variance(eta, count)
                if count > limit or eta > LARGEST_ETA:
                    variance += dominating * (1 + EPS)
                else:
                    curves.append(_curve(part, count, dominating, level))
                    spread += dominating
                    support += count * most
            if math.isfinite(variance) and curves:
                large = sum(1 for part, _ in parts) - len(curves)
                curves[0] = curves[0].raised(large * ALLOWANCE)
                yield _together(curves, min(support, reach_of(spread, level))), variance * (1 + 4 * EPS)


def why_not(event: DpEvent) -> str | None:
    """Return why the tight accountant can prove nothing about a simple event; None where it can."""
    match event:
        case DiscreteLaplaceDpEvent():
            whole = isinstance(event.sensitivity, int) and event.sensitivity >= 1
            usable = whole and 0 < event.noise_parameter < math.inf
            return None if usable else "its parameter must be above 0 and its sensitivity a whole number above 0"
        case RandomizedResponseDpEvent():
            usable = 0 <= event.noise_parameter <= 1 and event.num_buckets >= 1
            return None if usable else "its parameter must be in [0, 1] and it needs a bucket"
        case EpsilonDeltaDpEvent():
            return None
    return "nothing is known about it" if zcdp_cost(event) is None else None


def reach_of(variance: float, level: float) -> float:
    """Return an epsilon at which a Gaussian pair of this variance has a delta of at most `level`."""
    return variance / 2 + math.sqrt(-2 * variance * math.log(level))


def _epsilon(event: DpEvent) -> float:
    """Return the pure epsilon of a release, given that it does not fail; inf where it has none."""
    match event:
        case EpsilonDeltaDpEvent():
            return float(event.epsilon)
        case DiscreteLaplaceDpEvent():
            return math.nextafter(event.noise_parameter * event.sensitivity, math.inf)
        case RandomizedResponseDpEvent():
            if event.num_buckets == 1 or event.noise_parameter == 1:
                return 0.0
            noise = event.noise_parameter
            return math.log1p(event.num_buckets * (1 - noise) / noise) * (1 + 8 * EPS) if noise else math.inf
    cost = pure_cost(event)
    return math.inf if cost is None else cost


def _rho(event: DpEvent) -> float:
    cost = zcdp_cost(event)
    if cost is not None:
        return cost
    epsilon = _epsilon(event)
    return math.inf if math.isinf(epsilon) else pure_rho(epsilon)


def _says_nothing(event: DpEvent) -> bool:
    match event:
        case GaussianDpEvent():
            return event.noise_multiplier == math.inf
        case ZCDpEvent():
            return bool(event.rho == 0)
    return _epsilon(event) == 0


def _failure(event: DpEvent) -> float:
    if isinstance(event, EpsilonDeltaDpEvent):
        return float(event.delta)
    return 1.0 if isinstance(event, NonPrivateDpEvent) else 0.0


def _release(event: DpEvent, epsilon: float) -> PureRelease:
    match event:
        case LaplaceDpEvent():
            return PureRelease(epsilon, "laplace")
        case DiscreteLaplaceDpEvent() if 1 < event.sensitivity <= 64:
            return PureRelease(epsilon, "discrete", event.sensitivity)
        case DiscreteLaplaceDpEvent() if event.sensitivity > 1:
            return PureRelease(epsilon, "bounded")
        case RandomizedResponseDpEvent() if event.num_buckets > 2:
            return PureRelease(epsilon, "bounded")
    return PureRelease(epsilon, "response")


def _groupings(ranges: Iterable[Group]) -> list[list[Group]]:
    """Return ways to treat selections as groups of equal range, each way raising ranges or leaving them."""
    exact = list(ranges)
    if len(exact) < 2:
        return [exact]
    raised: Counter[float] = Counter()
    for eta, count in exact:
        raised[max(eta, 2.0 ** (math.ceil(math.log2(eta) * _BIN) / _BIN))] += count
    largest = max(eta for eta, _ in exact)
    ways = [way for way in (exact, sorted(raised.items())) if len(way) <= _GROUPS]
    return [*ways, [(largest, sum(count for _, count in exact))]]


def _curve(part: float | PureRelease, count: int, variance: float, level: float) -> Curve:
    """Return the curve of one group: at each node the lower of the grid's and the Gaussian's bound."""
    reach = reach_of(variance, level)
    curve = selection_curve(part, count, reach) if isinstance(part, float) else part.curve(count, reach)
    gaussian = gaussian_values(variance, curve.nodes()) + ALLOWANCE
    # the true curve is convex in exp(e), so a chord between two of its upper bounds is one, whichever they are
    return Curve(curve.step, np.minimum(curve.values, gaussian))


def _together(curves: list[Curve], reach: float) -> Curve:
    """Return the curve of independent pairs; more than one meet on a grid whose spacing is a power of two.

    Such grids are nested, so a wider reach, which a further release brings, only raises the bound.
    """
    if len(curves) == 1:
        return curves[0]
    step = 2.0 ** math.floor(math.log2(reach / _NODES))
    size = math.ceil(reach / step)
    total: Curve | None = None
    for curve in curves:
        own = math.ceil((len(curve.values) - 1) * curve.step / step * (1 + 8 * EPS))
        part = curve.regrid(step, min(size, max(own, 1)))
        total = part if total is None else product(part, total, size)
    assert total is not None
    return total
