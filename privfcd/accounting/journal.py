"""Where a ledger's state is kept: what may be spent, what was spent, and on what.

A journal holds accounts, each with a cap, and entries that spend from them. `post` is the one operation that changes
anything, and it is atomic: either every amount fits under its cap and the entry is recorded, or nothing changes.
Amounts are whole units of 10⁻²⁴.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True)
class Entry:
    """One line of a journal.

    Attributes
    ----------
    sequence : int
        1, 2, 3, ... within the scope.
    scope : str
        The data set's name.
    kind : str
        `"charge"`, `"reserve"`, `"slice"` or `"draws"`.
    label : str
        What was released, in words.
    event : str
        The DpEvent as text.
    spent : Mapping[str, int]
        Units spent, by account.
    time : str
        UTC, ISO 8601.
    """

    sequence: int
    scope: str
    kind: str
    label: str
    event: str
    spent: Mapping[str, int]
    time: str


class OverCap(Exception):
    """An amount does not fit under its account's cap; nothing was changed."""

    def __init__(self, account: str, asked: int, spent: int, cap: int) -> None:
        super().__init__(f"{account}: asked {asked}, spent {spent}, cap {cap} units")
        self.account, self.asked, self.spent, self.cap = account, asked, spent, cap


class Journal(Protocol):
    """The store behind a ledger. Safe for several threads; durable ones also for several processes."""

    def post(
        self,
        scope: str,
        kind: str,
        label: str,
        event: str,
        spend: Mapping[str, int],
        open_caps: Mapping[str, int] | None = None,
    ) -> Entry:
        """Record one entry and spend its amounts, all or nothing, and return once it is kept.

        Parameters
        ----------
        spend : Mapping[str, int]
            Units by account. An account without a cap takes any amount.
        open_caps : Mapping[str, int], optional
            Accounts to open first, each with its cap; one that is open already keeps the cap that it has.

        Raises
        ------
        OverCap
            An amount does not fit; nothing has changed.
        """

    def balance(self, scope: str) -> Mapping[str, tuple[int, int | None]]:
        """Return (spent, cap) of each of the scope's accounts; asking changes nothing."""

    def entries(self, scope: str) -> Sequence[Entry]:
        """Return the scope's entries in order; asking changes nothing."""


class MemoryJournal:
    """A journal that lives and dies with its process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, list[Entry]] = {}
        self._accounts: dict[str, dict[str, tuple[int, int | None]]] = {}

    def post(
        self,
        scope: str,
        kind: str,
        label: str,
        event: str,
        spend: Mapping[str, int],
        open_caps: Mapping[str, int] | None = None,
    ) -> Entry:
        """See `Journal.post`."""
        with self._lock:
            known = self._accounts.get(scope, {})
            changed: dict[str, tuple[int, int | None]] = {
                name: (0, cap) for name, cap in (open_caps or {}).items() if name not in known
            }
            for account, asked in spend.items():
                spent, cap = changed.get(account) or known.get(account, (0, None))
                if cap is not None and spent + asked > cap:
                    raise OverCap(account, asked, spent, cap)
                changed[account] = (spent + asked, cap)
            lines = self._entries.setdefault(scope, [])
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            entry = Entry(len(lines) + 1, scope, kind, label, event, dict(spend), time)
            lines.append(entry)
            self._accounts.setdefault(scope, {}).update(changed)
            return entry

    def balance(self, scope: str) -> Mapping[str, tuple[int, int | None]]:
        """See `Journal.balance`."""
        with self._lock:
            return dict(self._accounts.get(scope, {}))

    def entries(self, scope: str) -> Sequence[Entry]:
        """See `Journal.entries`."""
        with self._lock:
            return tuple(self._entries.get(scope, ()))
