"""What an owner or an auditor does with a stored ledger: make it, look at it, verify it, export it.

`show`, `verify` and `export` open the file for reading only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privfcd import checks
from privfcd.accounting import journal_files as files
from privfcd.accounting.budget import Budget
from privfcd.accounting.hash_chain import Record, canonical, genesis
from privfcd.accounting.journal import MemoryJournal
from privfcd.accounting.journal_rows import Rows
from privfcd.accounting.journal_rules import text, units_text
from privfcd.accounting.journal_schema import SCHEMA_VERSION, check_schema, settings_of
from privfcd.accounting.ledger import Ledger, caps_of
from privfcd.accounting.replay import Replay
from privfcd.accounting.sqlite_journal import SqliteJournal
from privfcd.accounting.units import units_to_float
from privfcd.errors import InvalidParameter, LedgerCorrupt

_CHUNK = 1000
_MOST_PROBLEMS = 50
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
        What was paid and not finished: reservations that were never closed, requests that were never answered.
    """

    entries: int
    head: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]

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
        caps, balance = rows.declared(name), rows.balance(name)
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
        `number` in the file, as heads have it, and its `sequence` in the data set. `runs` are the last charges, oldest
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
    replay = None
    try:
        with _reading(path) as (rows, settings):
            replay = Replay(settings["ledger"], head)
            for (problem,) in rows.connection.execute("PRAGMA integrity_check(10)").fetchall():
                if problem != "ok":
                    replay.problems.append(f"SQLite finds: {problem}")
            while chunk := rows.after(replay.number, _CHUNK):
                for record in chunk:
                    replay.add(record)
            replay.finish()
            _compare_tables(rows, replay)
    except LedgerCorrupt as error:
        if replay is None:
            return Verification(0, "", (str(error),), ())
        replay.problems.append(str(error))
    return _verdict(replay)


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
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidParameter(f"line {number} is not one of a ledger's export: {error!r}") from None
    if replay is None:
        raise InvalidParameter("lines must be those of a ledger's export, got none")
    replay.finish()
    return _verdict(replay)


def export(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a ledger as JSON lines: one about the ledger, then one an entry, with amounts as exact text.

    Stored answers, fingerprints of rows and their key are left out. The lines are those of one moment.
    """
    with _reading(path) as (rows, settings):
        yield canonical(
            {
                "ledger": settings["ledger"],
                "created": settings["created"],
                "schema": SCHEMA_VERSION,
                "genesis": genesis(rows.ledger),
            }
        )
        number = 0
        while chunk := rows.after(number, _CHUNK):
            for record in chunk:
                yield canonical({**record.document(), "hash": record.hash})
            number = chunk[-1].number


@contextlib.contextmanager
def _reading(path: str | os.PathLike[str]) -> Iterator[tuple[Rows, dict[str, str]]]:
    """Open the ledger for reading, as it is at this moment."""
    place = Path(os.path.realpath(path))
    with files.translated(place), contextlib.closing(files.connect_reading(place)) as connection:
        connection.execute("BEGIN")
        check_schema(connection, str(place))
        files.check_whole(place)
        settings = settings_of(connection, str(place))
        yield Rows(connection, settings["ledger"], str(place)), settings


def _data_set(rows: Rows, name: str) -> dict[str, Any]:
    first, last = rows.entry(name, 0), rows.last(name)
    assert first is not None and last is not None
    unfinished = rows.connection.execute(
        "SELECT number, sequence, label, time FROM entries AS e WHERE scope = ? AND kind = 'reserve' AND NOT EXISTS "
        "(SELECT 1 FROM entries AS c WHERE c.kind = 'close' AND c.scope = e.scope AND c.reference = e.sequence) "
        "ORDER BY sequence",
        (name,),
    )
    unanswered = rows.connection.execute(
        "SELECT number, sequence, label, time, request FROM entries AS e WHERE scope = ? AND request <> '' AND NOT EXISTS "
        "(SELECT 1 FROM answers AS a WHERE a.scope = e.scope AND a.request = e.request) ORDER BY sequence",
        (name,),
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
            for account, (spent, cap) in rows.balance(name).items()
        },
        "runs": [_run(charge, closing) for charge, closing in charges],
        "more_runs": number - len(charges),
        "unfinished": [dict(zip(("number", "sequence", "label", "time"), row, strict=True)) for row in unfinished],
        "unanswered": [
            dict(zip(("number", "sequence", "label", "time", "request"), row, strict=True)) for row in unanswered
        ],
    }


def _run(charge: Record, closing: Record | None) -> dict[str, Any]:
    back = {} if closing is None else closing.spent
    return {
        "number": charge.number,
        "time": charge.time,
        "label": charge.label,
        "spent": {account: units_to_float(units + back.get(account, 0)) for account, units in charge.spent.items()},
        "state": "open" if charge.kind == "reserve" and closing is None else "settled",
    }


def _compare_tables(rows: Rows, replay: Replay) -> None:
    """Say where the tables of balances and answers differ from what the entries give."""
    known = [name for (name,) in rows.connection.execute("SELECT DISTINCT scope FROM accounts")]
    for name in sorted({*known, *replay.scopes}):
        stored = rows.balance(name)
        given = replay.scopes[name].balances if name in replay.scopes else {}
        for account in sorted(stored.keys() | given.keys()):
            if stored.get(account) != given.get(account):
                replay.problems.append(
                    f"the balance of {account!r} of {name!r} is {_balance_text(stored.get(account))}, "
                    f"its entries give {_balance_text(given.get(account))}"
                )
    answered = rows.connection.execute("SELECT scope, request FROM answers ORDER BY scope, request").fetchall()
    for name, request in answered:
        try:
            rows.answer(name, request)
        except LedgerCorrupt as error:
            replay.problems.append(str(error))
    given_answers = {(name, request) for name, scope in replay.scopes.items() for request in scope.answers}
    for name, request in sorted(given_answers - set(answered)):
        replay.problems.append(f"the answer to request {request!r} of {name!r} is missing")


def _verdict(replay: Replay) -> Verification:
    problems = replay.problems[:_MOST_PROBLEMS]
    if len(replay.problems) > _MOST_PROBLEMS:
        problems.append(f"and {len(replay.problems) - _MOST_PROBLEMS} more")
    return Verification(replay.number, replay.head, tuple(problems), tuple(replay.notes()))


def _balance_text(balance: tuple[int, int | None] | None) -> str:
    if balance is None:
        return "missing"
    spent, cap = balance
    return f"{units_text(spent)} of {'no cap' if cap is None else units_text(cap)}"
