"""What a run will release from one party's table, and with how much noise: decided before any row is read.

The plan depends on public quantities only: the settings, the number of rows and columns, the declared bounds and the
budget. Every part is Gaussian noise or a selection. One number, the noise multiplier z, scales all of them: the
selections and updates have z, and a setup release that gets the share s of the total zCDP has
z sqrt((1 - all shares) / (2 s K T)), so that the shares hold whatever z is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dp_accounting import DpEvent, NonPrivateDpEvent

from privfcd.accounting import ZCDPAccountant, compose, gaussian_event, selection_event
from privfcd.accounting.calibration import smallest_scale
from privfcd.accounting.ledger import Ledger, PlanPart
from privfcd.accounting.roots import falling_root
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.data.greedy import SELECTION, UPDATE
from privfcd.data.histogram import OctaveHistogram, largest_noise
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter

BOUNDS = "histogram of octaves (undeclared bounds)"
MEAN = "mean"
SMOOTHNESS = "second moments (smoothness M)"


@dataclass(frozen=True)
class ReleasePlan:
    """The parts of a run on one table.

    Attributes
    ----------
    parts : tuple of PlanPart
        What will be released, in order.
    noise_multiplier : float
        z of selections and updates; 0 for a non-private run.
    setup_multipliers : dict of str to float
        Noise multiplier of each setup release, by label.
    delta : float or None
        The slice's delta under an (epsilon, delta) budget.
    """

    parts: tuple[PlanPart, ...]
    noise_multiplier: float
    setup_multipliers: dict[str, float]
    delta: float | None


def setup_shares(table: PrivateTable, settings: Settings) -> dict[str, float]:
    """Return the setup releases that a run on this table needs, with their shares of the total zCDP."""
    shares: dict[str, float] = {}
    needs_bounds = settings.smoothness is None or settings.center
    if table.bounds is None and needs_bounds and not table.open:
        shares[BOUNDS] = settings.bounds_share
    if settings.center:
        shares[MEAN] = settings.mean_share
    if settings.smoothness is None:
        shares[SMOOTHNESS] = settings.smoothness_share
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
        return ReleasePlan(_parts({label: 0.0 for label in shares}, 0.0, pairs), 0.0, dict.fromkeys(shares, 0.0), None)
    if settings.clip is not None and settings.unclipped:
        raise InvalidParameter("clip must be finite for a table with a budget, got inf")
    rest = 1 - sum(shares.values())

    def setup(z: float) -> dict[str, float]:
        return {label: z * math.sqrt(rest / (2 * share * pairs)) for label, share in shares.items()}

    def event(z: float) -> DpEvent:
        return compose((part.event, part.count) for part in _parts(setup(z), z, pairs))

    z, delta = _noise_multiplier(table.ledger, settings, event)
    _check_histogram(table, setup(z))
    return ReleasePlan(_parts(setup(z), z, pairs), z, setup(z), delta)


def _noise_multiplier(
    ledger: Ledger, settings: Settings, event: Callable[[float], DpEvent]
) -> tuple[float, float | None]:
    """Return z and the slice's delta for what the budget, or the settings, allow."""
    left = ledger.left()
    if left is None:
        raise BudgetExceeded(f"nothing is left of the budget {ledger.budget} of {ledger.name!r}")
    if left.notion == "pure":
        raise InvalidParameter(
            f"the budget of {ledger.name!r} is pure (delta = 0), which cannot pay for GaussianDpEvent: give a delta, or rho"
        )
    delta = settings.delta
    if left.notion == "approximate" and delta is None:
        assert left.epsilon is not None
        share = 1.0 if settings.epsilon is None else min(1.0, settings.epsilon / left.epsilon)
        delta = left.delta * share
    if ledger.budget and left.epsilon and settings.epsilon and settings.epsilon > left.epsilon:
        raise BudgetExceeded(
            f"the run on {ledger.name!r} was refused: asked epsilon {settings.epsilon:.9g}, spent "
            f"{ledger.spent().get('epsilon', 0.0):.9g}, left {left.epsilon:.9g} of {ledger.budget.epsilon:.9g}"
        )
    if settings.noise_multiplier is not None:
        return settings.noise_multiplier, delta
    if left.notion == "approximate":
        epsilon = left.epsilon if settings.epsilon is None else settings.epsilon
        assert epsilon is not None and delta is not None
        return smallest_scale(event, epsilon, delta, ledger.accountant), delta
    if settings.epsilon is not None:
        if delta is None:
            raise InvalidParameter("delta must be given with epsilon for a table whose budget is a rho, got None")
        return smallest_scale(event, settings.epsilon, delta), None
    assert left.rho is not None
    return falling_root(
        lambda z: ZCDPAccountant().compose(event(z)).rho, left.rho * (1 - 1e-12), 1.0, tolerance=1e-13
    ), None


def _check_histogram(table: PrivateTable, multipliers: dict[str, float]) -> None:
    """Refuse a run whose histogram noise would hide where the data are: public numbers say so beforehand."""
    if BOUNDS not in multipliers:
        return
    query = OctaveHistogram(table.n_columns)
    noise = multipliers[BOUNDS] * query.sensitivity(table.n_rows, table.relation)
    if noise > largest_noise(table.n_columns):
        raise BudgetExceeded(
            f"the budget of {table.name!r} allows a histogram with noise of sd {noise:.2g} in each share, and "
            f"{largest_noise(table.n_columns):.2g} is the most that bounds can be found with: declare bounds, or give a "
            "larger budget"
        )


def _parts(setup: dict[str, float], z: float, pairs: int) -> tuple[PlanPart, ...]:
    private = z > 0
    gaussian = gaussian_event(1.0, z) if private else NonPrivateDpEvent()
    selection = selection_event(1.0, z) if private else NonPrivateDpEvent()
    return (
        *(
            PlanPart(label, gaussian_event(1.0, multiplier) if private else NonPrivateDpEvent(), 1)
            for label, multiplier in setup.items()
        ),
        PlanPart(SELECTION, selection, pairs),
        PlanPart(UPDATE, gaussian, pairs),
    )
