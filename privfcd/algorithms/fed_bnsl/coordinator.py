"""The coordinator's half of Fed-BNSL: it sees the parties' B, and neither rows nor moments."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.consensus import Duals, consensus_step
from privfcd.algorithms.fed_bnsl import messages
from privfcd.algorithms.fed_bnsl.settings import Settings
from privfcd.algorithms.protocol import Federation, SparseMatrix
from privfcd.algorithms.rounds import RoundRecord, ended_early, expect, still_there
from privfcd.errors import ConvergenceFailure

Array = NDArray[np.float64]


class FedBNSLCoordinator:
    """Runs the rounds of the augmented Lagrangian.

    Each round: every party answers W with its B_p; W becomes the minimum of alpha h + rho1/2 h² + l1 ‖W‖₁ +
    P rho2/2 ‖W - A‖², A = mean B + mean beta / rho2, its diagonal 0; then alpha += rho1 h, beta_p += rho2 (B_p - W), and
    rho1 may grow.

    Parameters
    ----------
    settings : Settings
        Public parameters.
    columns : tuple of str
        The variables' names, in the order of the matrices.

    Attributes
    ----------
    notes : list of str
        That a run ended early, where a round came to no finite weights.
    """

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        settings.check_columns(len(columns))
        self._settings = settings
        self._columns = columns
        self.notes: list[str] = []

    def run(self, federation: Federation, on_round: Callable[[RoundRecord], None] | None = None) -> list[RoundRecord]:
        """Run all rounds, and return their records; the last one's weights are the answer.

        Means are over the parties that are still there. Where a later round comes to no finite weights, the run ends with
        the round before: moments may have been paid for.
        """
        settings = self._settings
        began = time.perf_counter()
        expect(federation, messages.Offer(settings, self._columns), messages.Quote)
        d, dense = len(self._columns), settings.local_step == "closed-form"
        l1 = settings.l1_for(len(federation.names))
        consensus = np.zeros((d, d))
        names = tuple(federation.names)
        duals = Duals(len(names), d, settings.rho2)
        everything = ~np.eye(d, dtype=np.bool_)
        alpha, rho1 = 0.0, settings.rho1
        records: list[RoundRecord] = []
        for number in range(1, settings.rounds + 1):
            request = messages.Round(number, None if number == 1 else _matrix(consensus, dense))
            updates = expect(federation, request, messages.LocalUpdate, d)
            duals.keep(still_there(federation, names))
            names = tuple(federation.names)
            local = np.zeros((len(updates), d, d))
            for index, update in enumerate(updates):
                local[index] = update.weights.dense()
            average = local.mean(axis=0) + duals.mean / settings.rho2
            support = everything if dense else everything & (local != 0).any(axis=0)
            penalty = len(updates) * settings.rho2
            try:
                consensus, h = consensus_step(consensus * support, average, support, alpha, rho1, penalty, l1)
            except ConvergenceFailure as error:
                if not records:
                    raise
                self.notes = [ended_early(number, settings.rounds, error)]
                break
            alpha += rho1 * h
            rho1 = max(rho1, min(rho1 * settings.growth, settings.rho1_max))
            duals.step(local, consensus)
            record = RoundRecord(
                number=number,
                rounds=settings.rounds,
                h=h,
                edges=int((np.abs(consensus) > settings.threshold).sum()),
                support=int((consensus != 0).sum()),
                bytes_exchanged=federation.bytes_exchanged,
                seconds=time.perf_counter() - began,
                weights=consensus,
                threshold=settings.threshold,
                columns=self._columns,
            )
            records.append(record)
            if on_round is not None:
                on_round(record)
        federation.ask(messages.Finish(_matrix(consensus, dense)))
        return records


def _matrix(weights: Array, dense: bool) -> messages.DenseMatrix | SparseMatrix:
    return messages.DenseMatrix.of(weights) if dense else SparseMatrix.of(weights)
