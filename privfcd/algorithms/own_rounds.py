"""A party's own private moments, in rounds of its own.

Rounds multiply the rows by a matrix that the rounds before suggest. Where parties intervene their moments differ, so that a
matrix made from all of them fits none: each party here is a federation of one. All parties are asked, then all are
charged, then rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from privfcd.algorithms import kept_messages as own
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.release.coordinator import Outcome, ReleaseCoordinator
from privfcd.algorithms.release.messages import Quote
from privfcd.algorithms.release.party import ASSUMPTIONS, ReleaseParty
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.results import table_report
from privfcd.algorithms.terms import Terms
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_origin
from privfcd.errors import BudgetExceeded, PartyFailed
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.moments import Moments


@dataclass(frozen=True, eq=False)
class _Planned:
    """Rounds that look at one table alone, not yet paid for; an open table's moments are exact."""

    table: PrivateTable
    settings: ReleaseSettings
    party: ReleaseParty
    alone: LocalFederation
    coordinator: ReleaseCoordinator
    quotes: list[Quote]
    shares: dict[str, float]


class OwnRoundsParty:
    """A party's half that releases moments to itself, by rounds that look at its own table only.

    Parameters
    ----------
    table : PrivateTable
    index : int
        The party's number in the federation, to which the noise's streams belong.
    """

    def __init__(self, table: PrivateTable, index: int) -> None:
        self._table = table
        self._index = index
        self._planned: _Planned | None = None
        self._terms = Terms()
        self._charged = False
        self._outcome: Outcome | None = None
        self._reports: list[PrivacyReport] = []

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._table.name

    @property
    def kept(self) -> Moments | None:
        """The moments, once there are any."""
        return None if self._outcome is None else self._outcome.parts[0]

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns of which the rounds say nothing."""
        return () if self._outcome is None else tuple(self._outcome.rule.get("unknown", ()))

    def reports(self) -> list[PrivacyReport]:
        """See `privfcd.algorithms.opening.PayingParty.reports`."""
        return self._reports

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        match message:
            case own.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case own.Charge() if self._planned is not None:
                self._terms.settle(self.name)
                self._planned.coordinator.charge(self._planned.alone)
                self._charged = True
            case own.Release() if self._charged and self._planned is not None:
                self._release(self._planned)
                self._charged = False
            case _:
                raise PartyFailed(f"{self.name} was not asked for {type(message).__name__} in turn")
        return Empty()

    def _consider(self, offer: own.Offer) -> own.Planned:
        self._planned = None
        try:
            self._planned = self._plan(offer)
        except BudgetExceeded:
            if offer.required:
                raise
        return own.Planned(self._planned is not None)

    def _plan(self, offer: own.Offer) -> _Planned:
        table = self._table.reordered(offer.columns)
        method = "exact" if table.open else "preconditioned"
        settings = ReleaseSettings(method=method, epsilon=offer.epsilon, delta=offer.delta, center=offer.center)
        party = ReleaseParty([table], self._index)
        alone = LocalFederation([party])
        coordinator = ReleaseCoordinator(settings, offer.columns, structure_whitening)
        quotes = coordinator.offer(alone)
        return _Planned(table, settings, party, alone, coordinator, quotes, coordinator.plan(alone, quotes))

    def _release(self, run: _Planned) -> None:
        outcome = run.coordinator.release(run.alone, run.quotes, run.shares)
        part = replace(outcome.parts[0], origins=(table_origin(run.table),))
        self._outcome = replace(outcome, parts=(part,))
        planned = run.party.plans[0].delta
        delta = run.settings.delta if planned is None else planned
        reserved = run.party.reservations[0]
        self._reports = [table_report(run.table, reserved, delta=delta, declared={}, assumptions=ASSUMPTIONS)]
