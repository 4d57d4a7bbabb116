"""The coordinator's half of Fed-Sparse-BNSL: it sees the parties' released B, and no rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.consensus import consensus_step
from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import default_clip
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.errors import PartyFailed
from privfcd.federation.protocol import Federation, Message, SparseMatrix

Array = NDArray[np.float64]
Reply = TypeVar("Reply")


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """What one round came to.

    Attributes
    ----------
    number, rounds : int
        1, 2, ... of how many.
    h : float
        Acyclicity of W.
    edges : int
        Entries of W above the threshold.
    support : int
        Entries of W that are not zero.
    bytes_exchanged : int
        Bytes so far, by the rule of B.2.1.
    seconds : float
        Since the run began.
    weights : ndarray of shape (d, d)
        W.
    threshold : float
        Of the settings.
    columns : tuple of str
        The variables' names.
    """

    number: int
    rounds: int
    h: float
    edges: int
    support: int
    bytes_exchanged: int
    seconds: float
    weights: Array
    threshold: float
    columns: tuple[str, ...]


class FedSparseCoordinator:
    """Runs the rounds.

    Parameters
    ----------
    settings : Settings
        Public parameters.
    columns : tuple of str
        The variables' names, in the order of the matrices.
    """

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        settings.check_columns(len(columns))
        self._settings = settings
        self._columns = columns

    def offer(self, federation: Federation) -> list[messages.Quote]:
        """Ask every party whether it can take part; nothing is charged anywhere."""
        return _expect(federation, messages.Offer(self._settings, self._columns), messages.Quote)

    def run(
        self,
        federation: Federation,
        quotes: list[messages.Quote],
        on_round: Callable[[RoundRecord], None] | None = None,
    ) -> list[RoundRecord]:
        """Charge the parties, run all rounds, and return their records; the last one's weights are the answer."""
        settings = self._settings
        began = time.perf_counter()
        private = any(quote.private for quote in quotes)
        share = private and settings.smoothness is None
        federation.ask(messages.Charge())
        started = _expect(federation, messages.Start(share), messages.Started)
        federation.ask(self._constants(started, quotes, private))
        d = len(self._columns)
        consensus, dual_mean = np.zeros((d, d)), np.zeros((d, d))
        alpha = 0.0
        records: list[RoundRecord] = []
        for number in range(1, settings.rounds + 1):
            request = messages.Round(number, SparseMatrix.of(consensus))
            updates = _expect(federation, request, messages.LocalUpdate)
            local = np.zeros((len(updates), d, d))
            for index, (name, update) in enumerate(zip(federation.names, updates, strict=True)):
                update.weights.check(d, name)
                local[index] = update.weights.dense()
            mean = local.mean(axis=0)
            average = mean + dual_mean / settings.rho2
            support = (local != 0).any(axis=0)
            np.fill_diagonal(support, False)
            penalty = len(updates) * settings.rho2
            consensus, h = consensus_step(consensus * support, average, support, alpha, settings.rho1, penalty)
            alpha += settings.rho1 * h
            dual_mean += settings.rho2 * (mean - consensus)
            record = RoundRecord(
                number=number,
                rounds=settings.rounds,
                h=h,
                edges=int((np.abs(consensus) > settings.threshold).sum()),
                support=int(support.sum()),
                bytes_exchanged=federation.bytes_exchanged,
                seconds=time.perf_counter() - began,
                weights=consensus,
                threshold=settings.threshold,
                columns=self._columns,
            )
            records.append(record)
            if on_round is not None:
                on_round(record)
        federation.ask(messages.Finish(SparseMatrix.of(consensus)))
        return records

    def _constants(
        self, started: list[messages.Started], quotes: list[messages.Quote], private: bool
    ) -> messages.Configure:
        """Average what the parties released, and choose the clip from it: post-processing."""
        settings = self._settings
        if not private:
            return messages.Configure(None, settings.clip)
        moments = (
            np.array(settings.smoothness)
            if settings.smoothness is not None
            else _averaged(started, quotes, len(self._columns))
        )
        clip = settings.clip if settings.clip is not None else default_clip(moments, settings.rho2)
        shared = None if settings.smoothness is not None else tuple(moments.tolist())
        return messages.Configure(shared, clip)


def _averaged(started: list[messages.Started], quotes: list[messages.Quote], d: int) -> Array:
    rows = np.array([quote.n_rows for quote in quotes], dtype=np.float64)
    released = [answer.second_moments for answer in started]
    if any(values is None or len(values) != d for values in released):
        raise PartyFailed(f"a party sent no second moments, or not {d} of them")
    moments = np.array(released, dtype=np.float64)
    if not np.isfinite(moments).all():
        raise PartyFailed("a party sent second moments that are not finite")
    return np.asarray(rows @ moments / rows.sum())


def _expect(federation: Federation, message: Message, kind: type[Reply]) -> list[Reply]:
    answers: list[Reply] = []
    for name, answer in zip(federation.names, federation.ask(message), strict=True):
        if not isinstance(answer, kind):
            raise PartyFailed(f"{name} answered {type(answer).__name__} where {kind.__name__} was expected")
        answers.append(answer)
    return answers
