"""Where a ledger's state is kept: what may be spent, what was spent, and on what.

A journal holds one scope a data set, each with accounts that have a cap, and entries that spend from them. `post` is
the operation that spends, and it is atomic: either every amount fits under its cap and the entry is recorded, or
nothing changes. `settle` is the only one that gives anything back. Amounts are whole units of 10⁻²⁴.

`Journal` holds all operations and all checks. A store says only how rows are read and written (`Store`), and what one
reading and one writing are: `MemoryJournal` for one process, `SqliteJournal` for files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting.once import OneProcess
from privfcd.accounting.units import units_text
from privfcd.errors import InvalidParameter
from privfcd.ledger.journal_errors import BudgetMismatch
from privfcd.ledger.row_fingerprints import rows_fingerprint, warn_of_same_rows

__all__ = ["Balances", "Entry", "Journal", "OverCap"]

WIDTH = 60
"""Amounts have fewer decimal digits than this: 10³⁶ of anything is never reached."""

OWN_KINDS = ("open", "close", "answer")
"""Kinds of entries that have an operation of their own; `post` refuses them."""

Balances = Mapping[str, tuple[int, int | None]]
"""(spent, cap) by account."""


@dataclass(frozen=True)
class Entry:
    """One line of a journal.

    Attributes
    ----------
    sequence : int
        1, 2, 3, ... within the scope; its opening is number 0.
    scope : str
        The data set's name.
    kind : str
        `"charge"`, `"reserve"`, `"slice"`, `"draws"`, `"answer"`, `"close"` or `"open"`.
    label : str
        What was released, in words.
    event : str
        The DpEvent as text.
    spent : Mapping[str, int]
        Units spent, by account; below 0 where a reservation's remainder went back.
    time : str
        UTC, ISO 8601, as the clock said; entries are in order by their numbers.
    request : str
        Id of the request that this was done for; empty if none.
    reference : int
        Sequence of the reservation that this belongs to; 0 if none.
    hash : str
        Hash of the entry and all before it, where the journal chains them; empty otherwise.
    """

    sequence: int
    scope: str
    kind: str
    label: str
    event: str
    spent: Mapping[str, int]
    time: str
    request: str = ""
    reference: int = 0
    hash: str = ""


class OverCap(Exception):
    """An amount does not fit under its account's cap; nothing was changed."""

    def __init__(self, account: str, asked: int, spent: int, cap: int) -> None:
        super().__init__(f"{account}: asked {asked}, spent {spent}, cap {cap} units")
        self.account, self.asked, self.spent, self.cap = account, asked, spent, cap


class Paid(Protocol):
    """What is needed of an entry that another one belongs to."""

    @property
    def kind(self) -> str:
        """What sort of entry it is."""

    @property
    def spent(self) -> Mapping[str, int]:
        """Units spent, by account."""


class Store(Protocol):
    """A journal's rows within one reading or writing."""

    def declared(self, scope: str) -> Mapping[str, int] | None:
        """Return the caps that a scope was opened with; None if it was not."""

    def agreed_balance(self, scope: str) -> Balances:
        """Return (spent, cap) of a scope's accounts, after whatever check the store makes."""

    def find(self, scope: str, sequence: int) -> Paid | None:
        """Return one entry of a scope."""

    def closed(self, scope: str, reservation: int) -> bool:
        """Return whether a reservation is closed."""

    def answer(self, scope: str, request: str) -> bytes | None:
        """Return the stored answer to a request."""

    def listed(self, scope: str) -> tuple[Entry, ...]:
        """Return a scope's entries, oldest first, its opening left out."""

    def head(self, scope: str | None) -> str:
        """Return what stands for the last entry, of one scope or of all."""

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
        """Write the next entry of a scope, the balances that it changes, and the answer that it stores."""

    def scopes_of_rows(self, fingerprint: str) -> list[str]:
        """Return the names under which rows are known, sorted."""

    def remember_rows(self, fingerprint: str, scope: str) -> None:
        """Remember that a scope has these rows."""


class Journal(OneProcess, ABC):
    """The state behind a ledger. Safe for several threads; a stored one also for several processes."""

    _row_key: bytes

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
        scope, caps = text("scope", scope), amounts("caps", caps)
        declared = self.declared(scope)
        if declared is None:
            with self._writing() as store:
                declared = store.declared(scope)
                if declared is None:
                    _open(store, scope, caps)
                    return
        if dict(declared) != caps:
            raise BudgetMismatch(
                f"the budget of {scope!r} must be the declared one ({_caps_text(declared)}), got {_caps_text(caps)}: a "
                "data set keeps its budget; what is spent under another name adds to it"
            )

    def declared(self, scope: str) -> Mapping[str, int] | None:
        """Return the caps that the scope was opened with; None if it was not."""
        with self._reading() as store:
            return store.declared(scope)

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
        CopiedBudget
            The journal is in memory, and this process is not the one that made it.
        """
        scope, kind = text("scope", scope), text("kind", kind)
        if kind in OWN_KINDS:
            raise checks.refuse("kind", kind, f"none of {', '.join(OWN_KINDS)}")
        label, event, request = encodable("label", label), encodable("event", event), encodable("request", request)
        spend, open_caps = amounts("spend", spend), amounts("open_caps", open_caps or {})
        with self._writing() as store:
            check_reservation(store, scope, reference)
            changed = applied(store.agreed_balance(scope), spend, open_caps)
            if store.declared(scope) is None:
                _open(store, scope, {})
            return store.write(scope, kind, label, event, spend, changed, request, reference)

    def settle(self, scope: str, reservation: int, label: str, refund: Mapping[str, int]) -> Entry:
        """Close a reservation at the clean end of its run, and give `refund` back as an entry of its own.

        Raises
        ------
        InvalidParameter
            `reservation` is not the sequence of a reservation that is still open, or more would go back than it took.
        """
        scope, label, refund = text("scope", scope), encodable("label", label), amounts("refund", refund)
        with self._writing() as store:
            entry = store.find(scope, reservation)
            if entry is None or entry.kind != "reserve":
                raise _no_reservation(scope, reservation, entry)
            if store.closed(scope, reservation):
                raise InvalidParameter(f"reservation {reservation} of {scope!r} is closed already")
            for account, amount in refund.items():
                if amount > entry.spent.get(account, 0):
                    raise InvalidParameter(
                        f"refund of {account} must be at most the {entry.spent.get(account, 0)} units that reservation "
                        f"{reservation} of {scope!r} took, got {amount}"
                    )
            back = {account: -amount for account, amount in refund.items()}
            changed = applied(store.agreed_balance(scope), back, {})
            return store.write(scope, "close", label, "", back, changed, reference=reservation)

    def answer(self, scope: str, request: str) -> bytes | None:
        """Return the answer that is stored for a request; None if there is none."""
        request = text("request", request)
        with self._reading() as store:
            return store.answer(scope, request)

    def store(self, scope: str, request: str, answer: bytes, label: str = "answer", reference: int = 0) -> bytes:
        """Store the answer to a request before it is sent, and return what is to be sent.

        The first answer stored is the answer: where there is one already, that one is returned.
        """
        scope, request, label = text("scope", scope), text("request", request), encodable("label", label)
        answer = bytes(answer)
        with self._writing() as store:
            stored = store.answer(scope, request)
            if stored is not None:
                return stored
            check_reservation(store, scope, reference)
            if store.declared(scope) is None:
                _open(store, scope, {})
            store.write(scope, "answer", label, "", {}, {}, request, reference, answer)
        return answer

    def note_rows(self, scope: str, rows: NDArray[np.float64]) -> tuple[str, ...]:
        """Remember a keyed fingerprint of the rows, and warn (`SameRows`) if another scope has the same ones.

        Returns the other scopes' names. Row order does not count; column order does.
        """
        scope, fingerprint = text("scope", scope), rows_fingerprint(self._row_key, rows)
        with self._reading() as store:
            names = store.scopes_of_rows(fingerprint)
        if scope not in names:
            with self._writing() as store:
                store.remember_rows(fingerprint, scope)
        others = tuple(name for name in names if name != scope)
        warn_of_same_rows(scope, others)
        return others

    def balance(self, scope: str) -> Balances:
        """Return (spent, cap) of each of the scope's accounts; asking changes nothing."""
        with self._reading() as store:
            return dict(store.agreed_balance(scope))

    def entries(self, scope: str) -> Sequence[Entry]:
        """Return the scope's entries in order, its opening left out; asking changes nothing."""
        with self._reading() as store:
            return store.listed(scope)

    def head(self, scope: str | None = None) -> str:
        """Return number and hash of the last entry, of one scope or of all; empty where entries are not chained.

        Whoever keeps it outside can tell later whether entries up to it were cut off.
        """
        with self._reading() as store:
            return store.head(scope)

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Store]:
        """Return what holds the rows still while it is open."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Store]:
        """Return the same for one writer: what is done inside is kept afterwards, or has not happened if it raises."""


def applied(
    known: Balances, spend: Mapping[str, int], open_caps: Mapping[str, int]
) -> dict[str, tuple[int, int | None]]:
    """Return the balances that change when accounts are opened and amounts spent, or raise OverCap."""
    changed: dict[str, tuple[int, int | None]] = {
        account: (0, cap) for account, cap in open_caps.items() if account not in known
    }
    for account, asked in spend.items():
        spent, cap = changed.get(account) or known.get(account, (0, None))
        if cap is not None and spent + asked > cap:
            raise OverCap(account, asked, spent, cap)
        changed[account] = (storable(f"total of {account!r}", spent + asked), cap)
    return changed


def check_reservation(store: Store, scope: str, reference: int) -> None:
    """Raise InvalidParameter unless `reference` is 0 or the sequence of a reservation."""
    entry = store.find(scope, reference) if reference else None
    if reference and (entry is None or entry.kind != "reserve"):
        raise _no_reservation(scope, reference, entry)


def amounts(name: str, given: Mapping[str, int]) -> dict[str, int]:
    """Return amounts by account after checking that they are whole numbers of at least 0 that can be stored."""
    return {
        text("account", account): storable(f"{name}[{account!r}]", checks.count(f"{name}[{account!r}]", units, least=0))
        for account, units in given.items()
    }


def storable(name: str, units: int) -> int:
    """Return an amount, or raise InvalidParameter where it has more digits than a stored ledger keeps."""
    if units >= 10**WIDTH:
        raise InvalidParameter(f"{name} must be below 10^{WIDTH} units, got one of {units.bit_length()} bits")
    return units


def text(name: str, value: Any) -> str:
    """Return a text that is not empty and can be stored."""
    if not isinstance(value, str) or not value:
        raise checks.refuse(name, value, "a non-empty text")
    return encodable(name, value)


def encodable(name: str, value: Any) -> str:
    """Return a text that can be stored, empty or not: one that UTF-8 can express."""
    if not isinstance(value, str):
        raise checks.refuse(name, value, "a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise checks.refuse(name, value, "a text that UTF-8 can express") from None
    return value


def now() -> str:
    """Return the time in UTC to the millisecond, so that texts sort as times do."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _open(store: Store, scope: str, caps: Mapping[str, int]) -> None:
    store.write(scope, "open", "opened", "", {}, {account: (0, cap) for account, cap in caps.items()})


def _no_reservation(scope: str, reference: int, entry: Paid | None) -> InvalidParameter:
    return InvalidParameter(f"entry {reference} of {scope!r} must be a reservation, got {entry and entry.kind!r}")


def _caps_text(caps: Mapping[str, int]) -> str:
    return ", ".join(f"{account} = {units_text(cap)}" for account, cap in sorted(caps.items())) or "no budget"
