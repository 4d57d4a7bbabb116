"""Learners that one release of moments is enough for: the coordinator learns, the parties are done after a few messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.release import messages
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.release import release_report
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.data.private import PrivateTable
from privfcd.engines.methods.base import OnRound, estimator_of, release_settings
from privfcd.federation.protocol import Empty, Federation, Message, Party
from privfcd.federation.study_file import Study
from privfcd.federation.wire import Codec, module_messages
from privfcd.moments import Moments

OPTIONS = ("release", "center", "row_norm")


class Released:
    """A release, and an estimator that is fitted to the released moments.

    Parameters
    ----------
    study : Study
        Its parameters are the estimator's, and `release`, `center` and `row_norm` of the release.
    estimator : type
        Of `privfcd.algorithms`.

    Raises
    ------
    InvalidParameter
        A parameter that the estimator does not accept; nobody was charged.
    """

    charging = (messages.Charge,)
    ending = (messages.Finish,)

    def __init__(self, study: Study, estimator: type[Estimator]) -> None:
        self._study = study
        self._model: Any = estimator_of(estimator, study, without=OPTIONS)
        self._settings = release_settings(study, estimator, send=True)
        # parameters are checked by fitting, which comes after the charge: so once before, to nothing
        d = len(study.columns)
        nothing = Moments(np.eye(d), 1000 + 2 * d, study.columns)
        estimator_of(estimator, study, without=OPTIONS).fit([nothing])
        self.codec = Codec({"empty": Empty, **module_messages("release", messages)})

    def agreed(self) -> Mapping[type, Message]:
        """See `Method.agreed`."""
        return {messages.Offer: messages.Offer(self._settings, self._study.columns)}

    def party(self, table: PrivateTable, index: int) -> Party:
        """See `Method.party`."""
        return ReleaseParty([table], index)

    def run(self, federation: Federation, on_round: OnRound | None = None) -> Any:
        """See `Method.run`."""
        coordinator = ReleaseCoordinator(self._settings, self._study.columns, structure_whitening)
        outcome = coordinator.run(federation, coordinator.offer(federation))
        self._model.fit(list(outcome.parts))
        self._model.bytes_exchanged_ = federation.bytes_exchanged
        return self._model

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """See `Method.report`."""
        return release_report(table, reservation, self._settings, delta)
