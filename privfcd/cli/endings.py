"""How the command line ends when something went wrong: what is said, and the exit code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from privfcd.cli.interrupts import Interrupted
from privfcd.errors import BudgetExceeded, PrivfcdError

BAD_INPUT, REFUSED, INTERRUPTED = 2, 3, 130

ANYHOW = "interrupted; what was charged before, if anything, stays spent"


@dataclass(frozen=True)
class Ending:
    """What is said of an error.

    Attributes
    ----------
    error : BaseException
    kind, message : str
        Its name, and its words for people.
    code : int
        The exit code.
    parties : list of dict or None
        Of an interruption: what each party was charged.
    fault : str or None
        The traceback of an error that nobody foresaw.
    """

    error: BaseException
    kind: str
    message: str
    code: int
    parties: list[dict[str, Any]] | None = None
    fault: str | None = None

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        more = {} if self.parties is None else {"parties": self.parties}
        return {"error": self.kind, "message": self.message.removeprefix("Error: "), **more}


def ending_of(error: BaseException) -> Ending:
    """Return what is to be said of an error that ended a command.

    Errors that nobody foresaw end with 2 too: Python's own code for them, 1, says here that an audit refuted a claim.
    """
    if isinstance(error, click.Abort | KeyboardInterrupt | Interrupted):
        # a second interruption must not hide what the first one said
        told = next((each for each in _causes(error) if isinstance(each, Interrupted)), None)
        if told is not None:
            return Ending(error, "Interrupted", told.message, INTERRUPTED, told.parties)
        return Ending(error, "Interrupted", ANYHOW, INTERRUPTED)
    words = error.format_message() if isinstance(error, click.ClickException) else str(error)
    message = "\n".join([f"Error: {words}", *getattr(error, "__notes__", ())])
    kind = type(error).__name__
    if isinstance(error, BudgetExceeded):
        return Ending(error, kind, message, REFUSED)
    if isinstance(error, PrivfcdError | click.ClickException):
        return Ending(error, kind, message, BAD_INPUT)
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        message = f"Error: {'the output' if error.filename is None else repr(error.filename)} failed: {why}"
        return Ending(error, kind, "\n".join([message, *getattr(error, "__notes__", ())]), BAD_INPUT)
    import traceback

    fault = "".join(traceback.format_exception(error))
    message = message.replace("Error: ", f"Error: {kind}, a fault of privfcd that should be reported: ", 1)
    return Ending(error, kind, message, BAD_INPUT, fault=fault)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, what it was raised from or during, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
