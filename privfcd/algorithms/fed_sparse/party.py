"""The party's half of Fed-Sparse-BNSL on a private table.

What is learnt from rows comes through `PrivateTable`; all else here is post-processing of it and of public values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import REPLACE_ONE
from privfcd.algorithms.charging import run_label
from privfcd.algorithms.consensus import check_size
from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import REFIT_CLIP, lifted
from privfcd.algorithms.fed_sparse.descent import LocalDescent
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent
from privfcd.algorithms.fed_sparse.plan import BOUNDS, MEAN, REFIT, SMOOTHNESS, ReleasePlan, plan_releases
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.fed_sparse.support_gradient import SupportGradient
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.results import table_report
from privfcd.algorithms.terms import Terms
from privfcd.data.histogram import OctaveHistogram, upper_bounds
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean, ColumnSquares, Query
from privfcd.errors import BudgetExceeded, ConvergenceFailure, PartyFailed
from privfcd.ledger import Reservation
from privfcd.ledger.privacy_report import EACH_ROW, PrivacyReport
from privfcd.mechanisms import Gaussian

Array = NDArray[np.float64]

ASSUMPTIONS = (
    EACH_ROW,
    "Every record's part in every answer is clipped before it is summed, so no assumption on the values is needed.",
    "The number of rows, the columns' names, the declared bounds and all settings are public and were not computed "
    "from the rows.",
    "Other runs on the same records add to this cost; the ledger adds up those that are charged to it.",
)


class FedSparseParty:
    """Answers the coordinator's messages from one private table.

    Parameters
    ----------
    table : PrivateTable
        The party's rows.
    index : int
        The party's number in the federation: first part of its noise streams' keys.
    """

    def __init__(self, table: PrivateTable, index: int) -> None:
        self._given = table
        self._table = table.for_run()
        self._index = index
        self._settings: Settings | None = None
        self.plan: ReleasePlan | None = None
        self.reservation: Reservation | None = None
        self._query: GreedyDescent
        self._descent: LocalDescent | None = None
        self._terms = Terms()
        self._started = False
        self._rounds = self._refits = 0
        self._failed = False

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._table.name

    def reports(self) -> list[PrivacyReport]:
        """See `privfcd.algorithms.opening.PayingParty.reports`."""
        if self.reservation is None:
            return []
        settings, plan = self._agreed()
        declared: dict[str, Any] = {}
        if settings.smoothness is not None:
            declared["second moments"] = list(settings.smoothness)
        if settings.clip is not None and not math.isinf(settings.clip):
            declared["clip"] = settings.clip
        delta = settings.delta if plan.delta is None else plan.delta
        report = table_report(
            self._given, self.reservation, delta=delta, declared=declared, assumptions=ASSUMPTIONS
        )
        return [report]

    def answer(self, message: Message) -> Message:
        """See `Party.answer`. After an error nothing goes back to the budget any more, whatever is asked next."""
        try:
            return self._respond(message)
        except BaseException:
            self._failed = self._failed or self.reservation is not None
            raise

    def _respond(self, message: Message) -> Message:
        match message:
            case messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case messages.Charge():
                return self._charge()
            case messages.Start():
                answer, self._started = self._begin(message), True
                return answer
            case messages.Configure():
                return self._configure(message)
            case messages.Round():
                return self._update(message)
            case messages.Refit():
                return self._slope(message)
            case messages.Finish():
                return self._finish()
        raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")

    def _consider(self, offer: messages.Offer) -> messages.Quote:
        """Check everything and price the run; charge nothing."""
        self._table = self._table.reordered(offer.columns)
        offer.settings.check_columns(self._table.n_columns)
        self._settings = offer.settings
        try:
            self.plan = plan_releases(self._table, offer.settings)
            self._table.ledger.check(self.plan.parts, self._label, delta=self.plan.delta)
        except BudgetExceeded:
            if offer.required:
                raise
            self.plan = None
            return messages.Quote(self._table.n_rows, not self._table.open, possible=False)
        return messages.Quote(self._table.n_rows, not self._table.open, *self._noise(self.plan, offer.settings))

    def _noise(self, plan: ReleasePlan, settings: Settings) -> tuple[float, float]:
        """Return the noise of an entry of an update and of the refit, in units of the clip: see `messages.Quote`."""
        width = 2.0 if self._table.relation is REPLACE_ONE else 1.0
        update = plan.noise_multiplier * (math.sqrt(2) if settings.laplace else 1.0)
        one = width / self._table.n_rows
        return one * update, one * plan.setup_multipliers.get(REFIT, 0.0)

    def _charge(self) -> Empty:
        """Charge the whole run; no row is read yet."""
        _, plan = self._agreed()
        self._terms.settle(self.name)
        self.reservation = self._table.ledger.reserve(plan.parts, self._label, delta=plan.delta)
        return Empty()

    def _begin(self, message: messages.Start) -> messages.Started:
        """Release what the setup needs."""
        settings, _ = self._agreed()
        if self.reservation is None:
            raise PartyFailed(f"{self.name} was asked to start before it was charged")
        if self._started:
            raise PartyFailed(f"{self.name} was asked to start a second time")
        bounds = self._bounds()
        offset = np.zeros(self._table.n_columns)
        self._offset: tuple[float, ...] | None = None
        if settings.center:
            mean = ClippedMean(tuple(bounds))
            offset = mean.decode(self._setup(mean, MEAN, 2)[0])
            self._offset = tuple(offset.tolist())
        if settings.smoothness is not None:
            self._own = np.array(settings.smoothness)
            return messages.Started(None, None)
        squares = ColumnSquares(tuple(((bounds + np.abs(offset)) ** 2).tolist()), self._offset)
        answer, scale = self._setup(squares, SMOOTHNESS, 3)
        self._own = squares.decode(answer)
        if not message.share_smoothness:
            return messages.Started(None, None)
        noise_sd = squares.decode(np.full(len(answer), scale))
        most = None if math.inf in squares.bounds else squares.bounds
        return messages.Started(tuple(self._own.tolist()), tuple(noise_sd.tolist()), most)

    def _configure(self, message: messages.Configure) -> Empty:
        settings, plan = self._agreed()
        if self.reservation is None or not self._started:
            raise PartyFailed(f"{self.name} was told its constants before the start")
        if self._descent is not None:
            raise PartyFailed(f"{self.name} was told its constants a second time")
        moments = self._own if message.second_moments is None else np.array(message.second_moments)
        smoothness = settings.loss.curvature * lifted(moments) + settings.rho2
        self._query = query = GreedyDescent(
            smoothness=tuple(smoothness.tolist()),
            clip=math.inf if message.clip is None else message.clip,
            l1=settings.l1,
            ridge=settings.rho2,
            noise_multiplier=plan.noise_multiplier,
            offset=self._offset,
            loss=settings.loss,
            laplace=settings.laplace,
            fast=settings.fast,
        )
        self._descent = LocalDescent(self._table.session(query, self.reservation), settings, smoothness)
        return Empty()

    def _update(self, message: messages.Round) -> messages.LocalUpdate:
        descent, reservation = self._descent, self.reservation
        if descent is None or reservation is None:
            raise PartyFailed(f"{self.name} was asked for a round before its constants were set")
        message.weights.check(self._table.n_columns, "the coordinator")
        self._rounds = self._next("round", message.number, self._rounds)
        weights = message.weights.dense()
        try:
            if not self._table.open:
                check_size(weights)
            update = descent.round(weights, self._index, message.number)
        except ConvergenceFailure:  # of public numbers, before anything is drawn
            self._failed = True
            return messages.LocalUpdate(None)
        reservation.checkpoint(f"round {message.number}")
        return messages.LocalUpdate(update)

    def _slope(self, message: messages.Refit) -> messages.SupportSlope:
        """Release the gradient on the support of the weights that were sent."""
        settings, _ = self._agreed()
        if self._descent is None or not settings.refit_share:
            raise PartyFailed(f"{self.name} was asked for a refit that was not agreed upon, or too early or late")
        message.weights.check(self._table.n_columns, "the coordinator")
        self._refits = self._next("refit", message.number, self._refits)
        weights = message.weights.dense()
        query = SupportGradient(
            weights=tuple(map(tuple, weights.tolist())),
            clips=tuple((REFIT_CLIP * self._query.clips()).tolist()),
            offset=self._offset,
            loss=settings.loss,
            fast=settings.fast,
        )
        answer = query.decode(self._setup(query, REFIT, 3 + message.number)[0])
        return messages.SupportSlope(answer[np.nonzero(weights)])

    def _next(self, what: str, number: int, done: int) -> int:
        """Return `number`, used up: a number names a noise stream, so that none is used twice."""
        if number != done + 1:
            raise PartyFailed(f"{self.name} was asked for {what} {number} after {what} {done}")
        return number

    def _finish(self) -> Empty:
        """End the run cleanly: the coordinator says so from what it was sent."""
        self._descent = None
        if self.reservation is not None and not self._failed:
            self.reservation.close()
        return Empty()

    def _bounds(self) -> Array:
        """Return bounds on |x_j|: declared, released, or none at all for an open table."""
        _, plan = self._agreed()
        d = self._table.n_columns
        if self._table.bounds is not None and not self._table.open:
            return np.array(self._table.bounds)
        if BOUNDS not in plan.setup_multipliers:
            return np.full(d, math.inf)
        unknown = self._table.without_bounds  # a declared range needs no histogram
        shares, noise_sd = self._setup(OctaveHistogram(d, only=unknown), BOUNDS, 1)
        bounds = np.full(d, math.inf) if self._table.known_bounds is None else np.array(self._table.known_bounds)
        bounds[list(unknown)] = upper_bounds(shares, noise_sd)[:-1]
        return bounds

    def _setup(self, query: Query, label: str, number: int) -> tuple[Array, float]:
        """Do one release beside the descent; return the answer and the scale of its noise."""
        _, plan = self._agreed()
        multiplier = plan.setup_multipliers[label]
        sensitivity = query.sensitivity(self._table.n_rows, self._table.relation)
        scale = multiplier * sensitivity * (1 + 1e-14) if multiplier else 0.0
        key = (self._index, 0, number)
        answer = self._table.release(query, Gaussian(scale), label=label, reservation=self.reservation, key=key)
        return answer, scale

    def _agreed(self) -> tuple[Settings, ReleasePlan]:
        if self._settings is None or self.plan is None:
            raise PartyFailed(f"{self.name} was asked to work before it was offered a run")
        return self._settings, self.plan

    @property
    def _label(self) -> str:
        return run_label("Fed-Sparse-BNSL", self._table)
