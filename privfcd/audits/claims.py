"""What is claimed of a mechanism, as a curve that an audit can be held against.

A claim bounds, for every false-positive rate of whoever tries to tell two neighbouring tables apart, the
true-positive rate that they can reach: the curve G with TPR <= G(FPR), that is 1 - f(FPR) for the trade-off
function f of Dong, Roth and Su 2022. A claim that is stated as a curve is far easier to refute than one of its
points.

- (epsilon, delta): G(q) = min(1, delta + e^epsilon q, 1 - e^-epsilon (1 - delta - q)) (Wasserman and Zhou 2010).
- Gaussian, mu: G(q) = Phi(Phi^-1(q) + mu).
- One eta-bounded-range selection: G(q) = q e^eta / (1 - q + q e^eta). For any set S of outputs, the losses on S and
  on its complement lie in one interval of width eta, so that the odds of S change by at most e^eta; two candidates
  attain it.
- Laplace noise, sensitivity / scale = e: the trade-off of two Laplace laws at distance e (Dong, Roth and Su,
  Section 2).
- Other compositions: the smallest over epsilon of the (epsilon, delta(epsilon)) curves, delta(epsilon) by zCDP and
  capped by the sum of the pure epsilons, and the curve of a Gaussian that dominates the whole (see
  `privfcd.accounting.domination`), where there is one. It is not the curve of a Gaussian with mu = sqrt(2 rho), which
  zCDP does not imply.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, UnsupportedEventError
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

from privfcd import checks
from privfcd.accounting import (
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    PureDPAccountant,
    ZCDPAccountant,
    compose,
    gaussian_sigma,
    gdp_to_delta,
    gdp_to_epsilon,
    leaves,
)
from privfcd.accounting.composition import Composition, why_not
from privfcd.accounting.domination import ALLOWANCE
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]

REPORT_DELTA = 1e-6
"""Where epsilon is stated for a claim that is a curve, has no pure epsilon and names no delta."""

_GRID = 400
_LEAST_DELTA = 1e-13


@dataclass(frozen=True)
class Claim:
    """A privacy guarantee that an audit can refute, about one pair of neighbours at a time.

    Give exactly one of `epsilon`, `mu` and `event`.

    Parameters
    ----------
    epsilon : float, optional
        Claim of (epsilon, delta)-differential privacy; at least 0.
    delta : float
        In [0, 1). With `mu` or `event`, the delta at which reports state epsilon: 0 is taken for an event with a pure
        epsilon, and 1e-6 where that would leave epsilon infinite.
    mu : float, optional
        Claim of mu-Gaussian differential privacy; at least 0.
    event : dp_accounting.DpEvent, optional
        What a release is said to cost; its curve is claimed. `from_event` gives the simplest equivalent claim.

    Raises
    ------
    InvalidParameter
        Not exactly one of them is given, one is out of range, or nothing is claimed (a non-private event).
    """

    epsilon: float | None = None
    delta: float = 0.0
    mu: float | None = None
    event: DpEvent | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("epsilon", "mu", "event") if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidParameter(
                f"a claim is exactly one of epsilon, mu and event, got {', '.join(given) or 'none of them'}"
            )
        checks.delta("delta", self.delta)
        if self.epsilon is not None:
            checks.non_negative("epsilon", self.epsilon)
        if self.mu is not None:
            checks.non_negative("mu", self.mu)
        if self.event is not None:
            leaves(self.event)
            if not math.isfinite(_accountant(self.event).total):
                raise InvalidParameter(f"event {self.event!r} is non-private: it claims nothing that could be refuted")

    @classmethod
    def from_event(cls, event: DpEvent, delta: float = 0.0) -> Claim:
        """Return what `event` claims: mu if all of it is Gaussian noise, epsilon if it is an (epsilon, delta) event.

        Parameters
        ----------
        event : dp_accounting.DpEvent
            A release, or several composed.
        delta : float
            Where reports state epsilon. An (epsilon, delta) event has its own.
        """
        parts = leaves(event)
        if not parts:
            return cls(epsilon=0.0, delta=delta)
        if all(isinstance(part, GaussianDpEvent) for part, _ in parts):
            if all(part.noise_multiplier > 0 for part, _ in parts):
                squares = [(1 / part.noise_multiplier) * (1 / part.noise_multiplier) * count for part, count in parts]
                return cls(mu=math.sqrt(math.fsum(squares)), delta=delta)
        if len(parts) == 1 and parts[0][1] == 1 and isinstance(parts[0][0], EpsilonDeltaDpEvent):
            return cls(epsilon=parts[0][0].epsilon, delta=parts[0][0].delta)
        return cls(event=event, delta=delta)

    @property
    def kind(self) -> str:
        """`"pure"`, `"approximate"`, `"gaussian"` or `"event"`."""
        if self.epsilon is not None:
            return "approximate" if self.delta else "pure"
        return "gaussian" if self.mu is not None else "event"

    @property
    def report_delta(self) -> float:
        """The delta at which reports state epsilon."""
        if self.epsilon is not None or self.delta or math.isfinite(self.epsilon_at(0.0)):
            return self.delta
        return REPORT_DELTA

    @property
    def report_epsilon(self) -> float:
        """The claimed epsilon at `report_delta`."""
        return self.epsilon_at(self.report_delta)

    def epsilon_at(self, delta: float) -> float:
        """Return the claimed epsilon at `delta`; inf where none is claimed."""
        delta = checks.delta("delta", delta)
        if self.mu is not None:
            return gdp_to_epsilon(self.mu, delta)
        if self.event is not None:
            return _event_epsilon(self.event, delta)
        assert self.epsilon is not None
        if delta < self.delta:
            return math.inf
        # The curve of (epsilon, delta) passes delta' > delta at a smaller epsilon (see `delta_at`).
        share = (delta - self.delta) / (1 - self.delta)
        inner = 1 - share - share * math.exp(-self.epsilon)
        return max(0.0, self.epsilon + math.log(inner)) if inner > 0 else 0.0

    def delta_at(self, epsilon: float) -> float:
        """Return the claimed delta at `epsilon`: the privacy profile."""
        epsilon = checks.non_negative("epsilon", epsilon)
        if self.mu is not None:
            return gdp_to_delta(self.mu, epsilon)
        if self.event is not None:
            return _event_delta(self.event, epsilon)
        assert self.epsilon is not None
        if epsilon >= self.epsilon:
            return self.delta
        # (e^c - e^x) / (1 + e^c), divided by e^c above and below
        gap = -math.expm1(epsilon - self.epsilon) / (1 + math.exp(-self.epsilon))
        return self.delta + (1 - self.delta) * gap

    def curve(self, false_positive_rate: ArrayLike) -> Array:
        """Return the largest true-positive rate that the claim allows at each false-positive rate in [0, 1]."""
        q = np.clip(np.asarray(false_positive_rate, dtype=np.float64), 0.0, 1.0)
        if self.epsilon is not None:
            return _point_curve(q, np.array([self.epsilon]), np.array([self.delta]))
        if self.mu is not None:
            return np.asarray(ndtr(ndtri(q) + self.mu))
        assert self.event is not None
        return _event_curve(self.event, q)

    def as_gaussian(self) -> Claim:
        """Return the curve of the Gaussian mechanism that just satisfies this (epsilon, delta) claim.

        It is what the claim says of a mechanism whose noise is declared to be Gaussian. Claims of another kind, and
        claims at delta = 0, are returned as they are.
        """
        if self.kind != "approximate":
            return self
        assert self.epsilon is not None
        return Claim(mu=1 / gaussian_sigma(self.epsilon, self.delta), delta=self.delta)

    def as_dict(self) -> dict[str, Any]:
        """Return the claim as JSON-able values, with the epsilon and delta at which reports state it."""
        return {
            "kind": self.kind,
            "epsilon": _finite(self.report_epsilon),
            "delta": self.report_delta,
            "mu": self.mu,
            "event": None if self.event is None else repr(self.event),
        }

    def __str__(self) -> str:
        if self.epsilon is not None:
            return f"epsilon = {self.epsilon:.6g}" + (f" at delta = {self.delta:.3g}" if self.delta else "")
        stated = f"epsilon = {self.report_epsilon:.6g}"
        if self.report_delta:
            stated += f" at delta = {self.report_delta:.3g}"
        if self.mu is not None:
            return f"mu = {self.mu:.6g} (Gaussian differential privacy; {stated})"
        return f"the curve of {self.event!r} ({stated})"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _point_curve(q: Array, epsilons: Array, deltas: Array) -> Array:
    """Return the smallest of the (epsilon, delta) curves at each q."""
    with np.errstate(over="ignore"):
        low = deltas + np.exp(epsilons) * q[..., None]
    high = 1 - np.exp(-epsilons) * (1 - deltas - q[..., None])
    return np.asarray(np.clip(np.minimum(low, high).min(axis=-1), 0.0, 1.0))


def _accountant(event: DpEvent) -> ZCDPAccountant:
    try:
        accountant = ZCDPAccountant()
        accountant.compose(event)
        return accountant
    except UnsupportedEventError as error:
        raise InvalidParameter(f"event {event!r} has no curve that could be claimed: {error}") from error


def _single(event: DpEvent) -> DpEvent | None:
    parts = leaves(event)
    return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else None


def _event_epsilon(event: DpEvent, delta: float) -> float:
    match _single(event):
        case BoundedRangeDpEvent(eta=eta):
            return _decreasing_root(lambda e: _selection_delta(eta, e), delta, eta)
        case LaplaceDpEvent(noise_multiplier=multiplier):
            return max(0.0, 1 / multiplier + 2 * math.log1p(-delta))
    try:
        pure = PureDPAccountant().compose(event).get_epsilon(0.0)
    except UnsupportedEventError:
        pure = math.inf
    return pure if delta == 0 else min(pure, _accountant(event).get_epsilon(delta))


def _event_delta(event: DpEvent, epsilon: float) -> float:
    match _single(event):
        case BoundedRangeDpEvent(eta=eta):
            return _selection_delta(eta, epsilon)
        case LaplaceDpEvent(noise_multiplier=multiplier):
            return max(0.0, -math.expm1((epsilon - 1 / multiplier) / 2))
    return _accountant(event).get_delta(epsilon)


def _selection_delta(eta: float, epsilon: float) -> float:
    """Return max over q of q e^eta / (1 - q + q e^eta) - e^epsilon q, in closed form."""
    if epsilon >= eta:
        return 0.0
    # The maximum is at 1 - q + q e^eta = e^((eta - epsilon)/2); multiplied out it is a square.
    ratio = -math.expm1((epsilon - eta) / 2)
    return ratio * ratio / -math.expm1(-eta)


def _decreasing_root(function: Any, target: float, high: float) -> float:
    """Return the smallest x in [0, high] with function(x) <= target, for a function that falls to 0 at `high`."""
    if target == 0:
        return high
    low = 0.0
    if function(low) <= target:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) <= target else (middle, high)
    return high


def _event_curve(event: DpEvent, q: Array) -> Array:
    match _single(event):
        case BoundedRangeDpEvent(eta=eta):
            # q e^eta / (1 - q + q e^eta), both divided by e^eta
            bottom = q + (1 - q) * math.exp(-eta)
            return np.asarray(q / np.where(bottom > 0, bottom, 1.0))
        case LaplaceDpEvent(noise_multiplier=multiplier):
            return _laplace_curve(q, 1 / multiplier)
    parts = tuple(leaves(event))
    curve = _point_curve(q, *_profile(parts))
    mu, allowance = _dominating(parts)
    return np.minimum(curve, ndtr(ndtri(q) + mu) + allowance) if math.isfinite(mu) else curve


def _laplace_curve(q: Array, distance: float) -> Array:
    shrink = math.exp(-distance)
    middle = 1 - shrink / (4 * np.where(q > 0, q, 1.0))
    with np.errstate(over="ignore"):
        steep = q * np.exp(distance)
    return np.asarray(np.where(q > 0.5, 1 - shrink * (1 - q), np.where(q < shrink / 2, steep, middle)))


@lru_cache(maxsize=256)
def _dominating(parts: tuple[tuple[DpEvent, int], ...]) -> tuple[float, float]:
    """Return mu of a Gaussian pair that dominates the composition up to a small delta; inf where none is known."""
    if any(why_not(part) is not None for part, _ in parts):
        return math.inf, 0.0
    composition = Composition.of(parts)
    if composition.failure or composition.rho:
        return math.inf, 0.0
    return math.sqrt(composition.gaussian_variance()) * (1 + 1e-15), ALLOWANCE * (1 + composition.kinds)


@lru_cache(maxsize=256)
def _profile(parts: tuple[tuple[DpEvent, int], ...]) -> tuple[Array, Array]:
    """Return epsilons from 0 to where hardly any delta is left, and the claimed delta at each."""
    event = compose(parts)
    pure = _event_epsilon(event, 0.0)
    last = min(pure, _event_epsilon(event, _LEAST_DELTA))
    epsilons = np.linspace(0.0, last, _GRID)
    if math.isfinite(pure):
        epsilons = np.append(epsilons, pure)
    return epsilons, np.array([_event_delta(event, float(epsilon)) for epsilon in epsilons])
