"""Ctrl-C and SIGTERM: what a run had charged is said, and results that are paid for are written whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privfcd.data import PrivateTable

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A run was interrupted. It is no KeyboardInterrupt, which click would take for its own.

    Attributes
    ----------
    message : str
        For people, one line a party.
    parties : list of dict
        For each party `party`, `charged` (amounts by account since the run began), `left` and `ledger` (its head, "" for
        a budget of this process only).
    """

    def __init__(self, message: str, parties: list[dict[str, Any]]) -> None:
        super().__init__(message)
        self.message, self.parties = message, parties


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block SIGTERM ends the program as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def accounted(tables: Sequence[PrivateTable]) -> Iterator[None]:
    """Say what was charged to the tables' ledgers if the block is interrupted.

    Amounts are what each ledger holds more than when the block began: of a ledger that several runs use at the same time,
    those of all of them.
    """
    before = [table.ledger.spent_units() for table in tables]
    try:
        yield
    except KeyboardInterrupt as error:
        with held():
            parties = [_account(table, spent) for table, spent in zip(tables, before, strict=True)]
            raise Interrupted(_words(parties), parties) from error


def _account(table: PrivateTable, before: dict[str, int]) -> dict[str, Any]:
    from privfcd.accounting.units import units_to_float

    now = table.ledger.spent_units()
    charged = {name: units_to_float(units - before.get(name, 0)) for name, units in now.items()}
    left = table.ledger.left()
    return {
        "party": table.name,
        "charged": {name: amount for name, amount in sorted(charged.items(), reverse=True) if amount},
        "left": "everything is open" if table.open else ("nothing" if left is None else str(left)),
        "ledger": table.ledger.head(),
    }


def _words(parties: list[dict[str, Any]]) -> str:
    if not any(party["charged"] for party in parties):
        return "interrupted; nothing was charged"
    lines = ["interrupted; what was charged stays spent:"]
    for party in parties:
        charged = ", ".join(f"{name} {amount:.6g}" for name, amount in party["charged"].items()) or "nothing"
        lines.append(f"  {party['party']}: charged {charged}; left: {party['left']}")
    if not any(party["ledger"] for party in parties):
        lines.append("  (without --ledger nothing remembers this: whoever runs it again spends again)")
    return "\n".join(lines)


@contextmanager
def held() -> Iterator[list[int]]:
    """Put off an interruption until the block ends; a second one is not put off. Yields what has come so far.

    The block is for results that are paid for and for what says what was spent. Whoever put it off asks the list, and
    decides; nothing is raised at the end of the block.
    """
    seen: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield seen
        return

    def note(number: int, frame: FrameType | None) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            if handler is not None:
                signal.signal(number, handler)
