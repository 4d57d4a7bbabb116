"""PrivateTable: rows behind a ledger. Queries go in, noisy answers come out.

The order is always the same: check the inputs, charge, read the rows, add noise, return. What the owner declares (the
number of rows, the columns' names, bounds) is public and part of every report; everything else about the rows leaves
only through a charge.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from dp_accounting import DpEvent, NonPrivateDpEvent, NoOpDpEvent

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, Budget, EpsilonDeltaDpEvent, NeighboringRelation
from privfcd.data.encoding import Centred
from privfcd.data.pairs import in_secret_order
from privfcd.data.queries import Array, Query, answer
from privfcd.data.tables import Table, read_table
from privfcd.errors import InvalidParameter, InvalidTable
from privfcd.ledger import Ledger, Reservation
from privfcd.ledger.row_fingerprints import RowsMark, known_before, mark_rows, warn_of_same_rows
from privfcd.mechanisms import GumbelMax, NoiseSource, NoiseStream, SecureNoise

if TYPE_CHECKING:
    from privfcd.data.schema import Schema

Answer = TypeVar("Answer", covariant=True)
SessionT = TypeVar("SessionT", covariant=True)

_NORMS = ("l1", "l2", "linf")
"""From the largest to the smallest: a bound in one norm is a bound in all that follow."""

_MOST_ROWS = 2**53
"""Whole numbers up to here are doubles, and what is divided by them is."""

_UNNAMED = itertools.count(1)

_DIRECT = 2**31
"""First part of the stream keys of releases outside an algorithm; an algorithm's keys start with a party's number."""

_LATER_RUN = 2**30
"""First part, less the run's number, of the keys of all runs on a table but the first."""


class RowsWanted(Exception):
    """Raised where a table without rows, made to plan a run, would have to read one."""


class Mechanism(Protocol[Answer]):
    """What `PrivateTable.release` takes: a cost for a sensitivity in its norm, and a release."""

    @property
    def norm(self) -> str:
        """The norm of the sensitivity that `event` takes: `"l1"`, `"l2"` or `"linf"`."""

    def event(self, sensitivity: float) -> DpEvent:
        """Return the cost of one release."""

    def release(self, value: Any, stream: NoiseStream) -> Answer:
        """Return `value` with noise."""


class SessionQuery(Protocol[SessionT]):
    """What `PrivateTable.session` takes: a query that keeps working state beside the rows, inside the table."""

    def check(self, d: int) -> None:
        """Raise InvalidParameter unless the query fits tables of `d` columns."""

    def open(
        self,
        rows: Array,
        n: int,
        reservation: Reservation,
        relation: NeighboringRelation,
        streams: Callable[..., NoiseStream],
    ) -> SessionT:
        """Return the session; it draws on `reservation` before each look at `rows`, whose public number is `n`."""


class Encoding(Protocol):
    """What `PrivateTable.encoded` takes: a public map of each record on its own."""

    def check(self, d: int) -> None:
        """Raise InvalidParameter unless the encoding fits tables of `d` columns."""

    def columns(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the encoded columns."""

    def apply(self, rows: Array) -> Array:
        """Return the encoded rows, one for each of `rows` and a function of it alone."""


class PrivateTable:
    """Rows that can be learnt from only through charged, noisy releases.

    Parameters
    ----------
    rows : array of shape (n, d), DataFrame, Table, or path of a CSV or Parquet file
        Finite numbers; with a schema whatever it declares.
        Constant columns are accepted; all parties together need as many rows as columns.
    columns : sequence of str, optional
        Names; those of the source by default.
    schema : Schema, mapping or path, optional
        What is declared of the columns, public. Their numbers are centred at the middle of their ranges, so that bounds are
        half as wide as the ranges; see `declared` for those that are not. Instead of `bounds`.
    name : str, optional
        The data set's name, to which its budget belongs; `"table-1"`, `"table-2"`, ... by default.
    budget : Budget, optional
        How much may be spent. A table without a budget is open: it charges `NonPrivateDpEvent` and every report on it
        says epsilon = inf.
    ledger : Ledger, optional
        A ledger to charge instead, with its own name and budget; tables that share one compose.
    bounds : float, sequence or mapping of column to float, optional
        Declared public bounds on |x_j|; larger values are clipped. They must not be computed from the rows.
    noise : NoiseSource, optional
        `SecureNoise()` by default.
    relation : dp_accounting.NeighboringRelation
        What one record's change is: replaced (default; the number of rows is public), or added or removed.
    declared_rows : int, optional
        The public number by which sums are divided and noise is scaled, at most 2⁵³. Required for added or removed records,
        where the true number is not public, at least half of that; otherwise it is the number of rows. That it is refused
        below, and the message, which has the true number, are for the owner only.

    Raises
    ------
    InvalidTable
        The rows cannot be used. Shown to the owner, who makes the table; never sent anywhere.
    InvalidParameter
        Another argument is not accepted.
    """

    def __init__(
        self,
        rows: Any,
        columns: Sequence[str] | None = None,
        *,
        name: str | None = None,
        budget: Budget | None = None,
        ledger: Ledger | None = None,
        bounds: float | Sequence[float] | Mapping[str, float] | None = None,
        noise: NoiseSource | None = None,
        relation: NeighboringRelation = REPLACE_ONE,
        declared_rows: int | None = None,
        schema: Schema | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    ) -> None:
        if ledger is not None and (budget is not None or name is not None):
            raise InvalidParameter("give either a ledger, which has a name and a budget, or name and budget, not both")
        if not isinstance(relation, NeighboringRelation) or relation is NeighboringRelation.REPLACE_SPECIAL:
            raise checks.refuse("relation", relation, "REPLACE_ONE or ADD_OR_REMOVE_ONE")
        if (declared_rows is None) != (relation is REPLACE_ONE):
            raise InvalidParameter(
                "declared_rows must be given for ADD_OR_REMOVE_ONE, where the number of rows is not public, and only "
                f"there, got {declared_rows!r} with {relation.name}"
            )
        self.noise: NoiseSource = SecureNoise() if noise is None else _checked_source(noise)
        own = ledger is None
        if ledger is None:
            ledger = Ledger(budget, name=f"table-{next(_UNNAMED)}" if name is None else name)
        table = _read_source(rows, columns, schema)
        self.schema: Schema | None = table.schema
        self.columns: tuple[str, ...] = table.columns
        self.n_columns = len(table.columns)
        self.n_rows = (
            len(table.rows) if declared_rows is None else checks.count("declared_rows", declared_rows, most=_MOST_ROWS)
        )
        if len(table.rows) > 2 * self.n_rows:
            raise InvalidParameter(
                f"declared_rows must be at least half of the number of rows, {len(table.rows)}, got {declared_rows!r}"
            )
        self.ledger = ledger
        self.relation = relation
        self._rows: Array = table.rows
        self._empty = False
        self._order: list[int] | None = None
        self._encodings: tuple[tuple[list[int] | None, Encoding], ...] = ()
        self._gaps = False
        self.bounds: tuple[float, ...] | None
        if self.schema is None:
            self.bounds = _declared_bounds(bounds, self.columns)
            self.known_bounds = self.bounds
        else:
            if bounds is not None:
                raise checks.refuse("bounds", bounds, "left out with a schema, whose ranges are the bounds")
            self._as_declared: Array = table.rows
            self._gaps = self.schema.has_gaps
            self._encodings = ((None, Centred(self.schema.offset)),)
            self._set_bounds(self.schema.half_widths)
        self._releases = itertools.count(1)
        self._runs = itertools.count()
        self._run = 0
        self._mark: RowsMark | None = None if ledger.open else mark_rows(ledger.name, ledger.account, table.rows)
        others = () if own else ledger.note_rows(table.rows)  # a ledger made here knows no other data set
        if self._mark is not None and self.noise.secure:  # simulated noise protects nobody, whatever is spent
            warn_of_same_rows(
                ledger.name, [name for name in known_before(self._mark, table.rows) if name not in others]
            )

    @property
    def name(self) -> str:
        """The data set's name."""
        return self.ledger.name

    @property
    def without_bounds(self) -> tuple[int, ...]:
        """The places of the columns of which no bound is declared."""
        known = self.known_bounds or (math.inf,) * self.n_columns
        return tuple(place for place, bound in enumerate(known) if math.isinf(bound))

    @property
    def open(self) -> bool:
        """Whether the table has no budget."""
        return self.ledger.open

    def reordered(self, columns: Sequence[str]) -> PrivateTable:
        """Return this table with its columns in another order: same rows, ledger and noise source."""
        if sorted(columns) != sorted(self.columns):
            raise checks.refuse("columns", list(columns), f"the table's own: {list(self.columns)}")
        order = [self.columns.index(column) for column in columns]
        if order == list(range(self.n_columns)):
            return self
        table = copy.copy(self)  # shares the ledger, and the counter that keeps direct releases' noise apart
        table._order = order if self._order is None else [self._order[index] for index in order]
        table.columns = tuple(columns)
        table.bounds = None if self.bounds is None else tuple(self.bounds[index] for index in order)
        known = self.known_bounds
        table.known_bounds = None if known is None else tuple(known[index] for index in order)
        return table

    def declared(self) -> PrivateTable:
        """Return this table as its schema declares it: codes of levels, numbers that are not centred, NaN in gaps.

        For encodings of levels and gaps (`encoded`), which need no bounds: ranges are the schema's. Same ledger and noise
        source.

        Raises
        ------
        InvalidParameter
            The table has no schema, or is encoded.
        """
        if self.schema is None or set(self.columns) - set(self.schema.names):
            raise InvalidParameter(f"{self.name!r} must have a schema and not be encoded, to be seen as it is declared")
        table = copy.copy(self)
        table._rows, table._encodings = self._as_declared, ()
        table._order = [self.schema.names.index(column) for column in self.columns]
        table.bounds = table.known_bounds = None
        return table

    def _set_bounds(self, bounds: Sequence[float]) -> None:
        """Set what is known of bounds on |x_j|; `bounds` are those of all columns, or None."""
        finite = [math.isfinite(each) for each in bounds]
        self.known_bounds = tuple(bounds) if any(finite) else None
        self.bounds = self.known_bounds if all(finite) else None

    def for_run(self) -> PrivateTable:
        """Return this table for one run of an algorithm, whose noise streams are no other run's.

        It shares everything else. Streams are numbered by the runs on this table, so that a table made anew gives the same
        simulated noise again.
        """
        table = copy.copy(self)
        table._run = next(self._runs)
        return table

    def without_rows(self, ledger: Ledger) -> PrivateTable:
        """Return a table with the public facts of this one and no rows, on another ledger, to see what a run charges.

        What would read a row raises `RowsWanted`. This table is left as it is.
        """
        table = copy.copy(self)
        table.ledger = ledger
        table._empty = True
        table._mark = None
        table._rows = table._as_declared = np.empty((0, 0))
        table._releases, table._runs = itertools.count(1), itertools.count()
        return table

    def encoded(self, encoding: Encoding) -> PrivateTable:
        """Return this table with every record replaced by `encoding` of it: same records, ledger and noise source.

        The encoding is public and works on each record alone, so that neighbouring tables stay neighbours. Rows are
        encoded when they are first read, after a charge.
        """
        encoding.check(self.n_columns)
        table = copy.copy(self)
        table._encodings = (*self._encodings, (self._order, encoding))
        table._order = None
        table.columns = encoding.columns(self.columns)
        table.n_columns = len(table.columns)
        table.bounds = table.known_bounds = None
        table._gaps = False  # the encoding says what a gap becomes
        return table

    def event(self, query: Query, mechanism: Mechanism[Any]) -> DpEvent:
        """Return what one release of `query` through `mechanism` costs, after checking both; reads no rows."""
        self._check_no_gaps()
        query.check(self.n_columns)
        norm, kind = getattr(mechanism, "norm", None), getattr(mechanism, "kind", None)
        if norm not in _NORMS or _NORMS.index(query.norm) > _NORMS.index(norm):
            raise InvalidParameter(
                f"{type(mechanism).__name__} needs the sensitivity in norm {norm!r}, {query.name!r} states it in "
                f"{query.norm!r}, which may be smaller"
            )
        if kind is not None and query.kind != kind:
            raise InvalidParameter(
                f"{type(mechanism).__name__} releases {kind}, {query.name!r} answers with {query.kind}"
            )
        return mechanism.event(query.sensitivity(self.n_rows, self.relation))

    def release(
        self,
        query: Query,
        mechanism: Mechanism[Answer],
        *,
        label: str | None = None,
        reservation: Reservation | None = None,
        key: tuple[int, ...] | None = None,
    ) -> Answer:
        """Charge one release of `query` through `mechanism`, and return the noisy answer.

        Parameters
        ----------
        query : Query
            What is asked.
        mechanism : Mechanism
            How it is answered: Gaussian takes a sensitivity in l2 or l1, Laplace in l1, selections in any norm, for a
            bound in a larger norm is one in a smaller too.
        label : str, optional
            Name in the journal; the query's by default.
        reservation : Reservation, optional
            Draw `label` from it instead of charging the ledger. Its event must cover this release.
        key : tuple of int, optional
            Key of the noise stream; a fresh one by default.

        Returns
        -------
        Answer
            What the mechanism makes of the query's answer.

        Raises
        ------
        BudgetExceeded
            The release does not fit; no row was read.
        """
        label = query.name if label is None else label
        event = self.event(query, mechanism)
        if reservation is not None:
            self._check_own(reservation)
            check_covered(event, reservation, label)
            self._mark_simulated(reservation)
            reservation.draw(label)
        else:
            marked = label if self.open or self.noise.secure else f"{label} with SIMULATED noise"
            self.ledger.charge(NonPrivateDpEvent() if self.open else event, marked)
        key = self._fresh_key() if key is None else key
        return mechanism.release(answer(query, self._rows_for(query, key), self.n_rows), self._stream(*key))

    def _mark_simulated(self, reservation: Reservation) -> None:
        """Have the ledger say of a plan that is drawn with simulated noise that nobody is protected."""
        if not self.open and not self.noise.secure:
            reservation.remark("SIMULATED noise")

    def select(
        self, query: Query, mechanism: GumbelMax, *, label: str | None = None, reservation: Reservation | None = None
    ) -> int:
        """Charge one selection among the query's scores, and return the index of the selected one."""
        if not isinstance(mechanism, GumbelMax):
            raise checks.refuse("mechanism", mechanism, "a privfcd.mechanisms.GumbelMax")
        return self.release(query, mechanism, label=label, reservation=reservation)

    def session(self, query: SessionQuery[SessionT], reservation: Reservation) -> SessionT:
        """Open a hot loop over the rows, paid from `reservation`; working state stays inside the table.

        Parameters
        ----------
        query : SessionQuery
            Such as `GreedyDescent`.
        reservation : Reservation
            On this table's ledger, with the parts that the query names.

        Returns
        -------
        SessionT
            What the query opens, such as a descent.
        """
        self._check_no_gaps()
        query.check(self.n_columns)
        self._check_own(reservation)
        self._mark_simulated(reservation)
        return query.open(self._read(), self.n_rows, reservation, self.relation, self._stream)

    def _check_no_gaps(self) -> None:
        """Refuse a table that may have gaps, by what is declared: no query of numbers knows them."""
        if self._gaps:
            raise InvalidParameter(
                f'{self.name!r} may have gaps, by its schema, and is to be encoded first; declare missing = "refuse", or '
                "use a learner that takes gaps"
            )

    def _check_own(self, reservation: Reservation) -> None:
        if reservation.ledger is not self.ledger:
            other = reservation.ledger.name
            raise InvalidParameter(f"reservation must be on the ledger of {self.name!r}, got one on {other!r}")

    def _read(self) -> Array:
        """Return the rows, encoded, in the order of the columns; called after a charge only."""
        if self._empty:
            raise RowsWanted(f"{self.name!r} was made without rows")
        for order, encoding in self._encodings:
            made = encoding.apply(self._rows if order is None else self._rows[:, order])
            if len(made) != len(self._rows):  # neighbours would not stay neighbours
                raise InvalidParameter(f"{type(encoding).__name__} must give one record for each record, and does not")
            self._rows = made
        self._encodings = ()
        if self._order is not None:
            self._rows, self._order = np.ascontiguousarray(self._rows[:, self._order]), None
        return self._rows

    def _rows_for(self, query: Query, key: tuple[int, ...]) -> Array:
        """Return the rows as a query is to see them: those of differences in a secret order."""
        return in_secret_order(self._read(), query, self.noise, self._key(key))

    def _stream(self, *key: int) -> NoiseStream:
        return self.noise.stream(*self._key(key))

    def _key(self, key: tuple[int, ...]) -> tuple[int, ...]:
        return (_LATER_RUN + self._run, *key) if self._run else key

    def _fresh_key(self) -> tuple[int, ...]:
        name = np.frombuffer(hashlib.sha256(self.name.encode()).digest()[:16], dtype=">u4")
        return (_DIRECT, *name.tolist(), next(self._releases))

    def __repr__(self) -> str:
        budget = "open" if self.ledger.budget is None else str(self.ledger.budget)
        return f"PrivateTable({self.name!r}, {self.n_rows} rows, {self.n_columns} columns, {budget})"


def refuse_same_rows(tables: Sequence[PrivateTable]) -> None:
    """Raise InvalidTable where two tables of one run have the same rows, each with a budget; reads no rows.

    A record in both would be paid for twice, and its loss is more than either report says. For the owner of the tables, in
    whose process they are; never sent anywhere.
    """
    for one, other in itertools.combinations(tables, 2):
        if one._mark is not None and other._mark is not None and one._mark.same_rows(other._mark):
            raise InvalidTable(
                f"tables {one.name!r} and {other.name!r} hold the same rows, each with a budget of its own: a record in "
                "both would lose more than either report says. Give each party its own rows, once"
            )


def check_covered(event: DpEvent, reservation: Reservation, label: str) -> None:
    """Raise InvalidParameter unless `event` costs no more than what the reservation planned under `label`."""
    planned = reservation.event_named(label)
    if event == planned or isinstance(planned, NonPrivateDpEvent) or isinstance(event, NoOpDpEvent):
        return
    same = type(event) is type(planned)
    multiplier = getattr(event, "noise_multiplier", None)
    if same and multiplier is not None and multiplier >= planned.noise_multiplier:
        return
    if isinstance(event, EpsilonDeltaDpEvent) and same:
        if event.epsilon <= planned.epsilon and event.delta <= planned.delta:
            return
    eta = getattr(event, "eta", None)
    if same and eta is not None and eta <= planned.eta:
        return
    raise InvalidParameter(f"release {label!r} costs {event!r}, but the reservation planned {planned!r}")


def _read_source(rows: Any, columns: Sequence[str] | None, schema: Any) -> Table:
    """Return the table in a source, by its schema where there is one."""
    if schema is not None and not isinstance(rows, Table):
        from privfcd.data.schema import Schema

        return Schema.of(schema).apply(rows, columns)
    if not isinstance(rows, Table):
        return read_table(rows, columns=columns)
    if columns is not None or schema is not None:
        raise InvalidParameter("columns and schema must be left out for a Table, which has them")
    return rows


def _checked_source(noise: Any) -> NoiseSource:
    if isinstance(noise, type) or not all(hasattr(noise, name) for name in ("stream", "secure", "label")):
        raise checks.refuse("noise", noise, "a noise source, such as privfcd.SecureNoise()")
    return noise


def _declared_bounds(
    bounds: float | Sequence[float] | Mapping[str, float] | None, columns: tuple[str, ...]
) -> tuple[float, ...] | None:
    if bounds is None:
        return None
    if isinstance(bounds, Mapping):
        if sorted(bounds) != sorted(columns):
            missing = sorted(set(columns) - set(bounds))
            extra = sorted(set(bounds) - set(columns))
            raise InvalidParameter(f"bounds must name every column once: missing {missing}, unknown {extra}")
        values = [bounds[column] for column in columns]
    elif np.ndim(bounds) == 0:
        values = [bounds] * len(columns)  # type: ignore[list-item]
    else:
        values = list(bounds)  # type: ignore[arg-type]
    if len(values) != len(columns):
        raise InvalidParameter(f"bounds must have one number for each of {len(columns)} columns, got {len(values)}")
    checked = tuple(checks.bound(f"bound of {column!r}", value) for column, value in zip(columns, values, strict=True))
    return checked
