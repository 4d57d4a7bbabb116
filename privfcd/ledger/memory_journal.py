"""A journal in this process's memory: a store of dicts."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import replace

from privfcd.ledger.journal import Balances, Entry, Journal, Store, now


class MemoryJournal(Journal):
    """A journal that lives and dies with its process. It chains nothing.

    A forked child cannot write to it (`CopiedBudget`), and it is not pickled or copied: the copy would be a second budget.
    """

    def __init__(self) -> None:
        self.ledger_id: object = object()  # while it is known, no other journal's: an id() is given again
        self._rows = _Lines()
        self._row_key = secrets.token_bytes(32)
        super().__init__()

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Store]:
        with self._lock:
            yield self._rows

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Store]:
        self.check_process()
        with self._lock:
            yield self._rows


class _Lines:
    """A `Store` of dicts. Each operation of a journal ends with its one `write`, so that none is left half done."""

    def __init__(self) -> None:
        self._declared: dict[str, dict[str, int]] = {}
        self._entries: dict[str, list[Entry]] = {}  # the opening first, so that an entry stands at its sequence
        self._accounts: dict[str, dict[str, tuple[int, int | None]]] = {}
        self._answers: dict[tuple[str, str], bytes] = {}
        self._closed: set[tuple[str, int]] = set()
        self._known: dict[str, set[str]] = {}

    def declared(self, scope: str) -> Mapping[str, int] | None:
        return dict(self._declared[scope]) if scope in self._declared else None

    def agreed_balance(self, scope: str) -> Balances:
        return self._accounts.get(scope, {})

    def find(self, scope: str, sequence: int) -> Entry | None:
        lines = self._entries.get(scope, [])
        return lines[sequence] if 0 <= sequence < len(lines) else None

    def closed(self, scope: str, reservation: int) -> bool:
        return (scope, reservation) in self._closed

    def answer(self, scope: str, request: str) -> bytes | None:
        return self._answers.get((scope, request))

    def listed(self, scope: str) -> tuple[Entry, ...]:
        return tuple(_copy(entry) for entry in self._entries.get(scope, [])[1:])

    def head(self, scope: str | None) -> str:
        return ""

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
        lines = self._entries.setdefault(scope, [])
        entry = Entry(len(lines), scope, kind, label, event, dict(spent), now(), request, reference)
        self._accounts.setdefault(scope, {}).update(changed)
        if kind == "open":
            self._declared[scope] = {account: cap for account, (_, cap) in changed.items() if cap is not None}
        if kind == "close":
            self._closed.add((scope, reference))
        if answer is not None:
            self._answers[scope, request] = answer
        lines.append(entry)
        return _copy(entry)

    def scopes_of_rows(self, fingerprint: str) -> list[str]:
        return sorted(self._known.get(fingerprint, ()))

    def remember_rows(self, fingerprint: str, scope: str) -> None:
        self._known.setdefault(fingerprint, set()).add(scope)


def _copy(entry: Entry) -> Entry:
    """Return an entry whose amounts its receiver may change without changing the journal's."""
    return replace(entry, spent=dict(entry.spent))
