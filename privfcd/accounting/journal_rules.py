"""The rules that every journal keeps: what an entry is, when a charge fits, what may go back, what can be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from privfcd import checks
from privfcd.accounting.journal_errors import BudgetMismatch
from privfcd.accounting.units import UNIT_DIGITS
from privfcd.errors import InvalidParameter

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
        UTC, ISO 8601.
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
        changed[account] = (spent + asked, cap)
    return changed


def refunded(
    scope: str, reservation: int, entry: Entry | None, closed: bool, refund: Mapping[str, int]
) -> dict[str, int]:
    """Return what closing a reservation spends: `refund`, negative. Refuse what it did not take."""
    check_reservation(scope, reservation, entry)
    assert entry is not None
    if closed:
        raise InvalidParameter(f"reservation {reservation} of {scope!r} is closed already")
    for account, amount in refund.items():
        if amount > entry.spent.get(account, 0):
            raise InvalidParameter(
                f"refund of {account} must be at most the {entry.spent.get(account, 0)} units that reservation "
                f"{reservation} of {scope!r} took, got {amount}"
            )
    return {account: -amount for account, amount in refund.items()}


def check_reservation(scope: str, reference: int, entry: Entry | None) -> None:
    """Raise InvalidParameter unless `entry`, the one that is referred to, is a reservation."""
    if entry is None or entry.kind != "reserve":
        raise InvalidParameter(f"entry {reference} of {scope!r} must be a reservation, got {entry and entry.kind!r}")


def check_same_budget(scope: str, declared: Mapping[str, int], caps: Mapping[str, int]) -> None:
    """Raise BudgetMismatch unless `caps` are those that the scope was declared with."""
    if dict(declared) != dict(caps):
        raise BudgetMismatch(
            f"the budget of {scope!r} must be the declared one ({_caps_text(declared)}), got {_caps_text(caps)}: a "
            "data set keeps its budget; what is spent under another name adds to it"
        )


def amounts(name: str, given: Mapping[str, int]) -> dict[str, int]:
    """Return amounts by account after checking that they are whole numbers of at least 0."""
    return {
        text("account", account): checks.count(f"{name}[{account!r}]", units, least=0)
        for account, units in given.items()
    }


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


def units_text(units: int) -> str:
    """Return an amount as the exact decimal that it is."""
    digits = str(abs(units)).zfill(UNIT_DIGITS + 1)
    decimals = digits[-UNIT_DIGITS:].rstrip("0")
    return ("-" if units < 0 else "") + digits[:-UNIT_DIGITS] + ("." + decimals if decimals else "")


def now() -> str:
    """Return the time in UTC to the millisecond, so that texts sort as times do."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _caps_text(caps: Mapping[str, int]) -> str:
    return ", ".join(f"{account} = {units_text(cap)}" for account, cap in sorted(caps.items())) or "no budget"
