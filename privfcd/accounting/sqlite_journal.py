"""A journal that survives crashes and races: one SQLite file, each entry on disk before its charge returns.

Every change is one transaction that holds the write lock from its first read on (`BEGIN IMMEDIATE`), so that of two
processes that race for the last unit one gets it. The file is in write-ahead mode with `synchronous = FULL`: a commit
returns when the operating system says that it is on disk. Entries form a hash chain (`hash_chain`), and each change
first recomputes what it builds on, the last entry and the last one of each account, so that an edited balance is
noticed before anything is granted from it; `ledger_tools.verify` recomputes everything. The work of a charge does not
depend on how many there were.

What it cannot do: notice from inside that the newest entries were cut off or that an old copy was put back (keep
`head` elsewhere, as reports do), or stop somebody who can write the file from making up a new one. The file is as
confidential as the rows: it holds stored answers and, with its key, fingerprints of rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import journal_files as files
from privfcd.accounting.hash_chain import Record, genesis
from privfcd.accounting.journal_errors import ClockWentBack, LedgerUnavailable, NetworkFileSystem, ReplacedLedger
from privfcd.accounting.journal_rows import Rows
from privfcd.accounting.journal_rules import (
    OWN_KINDS,
    Balances,
    Entry,
    amounts,
    applied,
    check_reservation,
    check_same_budget,
    encodable,
    now,
    refunded,
    text,
)
from privfcd.accounting.journal_schema import check_schema, check_sqlite, fixed_width, settings_of
from privfcd.accounting.row_fingerprints import rows_fingerprint, warn_of_same_rows

_LOG_LIMIT = 4 * 2**20


class SqliteJournal:
    """A durable journal in one file. Safe for threads and for processes, which each open their own.

    Parameters
    ----------
    path : str or path
        The file, on a local disk. SQLite keeps a `-wal` and a `-shm` file beside it while it is in use; they belong to
        it. A copy of a ledger without its `-wal` may lack the newest entries.
    create : bool
        Make a new ledger where there is no file; otherwise raise LedgerMissing.
    timeout : float
        Seconds to wait for another process before LedgerLocked is raised.

    Raises
    ------
    LedgerUnavailable
        It cannot be used now: missing, read-only, disk full, locked, or from a newer version.
    LedgerCorrupt
        It is not a ledger, cut short, or was edited.
    InvalidParameter
        A parameter is not accepted.
    """

    _synchronous = "FULL"

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, timeout: float = 10.0) -> None:
        check_sqlite()
        self._timeout = checks.positive("timeout", timeout)
        self.path = Path(os.path.realpath(path))
        if not self.path.parent.is_dir():
            raise checks.refuse("path", str(path), "a file in a folder that exists")
        network = files.network_file_system(self.path)
        if network:
            warnings.warn(
                f"{self.path} is on a network file system ({network}): its locks cannot be relied on, so that two "
                "processes might spend the same budget. Keep the ledger on a local disk",
                NetworkFileSystem,
                stacklevel=2,
            )
        if create and not self.path.exists():
            files.create(self.path)
        self._lock = threading.RLock()
        self._abandoned: list[sqlite3.Connection] = []
        self._connection: sqlite3.Connection | None = None
        with files.translated(self.path):
            with contextlib.closing(files.connect_reading(self.path, self._timeout)) as connection:
                check_schema(connection, str(self.path))
                files.check_whole(self.path)
                settings = settings_of(connection, str(self.path))
            files.check_writable(self.path)
            self.ledger_id, self.created = settings["ledger"], settings["created"]
            self._key = bytes.fromhex(settings["row key"])
            self._connect()
        with self._reading() as rows:
            rows.tail()

    def close(self) -> None:
        """Close the file. Everything is on disk already; the journal cannot be used afterwards."""
        with self._lock, files.translated(self.path):
            if self._connection is not None and self._process == os.getpid():
                self._connection.close()
            self._connection = None

    def __enter__(self) -> SqliteJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (type(self), str(self.path), self._timeout)

    def __repr__(self) -> str:
        return f"SqliteJournal({str(self.path)!r})"

    def open(self, scope: str, caps: Mapping[str, int]) -> None:
        """See `Journal.open`; the declaration is an entry, number 0 of its scope."""
        scope, caps = text("scope", scope), amounts("caps", caps)
        for account, cap in caps.items():
            fixed_width(f"cap of {account!r}", cap)
        declared = self.declared(scope)
        if declared is None:
            with self._writing() as rows:
                declared = rows.declared(scope)
                if declared is None:
                    _open(rows, scope, caps)
                    return
        check_same_budget(scope, declared, caps)

    def declared(self, scope: str) -> Mapping[str, int] | None:
        """See `Journal.declared`."""
        with self._reading() as rows:
            return rows.declared(scope)

    def post(
        self,
        scope: str,
        kind: str,
        label: str,
        event: str,
        spend: Mapping[str, int],
        open_caps: Mapping[str, int] | None = None,
        *,
        request: str = "",
        reference: int = 0,
    ) -> Entry:
        """See `Journal.post`. Returns when the entry is on disk."""
        scope, kind = text("scope", scope), text("kind", kind)
        if kind in OWN_KINDS:
            raise checks.refuse("kind", kind, f"none of {', '.join(OWN_KINDS)}")
        label, event, request = encodable("label", label), encodable("event", event), encodable("request", request)
        spend, open_caps = amounts("spend", spend), amounts("open_caps", open_caps or {})
        with self._writing() as rows:
            if rows.last(scope) is None:
                _open(rows, scope, {})
            if reference:
                check_reservation(scope, reference, _entry(rows, scope, reference))
            changed = applied(rows.agreed_balance(scope), spend, open_caps)
            record = rows.append(scope, kind, label, event, spend, changed, request, reference)
        return record.entry()

    def settle(self, scope: str, reservation: int, label: str, refund: Mapping[str, int]) -> Entry:
        """See `Journal.settle`."""
        refund, label = amounts("refund", refund), encodable("label", label)
        with self._writing() as rows:
            closed = rows.closed(scope, reservation)
            back = refunded(scope, reservation, _entry(rows, scope, reservation), closed, refund)
            changed = applied(rows.agreed_balance(scope), back, {})
            record = rows.append(scope, "close", label, "", back, changed, reference=reservation)
        return record.entry()

    def answer(self, scope: str, request: str) -> bytes | None:
        """See `Journal.answer`."""
        request = text("request", request)
        with self._reading() as rows:
            return rows.answer(scope, request)

    def store(self, scope: str, request: str, answer: bytes, label: str = "answer", reference: int = 0) -> bytes:
        """See `Journal.store`. Returns when the answer is on disk."""
        scope, request, label = text("scope", scope), text("request", request), encodable("label", label)
        answer = bytes(answer)
        with self._writing() as rows:
            stored = rows.answer(scope, request)
            if stored is not None:
                return stored
            if rows.last(scope) is None:
                _open(rows, scope, {})
            if reference:
                check_reservation(scope, reference, _entry(rows, scope, reference))
            digest = hashlib.sha256(answer).hexdigest()
            record = rows.append(scope, "answer", label, "", {}, {}, request, reference, digest)
            values = (scope, request, record.number, answer)
            rows.connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", values)
        return answer

    def note_rows(self, scope: str, rows: NDArray[np.float64]) -> tuple[str, ...]:
        """See `Journal.note_rows`. The key is the ledger's own and does not leave it."""
        values = (rows_fingerprint(self._key, rows), text("scope", scope))
        with self._reading() as stored:
            query = "SELECT scope FROM known_rows WHERE fingerprint = ? ORDER BY scope"
            names = [name for (name,) in stored.connection.execute(query, values[:1]).fetchall()]
        if scope not in names:
            with self._writing() as stored:
                stored.connection.execute("INSERT INTO known_rows VALUES (?, ?) ON CONFLICT DO NOTHING", values)
        others = tuple(name for name in names if name != scope)
        warn_of_same_rows(scope, others)
        return others

    def balance(self, scope: str) -> Balances:
        """See `Journal.balance`."""
        with self._reading() as rows:
            return rows.balance(scope)

    def entries(self, scope: str) -> Sequence[Entry]:
        """See `Journal.entries`."""
        with self._reading() as rows:
            return tuple(record.entry() for record in rows.of_scope(scope))

    def head(self, scope: str | None = None) -> str:
        """See `Journal.head`: `number:hash`, of the genesis as number 0 where there is no entry."""
        with self._reading() as rows:
            record = rows.tail() if scope is None else rows.last(scope)
            return f"0:{genesis(self.ledger_id)}" if record is None else record.head()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Rows]:
        with self._lock, files.translated(self.path):
            yield Rows(self._live(), self.ledger_id, str(self.path))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Rows]:
        """Hold the write lock; what is done inside is on disk afterwards, or has not happened if it raises."""
        with self._lock, files.translated(self.path):
            connection = self._live()
            connection.execute("BEGIN IMMEDIATE")
            try:
                rows = Rows(connection, self.ledger_id, str(self.path))
                late = _clock_lag(rows.tail())
                yield rows
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise
            self._checkpoint(connection)
        if late >= 1:
            warnings.warn(
                f"the clock is {late:.0f} s behind the last entry of {self.path}: new entries carry that one's time",
                ClockWentBack,
                stacklevel=4,
            )

    def _connect(self) -> None:
        self._identity = files.identity(self.path)
        self._process = os.getpid()
        self._connection = files.connect(self.path, self._timeout)
        self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        if self._connection.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
            raise LedgerUnavailable(f"{self.path}: the file system does not let SQLite keep a write-ahead log")

    def _live(self) -> sqlite3.Connection:
        """Return this process's connection, if the file is still the one that was opened."""
        if self._connection is None:
            raise LedgerUnavailable(f"{self.path}: the journal is closed")
        if files.identity(self.path) != self._identity:
            raise ReplacedLedger(f"{self.path} was removed or replaced while it was in use: nothing was recorded")
        if self._process != os.getpid():  # after a fork: SQLite must not use, nor even close, the parent's connection
            self._abandoned.append(self._connection)
            self._connect()
        return self._connection

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Move the log into the file when it has grown long.

        It is done by a second connection while this one holds the write lock. SQLite before 3.51.3 can lose entries
        when a checkpoint overlaps with a commit that restarts the log (its "WAL-reset bug"); so nothing can overlap.
        """
        if files.size_of(f"{self.path}-wal") <= _LOG_LIMIT:
            return
        with contextlib.suppress(sqlite3.OperationalError):  # the entry is kept; the next one tries again
            connection.execute("BEGIN IMMEDIATE")
            try:
                with contextlib.closing(files.connect(self.path, self._timeout)) as second:
                    second.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                connection.execute("ROLLBACK")


def _reopen(kind: type[SqliteJournal], path: str, timeout: float) -> SqliteJournal:
    return kind(path, create=False, timeout=timeout)


def _open(rows: Rows, scope: str, caps: Mapping[str, int]) -> None:
    rows.append(scope, "open", "opened", "", {}, {account: (0, cap) for account, cap in caps.items()})


def _entry(rows: Rows, scope: str, sequence: int) -> Entry | None:
    record = rows.entry(scope, sequence)
    return None if record is None else record.entry()


def _clock_lag(tail: Record | None) -> float:
    """Return by how many seconds the clock is behind the last entry."""
    if tail is None:
        return 0.0
    return (datetime.fromisoformat(tail.time) - datetime.fromisoformat(now())).total_seconds()
