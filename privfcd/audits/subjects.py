"""What is run again and again in an audit of a whole algorithm.

A subject gets the parties' tables, made afresh with a watched ledger and noise source, and returns whatever it
releases. An estimator releases its graph, a function of one's own anything. For DP-Fed-Sparse-BNSL there are stronger
subjects: the party's half asked by a coordinator that wants to know, and the descent alone.

Both make the selection leak. A score is the absolute value of a gradient entry, and with a canary that moves an entry
from -C_i/n to C_i/n nothing would show. A public offset P, larger than C_i/n, on half of the entries and -P on the others
turns this into scores that rise on one half and fall on the other, by the whole sensitivity. The coordinator brings the
offset about through the dual variables, which follow from what it sends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import (
    REPLACE_ONE,
    BoundedRangeDpEvent,
    NeighboringRelation,
    compose,
    gaussian_event,
    leaves,
    selection_event,
)
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.fed_sparse import FedSparseBNSL, messages
from privfcd.algorithms.fed_sparse.coordinator import FedSparseCoordinator
from privfcd.algorithms.fed_sparse.greedy import SELECTION, UPDATE, GreedyDescent
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import Check, Message, SparseMatrix
from privfcd.algorithms.recorded import RecordedFederation
from privfcd.audits.canaries import Template
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.ledger import Ledger, PlanPart, Reservation
from privfcd.mechanisms import NoiseSource

Array = NDArray[np.float64]
Tables = Callable[[], list[PrivateTable]]
Run = Callable[[int], Any]

_OFFSET_SCALES = 12.0
_LARGEST_SHIFT = 0.4
_FIRST = 0.05


class WatchedLedger(Ledger):
    """A ledger that remembers the events that it was charged."""

    def __init__(self, template: Template) -> None:
        super().__init__(template.budget, name=template.name, accountant=template.accountant)
        self.charged: list[DpEvent] = []

    def charge(self, event: DpEvent, label: str = "release", *, request: str = "") -> Any:
        """See `Ledger.charge`."""
        entry = super().charge(event, label, request=request)
        self.charged.append(event)
        return entry

    def reserve(
        self, plan: Iterable[PlanPart] | Any, label: str = "reservation", *, delta: float | None = None
    ) -> Reservation:
        """See `Ledger.reserve`."""
        reservation = super().reserve(plan, label, delta=delta)
        self.charged.append(reservation.event)
        return reservation

    @property
    def event(self) -> DpEvent:
        """All charges, composed."""
        return compose((event, 1) for event in self.charged)


def table_of(template: Template, rows: Array, noise: NoiseSource) -> PrivateTable:
    """Return a fresh table like the template, with a ledger that has spent nothing."""
    return PrivateTable(
        rows,
        template.columns,
        ledger=WatchedLedger(template),
        bounds=template.bounds,
        noise=noise,
        relation=template.relation,
        declared_rows=None if template.relation is REPLACE_ONE else template.rows,
    )


class Subject(Protocol):
    """Something that can be run on tables as often as one likes."""

    @property
    def name(self) -> str:
        """What a report calls it."""

    def open(self, tables: Tables, party: int) -> Run:
        """Return a function of the run's number that does one independent run, and returns what is released.

        `tables` makes fresh tables of all parties; `party` is the audited one.
        """

    def event(self, table: PrivateTable) -> DpEvent:
        """Return what one run was charged, given the audited party's table after it."""


@dataclass(frozen=True)
class Whole:
    """An estimator, of which everybody sees the graph, or a function of the tables, of which they see what it returns."""

    subject: Estimator | Callable[[list[PrivateTable]], Any]

    @property
    def name(self) -> str:
        """See `Subject.name`."""
        own = getattr(self.subject, "__name__", None)
        return own if isinstance(own, str) else repr(self.subject)

    def open(self, tables: Tables, party: int) -> Run:
        """See `Subject.open`."""
        subject = self.subject
        if not isinstance(subject, Estimator):
            return lambda number: subject(tables())

        def fit(number: int) -> Any:
            model: Any = type(subject)(**subject.get_params())
            model.fit(tables())
            return model.adjacency_matrix_

        return fit

    def event(self, table: PrivateTable) -> DpEvent:
        """See `Subject.event`."""
        return charged(table)


@dataclass(frozen=True)
class CuriousCoordinator:
    """DP-Fed-Sparse-BNSL, one party's half, asked by a coordinator that chooses what it sends.

    It follows the protocol; only its W is not the consensus. All that leaves the party is seen.

    Parameters
    ----------
    estimator : FedSparseBNSL
    """

    estimator: FedSparseBNSL

    @property
    def name(self) -> str:
        """See `Subject.name`."""
        return f"{self.estimator!r}, asked by a curious coordinator"

    def open(self, tables: Tables, party: int) -> Run:
        """See `Subject.open`."""

        def run(number: int) -> Any:
            parties = tables()
            settings = self.estimator.settings_for(self.estimator.facts_of(parties))  # the defaults that fit would take
            table = parties[party]
            federation = RecordedFederation.local([FedSparseParty(table, party)])
            steered = _Steered(federation, table, settings)
            coordinator = FedSparseCoordinator(settings, table.columns)
            try:
                coordinator.run(steered, coordinator.offer(steered))
            except _RoundsBegin:
                steered.run()
            return [answers for _, answers in federation.transcript]

        return run

    def event(self, table: PrivateTable) -> DpEvent:
        """See `Subject.event`."""
        return charged(table)


class _RoundsBegin(Exception):
    """The honest coordinator has set the run up; the rounds are the curious one's."""


class _Steered:
    """The way to one party, on which the rounds are run by a coordinator that wants to know.

    The l1 penalty acts as an offset of its own weight wherever B is not zero. Where that is not enough, W is moved so that
    the party's dual variables become the offset.
    """

    def __init__(self, inner: RecordedFederation, table: PrivateTable, settings: Settings) -> None:
        self._inner, self._table, self._settings = inner, table, settings
        self.names = inner.names
        self._first = np.zeros((table.n_columns, table.n_columns))
        self._target = np.zeros_like(self._first)

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`."""
        return self._inner.bytes_exchanged

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """See `Federation.ask`."""
        if isinstance(message, messages.Round):
            raise _RoundsBegin
        if isinstance(message, messages.Configure):
            self._aim(message.clip)
        return self._inner.ask(message, check)

    def run(self) -> None:
        """Run all rounds."""
        ridge = self._settings.rho2
        weights, dual = self._first, np.zeros_like(self._first)
        for number in range(1, self._settings.rounds + 1):
            (answer,) = self._inner.ask(messages.Round(number, SparseMatrix.of(weights)))
            assert isinstance(answer, messages.LocalUpdate) and answer.weights is not None
            local = answer.weights.dense()
            weights = local + (dual - self._target) / ridge
            dual = dual + ridge * (local - weights)
        self._inner.ask(messages.Finish(SparseMatrix.of(weights)))

    def _aim(self, clip: float | None) -> None:
        """Choose the offset: several times what one record and the noise move a gradient entry by."""
        d, settings = self._table.n_columns, self._settings
        ranges = [event.eta for event, _ in leaves(charged(self._table)) if isinstance(event, BoundedRangeDpEvent)]
        if clip is None or not ranges:
            return  # an open table: exact answers need no help
        entry = 2 * clip / d / self._table.n_rows  # of C_i = C sqrt(M_i / (d sum M)) where all M_i are alike
        size = entry * (1 + _OFFSET_SCALES * 2 / min(ranges))
        if size <= settings.l1:
            self._first = offset_pattern(d) * _FIRST
        else:  # dual variables follow W: beyond a share of rho2 the canary's own residual would change
            self._target = offset_pattern(d) * min(size + settings.l1, _LARGEST_SHIFT * settings.rho2)


@dataclass(frozen=True)
class Descent:
    """The descent of DP-Fed-Sparse-BNSL alone: a number of selections and updates from B = 0 under a public offset.

    Parameters
    ----------
    query : GreedyDescent
        Its constants.
    updates : int
        Selections, and as many updates, in a run.
    rows : int
        Public number of rows of the table.
    step : float
        Of the updates.
    relation : NeighboringRelation
    """

    query: GreedyDescent
    updates: int
    rows: int
    step: float = 1.0
    relation: NeighboringRelation = REPLACE_ONE

    @property
    def name(self) -> str:
        """See `Subject.name`."""
        return f"{self.updates} selections and updates of private greedy coordinate descent"

    def open(self, tables: Tables, party: int) -> Run:
        """See `Subject.open`."""
        table = tables()[party]
        parts = [PlanPart(label, event, 2**40) for label, event in self._events()]
        session = table.session(self.query, table.ledger.reserve(parts, "audit"))
        d = len(self.query.smoothness)
        start, pull = np.zeros((d, d)), offset_pattern(d) * self._offset()
        smoothness = np.array(self.query.smoothness)

        def run(number: int) -> list[tuple[int, int, float]]:
            session.start(start, pull, party, number)
            weights = start.copy()
            seen = []
            for _ in range(self.updates):
                i, j = session.select()
                gradient = session.gradient(i, j)
                rate = self.step / smoothness[i]
                moved = weights[i, j] - rate * gradient
                value = np.sign(moved) * max(abs(moved) - rate * self.query.l1, 0.0)
                weights[i, j] = value
                session.move(i, j, float(value))
                seen.append((i, j, gradient))
            return seen

        return run

    def event(self, table: PrivateTable | None = None) -> DpEvent:
        """See `Subject.event`."""
        return compose((event, self.updates) for _, event in self._events())

    def _offset(self) -> float:
        entry = float(self.query.entry_sensitivity(self.rows, self.relation).max())
        return (1.0 + _OFFSET_SCALES * self.query.noise_multiplier) * entry

    def _events(self) -> list[tuple[str, DpEvent]]:
        z = self.query.noise_multiplier
        return [(SELECTION, selection_event(1.0, z)), (UPDATE, gaussian_event(1.0, z))]


def offset_pattern(d: int) -> Array:
    """Return 1 on half and -1 on the other half of the entries (i, j) that the worst canary moves, 0 elsewhere."""
    places = np.arange(d)
    moved = (places[:, None] + places) % 2 == 1
    return np.where(moved, np.where(places[:, None] < places, 1.0, -1.0), 0.0)


def charged(table: PrivateTable) -> DpEvent:
    """Return what a watched table was charged."""
    ledger = table.ledger
    if not isinstance(ledger, WatchedLedger):
        raise checks.refuse("table", table, "one whose ledger is watched")
    return ledger.event


def subject_of(subject: Any, coordinator: str) -> Subject:
    """Return how to run what the user gave.

    `coordinator` is `"curious"` or `"honest"`, and makes a difference for DP-Fed-Sparse-BNSL only.
    """
    if coordinator not in ("curious", "honest"):
        raise checks.refuse("coordinator", coordinator, '"curious" or "honest"')
    if isinstance(subject, FedSparseBNSL) and coordinator == "curious":
        return CuriousCoordinator(subject)
    if isinstance(subject, Estimator) or (callable(subject) and not hasattr(subject, "open")):
        return Whole(subject)
    if all(hasattr(subject, name) for name in ("name", "open", "event")):
        chosen: Subject = subject
        return chosen
    raise InvalidParameter(f"subject must be an estimator, a function of the tables or a Subject, got {subject!r}")
