"""A journal that survives crashes and races: one SQLite file, each entry on disk before its charge returns.

Every change is one transaction that holds the write lock from its first read on (`BEGIN IMMEDIATE`), so that of two
processes that race for the last unit one gets it. A commit returns when the operating system says that it is on disk, in the
file itself (`journal_files`). Entries form a hash chain (`hash_chain`), and each change first recomputes what it builds on,
the last entry and the last one of each account, so that an edited balance is noticed before anything is granted from it;
`ledger_tools.verify` recomputes everything. The work of a charge does not depend on how many there were.

That the newest entries were cut off, or an old copy was put back, is noticed by the last entry that this object saw, and by
the one that the file beside it names (`journal_head`). Who puts back both files at once goes unnoticed but for a head that
was kept elsewhere, as reports do; nor does anything stop somebody who can write the files from making up new ones. The file
is as confidential as the rows: it holds stored answers and, with its key, fingerprints of rows.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from privfcd import checks
from privfcd.ledger import journal_files as files
from privfcd.ledger.hash_chain import Record
from privfcd.ledger.journal import Journal, now
from privfcd.ledger.journal_errors import (
    ClockWentBack,
    LedgerUnavailable,
    NetworkFileSystem,
    NotAdopted,
    ReplacedLedger,
)
from privfcd.ledger.journal_head import Head, head_path, read_head, write_head
from privfcd.ledger.journal_rows import Rows
from privfcd.ledger.journal_schema import check_schema, check_sqlite, new_settings, settings_of


class SqliteJournal(Journal):
    """A durable journal in one file. Safe for threads and for processes, which each open their own.

    A forked child opens the file anew: the connection is closed before a fork, on both sides. A pickle holds the path only.

    Parameters
    ----------
    path : str or path
        The file, on a local disk. `-head` beside it names its last entry and belongs to it; so does `-journal`, which SQLite
        keeps there while it is in use.
    create : bool
        Make a new ledger where there is no file; otherwise raise LedgerMissing.
    timeout : float
        Seconds to wait for another process before LedgerLocked is raised.

    Raises
    ------
    LedgerUnavailable
        It cannot be used now: missing, read-only, disk full, locked, of two names, or from another version.
    LedgerCorrupt
        It is not a ledger, cut short, an old copy, or was edited.
    InvalidParameter
        A parameter is not accepted.
    """

    _synchronous = "EXTRA"
    _new_lock = threading.RLock  # a thread may fork inside a transaction, which a fork ends

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True, timeout: float = 10.0) -> None:
        check_sqlite()
        self._timeout = checks.positive("timeout", timeout)
        self.path = Path(os.path.realpath(checks.path("path", path)))
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
            files.create(self.path, new_settings(now()))
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        self._seen: Head | None = None
        with files.translated(self.path):
            with files.reading(self.path, self._timeout) as connection:
                check_schema(connection, str(self.path))
                files.check_whole(self.path)
                settings = settings_of(connection, str(self.path))
                files.check_writable(self.path)
                self.ledger_id, self.created = settings["ledger"], settings["created"]
                self._row_key = bytes.fromhex(settings["row key"])
                self._identity = files.identity(self.path)
                rows = self._rows(connection)
                if read_head(self.path) is None and rows.tail() is None:  # it was made just now, or nothing was spent
                    files.put_head(self.path, rows)
                self._check_head(rows)
        super().__init__()

    def close(self) -> None:
        """Close the file. Everything is on disk already; the journal cannot be used afterwards."""
        with self._lock, files.translated(self.path):
            if self._connection is not None:
                files.close(self._connection)
            self._connection, self._closed = None, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _reopen, (type(self), str(self.path), self._timeout)

    def __copy__(self) -> SqliteJournal:
        return _reopen(type(self), str(self.path), self._timeout)

    def __repr__(self) -> str:
        return f"SqliteJournal({str(self.path)!r})"

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Rows]:
        with self._lock, files.translated(self.path):
            connection = self._live()
            connection.execute("BEGIN")
            try:
                rows = self._rows(connection)
                if self._seen is not None:
                    rows.check_holds(self._seen, "this process")
                yield rows
            finally:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Rows]:
        """Hold the write lock; what is done inside is on disk afterwards, or has not happened if it raises."""
        with self._lock, files.translated(self.path):
            connection = self._live()
            try:
                connection.execute("BEGIN IMMEDIATE")
                rows = self._rows(connection)
                if self._check_head(rows) is None:
                    raise NotAdopted(
                        f"{head_path(self.path)} is missing, which names the last entry of {self.path}: whether newer ones "
                        f"were cut off cannot be known. Nothing was granted. Put it back, or run `privfcd ledger adopt "
                        f"{self.path}`"
                    )
                self._check_clock(rows.tail())
                yield rows
                self._commit(connection)
            except BaseException as error:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error | OSError):
                    self._disconnect()  # a commit that failed half way is undone by who opens the file next
                raise
            if rows.written is not None:
                self._seen = Head(self.ledger_id, rows.written.number, rows.written.hash)
                with contextlib.suppress(OSError):  # it is paid for: the head stays behind, and the next entry mends it
                    write_head(self.path, self._seen)

    def _commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def _rows(self, connection: sqlite3.Connection) -> Rows:
        return Rows(connection, self.ledger_id, str(self.path))

    def _check_head(self, rows: Rows) -> Head | None:
        """Return the head in the file beside the ledger, after checking that the chain holds it, and what was seen."""
        beside = read_head(self.path)
        if beside is not None:
            rows.check_holds(beside, str(head_path(self.path)))
        if self._seen is not None:
            rows.check_holds(self._seen, "this process")
        self._seen = rows.newest()
        return beside

    def _check_clock(self, tail: Record | None) -> None:
        late = 0.0 if tail is None else (_time(tail.time) - _time(now())).total_seconds()
        if late >= 1:
            warnings.warn(
                f"the clock is {late:.0f} s behind the last entry of {self.path}: one of the two times is wrong. Entries "
                "are in order by their numbers",
                ClockWentBack,
                stacklevel=5,
            )

    def _live(self) -> sqlite3.Connection:
        """Return this process's connection, if the file is still the one that was opened, under its one name."""
        if self._closed:
            raise LedgerUnavailable(f"{self.path}: the journal is closed")
        if files.identity(self.path) != self._identity:
            raise ReplacedLedger(f"{self.path} was removed or replaced while it was in use: nothing was granted")
        files.check_names(self.path)
        if self._connection is None:
            files.check_state(self.path)
            self._connection = files.connect(self.path, self._timeout)
            self._connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _before_fork(self) -> None:
        """Close the file: SQLite's state must not cross a fork, and a child's exit would drop or undo what it holds."""
        self._lock.acquire()
        with contextlib.suppress(sqlite3.Error):
            self._disconnect()

    def _after_fork(self) -> None:
        self._lock.release()

    def _in_child(self) -> None:
        super()._in_child()
        if self._connection is not None:  # forked past Python: neither used nor closed here
            _abandoned.append(self._connection)
            self._connection = None


_abandoned: list[sqlite3.Connection] = []


def _reopen(kind: type[SqliteJournal], path: str, timeout: float) -> SqliteJournal:
    return kind(path, create=False, timeout=timeout)


def _time(stored: str) -> datetime:
    return datetime.fromisoformat(stored)
