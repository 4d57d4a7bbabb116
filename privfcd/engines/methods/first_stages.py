"""How moments come about at parties that keep them: one clipped covariance, or rounds of each party's own."""

from __future__ import annotations

from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.peri.own_moments import OwnRounds as PlannedRounds
from privfcd.algorithms.peri.own_moments import planned_rounds, released
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.release import release_report
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.rounds import expect
from privfcd.data.private import PrivateTable
from privfcd.engines.methods import own_release_messages
from privfcd.engines.methods.base import centred, release_settings
from privfcd.errors import PartyFailed
from privfcd.federation.protocol import Empty, Federation, Message
from privfcd.federation.study_file import Study
from privfcd.federation.terms import Terms
from privfcd.moments import Moments


class KeepingReleaseParty(ReleaseParty):
    """Releases to itself only: what the study says stays here is not sent, though it was paid for."""

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        match message:
            case release_messages.AskHistogram() | release_messages.AskMean() | release_messages.AskMoments():
                raise PartyFailed(f"{self.name} keeps its moments, and was asked to send some")
        return super().answer(message)


class OneCovariance:
    """Each party releases one covariance to itself, rows clipped in norm; exact in a study without a budget."""

    module = release_messages

    def __init__(self, study: Study, estimator: type[Estimator]) -> None:
        self._columns = study.columns
        self._settings = release_settings(study, estimator, send=False)

    def offer(self) -> Message:
        """See `FirstStage.offer`."""
        return release_messages.Offer(self._settings, self._columns)

    def party(self, table: PrivateTable, index: int) -> KeepingReleaseParty:
        """See `FirstStage.party`."""
        return KeepingReleaseParty([table], index)

    def run(self, federation: Federation) -> None:
        """See `FirstStage.run`."""
        coordinator = ReleaseCoordinator(self._settings, self._columns, structure_whitening)
        coordinator.run(federation, coordinator.offer(federation))

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """See `FirstStage.report`."""
        return release_report(table, reservation, self._settings, delta)


class OwnRoundsParty:
    """Releases moments to itself by rounds that look at its own table only.

    Parameters
    ----------
    table : PrivateTable
    index : int
        The party's number in the study.
    """

    def __init__(self, table: PrivateTable, index: int) -> None:
        self._table = table
        self._index = index
        self._planned: list[PlannedRounds] = []
        self._terms = Terms()
        self._charged = False
        self.kept: Moments | None = None

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._table.name

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        match message:
            case own_release_messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case own_release_messages.Charge() if self._planned:
                self._terms.settle(self.name)
                for run in self._planned:
                    run.coordinator.charge(run.alone)
                self._charged = True
            case own_release_messages.Release() if self._charged:
                self.kept = released(self._planned).parts[0]
                self._charged = False
            case _:
                raise PartyFailed(f"{self.name} was not asked for {type(message).__name__} in turn")
        return Empty()

    def _consider(self, offer: own_release_messages.Offer) -> Empty:
        self._planned = planned_rounds(
            [self._table.reordered(offer.columns)],
            epsilon=offer.epsilon,
            delta=offer.delta,
            center=offer.center,
            first=self._index,
        )
        return Empty()


class OwnRounds:
    """Each party does rounds by itself: parties that differ need matrices that differ."""

    module = own_release_messages

    def __init__(self, study: Study, estimator: type[Estimator]) -> None:
        self._offer = own_release_messages.Offer(study.epsilon, study.delta, centred(study, estimator), study.columns)

    def offer(self) -> Message:
        """See `FirstStage.offer`."""
        return self._offer

    def party(self, table: PrivateTable, index: int) -> OwnRoundsParty:
        """See `FirstStage.party`."""
        return OwnRoundsParty(table, index)

    def run(self, federation: Federation) -> None:
        """See `FirstStage.run`."""
        for message in (self._offer, own_release_messages.Charge(), own_release_messages.Release()):
            expect(federation, message, Empty)

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """See `FirstStage.report`."""
        settings = ReleaseSettings(method="preconditioned", epsilon=self._offer.epsilon, delta=self._offer.delta)
        return release_report(table, reservation, settings, delta)
