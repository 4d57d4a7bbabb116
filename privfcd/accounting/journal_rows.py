"""The rows of a stored ledger: reading them with a check of what is relied on, and writing the next one.

An entry carries the balances of all accounts of its scope as it leaves them. A scope's last entry, its hash recomputed,
is therefore what the table of accounts must agree with, however long the history is.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privfcd.accounting.hash_chain import COLUMNS, Record, entry_hash, genesis
from privfcd.accounting.journal_errors import EditedLedger
from privfcd.accounting.journal_rules import Balances, now
from privfcd.accounting.journal_schema import fixed_width

_SELECT = f"SELECT {', '.join(COLUMNS)} FROM entries"
_INSERT = f"INSERT INTO entries ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


@dataclass(frozen=True)
class Rows:
    """A ledger's rows through one connection.

    Attributes
    ----------
    connection : sqlite3.Connection
        Within a transaction, where several reads must agree or something is written.
    ledger : str
        The ledger's id.
    path : str
        The file, for messages.
    """

    connection: sqlite3.Connection
    ledger: str
    path: str

    def tail(self) -> Record | None:
        """Return the ledger's last entry."""
        return self._one(f"{_SELECT} ORDER BY number DESC LIMIT 1")

    def last(self, scope: str) -> Record | None:
        """Return a scope's last entry."""
        return self._one(f"{_SELECT} WHERE scope = ? ORDER BY sequence DESC LIMIT 1", scope)

    def entry(self, scope: str, sequence: int) -> Record | None:
        """Return one entry of a scope."""
        return self._one(f"{_SELECT} WHERE scope = ? AND sequence = ?", scope, sequence)

    def after(self, number: int, count: int) -> list[Record]:
        """Return up to `count` entries after the one with this number, oldest first, their hashes unchecked."""
        query = f"{_SELECT} WHERE number > ? ORDER BY number LIMIT ?"
        return [self._decoded(row) for row in self.connection.execute(query, (number, count)).fetchall()]

    def of_scope(self, scope: str) -> list[Record]:
        """Return a scope's entries, oldest first, its opening left out, their hashes unchecked."""
        query = f"{_SELECT} WHERE scope = ? AND sequence > 0 ORDER BY sequence"
        return [self._decoded(row) for row in self.connection.execute(query, (scope,)).fetchall()]

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
        record = self.entry(scope, 0)
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

    def append(
        self,
        scope: str,
        kind: str,
        label: str,
        event: str,
        spent: Mapping[str, int],
        changed: Balances,
        request: str = "",
        reference: int = 0,
        digest: str = "",
    ) -> Record:
        """Write the next entry and the balances that it changes.

        Its time is never before that of the entry before it.
        """
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
            time=now() if tail is None else max(now(), tail.time),
            request=request,
            reference=reference,
            digest=digest,
        ).chained(genesis(self.ledger) if tail is None else tail.hash)
        self.connection.execute(_INSERT, record.row())
        for account, (total, cap) in changed.items():
            self.connection.execute(
                "INSERT INTO accounts VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET spent = excluded.spent",
                (
                    scope,
                    account,
                    fixed_width(f"total of {account!r}", total),
                    None if cap is None else fixed_width(f"cap of {account!r}", cap),
                ),
            )
        return record

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
