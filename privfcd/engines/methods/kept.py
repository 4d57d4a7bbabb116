"""Learners whose parties keep their moments: each releases one covariance to itself, and answers from that.

What a party answers afterwards is post-processing of its own noisy moments (exact ones, charged as non-private, in a
study without a budget).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Protocol

from privfcd.algorithms.base import Estimator
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fed_bnsl import messages as fed_bnsl_messages
from privfcd.algorithms.fed_bnsl.coordinator import FedBNSLCoordinator
from privfcd.algorithms.fed_bnsl.party import FedBNSLParty
from privfcd.algorithms.peri import IPERI, PERI
from privfcd.algorithms.peri import messages as peri_messages
from privfcd.algorithms.peri.coordinator import PERICoordinator
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.release import messages
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.results import store_graph
from privfcd.algorithms.rounds import history_rows
from privfcd.data.private import PrivateTable
from privfcd.engines.methods.base import OnRound, estimator_of, release_settings
from privfcd.engines.methods.released import OPTIONS
from privfcd.errors import PartyFailed
from privfcd.federation.protocol import Empty, Federation, Message, Party
from privfcd.federation.study_file import Study
from privfcd.federation.wire import Codec, module_messages
from privfcd.moments import Moments


class SecondStage(Protocol):
    """What comes after the release."""

    @property
    def module(self) -> ModuleType:
        """Its messages."""

    @property
    def estimator(self) -> type[Estimator]:
        """What is fitted."""

    def offer(self) -> Message:
        """Return its opening message."""

    def party(self, name: str, moments: Moments) -> Party:
        """Return a party's half."""

    def run(self, federation: Federation, on_round: OnRound | None) -> Any:
        """Run the coordinator's half and return the fitted estimator."""


class StagedParty:
    """A release first, then another half on what it kept."""

    def __init__(self, release: ReleaseParty, make: Callable[[str, Moments], Party]) -> None:
        self._release = release
        self._make = make
        self._second: Party | None = None

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._release.name

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        if type(message).__module__ == messages.__name__:
            return self._release.answer(message)
        if self._second is None:
            if self._release.kept is None:
                raise PartyFailed(f"{self.name} was asked to learn before it released its moments to itself")
            self._second = self._make(self.name, self._release.kept)
        return self._second.answer(message)


class Kept:
    """A release that stays at the parties, and a second stage."""

    charging = (messages.Charge,)

    def __init__(self, study: Study, stage: SecondStage) -> None:
        self._study = study
        self._stage = stage
        self._settings = release_settings(study, stage.estimator, send=False)
        self.ending: tuple[type, ...] = (stage.module.Finish,)
        prefix = stage.module.__name__.split(".")[-2]
        self.codec = Codec(
            {"empty": Empty, **module_messages("release", messages), **module_messages(prefix, stage.module)}
        )

    def agreed(self) -> Mapping[type, Message]:
        """See `Method.agreed`."""
        offer = self._stage.offer()
        return {messages.Offer: messages.Offer(self._settings, self._study.columns), type(offer): offer}

    def party(self, table: PrivateTable, index: int) -> Party:
        """See `Method.party`."""
        return StagedParty(ReleaseParty([table], index), self._stage.party)

    def run(self, federation: Federation, on_round: OnRound | None = None) -> Any:
        """See `Method.run`."""
        coordinator = ReleaseCoordinator(self._settings, self._study.columns, structure_whitening)
        coordinator.run(federation, coordinator.offer(federation))
        model = self._stage.run(federation, on_round)
        model.bytes_exchanged_ = federation.bytes_exchanged
        return model


class FedBNSLStage:
    """Fed-BNSL's rounds."""

    module = fed_bnsl_messages
    estimator = FedBNSL

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
        self.estimator: type[Estimator] = kind
        self._model: Any = estimator_of(kind, study, without=OPTIONS)
        if self._model.privacy != "moments":
            raise PartyFailed("parameters.privacy must be 'moments' between machines")
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
