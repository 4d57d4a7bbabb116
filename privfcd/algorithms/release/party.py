"""The party's half of a release of moments: it answers with noisy sums over its rows, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import REPLACE_ONE
from privfcd.accounting.calibration import epsilon_of
from privfcd.accounting.group_privacy import group_event
from privfcd.algorithms.charging import run_label
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.release import messages, rules
from privfcd.algorithms.release.plan import COVARIANCE, HISTOGRAM, MEAN, TablePlan, affordable_mu, plan_tables
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.summing import ONE_PROCESS, Summing, label_of
from privfcd.algorithms.results import table_report
from privfcd.algorithms.secure.seat import Seat
from privfcd.algorithms.terms import Terms
from privfcd.data.directions import LinearMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.private import Mechanism, PrivateTable
from privfcd.data.queries import ClippedMean, Query, SecondMoments
from privfcd.data.trusted_sum import check_summable, release_sum
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.ledger import Reservation
from privfcd.ledger.privacy_report import EACH_ROW, PrivacyReport, rounded_up
from privfcd.mechanisms import AnalyticGaussian, Gaussian
from privfcd.moments import Moments, NoiseTerm

Array = NDArray[np.float64]
Answer = TypeVar("Answer")
Maker = type[Gaussian] | type[AnalyticGaussian]

RUN = "release of moments"

ASSUMPTIONS = (
    EACH_ROW,
    "Every record's part in every answer is clipped, or brought to length 1, before it is summed, so the promise needs no "
    "assumption on the values.",
    "The number of rows, the columns' names, the declared bounds and all options are public and were not computed from the "
    "rows.",
    "Other runs on the same records add to this cost; the ledger adds up those that are charged to it.",
)

TRUSTED = (
    "ONE NOISE for the sum over all tables: the promise is towards whoever sees the released moments and what is made of "
    "them, not towards the place that summed up the tables and could see them."
)
SUMMING_PLACE = "the place that summed up the tables"


class ReleaseParty:
    """Answers the coordinator's messages from one private table, or from several whose sum it is trusted with.

    Parameters
    ----------
    tables : sequence of PrivateTable
        One; or several, to which noise is added once (see `data.trusted_sum`).
    index : int
        The party's number in the federation: first part of its noise streams' keys.
    """

    def __init__(self, tables: Sequence[PrivateTable], index: int) -> None:
        self._tables = [table.for_run() for table in tables]
        self._index = index
        self._settings: ReleaseSettings | None = None
        self._plans: list[TablePlan] | None = None
        self._releases = 0
        self._own_means: list[tuple[float, ...]] = []
        self._terms = Terms()
        self._failed = False
        self.seat: Seat | None = None
        self._sums: Summing | None = None
        self.reservations: list[Reservation] = []
        self.kept: Moments | None = None
        self.facts: dict[str, Any] = {}

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._tables[0].name if len(self._tables) == 1 else f"trusted sum of {len(self._tables)} tables"

    @property
    def plans(self) -> list[TablePlan]:
        """The plan of each table, once agreed."""
        if self._plans is None:
            raise PartyFailed(f"{self.name} was asked to work before a plan was agreed")
        return self._plans

    def reports(self) -> list[PrivacyReport]:
        """See `privfcd.algorithms.opening.PayingParty.reports`."""
        if not self.reservations:
            return []
        settings = self._agreed()
        told = () if settings.sum != "secure" else self._summing().told(self.plans[0])
        alone = "" if self.seat is None or not self.seat.simulated else ONE_PROCESS
        return [
            release_report(table, reservation, settings, plan.delta, told, alone)
            for table, reservation, plan in zip(self._tables, self.reservations, self.plans, strict=True)
        ]

    def answer(self, message: Message) -> Message:
        """See `Party.answer`. After an error nothing goes back to the budget any more, whatever is asked next."""
        try:
            return self._respond(message)
        except BaseException:
            self._failed = self._failed or bool(self.reservations)
            raise

    def _respond(self, message: Message) -> Message:
        sent = isinstance(message, messages.AskHistogram | messages.AskMean | messages.AskMoments)
        if (sent or isinstance(message, messages.AskOwn)) and self._agreed().send != sent:
            keeps = (
                "sends its moments, and was asked to keep them"
                if self._agreed().send
                else ("keeps its moments, and was asked to send some")
            )
            raise PartyFailed(f"{self.name} {keeps}")
        if sent and self._agreed().sum == "secure":
            raise PartyFailed(f"{self.name} takes part in secure sums, and was asked for an answer of its own")
        match message:
            case messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case messages.Plan():
                return self._terms.consider(self.name, message, self._agree)
            case messages.Charge():
                return self._charge()
            case messages.AskHistogram():
                histogram = OctaveHistogram(self._d, message.offset, message.differences)
                return messages.Numbers(*self._numbers(histogram, message.label))
            case messages.AskMean():
                return self._mean(ClippedMean(message.bounds))
            case messages.AskMoments():
                return self._moments(message)
            case messages.AskOwn():
                return self._keep_own()
            case messages.SeatsTaken():
                return self._terms.consider(self.name, message, self._sit)
            case messages.AskKeys():
                return self._begin_sum(message)
            case messages.AskMasked():
                return self._masked(message)
            case messages.AskSeat() | messages.AskShares() | messages.AskConfirmed() | messages.AskUnmask():
                return self._summing().answer(message)
            case messages.Finish():
                return self._finish()
        raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")

    def _consider(self, offer: messages.Offer) -> messages.Quote:
        """Check everything and see what the budgets allow; charge nothing."""
        self._tables = [table.reordered(offer.columns) for table in self._tables]
        total = check_summable(self._tables)
        offer.settings.check_columns(self._d)
        if offer.settings.sum == "secure" and self._tables[0].open:
            raise InvalidParameter(
                f"sum must be 'per-party' or 'trusted' for tables without a budget, as {self.name!r} is: a secure sum has "
                "noise"
            )
        self._settings, self._plans, self._sums = offer.settings, None, None  # a plan belongs to an offer
        mu = min(affordable_mu(table, offer.settings, run_label(RUN, table)) for table in self._tables)
        declared = [table.bounds for table in self._tables]
        bounds = None
        if all(each is not None for each in declared):
            bounds = tuple(np.max([each for each in declared if each is not None], axis=0).tolist())
        return messages.Quote(total, mu, self._tables[0].relation is REPLACE_ONE, bounds)

    def _agree(self, message: messages.Plan) -> Empty:
        """Price the plan, and ask every ledger; charge nothing."""
        if self._settings is None:
            raise PartyFailed(f"{self.name} was sent a plan before it was offered a run")
        sums = self._summing() if self._settings.sum == "secure" else None
        least = 0.0 if sums is None else sums.least_multiplier
        self._plans = plan_tables(self._tables, self._settings, message.shares, run_label(RUN, self._tables[0]), least)
        if sums is not None:
            sums.check(self._plans[0])
        for table, plan in zip(self._tables, self._plans, strict=True):
            table.ledger.check(plan.parts, run_label(RUN, table), delta=plan.delta)
        return Empty()

    def _charge(self) -> Empty:
        """Charge the whole run; no row is read yet."""
        plans = self.plans
        self._terms.settle(self.name)
        for table, plan in zip(self._tables, plans, strict=True):
            self.reservations.append(table.ledger.reserve(plan.parts, run_label(RUN, table), delta=plan.delta))
        return Empty()

    def _summing(self) -> Summing:
        """Return this party's half of secure sums, for what was offered."""
        if self.seat is None or self._agreed().sum != "secure":
            raise PartyFailed(f"{self.name} has no seat in a secure sum")
        if self._sums is None:
            self._sums = Summing(self.seat, self._tables[0], self._agreed())
        return self._sums

    def _sit(self, message: messages.SeatsTaken) -> Empty:
        return self._summing().sit(message)

    def _begin_sum(self, message: messages.AskKeys) -> messages.Keys:
        sums, label = self._summing(), label_of(message.question)
        self._paid(label)
        return sums.begin(message, self._query(message.question), self.plans[0].multipliers[label])

    def _masked(self, message: messages.AskMasked) -> messages.Masked:
        """Read the rows, add this party's share of the noise, and mask the numbers."""
        sums = self._summing()
        question = sums.question(message.number)
        query, label = self._query(question), label_of(question)
        (reservation,) = self._paid(label)
        self._releases += 1
        key = (self._index, self._releases)
        return sums.masked(message, query, self.plans[0].multipliers[label], label, reservation, key)

    def _query(self, question: messages.Question) -> Query:
        """Return what a question asks of the rows, checked."""
        match question:
            case messages.AskHistogram():
                return OctaveHistogram(self._d, question.offset, question.differences)
            case messages.AskMean():
                return ClippedMean(question.bounds)
        if question.own_mean:
            raise PartyFailed(f"{self.name} was asked to take off its own mean, and released only a part of a sum")
        return self._moments_query(question)

    def _moments_query(self, message: messages.AskMoments) -> SecondMoments | LinearMoments:
        if message.linear is None:
            if message.differences:
                raise PartyFailed(
                    f"{self.name} was asked for differences of records without a matrix to multiply them by"
                )
            return SecondMoments(message.row_norm, message.offset)
        message.linear.check(self._d, "the coordinator")
        linear = message.linear.dense()
        rules.check_condition(linear, self.name)
        return LinearMoments(linear, message.row_norm, message.offset, message.differences)

    def _mean(self, mean: ClippedMean) -> messages.Numbers:
        """Release the mean of all rows; of open tables each one's own, whose sum says no more than they do."""
        if len(self._tables) == 1 or not all(table.open for table in self._tables):
            values, noise_sd = self._numbers(mean, MEAN)
            self._own_means = [tuple(mean.decode(values).tolist())]
            return messages.Numbers(values, noise_sd)
        self._releases += 1
        found = []
        for place, (table, reservation) in enumerate(zip(self._tables, self._paid(MEAN), strict=True)):
            key = (self._index, self._releases, place)
            found.append(table.release(mean, Gaussian(0.0), label=MEAN, reservation=reservation, key=key))
        self._own_means = [tuple(mean.decode(values).tolist()) for values in found]
        rows = np.array([table.n_rows for table in self._tables])
        return messages.Numbers(rows @ np.array(found) / rows.sum(), 0.0)

    def _moments(self, message: messages.AskMoments) -> messages.Matrix:
        if message.own_mean:
            if not self._own_means:
                raise PartyFailed(f"{self.name} was asked to take off its mean before it released one")
            message = replace(message, offset=self._own_means[0])
        if all(table.open for table in self._tables) and message.linear is None:
            message = replace(message, row_norm=math.inf)
        query: Query | list[SecondMoments] = self._moments_query(message)
        if message.linear is None and message.own_mean and len(self._own_means) > 1:
            query = [SecondMoments(message.row_norm, mean) for mean in self._own_means]
        answer, scale = self._release(query, AnalyticGaussian, message.label)
        return messages.Matrix.of(answer.matrix, scale)

    def _keep_own(self) -> Empty:
        """Release one clipped covariance by this party's own bounds and mean, which stays here."""
        settings, table = self._agreed(), self._tables[0]
        bounds = None if table.bounds is None else np.array(table.bounds)
        row_norm = settings.row_norm
        offset = settings.offset
        if table.open:
            bounds, row_norm = np.full(self._d, math.inf), math.inf
        elif HISTOGRAM in self.plans[0].multipliers:
            # a declared range needs no histogram
            shares, noise_sd = self._numbers(OctaveHistogram(self._d, only=table.without_bounds), HISTOGRAM)
            found, norm = rules.bounds_from(shares, noise_sd, table.known_bounds)
            row_norm = norm if row_norm is None and bounds is None else row_norm
            bounds = found if bounds is None else bounds
        if settings.center:
            assert bounds is not None
            query = ClippedMean(tuple(bounds.tolist()))
            offset = tuple(query.decode(self._numbers(query, MEAN)[0]).tolist())
        if row_norm is None:
            assert bounds is not None
            row_norm = rules.norm_of(bounds, offset)
        answer, scale = self._release(SecondMoments(row_norm, offset), AnalyticGaussian, COVARIANCE)
        self.facts = {} if table.open else {"row_norm": row_norm}
        noise = (NoiseTerm(scale),) if scale else ()
        mean = None if offset is None else np.array(offset)
        self.kept = Moments(answer.matrix, table.n_rows, table.columns, noise, mean)
        return Empty()

    def _finish(self) -> Empty:
        """End the run cleanly: the coordinator says so from what it was sent."""
        if not self._failed:
            for reservation in self.reservations:
                reservation.close()
        return Empty()

    def _numbers(self, query: Query, label: str) -> tuple[Array, float]:
        return self._release(query, Gaussian, label)

    def _paid(self, label: str) -> list[Reservation]:
        if label not in self.plans[0].multipliers or not self.reservations:
            raise PartyFailed(f"{self.name} was asked for {label!r} before it was charged for it")
        return self.reservations

    def _release(self, query: Query | list[SecondMoments], kind: Maker, label: str) -> tuple[Any, float]:
        """Do one release of the plan; return the answer and the scale of its noise."""
        reservations, multiplier = self._paid(label), self.plans[0].multipliers[label]
        n = sum(table.n_rows for table in self._tables)
        scale = 0.0
        if multiplier:
            assert not isinstance(query, list)  # of open tables
            scale = multiplier * query.sensitivity(n, self._tables[0].relation) * (1 + 1e-14)
        mechanism: Mechanism[Any] = kind(scale)
        self._releases += 1
        key = (self._index, self._releases)
        if len(self._tables) == 1 and not isinstance(query, list):
            answer = self._tables[0].release(query, mechanism, label=label, reservation=reservations[0], key=key)
        else:
            answer = release_sum(self._tables, query, mechanism, label, reservations, key)
        return answer, scale

    def _agreed(self) -> ReleaseSettings:
        if self._settings is None:
            raise PartyFailed(f"{self.name} was asked to work before it was offered a run")
        return self._settings

    @property
    def _d(self) -> int:
        return self._tables[0].n_columns


def release_report(
    table: PrivateTable,
    reservation: Reservation,
    settings: ReleaseSettings,
    delta: float | None,
    told: Sequence[str] = (),
    one_process: str = "",
) -> PrivacyReport:
    """Return the report on one table's part in a release.

    `delta` is its slice's, where it has one; `told` and `one_process` are what is said of secure sums.
    """
    used = ("offset",) if table.open else ("row_norm", "offset")  # exact moments are not clipped
    declared = {name: getattr(settings, name) for name in used if getattr(settings, name) is not None}
    delta = settings.delta if delta is None else delta
    together = {"per-party": (), "trusted": (TRUSTED,), "secure": tuple(told)}[settings.sum]
    return table_report(
        table,
        reservation,
        delta=delta,
        declared=declared,
        assumptions=(*ASSUMPTIONS, *together, *(_in_two(reservation, delta) if together else ())),
        trusted={"per-party": "", "trusted": SUMMING_PLACE, "secure": one_process}[settings.sum],
    )


def _in_two(reservation: Reservation, delta: float | None) -> list[str]:
    """Return what a record loses that is in two tables of one sum: it moves the sum twice, see `group_event`."""
    words = (
        "Every record is in one table. One that is in k of the tables moves the sum k times, and can lose more than the "
        "epsilons of the k reports together"
    )
    if reservation.ledger.open:
        return []
    if delta:
        epsilon = epsilon_of(group_event(reservation.event, 2), 2 * delta, reservation.ledger.accountant)
        words += f"; in two of the tables, epsilon = {rounded_up(epsilon)} at delta = {rounded_up(2 * delta)}"
    return [words + "."]
