"""What an owner or an auditor does with a stored ledger: make it, look at it, verify it, export it.

`show`, `verify` and `export` open the file for reading only.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privfcd import checks
from privfcd.accounting.budget import Budget
from privfcd.accounting.units import units_text, units_to_float
from privfcd.errors import InvalidParameter, LedgerCorrupt
from privfcd.ledger import journal_files as files
from privfcd.ledger.hash_chain import Record, canonical, genesis
from privfcd.ledger.journal import text
from privfcd.ledger.journal_head import head_path, read_head
from privfcd.ledger.journal_rows import Rows
from privfcd.ledger.journal_schema import SCHEMA_VERSION, check_schema, settings_of
from privfcd.ledger.ledger import Ledger, caps_of
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.replay import CHUNK, Replay
from privfcd.ledger.sqlite_journal import SqliteJournal

_MOST_LINES = 50
_RUNS = 20


@dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Attributes
    ----------
    entries : int
        How many entries there are.
    head : str
        Number and hash of the last one. Keep it elsewhere: only it shows later that entries were cut off.
    problems : tuple of str
        What is wrong, each with the entry or the account; empty if nothing is.
    notes : tuple of str
        What was paid and not finished: reservations that were never closed, requests that were never answered. And where
        the clock went back, or the file that names the last entry is missing. The first 50.
    unfinished : int
        How many were paid and not finished, in all.
    """

    entries: int
    head: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    unfinished: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        lines = [f"{self.entries} entries, head {self.head}"]
        lines += [f"WRONG: {problem}" for problem in self.problems] or ["chain and balances are intact"]
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def init_ledger(path: str | os.PathLike[str], name: str, budget: Budget | None) -> str:
    """Declare a data set's budget in the ledger at `path`, which is made where there is none. Return its head.

    Declaring the same budget again changes nothing.

    Parameters
    ----------
    name : str
        The data set's name.
    budget : Budget or None
        What may be spent in all; None records without refusing.

    Raises
    ------
    BudgetMismatch
        The data set is declared with another budget.
    LedgerUnavailable, LedgerCorrupt
        See `SqliteJournal`.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise checks.refuse("budget", budget, "a privfcd.Budget or None")
    name = text("name", name)
    with SqliteJournal(path) as journal:
        journal.open(name, caps_of(budget))
        return journal.head(name)


def open_ledger(path: str | os.PathLike[str], name: str, *, timeout: float = 10.0) -> Ledger:
    """Return the ledger of a data set that is declared in the file at `path`, with the budget declared there.

    Raises
    ------
    InvalidParameter
        The file has no data set of that name.
    LedgerUnavailable, LedgerCorrupt
        See `SqliteJournal`; LedgerMissing where there is no file.
    """
    journal = SqliteJournal(path, create=False, timeout=timeout)
    caps = journal.declared(name)
    if caps is None:
        journal.close()
        raise InvalidParameter(f"name must be that of a data set declared in {journal.path}, got {name!r}")
    return Ledger(_budget_of(caps), name=name, journal=journal)


def snapshot(path: str | os.PathLike[str], name: str) -> Ledger:
    """Return a ledger in memory with the budget and the balances of a data set in the file at `path`, which is only read.

    For plans: what is charged to the copy is charged nowhere else.

    Raises
    ------
    InvalidParameter
        The file has no data set of that name.
    LedgerUnavailable, LedgerCorrupt
        See `SqliteJournal`; LedgerMissing where there is no file.
    """
    with _reading(path) as (rows, _):
        caps, balance = rows.declared(name), rows.agreed_balance(name)
    if caps is None:
        raise InvalidParameter(f"name must be that of a data set declared in {os.fspath(path)}, got {name!r}")
    journal = MemoryJournal()
    ledger = Ledger(_budget_of(caps), name=name, journal=journal)
    spent = {account: units for account, (units, _) in balance.items()}
    limits = {account: cap for account, (_, cap) in balance.items() if cap is not None}
    journal.post(name, "charge", "spent before", "", spent, limits)
    return ledger


def _budget_of(caps: Mapping[str, int]) -> Budget | None:
    return Budget.from_units(caps.get("epsilon", 0), caps.get("delta", 0), caps.get("rho", 0)) if caps else None


def show(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a ledger holds, for JSON.

    Returns
    -------
    dict
        `path`, `ledger` (id), `created`, `schema`, `entries`, `head`, and `data_sets`: for each name `entries`, `head`,
        `opened`, `last` (times), `accounts` (`spent`, `cap` and `left` as numbers, `spent_exact` and `cap_exact` as
        text), `unfinished` (reservations never closed) and `unanswered` (requests paid and never answered), each with its
        `number` in the file, as heads have it, and its `sequence` in the data set: the last 20 of each, oldest first, and
        `more_unfinished` and `more_unanswered` before them. `runs` are the last charges, oldest
        first: `number`, `time`, `label`, `spent` (numbers by account, less what went back at the end) and `state`
        ("settled", or "open": a reservation that was never closed); `more_runs` counts those before them.
    """
    with _reading(path) as (rows, settings):
        tail = rows.tail()
        query = "SELECT scope FROM entries WHERE sequence = 0 ORDER BY scope"
        names = [name for (name,) in rows.connection.execute(query).fetchall()]
        return {
            "path": rows.path,
            "ledger": settings["ledger"],
            "created": settings["created"],
            "schema": SCHEMA_VERSION,
            "entries": 0 if tail is None else tail.number,
            "head": f"0:{genesis(rows.ledger)}" if tail is None else tail.head(),
            "data_sets": {name: _data_set(rows, name) for name in names},
        }


def verify(path: str | os.PathLike[str], head: str | None = None) -> Verification:
    """Recompute the whole chain and all balances, and say precisely what is wrong. Nothing is repaired.

    Parameters
    ----------
    head : str, optional
        A head that was kept elsewhere, such as the one in a run's report.

    Raises
    ------
    LedgerUnavailable
        The file is missing, cannot be read, or is from a newer version. Damage is reported, not raised.
    """
    replay, place = None, Path(os.path.realpath(path))
    try:
        with _reading(place) as (rows, settings):
            replay = Replay(settings["ledger"], head, int(settings["restored"]))
            beside, notes = None, []
            try:
                beside = read_head(place)
            except LedgerCorrupt as error:
                replay.problems.append(str(error))
            except PermissionError:
                notes.append(f"{head_path(place)}, which names the last entry, cannot be read by this user")
            else:
                if beside is None and rows.tail() is not None:
                    notes.append(
                        f"{head_path(place)} is missing, which names the last entry: whether newer ones were cut off "
                        f"cannot be known. Nothing is granted until `privfcd ledger adopt {place}`"
                    )
            for (problem,) in rows.connection.execute("PRAGMA integrity_check(10)").fetchall():
                if problem != "ok":
                    replay.problems.append(f"SQLite finds: {problem}")
            while True:  # a reader that held the file for long would keep writers waiting
                rows.connection.execute("ROLLBACK")
                rows.connection.execute("BEGIN")
                if replay.add_all(rows, CHUNK):
                    break
            replay.finish()
            replay.compare(rows)
            if beside is not None:
                rows.check_holds(beside, str(head_path(place)))
    except LedgerCorrupt as error:
        if replay is None:
            return Verification(0, "", (str(error),), ())
        replay.problems.append(str(error))
    return _verdict(replay, notes)


def verify_export(lines: Iterable[str], head: str | None = None) -> Verification:
    """Recompute chain and balances from the lines of an export, for who does not have the file.

    Raises
    ------
    InvalidParameter
        The lines are not an export.
    """
    replay = None
    for number, line in enumerate(lines, 1):
        try:
            document = json.loads(line)
            if replay is None:
                replay = Replay(document["ledger"], head)
            else:
                replay.add(Record.from_document(document, document["hash"]))
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise InvalidParameter(f"line {number} is not one of a ledger's export: {error!r}") from None
    if replay is None:
        raise InvalidParameter("lines must be those of a ledger's export, got none")
    replay.finish()
    return _verdict(replay, [])


def export(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a ledger as JSON lines: one about the ledger, then one an entry, with amounts as exact text.

    Stored answers, fingerprints of rows and their key are left out. The lines are those of one moment: entries never change.
    """
    with _reading(path) as (rows, settings):
        end, number = rows.newest().number, 0
        rows.connection.execute("ROLLBACK")  # whoever reads the lines slowly must not keep writers waiting
        yield canonical(
            {
                "ledger": settings["ledger"],
                "created": settings["created"],
                "schema": SCHEMA_VERSION,
                "genesis": genesis(rows.ledger),
            }
        )
        while number < end:
            chunk = rows.after(number, CHUNK)
            for record in itertools.takewhile(lambda record: record.number <= end, chunk):
                yield canonical({**record.document(), "hash": record.hash})
            number = chunk[-1].number if chunk else end


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[tuple[Rows, dict[str, str]]]:
    """Open the ledger for reading, as it is at this moment."""
    place = Path(os.path.realpath(path))
    with files.translated(place), files.reading(place) as connection:
        connection.execute("BEGIN")
        check_schema(connection, str(place))
        files.check_whole(place)
        settings = settings_of(connection, str(place))
        yield Rows(connection, settings["ledger"], str(place)), settings


def _data_set(rows: Rows, name: str) -> dict[str, Any]:
    first, last = rows.find(name, 0), rows.last(name)
    assert first is not None and last is not None
    unfinished, more_unfinished = _last_of(
        rows,
        name,
        ("number", "sequence", "label", "time"),
        "kind = 'reserve' AND NOT EXISTS "
        "(SELECT 1 FROM entries AS c WHERE c.kind = 'close' AND c.scope = e.scope AND c.reference = e.sequence)",
    )
    unanswered, more_unanswered = _last_of(
        rows,
        name,
        ("number", "sequence", "label", "time", "request"),
        "request <> '' AND NOT EXISTS (SELECT 1 FROM answers AS a WHERE a.scope = e.scope AND a.request = e.request) AND "
        "number > (SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'restored')",
    )
    charges, number = rows.charges(name, _RUNS)
    return {
        "entries": last.sequence,
        "head": last.head(),
        "opened": first.time,
        "last": last.time,
        "accounts": {
            account: {
                "spent": units_to_float(spent),
                "cap": None if cap is None else units_to_float(cap),
                "left": None if cap is None else units_to_float(cap - spent),
                "spent_exact": units_text(spent),
                "cap_exact": None if cap is None else units_text(cap),
            }
            for account, (spent, cap) in rows.agreed_balance(name).items()
        },
        "runs": [_run(charge, closing) for charge, closing in charges],
        "more_runs": number - len(charges),
        "unfinished": unfinished,
        "more_unfinished": more_unfinished,
        "unanswered": unanswered,
        "more_unanswered": more_unanswered,
    }


def _last_of(rows: Rows, name: str, columns: Sequence[str], condition: str) -> tuple[list[dict[str, Any]], int]:
    """Return the last entries of a data set that a condition holds for, oldest first, and how many are before them."""
    found = f"FROM entries AS e WHERE scope = ? AND {condition}"
    (number,) = rows.connection.execute(f"SELECT COUNT(*) {found}", (name,)).fetchone()
    query = f"SELECT {', '.join(columns)} {found} ORDER BY sequence DESC LIMIT {_RUNS}"
    last = rows.connection.execute(query, (name,)).fetchall()
    return [dict(zip(columns, row, strict=True)) for row in reversed(last)], number - len(last)


def _run(charge: Record, closing: Record | None) -> dict[str, Any]:
    back = {} if closing is None else closing.spent
    return {
        "number": charge.number,
        "time": charge.time,
        "label": charge.label,
        "spent": {account: units_to_float(units + back.get(account, 0)) for account, units in charge.spent.items()},
        "state": "open" if charge.kind == "reserve" and closing is None else "settled",
    }


def _verdict(replay: Replay, notes: Sequence[str]) -> Verification:
    problems, noted = _first(replay.problems), _first([*notes, *replay.notes()])
    return Verification(replay.number, replay.head, problems, noted, replay.unfinished())


def _first(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - _MOST_LINES
    return (*lines[:_MOST_LINES], *([f"and {more:,} more"] if more > 0 else []))
