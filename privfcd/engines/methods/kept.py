"""Learners whose parties keep their moments, and answer from those.

What a party answers afterwards is post-processing of its own noisy moments (exact ones, charged as non-private, in a
study without a budget).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol

from privfcd import checks
from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fed_bnsl import messages as fed_bnsl_messages
from privfcd.algorithms.fed_bnsl.coordinator import FedBNSLCoordinator
from privfcd.algorithms.fed_bnsl.party import FedBNSLParty
from privfcd.algorithms.peri import IPERI, PERI
from privfcd.algorithms.peri import messages as peri_messages
from privfcd.algorithms.peri.coordinator import PERICoordinator
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.results import EXACT, store_graph, store_released
from privfcd.algorithms.rounds import history_rows
from privfcd.data.private import PrivateTable
from privfcd.engines.methods.base import OnRound, estimator_of
from privfcd.engines.methods.released import OPTIONS
from privfcd.errors import PartyFailed
from privfcd.federation.protocol import Empty, Federation, Message, Party
from privfcd.federation.study_file import Study
from privfcd.federation.wire import Codec, module_messages
from privfcd.moments import Moments

STAYED = "the noisy answers that it was made from stayed with the parties, so that they cannot be noised again here"


class KeepingParty(Party, Protocol):
    """A party's half that ends with moments of its own."""

    @property
    def kept(self) -> Moments | None:
        """The moments, once there are any."""


class FirstStage(Protocol):
    """How moments come about at the parties."""

    @property
    def module(self) -> ModuleType:
        """Its messages."""

    def offer(self) -> Message:
        """Return its opening message."""

    def party(self, table: PrivateTable, index: int) -> KeepingParty:
        """Return a party's half."""

    def run(self, federation: Federation) -> None:
        """Run the coordinator's half."""

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """See `Method.report`: all that a party pays is this stage."""


class SecondStage(Protocol):
    """What comes after the release."""

    @property
    def module(self) -> ModuleType:
        """Its messages."""

    def offer(self) -> Message:
        """Return its opening message."""

    def party(self, name: str, moments: Moments) -> Party:
        """Return a party's half."""

    def run(self, federation: Federation, on_round: OnRound | None) -> Any:
        """Run the coordinator's half and return the fitted estimator."""


class StagedParty:
    """A first stage that leaves moments here, then another half on them."""

    def __init__(self, first: KeepingParty, messages: ModuleType, make: Callable[[str, Moments], Party]) -> None:
        self._first = first
        self._messages = messages
        self._make = make
        self._second: Party | None = None

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._first.name

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        if type(message).__module__ == self._messages.__name__:
            return self._first.answer(message)
        if self._second is None:
            if self._first.kept is None:
                raise PartyFailed(f"{self.name} was asked to learn before it released its moments to itself")
            self._second = self._make(self.name, self._first.kept)
        return self._second.answer(message)


class Kept:
    """A first stage, `OneCovariance` or `OwnRounds`, and a second one."""

    def __init__(self, study: Study, first: FirstStage, second: SecondStage) -> None:
        self._study = study
        self._first = first
        self._second = second
        self.charging: tuple[type, ...] = (first.module.Charge,)
        self.ending: tuple[type, ...] = (second.module.Finish,)
        known: dict[str, type] = {"empty": Empty}
        for module in (first.module, second.module):
            known |= module_messages(module.__name__.split(".", 2)[-1], module)
        self.codec = Codec(known)

    def agreed(self) -> Mapping[type, Message]:
        """See `Method.agreed`."""
        return {type(offer): offer for offer in (self._first.offer(), self._second.offer())}

    def party(self, table: PrivateTable, index: int) -> Party:
        """See `Method.party`."""
        return StagedParty(self._first.party(table, index), self._first.module, self._second.party)

    def run(self, federation: Federation, on_round: OnRound | None = None) -> Any:
        """See `Method.run`."""
        self._first.run(federation)
        model = self._second.run(federation, on_round)
        store_released(model, otherwise=STAYED if self._study.private else EXACT)
        model.bytes_exchanged_ = federation.bytes_exchanged
        return model

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """See `Method.report`."""
        return self._first.report(table, reservation, delta)


class FedBNSLStage:
    """Fed-BNSL's rounds."""

    module = fed_bnsl_messages

    def __init__(self, study: Study) -> None:
        self._model: FedBNSL = estimator_of(FedBNSL, study, without=OPTIONS)
        self._settings = self._model._settings(len(study.parties))
        self._columns = study.columns

    def offer(self) -> Message:
        """See `SecondStage.offer`."""
        return fed_bnsl_messages.Offer(self._settings, self._columns)

    def party(self, name: str, moments: Moments) -> Party:
        """See `SecondStage.party`."""
        return FedBNSLParty(name, moments)

    def run(self, federation: Federation, on_round: OnRound | None) -> FedBNSL:
        """See `SecondStage.run`."""
        records = FedBNSLCoordinator(self._settings, self._columns).run(federation, on_round)
        store_graph(self._model, records[-1].weights, self._settings.threshold, self._columns)
        self._model.history_ = history_rows(records)
        return self._model


class PERIStage:
    """The questions of PERI or I-PERI, batched by the search's steps."""

    module = peri_messages

    def __init__(self, study: Study, kind: type[PERI] | type[IPERI]) -> None:
        self._model: Any = estimator_of(kind, study, without=OPTIONS)
        if self._model.privacy != "moments":
            raise checks.refuse("parameters.privacy", self._model.privacy, "'moments' between machines")
        self._settings = self._model._settings()
        self._columns = study.columns

    def offer(self) -> Message:
        """See `SecondStage.offer`."""
        return peri_messages.Offer(self._settings, self._columns)

    def party(self, name: str, moments: Moments) -> Party:
        """See `SecondStage.party`."""
        return PERIParty(name, moments)

    def run(self, federation: Federation, on_round: OnRound | None) -> Any:
        """See `SecondStage.run`."""
        outcome = PERICoordinator(self._settings, self._columns).run(federation)
        self._model._store(outcome, self._columns, {})
        return self._model
