"""Where a ledger's state is kept: what may be spent, what was spent, and on what.

A journal holds one scope a data set, each with accounts that have a cap, and entries that spend from them. `post` is
the operation that spends, and it is atomic: either every amount fits under its cap and the entry is recorded, or
nothing changes. `settle` is the only one that gives anything back. Amounts are whole units of 10⁻²⁴.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting.journal_rules import (
    OWN_KINDS,
    Balances,
    Entry,
    OverCap,
    amounts,
    applied,
    check_reservation,
    check_same_budget,
    encodable,
    now,
    refunded,
    text,
)
from privfcd.accounting.row_fingerprints import rows_fingerprint, warn_of_same_rows

__all__ = ["Balances", "Entry", "Journal", "MemoryJournal", "OverCap"]


class Journal(Protocol):
    """The store behind a ledger. Safe for several threads; durable ones also for several processes."""

    def open(self, scope: str, caps: Mapping[str, int]) -> None:
        """Declare a scope's budget, once; later the same caps must be given.

        Parameters
        ----------
        scope : str
            The data set's name.
        caps : Mapping[str, int]
            Cap of each account; empty for a scope without a budget.

        Raises
        ------
        BudgetMismatch
            The scope is declared with other caps.
        """

    def declared(self, scope: str) -> Mapping[str, int] | None:
        """Return the caps that the scope was opened with; None if it was not."""

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
        """Record one entry and spend its amounts, all or nothing, and return once it is kept.

        A scope that is not open yet is opened without a budget.

        Parameters
        ----------
        scope : str
            The data set's name.
        kind, label, event : str
            What sort of entry it is, what the owner calls it, and the event as text.
        spend : Mapping[str, int]
            Units by account, none below 0. An account without a cap takes any amount.
        open_caps : Mapping[str, int], optional
            Accounts to open first, each with its cap; one that is open already keeps the cap that it has.
        request : str
            Id of the request that this pays for.
        reference : int
            Sequence of the reservation that this belongs to.

        Returns
        -------
        Entry
            As it is kept.

        Raises
        ------
        OverCap
            An amount does not fit; nothing has changed.
        """

    def settle(self, scope: str, reservation: int, label: str, refund: Mapping[str, int]) -> Entry:
        """Close a reservation at the clean end of its run, and give `refund` back as an entry of its own.

        Raises
        ------
        InvalidParameter
            `reservation` is not the sequence of a reservation that is still open, or more would go back than it took.
        """

    def answer(self, scope: str, request: str) -> bytes | None:
        """Return the answer that is stored for a request; None if there is none."""

    def store(self, scope: str, request: str, answer: bytes, label: str = "answer", reference: int = 0) -> bytes:
        """Store the answer to a request before it is sent, and return what is to be sent.

        The first answer stored is the answer: where there is one already, that one is returned.
        """

    def note_rows(self, scope: str, rows: NDArray[np.float64]) -> tuple[str, ...]:
        """Remember a keyed fingerprint of the rows, and warn (`SameRows`) if another scope has the same ones.

        Returns the other scopes' names. Row order does not count; column order does.
        """

    def balance(self, scope: str) -> Balances:
        """Return (spent, cap) of each of the scope's accounts; asking changes nothing."""

    def entries(self, scope: str) -> Sequence[Entry]:
        """Return the scope's entries in order, its opening left out; asking changes nothing."""

    def head(self, scope: str | None = None) -> str:
        """Return number and hash of the last entry, of one scope or of all; empty where entries are not chained.

        Whoever keeps it outside can tell later whether entries up to it were cut off.
        """


class MemoryJournal:
    """A journal that lives and dies with its process. It chains nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._declared: dict[str, dict[str, int]] = {}
        self._entries: dict[str, list[Entry]] = {}
        self._accounts: dict[str, dict[str, tuple[int, int | None]]] = {}
        self._answers: dict[tuple[str, str], bytes] = {}
        self._closed: set[tuple[str, int]] = set()
        self._rows: dict[str, set[str]] = {}
        self._key = secrets.token_bytes(32)

    def open(self, scope: str, caps: Mapping[str, int]) -> None:
        """See `Journal.open`."""
        caps = amounts("caps", caps)
        with self._lock:
            if scope in self._declared:
                check_same_budget(scope, self._declared[scope], caps)
                return
            self._open(scope, caps)

    def declared(self, scope: str) -> Mapping[str, int] | None:
        """See `Journal.declared`."""
        with self._lock:
            return self._declared.get(scope)

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
        """See `Journal.post`."""
        scope, kind = text("scope", scope), text("kind", kind)
        if kind in OWN_KINDS:
            raise checks.refuse("kind", kind, f"none of {', '.join(OWN_KINDS)}")
        label, event, request = encodable("label", label), encodable("event", event), encodable("request", request)
        spend, open_caps = amounts("spend", spend), amounts("open_caps", open_caps or {})
        with self._lock:
            changed = applied(self._accounts.get(scope, {}), spend, open_caps)
            if reference:
                check_reservation(scope, reference, self._find(scope, reference))
            if scope not in self._declared:
                self._open(scope, {})
            self._accounts[scope].update(changed)
            return self._append(scope, kind, label, event, spend, request, reference)

    def settle(self, scope: str, reservation: int, label: str, refund: Mapping[str, int]) -> Entry:
        """See `Journal.settle`."""
        refund = amounts("refund", refund)
        with self._lock:
            closed = (scope, reservation) in self._closed
            back = refunded(scope, reservation, self._find(scope, reservation), closed, refund)
            self._accounts[scope].update(applied(self._accounts[scope], back, {}))
            self._closed.add((scope, reservation))
            return self._append(scope, "close", label, "", back, "", reservation)

    def answer(self, scope: str, request: str) -> bytes | None:
        """See `Journal.answer`."""
        request = text("request", request)
        with self._lock:
            return self._answers.get((scope, request))

    def store(self, scope: str, request: str, answer: bytes, label: str = "answer", reference: int = 0) -> bytes:
        """See `Journal.store`."""
        request = text("request", request)
        with self._lock:
            if (scope, request) not in self._answers:
                if scope not in self._declared:
                    self._open(scope, {})
                self._append(scope, "answer", label, "", {}, request, reference)
                self._answers[scope, request] = bytes(answer)
            return self._answers[scope, request]

    def note_rows(self, scope: str, rows: NDArray[np.float64]) -> tuple[str, ...]:
        """See `Journal.note_rows`."""
        fingerprint = rows_fingerprint(self._key, rows)
        with self._lock:
            names = self._rows.setdefault(fingerprint, set())
            others = tuple(sorted(names - {scope}))
            names.add(scope)
        warn_of_same_rows(scope, others)
        return others

    def balance(self, scope: str) -> Balances:
        """See `Journal.balance`."""
        with self._lock:
            return dict(self._accounts.get(scope, {}))

    def entries(self, scope: str) -> Sequence[Entry]:
        """See `Journal.entries`."""
        with self._lock:
            return tuple(_copy(entry) for entry in self._entries.get(scope, ()))

    def head(self, scope: str | None = None) -> str:
        """See `Journal.head`: empty, nothing is chained in memory."""
        return ""

    def _open(self, scope: str, caps: Mapping[str, int]) -> None:
        self._declared[scope] = dict(caps)
        self._entries[scope] = []
        self._accounts[scope] = {account: (0, cap) for account, cap in caps.items()}

    def _find(self, scope: str, sequence: int) -> Entry | None:
        lines = self._entries.get(scope, [])
        return lines[sequence - 1] if 1 <= sequence <= len(lines) else None

    def _append(
        self, scope: str, kind: str, label: str, event: str, spend: Mapping[str, int], request: str, reference: int
    ) -> Entry:
        lines = self._entries[scope]
        entry = Entry(len(lines) + 1, scope, kind, label, event, dict(spend), now(), request, reference)
        lines.append(entry)
        return _copy(entry)


def _copy(entry: Entry) -> Entry:
    """Return an entry whose amounts its receiver may change without changing the journal's."""
    return replace(entry, spent=dict(entry.spent))
