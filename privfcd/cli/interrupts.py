"""Ctrl-C, SIGTERM and SIGHUP: what a run had charged is said, and results that are paid for are written whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from privfcd.errors import PrivfcdError

if TYPE_CHECKING:
    from privfcd.data import PrivateTable

CHARGING = "privfcd.cli.charging"
"""Where a context keeps that its command may have charged something by now."""

NOTHING_YET = "interrupted; nothing was charged yet"

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Stopped(KeyboardInterrupt):
    """A signal came. Of Python's own KeyboardInterrupt some code of the interpreter makes an end by that signal."""


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


_stops: list[int] = []
"""The signals that ended something since the command line began to listen."""


def _stop(number: int, frame: FrameType | None) -> None:
    _stops.append(number)
    raise Stopped


def was_interrupted(error: BaseException) -> bool:
    """Return whether an error comes from an interruption: compiled modules that are being loaded make ImportError of it."""
    return isinstance(error, KeyboardInterrupt) or (isinstance(error, ImportError) and bool(_stops))


@contextmanager
def _handled_by(handler: Any, *, given_back: bool = True) -> Iterator[None]:
    """Within the block a handler gets the signals, but those that whoever started the program has it ignore (nohup)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            if old is not None and given_back:
                signal.signal(number, old)


@contextmanager
def stoppable(*, given_back: bool = True) -> Iterator[None]:
    """Within the block SIGTERM, and SIGHUP when a terminal is closed, end the program as Ctrl-C does."""
    _stops.clear()
    with _handled_by(_stop, given_back=given_back):
        yield


@contextmanager
def deaf(*, given_back: bool = True) -> Iterator[None]:
    """Within the block no interruption matters any more: what happened is being said."""
    with _handled_by(signal.SIG_IGN, given_back=given_back):
        yield


def may_charge() -> None:
    """Note that the command that runs may charge something from now on."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[CHARGING] = True


@contextmanager
def accounted(tables: Sequence[PrivateTable]) -> Iterator[None]:
    """Say what was charged to the tables' ledgers if the block is interrupted, or fails.

    Amounts are what these tables' own ledgers charged: not what another run charged to the same file at the same time.
    """
    before = [table.ledger.own_units() for table in tables]
    may_charge()

    def parties() -> list[dict[str, Any]]:
        return [_account(table, spent) for table, spent in zip(tables, before, strict=True)]

    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not was_interrupted(error):
            with held(), suppress(PrivfcdError):
                found = parties()
                if any(party["charged"] for party in found):
                    error.add_note(_words("what was charged stays spent:", found))
            raise
        with held():
            try:
                found = parties()
            except PrivfcdError as unknown:
                raise Interrupted(
                    f"interrupted; what was charged stays spent, and cannot be read: {unknown}", []
                ) from error
            if not any(party["charged"] for party in found):
                raise Interrupted("interrupted; nothing was charged", found) from error
            raise Interrupted(_words("interrupted; what was charged stays spent:", found), found) from error


def _account(table: PrivateTable, before: dict[str, int]) -> dict[str, Any]:
    from privfcd.accounting.units import units_to_float

    now = table.ledger.own_units()
    charged = {name: units_to_float(units - before.get(name, 0)) for name, units in now.items()}
    left = table.ledger.left()
    return {
        "party": table.name,
        "charged": {name: amount for name, amount in sorted(charged.items(), reverse=True) if amount},
        "left": "everything is open" if table.open else ("nothing" if left is None else str(left)),
        "ledger": table.ledger.head(),
    }


def _words(first: str, parties: list[dict[str, Any]]) -> str:
    lines = [first]
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

    def note(number: int, frame: FrameType | None) -> None:
        if seen:
            raise Stopped
        seen.append(number)

    with _handled_by(note):
        yield seen
