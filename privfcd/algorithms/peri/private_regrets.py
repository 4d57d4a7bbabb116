"""`privacy="regret"`: noise on every distinct regret, as the paper has it, but with a sensitivity that holds.

One reservation a party pays for all: one noisy covariance, from which the party learns its CPDAG, and a fixed
number of regrets with Laplace noise. The CPDAG has to be paid for too: the mask and the regret's baseline depend on
it, and where it could change with a record, so could the family that a mask leaves, and no noise on the value would
hide that. Kept for comparison: each regret is a release, and a search needs hundreds. One release of moments
answers all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_accounting import DpEvent, NonPrivateDpEvent

from privfcd import checks
from privfcd.accounting import compose, gaussian_event, laplace_event
from privfcd.algorithms.charging import reserve_all, run_label
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.peri.sources import TableRegrets
from privfcd.algorithms.release.party import ASSUMPTIONS
from privfcd.algorithms.release.plan import COVARIANCE
from privfcd.algorithms.results import table_report
from privfcd.data.private import PrivateTable
from privfcd.data.queries import SecondMoments
from privfcd.errors import InvalidParameter
from privfcd.ledger import PlanPart, Reservation
from privfcd.ledger.affordable import affordable_scale
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.mechanisms import AnalyticGaussian
from privfcd.moments import Moments, NoiseTerm

RUN = "regrets one by one"
REGRETS = "regrets"


@dataclass(frozen=True)
class RegretOptions:
    """Options of per-regret noise, all public: see `IPERI`."""

    max_regrets: int
    value_bound: float | None
    radius: float
    variance_floor: float
    graph_share: float
    epsilon: float | None
    delta: float | None

    def __post_init__(self) -> None:
        checks.count("max_regrets", self.max_regrets)
        if self.value_bound is not None:
            checks.bound("value_bound", self.value_bound)
        checks.bound("radius", self.radius)
        checks.bound("variance_floor", self.variance_floor)
        checks.fraction("graph_share", self.graph_share)
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        if self.delta is not None:
            checks.delta("delta", self.delta, zero=False)

    def bounds(self, table: PrivateTable) -> tuple[float, ...]:
        """Return the bounds on the table's columns."""
        if self.value_bound is not None:
            return (float(self.value_bound),) * table.n_columns
        if table.bounds is None:
            raise InvalidParameter(
                f"value_bound must be given with privacy='regret' for {table.name!r}, which declares no bounds: a regret's "
                "sensitivity is infinite without them"
            )
        return tuple(table.bounds)


def least_regrets(settings: Settings, d: int) -> int:
    """Return how many distinct regrets of each party the run needs at least, whatever the data: for one step of a search.

    A family that a party's own graph has at the node costs nothing, which is one at each node at most.

    - Without masks, phase 1 asks in its first step for all d (d - 1) families of one parent, and for the d of none before.
    - Refinement asks for the d families of a DAG, and then in one step for every addition and removal of an arc: of each
      pair one at least, in d (d - 1) / 2 further families. It asks by no mask of the party's graph.
    - With masks, a party whose own graph is empty is asked for nothing that costs.
    """
    if not settings.masked:
        return d * (d - 1) if settings.max_parents is None or settings.max_parents > 0 else 0
    return d * (d - 1) // 2 if settings.refine else 0


@dataclass(frozen=True)
class _Plan:
    parts: tuple[PlanPart, ...]
    graph: float
    regret: float
    delta: float | None


def private_parties(
    tables: Sequence[PrivateTable], settings: Settings, options: RegretOptions
) -> tuple[list[PERIParty], list[Reservation], list[_Plan]]:
    """Charge all tables, release each party's covariance to itself, and return the parties with their reservations.

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow it; no party was charged.
    InvalidParameter
        No bounds, or a budget that cannot pay for Gaussian noise.
    """
    bounds = [options.bounds(table) for table in tables]
    plans = [_plan(table, options) for table in tables]
    reservations = reserve_all(tables, plans, RUN)
    parties = []
    for table, plan, reservation, limits in zip(tables, plans, reservations, bounds, strict=True):
        query = SecondMoments(math.inf if table.open else math.hypot(*limits) * (1 + 1e-12))
        scale = plan.graph * query.sensitivity(table.n_rows, table.relation) * (1 + 1e-14) if plan.graph else 0.0
        answer = table.release(query, AnalyticGaussian(scale), label=COVARIANCE, reservation=reservation)
        moments = Moments(answer.matrix, table.n_rows, table.columns, (NoiseTerm(scale),) if scale else ())
        source = TableRegrets(
            table,
            reservation,
            REGRETS,
            plan.regret,
            limits,
            options.radius,
            options.variance_floor,
            settings.penalty,
        )
        parties.append(PERIParty(table.name, moments, source=source))
    return parties, reservations, plans


def private_report(table: PrivateTable, reservation: Reservation, plan: _Plan, options: RegretOptions) -> PrivacyReport:
    """Return the report on one table's run."""
    return table_report(
        table,
        reservation,
        delta=options.delta if plan.delta is None else plan.delta,
        declared={
            "bounds": list(options.bounds(table)),
            "radius": options.radius,
            "variance floor": options.variance_floor,
            "most regrets": options.max_regrets,
        },
        assumptions=ASSUMPTIONS,
    )


def _plan(table: PrivateTable, options: RegretOptions) -> _Plan:
    """Return what is paid for; shares mean about the same under zCDP, where Laplace noise of scale b is about 1/(2 b²)."""
    count = options.max_regrets
    if table.open:
        free = NonPrivateDpEvent()
        return _Plan((PlanPart(COVARIANCE, free, 1), PlanPart(REGRETS, free, count)), 0.0, 0.0, None)

    def multipliers(t: float) -> tuple[float, float]:
        return t / math.sqrt(options.graph_share), t * math.sqrt(count / (1 - options.graph_share))

    def parts(t: float) -> tuple[PlanPart, ...]:
        graph, regret = multipliers(t)
        return (
            PlanPart(COVARIANCE, gaussian_event(1.0, graph), 1),
            PlanPart(REGRETS, laplace_event(1.0, regret), count, "one for each distinct family"),
        )

    def event(t: float) -> DpEvent:
        return compose((part.event, part.count) for part in parts(t))

    scale, delta = affordable_scale(table.ledger, event, options.epsilon, options.delta, label=run_label(RUN, table))
    return _Plan(parts(scale), *multipliers(scale), delta)
