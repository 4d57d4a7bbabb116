"""A party's ledger as one study sees it: one plan, priced within what the study demands, and nothing besides."""

from __future__ import annotations

from collections.abc import Iterable

from dp_accounting import DpEvent

from privfcd.accounting import compose
from privfcd.accounting.calibration import epsilon_of
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger, PlanPart, Reservation
from privfcd.ledger.journal import Entry


class StudyLedger(Ledger):
    """The data set's own ledger, in which a study may reserve one plan, once, of at most (epsilon, delta).

    The ledger's budget still holds, and what is spent is spent there. The demand is a second cap, whatever a coordinator
    asks for.

    Parameters
    ----------
    ledger : Ledger
        The data set's.
    epsilon, delta : float or None
        The study's demand; None for a study without privacy, which an open ledger only can record.

    Attributes
    ----------
    reservation : Reservation or None
        What was charged, once it was.
    delta : float or None
        That of the slice which was charged, under an (epsilon, delta) budget.
    """

    def __init__(self, ledger: Ledger, epsilon: float | None, delta: float | None) -> None:
        if (epsilon is None) != ledger.open:
            raise InvalidParameter(
                f"the ledger of {ledger.name!r} has {'no budget' if ledger.open else f'the budget {ledger.budget}'}, but "
                f"the study {'is without privacy' if epsilon is None else f'demands epsilon = {epsilon:g}'}"
            )
        super().__init__(ledger.budget, name=ledger.name, journal=ledger._journal, accountant=ledger.accountant)
        self._demand = epsilon, delta
        self.reservation: Reservation | None = None
        self.delta: float | None = None

    def charge(self, event: DpEvent, label: str = "release", *, request: str = "") -> Entry:
        """Refuse: a study is paid as a whole, before any of it is answered."""
        raise BudgetExceeded(
            f"{label!r} on {self.name!r} was refused: a study is charged as a whole, not by the release"
        )

    def check(
        self, plan: Iterable[PlanPart] | DpEvent, label: str = "run", *, delta: float | None = None
    ) -> dict[str, float]:
        """See `Ledger.check`; refuses what is above the study's demand too."""
        plan = plan if isinstance(plan, DpEvent) else list(plan)
        self._within_demand(plan, label, delta)
        return super().check(plan, label, delta=delta)

    def reserve(
        self, plan: Iterable[PlanPart] | DpEvent, label: str = "run", *, delta: float | None = None
    ) -> Reservation:
        """See `Ledger.reserve`; refuses what is above the study's demand, and a second plan."""
        plan = plan if isinstance(plan, DpEvent) else list(plan)
        if self.reservation is not None:
            raise BudgetExceeded(f"{label!r} on {self.name!r} was refused: the study was charged before")
        self._within_demand(plan, label, delta)
        self.reservation, self.delta = super().reserve(plan, label, delta=delta), delta
        return self.reservation

    def _within_demand(self, plan: list[PlanPart] | DpEvent, label: str, delta: float | None) -> None:
        epsilon, most_delta = self._demand
        if epsilon is None:
            return
        most_delta = 0.0 if most_delta is None else most_delta
        if delta is not None and delta > most_delta:
            raise BudgetExceeded(
                f"{label!r} on {self.name!r} was refused: asked delta {delta:g}, the study demands {most_delta:g}"
            )
        event = plan if isinstance(plan, DpEvent) else compose((part.event, part.count) for part in plan)
        asked = epsilon_of(event, most_delta, self.accountant)
        if asked > epsilon:
            raise BudgetExceeded(
                f"{label!r} on {self.name!r} was refused: asked epsilon {asked:.9g} at delta {most_delta:g}, the study "
                f"demands {epsilon:g}"
            )
