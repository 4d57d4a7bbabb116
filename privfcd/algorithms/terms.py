"""What a party and a coordinator have agreed on: open until the work begins, final from then on.

A plan is paid for as it was agreed. If it could be exchanged afterwards, what a party does would no longer be what its
ledger says: a reservation refuses less noise than it planned, but nothing else would be as was agreed. So a party keeps its
opening messages (offers, plans). Once it is charged, or has answered from its rows or moments, the same message gets the
same answer again, and another one is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from privfcd.errors import PartyFailed

Asked = TypeVar("Asked")
Reply = TypeVar("Reply")


class Terms:
    """The opening messages of one run at one party, and what they were answered with.

    Attributes
    ----------
    final : bool
        Whether they can no longer change.
    """

    def __init__(self) -> None:
        self._held: dict[type, tuple[Any, Any]] = {}
        self.final = False

    def consider(self, name: str, message: Asked, answer: Callable[[Asked], Reply]) -> Reply:
        """Return `answer(message)`, and hold to it; once the terms are final, the answer that was given before.

        Parameters
        ----------
        name : str
            The party's.
        message : message
            An opening one: a frozen dataclass that compares by its values.
        answer : callable
            Checks the message and answers it.

        Raises
        ------
        PartyFailed
            The terms are final, and this message is none of them.
        """
        kind = type(message)
        if self.final:
            held, given = self._held.get(kind, (None, None))
            if held != message:
                raise PartyFailed(
                    f"{name} was sent another {kind.__name__} after its run had begun: what was agreed and charged is final"
                )
            reply: Reply = given
            return reply
        given = answer(message)
        self._held[kind] = message, given
        return given

    def settle(self, name: str) -> None:
        """Make the terms final: just before the charge.

        Raises
        ------
        PartyFailed
            They are final already: a run is charged once.
        """
        if self.final:
            raise PartyFailed(f"{name} was asked to be charged a second time: a run is charged once")
        self.final = True
