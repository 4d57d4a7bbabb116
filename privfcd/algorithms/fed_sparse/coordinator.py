"""The coordinator's half of Fed-Sparse-BNSL: it sees the parties' released B, and no rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.consensus import Duals, check_size, consensus_step
from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import REFIT_PRUNE, default_clip, lifted
from privfcd.algorithms.fed_sparse.losses import SQUARED
from privfcd.algorithms.fed_sparse.refit import Refitted, refit
from privfcd.algorithms.fed_sparse.run_noise import RunNoise, noise_notes, run_noise
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import Federation, SparseMatrix
from privfcd.algorithms.rounds import RoundRecord, check_rows, ended_early, expect, still_there
from privfcd.algorithms.scale_notes import MOSTLY_CUT, scale_differences
from privfcd.algorithms.stability.late_rounds import LateRounds, late_rounds
from privfcd.errors import ConvergenceFailure
from privfcd.markup import writable

Array = NDArray[np.float64]

UNTESTED = (
    "This learner assumes equal error variances, which noisy rounds on rows cannot test: second moments can (release="
    "'preconditioned', or moments that were released before)."
)


class FedSparseCoordinator:
    """Runs the rounds.

    Parameters
    ----------
    settings : Settings
        Public parameters.
    columns : tuple of str
        The variables' names, in the order of the matrices.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        The answer, after `run`.
    second_moments, second_moments_sd : ndarray of shape (d,) or None
        Of all rows, as the parties released them, and the noise in them; None where they released none.
    cut : ndarray of bool, shape (d,), or None
        Columns that may be larger than these say: their squares were mostly cut off.
    notes : list of str
        What noise took from the answer.
    late_rounds : LateRounds or None
        What the noise of the late rounds says, after a run in which a party's answers had any.
    """

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        settings.check_columns(len(columns))
        self._settings = settings
        self._columns = columns
        self.weights = np.zeros((len(columns), len(columns)))
        self.late_rounds: LateRounds | None = None
        self.notes: list[str] = []
        self.second_moments: Array | None = None
        self.second_moments_sd: Array | None = None
        self.cut: NDArray[np.bool_] | None = None

    def offer(self, federation: Federation, *, required: bool = True) -> list[messages.Quote]:
        """Ask every party whether it can take part; nothing is charged anywhere."""
        quotes = expect(federation, messages.Offer(self._settings, self._columns, required), messages.Quote)
        check_rows([quote.n_rows for quote in quotes], len(self._columns))
        return quotes

    def run(
        self,
        federation: Federation,
        quotes: list[messages.Quote],
        on_round: Callable[[RoundRecord], None] | None = None,
    ) -> list[RoundRecord]:
        """Charge the parties, run all rounds, and return the rounds' records; the answer is then in `weights`.

        Means are over the parties that are still there. Where a round comes to no finite weights, or to ones too large to be
        computed with, the run ends with those of the round before, without a refit, and `notes` say so: what was released is
        paid for.
        """
        settings = self._settings
        began = time.perf_counter()
        private = any(quote.private for quote in quotes)
        share = (private or settings.refit_share > 0) and settings.smoothness is None
        names, d = tuple(federation.names), len(self._columns)
        federation.ask(messages.Charge())
        started = expect(federation, messages.Start(share), messages.Started, d, share)
        moments = None if settings.smoothness is None else np.array(settings.smoothness)
        quotes, names = self._left(federation, quotes, names)
        looked: list[str] = []
        if share:
            said = _Sizes.of(started, quotes, self._columns)
            moments, self.second_moments_sd = said.pooled
            self.second_moments, self.cut = moments, said.cut
            looked = said.notes(names)
        constants = self._constants(moments, private)

        def noise_of(quotes: list[messages.Quote]) -> RunNoise:  # a mean of fewer parties has more
            if private and moments is not None and constants.clip is not None:
                return run_noise(quotes, settings, moments, self.second_moments_sd, constants.clip)
            return RunNoise.none(len(self._columns))

        noise_of(quotes)  # what a party says of its noise is checked before the rounds
        federation.ask(constants)
        quotes, names = self._left(federation, quotes, names)
        consensus, duals = np.zeros((d, d)), Duals(len(names), d, settings.rho2)
        alpha = 0.0
        records: list[RoundRecord] = []
        early = ""
        for number in range(1, settings.rounds + 1):
            ask = messages.Round(number, SparseMatrix.of(consensus))
            updates = expect(federation, ask, messages.LocalUpdate, d)
            duals.keep(still_there(federation, names))
            quotes, names = self._left(federation, quotes, names)
            try:
                local = _local(updates, names, d)
                if private:
                    check_size(local)
                average = local.mean(axis=0) + duals.mean / settings.rho2
                support = (local != 0).any(axis=0)
                np.fill_diagonal(support, False)
                penalty = len(updates) * settings.rho2
                consensus, h = consensus_step(consensus * support, average, support, alpha, settings.rho1, penalty)
            except ConvergenceFailure as error:  # it hangs on released weights; the rounds before are paid for
                early = ended_early(number, settings.rounds, error)
                break
            consensus = np.where(np.abs(consensus) >= settings.keep, consensus, 0.0)
            alpha += settings.rho1 * h
            duals.step(local, consensus)
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
        self.weights = consensus
        refitted: Refitted | None = None
        if settings.refit_share and moments is not None and not early:
            rows = np.array([quote.n_rows for quote in quotes], dtype=np.float64)
            refitted = refit(federation, settings, consensus, moments, rows, noise_of(quotes).refit_parts)
            quotes, names = self._left(federation, quotes, names)
        noise = noise_of(quotes)
        descent_limits = sizes = noise.descent_limits(settings.threshold)
        if refitted is not None:
            self.weights = refitted.weights
            sizes = noise.refit_limits(settings.threshold, refitted.weights, refitted.planned_sd)
        if private:  # what does not stand out from the noise is no edge: post-processing
            drowned = (np.abs(self.weights) > settings.threshold) & (np.abs(self.weights) <= sizes)
            self.weights = np.where(drowned, 0.0, self.weights)
            skipped = bool(settings.refit_share) and refitted is None and not early
            self.notes = noise_notes(noise, self._columns, int(drowned.sum()), skipped)
            if settings.loss == SQUARED:
                self.notes.append(UNTESTED)
        self.notes = [*looked, *self.notes, *([early] if early else [])]
        if private and moments is not None and records:
            self.late_rounds = late_rounds(
                [record.weights for record in records],
                descent_limits,
                REFIT_PRUNE * settings.threshold,
                None if refitted is None else (refitted.weights, refitted.noise_sd, sizes),
                lifted(moments),
                {name: getattr(settings, name) for name in ("rounds", "updates", "step", "keep")},
            )
        federation.ask(messages.Finish(SparseMatrix.of(self.weights)))
        return records

    def _left(
        self, federation: Federation, quotes: list[messages.Quote], names: tuple[str, ...]
    ) -> tuple[list[messages.Quote], tuple[str, ...]]:
        """Return the quotes and names of the parties that are still there."""
        places = still_there(federation, names)
        return [quotes[place] for place in places], tuple(names[place] for place in places)

    def _constants(self, moments: Array | None, private: bool) -> messages.Configure:
        """Choose what all parties share from what was released: post-processing."""
        settings = self._settings
        if not private or moments is None:
            return messages.Configure(None, settings.clip)
        clip = settings.clip
        if clip is None:
            clip = default_clip(moments, settings.rho2, settings.loss)
        shared = None if settings.smoothness is not None else tuple(moments.tolist())
        return messages.Configure(shared, clip)


def _local(updates: list[messages.LocalUpdate], names: tuple[str, ...], d: int) -> Array:
    """Return the parties' B, shape (parties, d, d).

    Raises
    ------
    ConvergenceFailure
        A party could not compute with the weights of the round.
    """
    local = np.zeros((len(updates), d, d))
    for index, (name, update) in enumerate(zip(names, updates, strict=True)):
        if update.weights is None:
            raise ConvergenceFailure(
                f"weights grew beyond what {name} can compute with: the noise is too large for this step; use more rows, a "
                "larger epsilon or fewer updates"
            )
        local[index] = update.weights.dense()
    return local


@dataclass(frozen=True, eq=False)
class _Sizes:
    """What the parties' setups released of their columns' sizes.

    Attributes
    ----------
    squares, noise : ndarray of shape (P, d)
        Second moments, and the standard deviations of their noise.
    rows : ndarray of shape (P,)
    cut : ndarray of bool, shape (d,)
        Columns whose squares were mostly cut off at some party: they may be larger than their second moments say.
    columns : tuple of str
    """

    squares: Array
    noise: Array
    rows: Array
    cut: NDArray[np.bool_]
    columns: tuple[str, ...]

    @classmethod
    def of(cls, started: list[messages.Started], quotes: list[messages.Quote], columns: tuple[str, ...]) -> _Sizes:
        """Return what the parties sent."""
        uncut = tuple([np.finfo(float).max] * len(columns))
        squares = np.array([answer.second_moments for answer in started], dtype=np.float64)
        noise = np.array([answer.noise_sd for answer in started], dtype=np.float64)
        most = np.array([uncut if answer.most is None else answer.most for answer in started], dtype=np.float64)
        rows = np.array([quote.n_rows for quote in quotes], dtype=np.float64)
        return cls(squares, noise, rows, np.asarray((squares >= MOSTLY_CUT * most).any(axis=0)), columns)

    @property
    def pooled(self) -> tuple[Array, Array]:
        """The second moments of all rows, and the standard deviation of the noise in them, each of shape (d,)."""
        shares = self.rows / self.rows.sum()
        return np.asarray(self.rows @ self.squares / self.rows.sum()), np.asarray(np.sqrt(shares**2 @ self.noise**2))

    def notes(self, names: Sequence[str]) -> list[str]:
        """Return notes on parties whose columns have other sizes than the others'."""
        quoted = [repr(" ".join(writable(name).split())) for name in names]
        return (
            []
            if len(names) < 2
            else scale_differences(self.squares, self.noise, self.rows, quoted, self.columns, self.cut)
        )
