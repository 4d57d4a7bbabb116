"""Runs that touch nothing: on scratch ledgers, without rows or on synthetic ones.

A plan must say what the real code would do. So the real code is run, twice:

- On tables without rows, whose ledgers are copies in memory with the same budget and the same amounts spent. Every
  estimator reserves its whole run before it reads a row. There this run ends, and the reservations say what will be
  charged, or the refusal is the one that the real run would meet. Nothing in it depends on a row.
- For bytes and time, on synthetic rows of as many records and columns. Where that would take long it is done on
  fewer columns, or for a few rounds, and extended from there.
"""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.rounds import RoundRecord
from privfcd.data.private import PrivateTable, RowsWanted
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter, PrivfcdError
from privfcd.ledger import Ledger, MemoryJournal, Reservation
from privfcd.ledger.journal import Entry
from privfcd.ledger.ledger import ADAPTIVE
from privfcd.moments import Moments, NoiseTerm
from privfcd.runs.repeatable_noise import rehearsed

Array = NDArray[np.float64]

MOST_SECONDS = 4.0
"""What all synthetic runs of one plan may take, roughly."""

ENOUGH_SECONDS = 1.0
"""Rounds are watched for so long, and then extended: what follows is like them."""

FEW_COLUMNS = 10
"""A run on so many columns is short whatever the method."""

MOST_ENCODED = 100
"""Moments of discrete variables are rehearsed on up to so many columns."""

FEW_ROUNDS = 3
"""Rounds are extended only from more than one: the first waits for what the run sets up."""

SHORT = 10
"""A run of at most so many rounds is never cut off: what the clock decides differs from plan to plan."""

STEADY = (FEW_ROUNDS, SHORT, 30)
"""Bytes are extended from the first so many rounds, the most that were seen: not from as many as the clock allowed."""

MOST_CELLS = 10_000_000
"""Largest number of synthetic values in one run."""

TIME_POWERS = (1.5, 3.5)
"""Time grows with the number of columns to a power between these; to the smaller one before it was seen."""

BYTE_POWERS = (1.0, 2.0)
"""The same of bytes."""

QUICK = "zcdp"
"""The accountant of rehearsals on synthetic rows, whose noise need not be the least."""


class ScratchLedger(Ledger):
    """A copy of a ledger's state in memory, which keeps the reservations that are made on it."""

    def __init__(self, ledger: Ledger, accountant: str | None = None) -> None:
        spent, left = ledger.spent_units(), ledger.left()
        journal = MemoryJournal()
        super().__init__(ledger.budget, name=ledger.name, journal=journal, accountant=accountant or ledger.accountant)
        caps = {}
        if ADAPTIVE in spent:
            caps[ADAPTIVE] = spent[ADAPTIVE] + (0 if left is None else left.rho_units)
        if any(spent.values()) or caps:
            journal.post(ledger.name, "charge", "what was spent before", "", spent, caps)
        self.reserved: list[tuple[Reservation, float | None]] = []
        self.charged_besides = False

    def reserve(self, plan: Any, label: str = "run", *, delta: float | None = None) -> Reservation:
        """See `Ledger.reserve`."""
        reservation = super().reserve(plan, label, delta=delta)
        self.reserved.append((reservation, delta))
        return reservation

    def charge(self, event: DpEvent, label: str = "release", *, request: str = "") -> Entry:
        """See `Ledger.charge`: what is charged besides the reservation is in no plan."""
        self.charged_besides = True
        return super().charge(event, label, request=request)

    def note_rows(self, rows: NDArray[np.float64]) -> tuple[str, ...]:
        """See `Ledger.note_rows`: synthetic rows are not worth remembering."""
        return ()


@dataclass(frozen=True, eq=False)
class Committed:
    """What a run would charge.

    Attributes
    ----------
    ledgers : list of ScratchLedger
        One for each table, after the charge.
    model : Estimator
        The copy that was run up to there; what it had chosen from public numbers by then is set on it.
    """

    ledgers: list[ScratchLedger]
    model: Estimator


@dataclass(frozen=True)
class Estimate:
    """Bytes and seconds of a run, and in words where they come from; None where a rehearsal said nothing."""

    bytes: int | None
    seconds: float | None
    how: str


def commit(model: Estimator, tables: Sequence[PrivateTable]) -> Committed:
    """Run a copy of `model` on tables without rows up to the first row that it would read.

    Raises
    ------
    BudgetExceeded, InvalidParameter, InvalidTable
        What `fit` would raise before anything is charged.
    """
    copy, ledgers, blank = cloned(model), [ScratchLedger(table.ledger) for table in tables], []
    for table, ledger in zip(tables, ledgers, strict=True):
        blank.append(table.without_rows(ledger))
    try:
        copy.fit(blank)  # type: ignore[attr-defined]
    except RowsWanted:
        pass
    for ledger in ledgers:
        if len(ledger.reserved) != 1 or ledger.charged_besides:
            raise InvalidParameter(
                f"model must reserve its whole run once, and charge nothing else, before it reads a row, which "
                f"{type(model).__name__} does not on {ledger.name!r}: its cost cannot be planned"
            )
    return Committed(ledgers, copy)


def cloned(model: Estimator, **changes: Any) -> Estimator:
    """Return an estimator with the same parameters, not fitted."""
    return type(model)(**{**model.get_params(), **changes})


def estimated(model: Estimator, source: Sequence[PrivateTable] | Sequence[Moments]) -> Estimate:
    """Run copies of `model` on more and more columns while there is time, and extend from there.

    Parameters
    ----------
    model : Estimator
    source : sequence of PrivateTable or of Moments
        Tables are replaced by synthetic ones. Moments were released before: they are used themselves.

    Raises
    ------
    InvalidParameter
        The parameters do not fit the moments, as `fit` would say.
    """
    began = time.perf_counter()
    d, rows = len(source[0].columns), 0
    if isinstance(source[0], PrivateTable):
        rows = sum(table.n_rows for table in source if isinstance(table, PrivateTable))
    sizes = _sizes(d)
    if not rows and model.get_params().get("levels") is not None:  # several columns for each variable: not to be cut
        if d > MOST_ENCODED:
            return Estimate(None, None, f"bytes and time are not known for {d} encoded columns")
        sizes = [d]
    seen: list[_Run] = []
    for columns in sizes:
        left = MOST_SECONDS - (time.perf_counter() - began)
        # the first run finds everything cold, and says little about the second
        if seen and seen[-1].least * (_factor(seen, columns) if len(seen) > 1 else 1.0) > left:
            break
        try:
            copy, made, size = _prepared(model, source, columns)
            limit = min(left, ENOUGH_SECONDS) if columns == d else ENOUGH_SECONDS / (2 if seen else 10)
            seen.append(_run(copy, made, columns, size, limit))
        except (PrivfcdError, ArithmeticError, ValueError) as error:  # of rows, or rounding, that the run will not meet
            if not rows and isinstance(error, InvalidParameter):
                raise  # moments have no other run that would say so
            if not seen:
                return Estimate(None, None, f"bytes and time are not known: the rehearsal ended with: {error}")
            break
    return _extended(seen, rows, d)


def _prepared(
    model: Estimator, source: Sequence[PrivateTable] | Sequence[Moments], columns: int
) -> tuple[Estimator, Sequence[Any], int]:
    """Return a copy of `model` and what it is to be fitted to, with so many columns, and the number of rows made."""
    tables = [part for part in source if isinstance(part, PrivateTable)]
    if tables:
        copy, made = synthetic(model, tables, columns)
        return copy, made, sum(table.n_rows for table in made)
    parts = [part for part in source if isinstance(part, Moments)]
    names = parts[0].columns[:columns]
    if columns == len(parts[0].columns):
        return cloned(model), parts, 0
    copy = cloned(model, **_narrowed(model.get_params(), names))
    return copy, [_first(part, names) for part in parts], 0


@dataclass(frozen=True)
class _Run:
    """One synthetic run: its size, what it would come to in all, and the least that one like it takes."""

    columns: int
    rows: int
    bytes: float
    seconds: float
    least: float
    rounds: tuple[int, int] | None


class _Enough(Exception):
    """Enough rounds were seen."""


class _Watch:
    """Sees the rounds pass, and ends the run when its time is over."""

    def __init__(self, seconds: float) -> None:
        self._began, self._limit = time.perf_counter(), seconds
        self.marks: list[tuple[float, int]] = []
        self.rounds = 0

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self._began

    def __call__(self, record: RoundRecord) -> None:
        self.marks.append((self.elapsed, record.bytes_exchanged))
        self.rounds = record.rounds
        few = FEW_ROUNDS if record.rounds > SHORT else record.rounds
        if self.elapsed > self._limit and few <= record.number < record.rounds:
            raise _Enough

    def extended(self) -> tuple[float, float]:
        """Return the seconds and bytes of all rounds, going on as in the later half of those seen, or of `STEADY` ones."""
        steady = max(number for number in STEADY if number <= len(self.marks))
        return self._going_on(len(self.marks), 0), self._going_on(steady, 1)

    def _going_on(self, seen: int, which: int) -> float:
        half = (seen - 1) // 2
        last = self.marks[seen - 1][which]
        return last + (self.rounds - seen) / (seen - 1 - half) * (last - self.marks[half][which])


def _first(part: Moments, names: tuple[str, ...]) -> Moments:
    """Return moments of the first columns; of the noise each entry's deviation, which is all that matters here."""
    k = len(names)
    noise = () if part.noise_sd is None else (NoiseTerm(part.noise_sd[:k, :k]),)
    mean = None if part.mean is None else part.mean[:k]
    return Moments(part.matrix[:k, :k], part.rows, names, noise, mean, part.origins, part.differences)


def _run(copy: Any, made: Sequence[Any], columns: int, rows: int, seconds: float) -> _Run:
    watch = _Watch(seconds)
    fit = copy.fit
    extra: dict[str, Any] = {"on_round": watch} if "on_round" in inspect.signature(fit).parameters else {}
    try:
        with warnings.catch_warnings():  # they would speak of rows that nobody has
            warnings.simplefilter("ignore")
            fit(made, **extra)
    except _Enough:
        whole, sent = watch.extended()
        return _Run(columns, rows, sent, whole, watch.elapsed, (len(watch.marks), watch.rounds))
    whole = watch.elapsed
    least = watch.marks[FEW_ROUNDS - 1][0] if len(watch.marks) > SHORT else whole
    return _Run(columns, rows, float(copy.bytes_exchanged_), whole, least, None)


def _sizes(d: int) -> list[int]:
    """Return numbers of columns from few to `d`, each about twice the one before; the first run finds everything cold."""
    steps = max(round(math.log2(d / FEW_COLUMNS)), 0)
    found = [round(FEW_COLUMNS * (d / FEW_COLUMNS) ** (k / steps)) for k in range(steps)]
    return [min(FEW_COLUMNS // 2, d), *found, d] if d > FEW_COLUMNS // 2 else [d]


def _factor(seen: Sequence[_Run], columns: int) -> float:
    """Return by what the time of the last run is multiplied for so many columns, going by the last two."""
    low, high = TIME_POWERS
    power = _power(seen, "seconds", low)
    return (columns / seen[-1].columns) ** min(max(power, low), high)


def _power(seen: Sequence[_Run], name: str, unseen: float) -> float:
    """Return the power of the number of columns that something of the last two runs grew with."""
    if len(seen) < 2:
        return unseen
    before, after = getattr(seen[-2], name), getattr(seen[-1], name)
    return math.log(max(after, 1e-3) / max(before, 1e-3)) / math.log(seen[-1].columns / seen[-2].columns)


def _extended(seen: Sequence[_Run], rows: int, d: int) -> Estimate:
    """Return the estimate for all columns and rows."""
    last = seen[-1]
    seconds, sent = last.seconds, last.bytes
    words = [f"on {'synthetic rows' if rows else 'the moments'} of {last.columns} columns"]
    if last.rounds is not None:
        words.append(f"{last.rounds[0]} of {last.rounds[1]} rounds")
    if last.columns < d:
        low, high = BYTE_POWERS
        seconds *= _factor(seen, d)
        sent *= (d / last.columns) ** min(max(_power(seen, "bytes", low), low), high)
        words.append(f"extended to {d} columns as they grew before")
    if last.rows < rows:
        seconds *= rows / last.rows
        words.append(f"and from {last.rows} rows in proportion")
    rough = "; a rough guess, which may be several times off" if last.columns < d or last.rows < rows else ""
    return Estimate(round(sent), seconds, "bytes and time: measured in this process " + ", ".join(words) + rough)


def synthetic(
    model: Estimator, tables: Sequence[PrivateTable], columns: int, seed: int = 0
) -> tuple[Estimator, list[PrivateTable]]:
    """Return a copy of `model` for the first `columns` columns, and tables of synthetic rows that it fits.

    Rows follow a random sparse DAG, each party's as many as declared unless that is more than `MOST_CELLS` values; budgets,
    what was spent, names, relation, bounds and the kind of noise are those of the tables. Rows and noise are seeded, so that
    the same plan says the same bytes again, unless the clock cut off a run of many rounds or columns elsewhere.
    """
    names = tables[0].columns[:columns]
    sizes = [table.n_rows for table in tables]
    share = min(1.0, MOST_CELLS / (sum(sizes) * columns))
    sizes = [max(math.ceil(size * share), columns) for size in sizes]
    changes = _narrowed(model.get_params(), names)
    simulated = linear_gaussian(columns, parties=len(tables), rows=sizes, seed=seed)
    made, together = [], model.get_params().get("sum") in ("trusted", "secure")
    for party, (table, rows) in enumerate(zip(tables, simulated.tables, strict=True)):
        bounds = None if table.bounds is None else dict(zip(table.columns, table.bounds, strict=True))
        if changes.get("levels") is not None:
            rows = _cut(rows, changes["levels"], names)
        else:
            rows = rows * _unit(rows, bounds, model.get_params().get("row_norm"))
        made.append(
            PrivateTable(
                rows,
                names,
                ledger=ScratchLedger(table.ledger, QUICK),
                bounds=None if bounds is None else {name: bounds[name] for name in names},
                noise=rehearsed(table.noise, 0 if together else party),
                relation=table.relation,
                declared_rows=None if table.relation is REPLACE_ONE else len(rows),
            )
        )
    return cloned(model, **changes), made


def _unit(rows: Array, bounds: Mapping[str, float] | None, row_norm: float | None) -> float:
    """Return the factor that brings rows to where declared bounds or norms would have been set: a few deviations off."""
    spread = float(np.sqrt((rows**2).mean()))
    if bounds is not None:
        return math.exp(float(np.mean(np.log(list(bounds.values()))))) / (4 * spread)
    if row_norm is not None:
        return float(row_norm) / (2 * spread * math.sqrt(rows.shape[1]))
    return 1.0


def _narrowed(params: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that have one value for each column, for the first columns only."""
    changes: dict[str, Any] = {}
    for name in ("levels", "smoothness"):
        value = params.get(name)
        if value is None:
            continue
        if isinstance(value, Mapping):
            changes[name] = {column: value[column] for column in names}
        elif isinstance(value, int | float):
            changes[name] = value
        else:
            changes[name] = list(value)[: len(names)]
    return changes


def _cut(rows: Array, levels: Any, names: Sequence[str]) -> Array:
    """Return the rows with every column cut at its quantiles into as many levels as declared."""
    codes = np.empty_like(rows)
    for j, name in enumerate(names):
        if isinstance(levels, Mapping):
            number = levels[name]
        else:
            number = levels if isinstance(levels, int) else levels[j]
        number = checks.count("levels", number, least=2)
        codes[:, j] = np.argsort(np.argsort(rows[:, j])) * number // len(rows)
    return codes
