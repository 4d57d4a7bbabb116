"""Fed-Sparse-BNSL between machines: a message a round, K coordinate updates in each."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from privfcd import checks
from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.fed_sparse import FedSparseBNSL, messages
from privfcd.algorithms.fed_sparse.estimator import run_report
from privfcd.algorithms.fed_sparse.losses import HuberLoss, Loss, SquaredLoss
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.data.private import PrivateTable
from privfcd.engines.methods.base import OnRound, estimator_of
from privfcd.federation.protocol import Empty, Federation, Message, Party
from privfcd.federation.study_file import Study
from privfcd.federation.wire import Codec, module_messages


class FedSparse:
    """Coordinates are released, round by round.

    The parameter `huber` is the width of a Huber loss; the squared loss is the default.
    """

    charging = (messages.Charge,)
    ending = (messages.Finish,)

    def __init__(self, study: Study) -> None:
        self._study = study
        self._model: FedSparseBNSL = estimator_of(FedSparseBNSL, study, without=("huber", "workers"))
        if self._model.release != "coordinates":
            raise checks.refuse("parameters.release", self._model.release, "'coordinates', or another method")
        if "huber" in study.parameters:
            self._model.loss = HuberLoss(checks.moderate("parameters.huber", study.parameters["huber"]))
        epsilon = math.inf if study.epsilon is None else study.epsilon
        settings = self._model._settings_at(epsilon, len(study.columns))
        self._settings = replace(settings, epsilon=study.epsilon, delta=study.delta)
        self.codec = Codec(
            {"empty": Empty, **module_messages("fed-sparse", messages)}, {Loss: (SquaredLoss, HuberLoss)}
        )

    def agreed(self) -> Mapping[type, Message]:
        """See `Method.agreed`."""
        return {messages.Offer: messages.Offer(self._settings, self._study.columns)}

    def party(self, table: PrivateTable, index: int) -> Party:
        """See `Method.party`."""
        return FedSparseParty(table, index)

    def run(self, federation: Federation, on_round: OnRound | None = None) -> FedSparseBNSL:
        """See `Method.run`."""
        self._model._run_over(federation, self._settings, self._study.columns, on_round)
        return self._model

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """See `Method.report`."""
        return run_report(table, reservation, self._settings, delta)
