"""What a run will release from one party's table, and with how much noise: decided before any row is read.

The plan depends on public quantities only: the settings, the number of rows and columns, the declared bounds and the
budget. One number, the noise multiplier z, scales all parts. A selection and an update together cost c / z² of zCDP; an
other release, `count` times with the share s of the total between them, is Gaussian with the noise multiplier
z sqrt(count (1 - all shares) / (2 s c K T)), so that the shares hold whatever z is.

What selections and updates are made private with, and what they are charged as:

- `"gumbel-gaussian"` (Fassy et al. 2025): the exponential mechanism, of range 2/z, and Gaussian noise; c = 1. z is the
  smallest that the ledger's accountant allows.
- `"mangold-proven"` (Mangold et al. 2023, with what can be proven): report noisy max and updates, both with Laplace noise.
  A noisy maximum of scores that one record may move in both directions is (2/z)-DP, an update (1/z)-DP; c = 2.5. z is
  again the smallest that the accountant allows.
- `"mangold-published"`: the same mechanisms with the noise that is published for them: z solves epsilon =
  sqrt(4 K T log(1/delta)) / z + 2 K T (exp(1/z) - 1) / z, advanced composition of 2 K T releases of 1/z each. For a
  selection 1/z is proven only where one record moves all scores the same way. So this epsilon is not what is charged:
  the ledger is charged the proven events of "mangold-proven" at this noise, priced by its accountant. That is mostly more
  (13.6 for an epsilon of 10 with K T = 5000 and delta 4e-8), and the budget has to hold it, or the run is refused;
  `epsilon` is what the noise is published for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dp_accounting import DpEvent, NonPrivateDpEvent

from privfcd.accounting import compose, gaussian_event, laplace_event, selection_event
from privfcd.accounting.roots import falling_root
from privfcd.algorithms.fed_sparse.constants import REFIT_STEPS
from privfcd.algorithms.fed_sparse.greedy import SELECTION, UPDATE
from privfcd.algorithms.fed_sparse.settings import MANGOLD_PUBLISHED, Settings
from privfcd.data.histogram import OctaveHistogram, largest_noise
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger.affordable import affordable_scale
from privfcd.ledger.ledger import Ledger, PlanPart
from privfcd.mechanisms import LaplaceNoisyMax

BOUNDS = "histogram of octaves (undeclared bounds)"
MEAN = "mean"
SMOOTHNESS = "second moments (smoothness M)"
REFIT = "gradient on the support (refit)"


@dataclass(frozen=True)
class ReleasePlan:
    """The parts of a run on one table.

    Attributes
    ----------
    parts : tuple of PlanPart
        What will be released.
    noise_multiplier : float
        z of selections and updates; 0 for a non-private run.
    setup_multipliers : dict of str to float
        Noise multiplier of each other release, by label.
    delta : float or None
        The slice's delta under an (epsilon, delta) budget.
    """

    parts: tuple[PlanPart, ...]
    noise_multiplier: float
    setup_multipliers: dict[str, float]
    delta: float | None


def setup_shares(table: PrivateTable, settings: Settings) -> dict[str, float]:
    """Return the releases beside the descent that a run on this table needs, with their shares of the total zCDP."""
    shares: dict[str, float] = {}
    needs_bounds = settings.smoothness is None or settings.center
    if table.bounds is None and needs_bounds and not table.open:
        shares[BOUNDS] = settings.bounds_share
    if settings.center:
        shares[MEAN] = settings.mean_share
    if settings.smoothness is None:
        shares[SMOOTHNESS] = settings.smoothness_share
    if settings.refit_share:
        shares[REFIT] = settings.refit_share
    return shares


def plan_releases(table: PrivateTable, settings: Settings) -> ReleasePlan:
    """Return the plan for a run on `table`; reads no rows and charges nothing.

    Raises
    ------
    BudgetExceeded
        Nothing is left of the budget.
    InvalidParameter
        The budget is pure, which cannot pay for Gaussian noise; or a private run is asked to leave records unclipped.
    """
    shares = setup_shares(table, settings)
    pairs = settings.rounds * settings.updates
    if table.open:
        others = dict.fromkeys(shares, 0.0)
        return ReleasePlan(_parts(others, 0.0, pairs, settings.laplace), 0.0, others, None)
    if settings.clip is not None and settings.unclipped:
        raise InvalidParameter("clip must be finite for a table with a budget, got inf")
    rest = 1 - sum(shares.values())
    cost = 2.5 if settings.laplace else 1.0

    def setup(z: float) -> dict[str, float]:
        return {
            label: z * math.sqrt(_count(label) * rest / (2 * share * cost * pairs)) for label, share in shares.items()
        }

    def event(z: float) -> DpEvent:
        return compose((part.event, part.count) for part in _parts(setup(z), z, pairs, settings.laplace))

    z, delta = _noise_multiplier(table.ledger, settings, event, rest)
    _check_histogram(table, setup(z))
    return ReleasePlan(_parts(setup(z), z, pairs, settings.laplace), z, setup(z), delta)


def _noise_multiplier(
    ledger: Ledger, settings: Settings, event: Callable[[float], DpEvent], rest: float
) -> tuple[float, float | None]:
    """Return z and the slice's delta for what the budget, or the settings, allow."""
    if settings.noise_multiplier is not None or settings.mechanisms == MANGOLD_PUBLISHED:
        # the noise is given, so that only the slice is to be found: that of any plan
        _, delta = affordable_scale(ledger, lambda z: gaussian_event(1.0, z), settings.epsilon, settings.delta)
        if settings.noise_multiplier is not None:
            return settings.noise_multiplier, settings.delta if delta is None else delta
        left = ledger.left()
        epsilon = settings.epsilon if settings.epsilon is not None or left is None else left.epsilon
        claimed = settings.delta if delta is None else delta
        if epsilon is None or claimed is None:
            raise InvalidParameter(
                f"mechanisms={MANGOLD_PUBLISHED!r} needs epsilon and delta, which its noise is published for, got "
                f"{settings.epsilon!r} and {settings.delta!r} on a budget of {ledger.budget}"
            )
        return published_multiplier(epsilon * math.sqrt(rest), claimed, settings.rounds * settings.updates), delta
    return affordable_scale(ledger, event, settings.epsilon, settings.delta)


def _check_histogram(table: PrivateTable, multipliers: dict[str, float]) -> None:
    """Refuse a run whose histogram noise would hide where the data are: public numbers say so beforehand."""
    if BOUNDS not in multipliers:
        return
    query = OctaveHistogram(table.n_columns, only=table.without_bounds)
    noise = multipliers[BOUNDS] * query.sensitivity(table.n_rows, table.relation)
    if noise > largest_noise(table.n_columns):
        raise BudgetExceeded(
            f"the budget of {table.name!r} allows a histogram with noise of sd {noise:.2g} in each share, and "
            f"{largest_noise(table.n_columns):.2g} is the most that bounds can be found with: declare bounds, or give a "
            "larger budget"
        )


def published_multiplier(epsilon: float, delta: float, pairs: int) -> float:
    """Return z for which advanced composition of 2 `pairs` releases of 1/z each gives `epsilon`, as published."""

    def spent(z: float) -> float:
        each = 1 / z
        if each > 500:
            return math.inf
        return math.sqrt(4 * pairs * -math.log(delta)) * each + 2 * pairs * each * math.expm1(each)

    return falling_root(spent, epsilon, 1.0, tolerance=1e-13)


def _count(label: str) -> int:
    return REFIT_STEPS if label == REFIT else 1


def _parts(others: dict[str, float], z: float, pairs: int, laplace: bool) -> tuple[PlanPart, ...]:
    private = z > 0
    selection, update = NonPrivateDpEvent(), NonPrivateDpEvent()
    if private:
        selection = LaplaceNoisyMax(z).event(1.0) if laplace else selection_event(1.0, z)
        update = laplace_event(1.0, z) if laplace else gaussian_event(1.0, z)
    return (
        *(
            PlanPart(label, gaussian_event(1.0, multiplier) if private else NonPrivateDpEvent(), _count(label))
            for label, multiplier in others.items()
        ),
        PlanPart(SELECTION, selection, pairs),
        PlanPart(UPDATE, update, pairs),
    )
