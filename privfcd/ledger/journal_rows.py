"""The rows of a stored ledger: reading them with a check of what is relied on, and writing the next one.

An entry carries the balances of all accounts of its scope as it leaves them. A scope's last entry, its hash recomputed,
is therefore what the table of accounts must agree with, however long the history is.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from privfcd.ledger.hash_chain import COLUMNS, Record, entry_hash, genesis
from privfcd.ledger.journal import Balances, Entry, now
from privfcd.ledger.journal_errors import EditedLedger, ShortenedLedger
from privfcd.ledger.journal_head import Head
from privfcd.ledger.journal_schema import fixed_width

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM entries"
_INSERT = f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class Rows:
    """A ledger's rows through one connection: the `Store` of a `SqliteJournal`.

    Parameters
    ----------
    connection : sqlite3.Connection
        Within one transaction: the last entries are read once.
    ledger : str
        The ledger's id.
    path : str
        The file, for messages.

    Attributes
    ----------
    written : Record or None
        The last entry that was written.
    """

    def __init__(self, connection: sqlite3.Connection, ledger: str, path: str) -> None:
        self.connection, self.ledger, self.path = connection, ledger, path
        self.written: Record | None = None
        self._last: dict[
            str | None, Record | None
        ] = {}  # of each scope and of all, as read; nobody else writes meanwhile

    def tail(self) -> Record | None:
        """Return the ledger's last entry."""
        if None not in self._last:
            self._last[None] = self._one(f"{_SELECT} ORDER BY number DESC LIMIT 1")
        return self._last[None]

    def newest(self) -> Head:
        """Return the head that stands for all entries."""
        tail = self.tail()
        return Head(self.ledger, 0, genesis(self.ledger)) if tail is None else Head(self.ledger, tail.number, tail.hash)

    def head(self, scope: str | None) -> str:
        """See `Journal.head`: `number:hash`, of the genesis as number 0 where there is no entry."""
        last = None if scope is None else self.last(scope)
        if scope is None:
            return str(self.newest())
        return f"0:{genesis(self.ledger)}" if last is None else last.head()

    def check_holds(self, head: Head, where: str) -> None:
        """Raise ShortenedLedger unless `head`, which was found `where`, is of an entry of this chain."""
        if head.ledger != self.ledger:
            raise ShortenedLedger(
                f"{where} is of another ledger than {self.path}: one of the two files was put in place"
            )
        query = "SELECT hash FROM entries WHERE number = ?"
        row = self.connection.execute(query, (head.number,)).fetchone() if head.number else (genesis(self.ledger),)
        if row is None or row[0] != head.hash:
            newest = self.connection.execute("SELECT max(number) FROM entries").fetchone()[0] or 0
            what = f"it ends with entry {newest}" if row is None else "it has another one"
            raise ShortenedLedger(
                f"{self.path} does not hold entry {head.number} any more, which {where} names: {what}. Entries were cut "
                "off, or an old copy was put back. Nothing was granted. Put the newest copy back, or make a ledger "
                "from an export: `privfcd ledger restore`"
            )

    def last(self, scope: str) -> Record | None:
        """Return a scope's last entry."""
        if scope not in self._last:
            self._last[scope] = self._one(f"{_SELECT} WHERE scope = ? ORDER BY sequence DESC LIMIT 1", scope)
        return self._last[scope]

    def find(self, scope: str, sequence: int) -> Record | None:
        """Return one entry of a scope."""
        return self._one(f"{_SELECT} WHERE scope = ? AND sequence = ?", scope, sequence)

    def after(self, number: int, count: int) -> list[Record]:
        """Return up to `count` entries after the one with this number, oldest first, their hashes unchecked."""
        query = f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?"
        return [self._decoded(row) for row in self.connection.execute(query, (number, count)).fetchall()]

    def charges(self, scope: str, count: int) -> tuple[list[tuple[Record, Record | None]], int]:
        """Return a scope's last `count` charges, oldest first, each with the closing of its reservation; and how many there
        are in all. Hashes are unchecked.
        """
        paid = "WHERE scope = ? AND kind IN ('charge', 'reserve', 'slice')"
        (number,) = self.connection.execute(f"SELECT COUNT(*) FROM entries {paid}", (scope,)).fetchone()
        found = self.connection.execute(f"{_SELECT} {paid} ORDER BY sequence DESC LIMIT ?", (scope, count)).fetchall()
        closing = f"{_SELECT} WHERE scope = ? AND reference = ? AND kind = 'close'"
        pairs: list[tuple[Record, Record | None]] = []
        for record in map(self._decoded, reversed(found)):
            row = self.connection.execute(closing, (scope, record.sequence)).fetchone()
            pairs.append((record, None if row is None else self._decoded(row)))
        return pairs, number

    def declared(self, scope: str) -> dict[str, int] | None:
        """Return the caps that a scope was opened with; None if it was not."""
        record = self.find(scope, 0)
        if record is None:
            return None
        return {account: cap for account, (_, cap) in record.balances.items() if cap is not None}

    def closed(self, scope: str, reservation: int) -> bool:
        """Return whether a reservation is closed."""
        query = "SELECT 1 FROM entries WHERE scope = ? AND reference = ? AND kind = 'close'"
        return self.connection.execute(query, (scope, reservation)).fetchone() is not None

    def balance(self, scope: str) -> dict[str, tuple[int, int | None]]:
        """Return (spent, cap) of a scope's accounts as their table has them."""
        query = "SELECT account, spent, cap FROM accounts WHERE scope = ?"
        try:
            return {
                account: (int(spent), None if cap is None else int(cap))
                for account, spent, cap in self.connection.execute(query, (scope,)).fetchall()
            }
        except ValueError as error:
            raise EditedLedger(f"{self.path}: a balance of {scope!r} is not a number ({error})") from None

    def agreed_balance(self, scope: str) -> dict[str, tuple[int, int | None]]:
        """Return the same after comparing it with the scope's last entry; raise EditedLedger where they differ."""
        last, stored = self.last(scope), self.balance(scope)
        recorded = {} if last is None else dict(last.balances)
        if stored != recorded:
            names = stored.keys() | recorded.keys()
            wrong = sorted(name for name in names if stored.get(name) != recorded.get(name))
            raise EditedLedger(
                f"{self.path}: the balance of {', '.join(map(repr, wrong))} of {scope!r} is not what its last entry "
                "left; nothing was charged. `verify` says more"
            )
        return stored

    def answer(self, scope: str, request: str) -> bytes | None:
        """Return the stored answer to a request, after comparing it with the digest in its entry."""
        query = (
            "SELECT answers.answer, entries.digest FROM answers LEFT JOIN entries ON entries.number = answers.entry "
            "WHERE answers.scope = ? AND answers.request = ?"
        )
        row = self.connection.execute(query, (scope, request)).fetchone()
        if row is None:
            return None
        if hashlib.sha256(row[0]).hexdigest() != row[1]:
            raise EditedLedger(f"{self.path}: the stored answer to request {request!r} of {scope!r} was changed")
        return bytes(row[0])

    def listed(self, scope: str) -> tuple[Entry, ...]:
        """Return a scope's entries, oldest first, its opening left out, their hashes unchecked."""
        query = f"{_SELECT} WHERE scope = ? AND sequence > 0 ORDER BY sequence"
        return tuple(self._decoded(row).entry() for row in self.connection.execute(query, (scope,)).fetchall())

    def scopes_of_rows(self, fingerprint: str) -> list[str]:
        """Return the names under which rows are known, sorted."""
        query = "SELECT scope FROM known_rows WHERE fingerprint = ? ORDER BY scope"
        return [name for (name,) in self.connection.execute(query, (fingerprint,)).fetchall()]

    def remember_rows(self, fingerprint: str, scope: str) -> None:
        """Remember that a scope has these rows."""
        self.connection.execute("INSERT INTO known_rows VALUES (?, ?) ON CONFLICT DO NOTHING", (fingerprint, scope))

    def write(
        self,
        scope: str,
        kind: str,
        label: str,
        event: str,
        spent: Mapping[str, int],
        changed: Balances,
        request: str = "",
        reference: int = 0,
        answer: bytes | None = None,
    ) -> Entry:
        """Write the next entry, the balances that it changes, and the answer that it stores."""
        tail, last = self.tail(), self.last(scope)
        record = Record(
            number=1 if tail is None else tail.number + 1,
            scope=scope,
            sequence=0 if last is None else last.sequence + 1,
            kind=kind,
            label=label,
            event=event,
            spent=dict(spent),
            balances={**self.agreed_balance(scope), **changed},
            time=now(),
            request=request,
            reference=reference,
            digest="" if answer is None else hashlib.sha256(answer).hexdigest(),
        ).chained(genesis(self.ledger) if tail is None else tail.hash)
        self.insert(record)
        if answer is not None:
            values = (scope, request, record.number, answer)
            self.connection.execute("INSERT INTO answers VALUES (?, ?, ?, ?)", values)
        return record.entry()

    def insert(self, record: Record) -> None:
        """Write an entry as it is, and the balances of its scope that it leaves."""
        self.connection.execute(_INSERT, record.row())
        for account, (total, cap) in record.balances.items():
            self.connection.execute(
                "INSERT INTO accounts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET spent = excluded.spent "
                "WHERE spent <> excluded.spent",
                (record.scope, account, fixed_width(total), None if cap is None else fixed_width(cap)),
            )
        self.written = self._last[None] = self._last[record.scope] = record

    def _one(self, query: str, *parameters: Any) -> Record | None:
        """Return the entry that a query finds, or raise EditedLedger unless its hash is that of its content."""
        row = self.connection.execute(query, parameters).fetchone()
        if row is None:
            return None
        record = self._decoded(row)
        query = "SELECT hash FROM entries WHERE number = ?"
        before = self.connection.execute(query, (record.number - 1,)).fetchone()
        first = record.number == 1
        expected = entry_hash(genesis(self.ledger) if first else before[0], record) if first or before else None
        if expected != record.hash:
            raise EditedLedger(
                f"{self.path}: entry {record.number} (number {record.sequence} of {record.scope!r}) or the one before "
                "it was changed or removed: its hash is not that of its content. `verify` says more"
            )
        return record

    def _decoded(self, row: Sequence[Any]) -> Record:
        try:
            return Record.from_row(row)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EditedLedger(f"{self.path}: entry {row[0]} cannot be read ({error}). `verify` says more") from None
