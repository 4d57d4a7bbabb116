"""The tight accountant: selections, Gaussian noise and all else in one formula.

delta(e) = E over l of H(e - l), l being the privacy loss of all that is not a selection (Gaussians in closed form), and
H the adaptive optimum of the selections (`selections`).

**What is proven.** A fixed multiset of releases is played in any order: each release, and which comes next, is chosen
after seeing the earlier answers. Let V be the value of this game, the largest delta at e. Write S for composition with
a fixed pair (P, Q), (S g)(e) = E_P[g(e - l)], and T for one selection, T g = max over t of S_t g with S_t the
composition with the two-point pair of t. V is convex in exp(e), so a release that (P, Q) dominates contributes at
most S (adaptive composition of dominating pairs: Zhu, Dong and Wang 2022). S commutes with every S_t, hence
T S g = max_t S S_t g <= S max_t S_t g = S T g: an adversary loses nothing by seeing the fixed losses first.

**Theorem.** V is at most the composition of the fixed pairs and, for each group of n selections of equal range eta, of
the curve T_eta^n H_0, as if all of these were independent pairs.

*Proof.* Write * for the composition of curves: commutative, associative, monotone. Induction on the multiset. If a
fixed release comes next, its S is a factor of the product that is claimed. If a selection of some group does, the rest
is bounded by H_{n-1} * B with B the product of everything else, and
T (H_{n-1} * B) = T S_B H_{n-1} <= S_B T H_{n-1} = H_n * B. ∎

So the order is free, and ranges may be unequal: each range is a group, or ranges are raised to common ones. Within a
group nothing is taken as independent: its curve is the recursion's, or the Gaussian one of `domination`. (Repeating
the same t is not an upper bound on H_n; the product of n times H_1 is one, and a looser one.)

**What is reported** is the least of several upper bounds, and `method` says which: `"pure"` (the sum of epsilons),
`"zcdp"` (Canonne, Kamath and Steinke 2020), `"gaussian"` (exact where all noise is Gaussian, else `domination`),
`"basic"` (the Gaussian noise's exact epsilon plus the sum of the others': a release of pure epsilon moves every loss
by at most that) or `"grid"` (the formula above on the grids of `lattice`, each group by the lower of its recursion and
its Gaussian curve). Groups of more than `GRID_LIMIT` selections enter as Gaussians in every case; that costs less than
1 % at usual deltas, and up to some 9 % at delta = 1e-300. Where only a rho is known of some release, the bound is
zCDP's.

**Leaving a release out** raises no bound: each rises with every release, on grids too. Their steps are powers of two
that rise with the widths of all releases together, so that of two plans the larger has the coarser of two nested grids.
What rounding adds is a part in 10⁹.

An (epsilon, delta)-DP release is randomised response with probability 1 - delta and no privacy otherwise (Kairouz, Oh
and Viswanath 2015). So all bounds hold for the rest at delta' = (delta - d) / (1 - d), d the chance of any failure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from dp_accounting import DpEvent, GaussianDpEvent, NeighboringRelation, PrivacyAccountant
from dp_accounting.dp_event import RandomizedResponseDpEvent

from privfcd import checks
from privfcd.accounting.accountants import CheckedAccountant
from privfcd.accounting.composition import GRID_LIMIT, Composition, lattices, why_not
from privfcd.accounting.conversions import gdp_to_delta, gdp_to_epsilon, zcdp_to_delta, zcdp_to_epsilon
from privfcd.accounting.curves import EPS
from privfcd.accounting.domination import ALLOWANCE
from privfcd.accounting.events import REPLACE_ONE, BoundedRangeDpEvent, compose, leaves
from privfcd.accounting.gap import lower_epsilon
from privfcd.accounting.once import computed_once

__all__ = ["GRID_LIMIT", "TightAccountant", "exponential_epsilon", "tight_epsilon"]


class TightAccountant(CheckedAccountant):
    """The tightest bound there is for selections, Gaussian noise and releases of known pure epsilon together.

    Supports selections, Gaussian, Laplace and discrete Laplace noise, randomised response (under a replace
    relation), (epsilon, delta) and zCDP events; what it can prove nothing about it refuses. A zCDP event leaves only
    the zCDP bound for the whole. Never above `ZCDPAccountant` or `PureDPAccountant` where those apply.

    Parameters
    ----------
    neighboring_relation : dp_accounting.NeighboringRelation
        The relation under which the sensitivities in the events were taken.
    """

    def __init__(self, neighboring_relation: NeighboringRelation = REPLACE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._events: list[tuple[DpEvent, int]] = []

    def get_epsilon(self, target_delta: float) -> float:
        """Return an upper bound on epsilon at `target_delta` in [0, 1); at 0 the pure total, or inf."""
        return _epsilon_by(self._composition(), checks.delta("target_delta", target_delta))[0]

    def get_delta(self, target_epsilon: float) -> float:
        """Return an upper bound on delta at `target_epsilon` of at least 0."""
        return _delta_by(self._composition(), checks.non_negative("target_epsilon", target_epsilon, "down"))[0]

    def method(self, target_delta: float) -> str:
        """Return which bound `get_epsilon` reports: `"pure"`, `"zcdp"`, `"gaussian"`, `"basic"` or `"grid"`."""
        return _epsilon_by(self._composition(), checks.delta("target_delta", target_delta))[1]

    def gap(self, target_delta: float) -> tuple[float, float]:
        """Return (lower, upper): some adversary really reaches the lower epsilon, and none exceeds the upper one."""
        delta = checks.delta("target_delta", target_delta)
        composition = self._composition()
        upper = _epsilon_by(composition, delta)[0]
        lower = lower_epsilon(composition, delta, upper)
        if lower > upper * (1 + 1e-9):
            raise ArithmeticError(f"the lower bound {lower!r} is above the upper bound {upper!r}: one of them is wrong")
        return min(lower, upper), upper

    def _composition(self) -> Composition:
        return Composition.of(self._events, self.neighboring_relation)

    def _maybe_compose(
        self, event: DpEvent, count: int, do_compose: bool
    ) -> PrivacyAccountant.CompositionErrorDetails | None:
        found = leaves(event)
        for leaf, _ in found:
            reason = why_not(leaf, self.neighboring_relation)
            if isinstance(leaf, RandomizedResponseDpEvent) and self.neighboring_relation not in (
                NeighboringRelation.REPLACE_ONE,
                NeighboringRelation.REPLACE_SPECIAL,
            ):
                reason = "randomised response hides a replaced record only"
            if reason is not None:
                return PrivacyAccountant.CompositionErrorDetails(leaf, reason)
        if do_compose:
            self._events += [(leaf, inner * count) for leaf, inner in found]
        return None


def tight_epsilon(
    mu: float,
    selections: Iterable[tuple[float, int]],
    others: Iterable[tuple[DpEvent, int]] = (),
    delta: float = 0.0,
) -> float:
    """Return the tight accountant's epsilon without building events for the common releases.

    Parameters
    ----------
    mu : float
        Of all Gaussian noise together: sqrt(sum of 1 / noise multiplier²); 0 for none.
    selections : iterable of (eta, count)
        Bounded-range selections.
    others : iterable of (event, count)
        Any other simple events.
    delta : float
        In [0, 1).
    """
    mu = checks.non_negative("mu", mu, "up")
    ranges = ((BoundedRangeDpEvent(checks.non_negative("eta", eta, "up")), count) for eta, count in selections)
    events = [*others, *ranges]
    if mu:
        events.append((GaussianDpEvent(math.nextafter(1 / mu, 0)), 1))
    counted = compose([(event, checks.count("count", count, least=0)) for event, count in events])
    return _epsilon_by(Composition.of(leaves(counted)), checks.delta("delta", delta))[0]


def exponential_epsilon(eta: float, delta: float, count: int = 1) -> float:
    """Return the tight epsilon at `delta` of `count` selections of range `eta`, each chosen adaptively.

    Parameters
    ----------
    eta : float
        2 * sensitivity / scale, or half of it for scores that move in one direction; at least 0.
    delta : float
        In [0, 1); at 0 the answer is count * eta.
    count : int
        At least 1.
    """
    return tight_epsilon(0.0, [(eta, checks.count("count", count))], (), delta)


def _rest(composition: Composition, delta: float) -> float:
    """Return the delta that is left for the releases where none fails; below 0 where failures exceed it."""
    if composition.failure == 0:
        return delta
    if composition.failure >= 1:
        return -1.0
    left = (delta - composition.failure) / (1 - composition.failure)
    return left * (1 - 4 * EPS) - EPS * composition.failure


@computed_once(maxsize=256)
def _epsilon_by(composition: Composition, delta: float) -> tuple[float, str]:
    """Return an epsilon at which the least upper bound on delta is at most `delta`, and that bound's name.

    Every notion's epsilon is found by its own inverse; the answer is the least of them, moved up until `_delta_by`, the
    least of the same bounds, confirms it. So delta(epsilon(delta)) is never above delta.
    """
    rest = _rest(composition, delta)
    if rest < 0:
        return math.inf, "pure"
    best, name = composition.pure_epsilon, "pure"
    if rest == 0 or best == 0:
        return best, name
    quick: list[tuple[float, str]] = []
    if math.isfinite(composition.total_rho):
        quick.append((zcdp_to_epsilon(composition.total_rho, rest), "zcdp"))
    if composition.rho == 0:
        variance = composition.gaussian_variance()
        spared = rest if composition.only_gaussian else rest - ALLOWANCE * (1 + composition.kinds)
        if spared > 0 and math.isfinite(variance):
            quick.append((gdp_to_epsilon(_root_up(variance), spared), "gaussian"))
        if composition.variance > 0 and math.isfinite(composition.others_epsilon):
            gaussian = gdp_to_epsilon(_root_up(composition.variance), rest)
            quick.append((math.nextafter(gaussian + composition.others_epsilon, math.inf), "basic"))
    for value, label in quick:
        if value < best:
            best, name = value, label
    if best > 0 and composition.has_grid:
        for grid in lattices(composition, _level(rest)):
            value = grid.epsilon(rest, best)
            if value < best:
                best, name = value, "grid"
    step = EPS
    while math.isfinite(best) and name != "pure" and _delta_by(composition, best)[0] > delta and step < 1e-6:
        best, step = min(best * (1 + step), composition.pure_epsilon), 2 * step
    return best, name


def _delta_by(composition: Composition, epsilon: float) -> tuple[float, str]:
    """Return the least upper bound on delta, and its name."""
    failure = composition.failure
    if composition.pure_epsilon <= epsilon:
        return failure, "pure"
    if failure >= 1:
        return 1.0, "pure"
    best, name = _quick_delta(composition, epsilon)
    if composition.has_grid and best > 0:
        value = _grid_delta(composition, epsilon)
        if value < best:
            best, name = value, "grid"
    return min(1.0, (failure + (1 - failure) * best) * (1 + 4 * EPS)), name


def _quick_delta(composition: Composition, epsilon: float) -> tuple[float, str]:
    """Return the least of the bounds in closed form, failures left out."""
    options = [(1.0, "pure")]
    if math.isfinite(composition.total_rho):
        options.append((zcdp_to_delta(composition.total_rho, epsilon), "zcdp"))
    if composition.rho == 0:
        variance = composition.gaussian_variance()
        if math.isfinite(variance):
            allowance = 0.0 if composition.only_gaussian else ALLOWANCE * (1 + composition.kinds)
            options.append((gdp_to_delta(_root_up(variance), epsilon) + allowance, "gaussian"))
        # what is pure moves all losses by no more than its epsilon
        left = epsilon - composition.others_epsilon
        if composition.variance > 0 and left >= 0:
            options.append((gdp_to_delta(_root_up(composition.variance), left * (1 - 4 * EPS)), "basic"))
    return min(options)


def _grid_delta(composition: Composition, epsilon: float) -> float:
    """Return the least bound of the grids, failures left out.

    The selections' curves reach as far as deltas of some level matter, which the first of them says: at the coarsest level
    the bound is found, and at the level of that bound it is found again.
    """
    level, value = _level(1.0), 1.0
    for _ in range(3):
        value = min((grid.bound(epsilon) for grid in lattices(composition, level)), default=1.0)
        if _level(value) >= level:
            break
        level = _level(value)
    return value


def _level(delta: float) -> float:
    """Return how small a curve's values matter at `delta`: few levels, so that the grid's reach rarely changes."""
    for least in (1e-10, 1e-25, 1e-60, 1e-130):
        if delta >= least:
            return least * 1e-12
    return 1e-306


def _root_up(variance: float) -> float:
    return math.nextafter(math.sqrt(variance), math.inf)
