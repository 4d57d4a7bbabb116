"""What a composition consists of, sorted by what is known about each part, and the bounds that each notion
gives.

See `tight` for the theorem that the bounds rest on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    ZCDpEvent,
)
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent

from privfcd import checks
from privfcd.accounting.accountants import pure_cost, sum_up, zcdp_cost
from privfcd.accounting.conversions import pure_rho
from privfcd.accounting.curves import EPS, Curve, gaussian_values
from privfcd.accounting.domination import ALLOWANCE, chained_variance, equal_variance
from privfcd.accounting.events import REPLACE_ONE, BoundedRangeDpEvent, EpsilonDeltaDpEvent
from privfcd.accounting.imported import IMPORTED, coarse, imported_laws, why_not_imported
from privfcd.accounting.lattice import BothWays, Lattice, Law, common_step
from privfcd.accounting.pairs import buckets_law, discrete_laplace_law, laplace_law, law_of_curve, response_law
from privfcd.accounting.selections import LARGEST_ETA, selection_curve

GRID_LIMIT = 512
"""Groups of more selections than this enter as Gaussians: their curves would take long and gain little."""

_PURE_LIMIT = 2**17
"""The same for releases whose law is fixed, which compose by transforms."""

_GROUPS = 32
"""Up to so many unequal groups of selections are treated one by one; beyond, ranges are raised to common ones first."""
_CERTIFIED = 8
"""The same where each group is compared with a Gaussian; beyond, one closed form for all is nearly as good."""
_LONGEST = 2**20
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
        `"laplace"`, `"discrete"`, `"buckets"`, `"response"` (randomised response, or any law of this epsilon), or
        `"bounded"` (a law that is known to be better than that, but is charged like it).
    parameter : float
        Of randomised response over buckets: the share of answers that are noise.
    size : int
        Sensitivity of the discrete law, or number of buckets.
    """

    epsilon: float
    law: str
    parameter: float = 0.0
    size: int = 1

    def on_grid(self, count: int, step: float) -> Law:
        """Return the law of one release, of which there are `count`, on a grid that does not matter beside `step`."""
        match self.law:
            case "laplace":
                # powers of two, so that grids are nested; of more releases the grid may be coarser
                most = 2.0**13 / math.sqrt(count)
                cells = 2 ** math.floor(math.log2(min(max(most, 64.0), max(64.0, 4 * self.epsilon / step))))
                return laplace_law(self.epsilon, cells)
            case "discrete":
                return discrete_laplace_law(self.epsilon / self.size, self.size)
            case "buckets":
                return buckets_law(self.epsilon, self.parameter, self.size)
        return response_law(self.epsilon)


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
    imported : tuple of (DpEvent, count)
        Releases whose laws come from elsewhere (see `imported`).
    relation : dp_accounting.NeighboringRelation
        For which these laws are taken.
    rho : float
        Of the releases of which only a rho is known.
    failure : float
        The chance that some release has no privacy at all.
    pure_epsilon : float
        Sum of the pure epsilons; inf where some release has none.
    others_epsilon : float
        Sum of the pure epsilons of all that is not Gaussian noise.
    total_rho : float
        Sum of the rhos.
    """

    variance: float
    selections: tuple[Group, ...]
    pure: tuple[tuple[PureRelease, int], ...]
    imported: tuple[tuple[DpEvent, int], ...]
    relation: NeighboringRelation
    rho: float
    failure: float
    pure_epsilon: float
    others_epsilon: float
    total_rho: float

    @classmethod
    def of(cls, events: Iterable[tuple[DpEvent, int]], relation: NeighboringRelation = REPLACE_ONE) -> Composition:
        """Return the composition of simple events, each with how often it happens.

        Raises
        ------
        InvalidParameter
            An event is none that `why_not` accepts.
        """
        variances: list[float] = []
        selections: Counter[float] = Counter()
        pure: Counter[PureRelease] = Counter()
        imported: Counter[DpEvent] = Counter()
        alone: list[tuple[float, int]] = []
        epsilons: list[tuple[float, int]] = []
        others: list[tuple[float, int]] = []
        rhos: list[tuple[float, int]] = []
        survivals: list[float] = []  # logs of the chance that nothing fails
        for event, count in events:
            reason = why_not(event, relation)
            if reason is not None:
                raise checks.refuse("event", event, f"an event that the tight accountant can charge: {reason}")
            epsilon, rho, failure = _epsilon(event), _rho(event), _failure(event)
            if not count:
                continue
            certain = failure == 1 or (math.isinf(rho) and not isinstance(event, IMPORTED))
            survivals.append(-math.inf if certain else count * math.log1p(-failure))
            if certain or _says_nothing(event):
                continue
            epsilons.append((epsilon, count))
            if not isinstance(event, GaussianDpEvent):
                others.append((epsilon, count))
            rhos.append((max(rho, _LEAST), count))
            match event:
                case GaussianDpEvent():
                    variances.append(max(count * (1 / event.noise_multiplier) ** 2 * (1 + 4 * EPS), _LEAST))
                case BoundedRangeDpEvent():
                    selections[max(float(event.eta), _LEAST)] += count
                case ZCDpEvent():
                    alone.append((rho, count))
                case _ if isinstance(event, IMPORTED):
                    imported[event] += count
                case _:
                    pure[_release(event, max(epsilon, _LEAST))] += count
        return cls(
            variance=math.fsum(variances) * (1 + EPS),
            selections=tuple(sorted(selections.items())),
            pure=tuple(sorted(pure.items(), key=repr)),
            imported=tuple(sorted(imported.items(), key=lambda pair: (repr(pair[0])[:200], hash(pair)))),
            relation=relation,
            rho=sum_up(alone),
            failure=min(1.0, -math.expm1(math.fsum(survivals)) * (1 + 8 * EPS)),
            pure_epsilon=sum_up(epsilons),
            others_epsilon=sum_up(others),
            total_rho=sum_up(rhos),
        )

    @property
    def ranges(self) -> list[Group]:
        """All releases but the Gaussian ones as bounded ranges."""
        return [*self.selections, *((2 * release.epsilon, count) for release, count in self.pure)]

    @property
    def only_gaussian(self) -> bool:
        """Whether nothing but Gaussian noise is in it."""
        return not self.selections and not self.pure and not self.imported

    @property
    def has_grid(self) -> bool:
        """Whether anything but Gaussian noise has a law or a range that a grid can hold."""
        return self.rho == 0 and not self.only_gaussian

    @property
    def kinds(self) -> int:
        """How many groups of equal releases there are besides the Gaussian noise."""
        return len(self.selections) + len(self.pure) + len(self.imported)

    def gaussian_variance(self) -> float:
        """Return mu² of a Gaussian pair that dominates everything (see `domination`)."""
        ranges = self.ranges
        if self.imported:
            return math.inf
        if not ranges:
            return self.variance
        options = [chained_variance(ranges)]
        options += [math.fsum(equal_variance(*group) for group in groups) for groups in _groupings(ranges, _CERTIFIED)]
        return (self.variance + min(options)) * (1 + 4 * EPS)


@lru_cache(maxsize=64)
def lattices(composition: Composition, level: float) -> tuple[Lattice | BothWays, ...]:
    """Return grids, each of which bounds the whole: the ways to group the selections (see `tight`).

    Parameters
    ----------
    composition : Composition
        Without releases of which only a rho is known.
    level : float
        Deltas below this are of no interest.
    """
    found: list[Lattice | BothWays] = []
    pairs = []
    for event, count in composition.imported:
        law, reverse = imported_laws(event, composition.relation, level)
        same = coarse(law, count)
        pairs.append(((same, same if law is reverse else coarse(reverse, count)), count))
    for groups in _groupings(composition.selections, _GROUPS):
        parts: list[tuple[float | PureRelease, int]] = [*groups, *composition.pure]
        certified = len(parts) <= _CERTIFIED
        variance, spread, kept = composition.variance, 0.0, []
        for part, count in parts:
            eta, limit = (part, GRID_LIMIT) if isinstance(part, float) else (2 * part.epsilon, _PURE_LIMIT)
            if count > limit or (isinstance(part, float) and eta > LARGEST_ETA):
                variance += equal_variance(eta, count) * (1 + EPS)
            else:
                dominating = count * (eta / 2) * (eta / 2)  # of any tilted loss, where the law is known
                if isinstance(part, float):
                    dominating = equal_variance(eta, count) if certified else chained_variance([(eta, count)])
                spread += dominating
                kept.append((part, count, dominating))
        spread += math.fsum(count * max(law.spread for law in laws) for laws, count in pairs)
        if math.isfinite(variance + spread) and (kept or pairs):
            large = len(parts) - len(kept)
            step = common_step(spread)
            laws = [_law(part, count, dominating, step, level) for part, count, dominating in kept]
            one, two = ([*laws, *((both[way], count) for both, count in pairs)] for way in (0, 1))
            found.append(
                Lattice(one, variance * (1 + 4 * EPS), large * ALLOWANCE)
                if all(both[0] is both[1] for both, _ in pairs)
                else BothWays(*(Lattice(way, variance * (1 + 4 * EPS), large * ALLOWANCE) for way in (one, two)))
            )
    return tuple(found)


def _law(part: float | PureRelease, count: int, dominating: float, step: float, level: float) -> tuple[Law, int]:
    """Return a group's law, and how often it happens: all selections of one range are one law."""
    if isinstance(part, PureRelease):
        return part.on_grid(count, step), count
    curve = selection_curve(part, count, reach_of(dominating, level))
    # the true curve is convex in exp(e), so a chord between two of its upper bounds is one, whichever they are
    gaussian = gaussian_values(dominating, curve.nodes()) + ALLOWANCE
    return law_of_curve(Curve(curve.step, np.minimum(curve.values, gaussian)), dominating), 1


def why_not(event: DpEvent, relation: NeighboringRelation = REPLACE_ONE) -> str | None:
    """Return why the tight accountant can prove nothing about a simple event; None where it can."""
    if isinstance(event, IMPORTED):
        return why_not_imported(event, relation)
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
        case DiscreteLaplaceDpEvent() if event.sensitivity > 1:
            usable = event.sensitivity <= _LONGEST and event.noise_parameter > 1e-100
            return (
                PureRelease(epsilon, "discrete", 0.0, event.sensitivity) if usable else PureRelease(epsilon, "bounded")
            )
        case RandomizedResponseDpEvent() if event.num_buckets > 2:
            if event.num_buckets >= 2**53:
                return PureRelease(epsilon, "bounded")
            return PureRelease(epsilon, "buckets", event.noise_parameter, event.num_buckets)
    return PureRelease(epsilon, "response")


def _groupings(ranges: Iterable[Group], most: int) -> list[list[Group]]:
    """Return ways to treat selections as at most so many groups of equal range, raising ranges or leaving them."""
    exact = list(ranges)
    if len(exact) < 2:
        return [exact]
    raised: Counter[float] = Counter()
    for eta, count in exact:
        raised[max(eta, 2.0 ** (math.ceil(math.log2(eta) * _BIN) / _BIN))] += count
    largest = max(eta for eta, _ in exact)
    ways = [way for way in (exact, sorted(raised.items())) if len(way) <= most]
    return [*ways, [(largest, sum(count for _, count in exact))]]
