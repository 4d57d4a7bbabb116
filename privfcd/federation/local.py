"""A federation within one process: parties are called in turn."""

from __future__ import annotations

from collections.abc import Sequence

from privfcd.errors import InvalidParameter
from privfcd.federation.protocol import Message, Party


class LocalFederation:
    """Calls each party in turn, and counts the bytes of what passes.

    Parameters
    ----------
    parties : sequence of Party
        At least one.
    """

    def __init__(self, parties: Sequence[Party]) -> None:
        if not parties:
            raise InvalidParameter("parties must hold at least one party, got none")
        self._parties = tuple(parties)
        self._bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """See `Federation.names`."""
        return tuple(party.name for party in self._parties)

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`."""
        return self._bytes

    def ask(self, message: Message) -> list[Message]:
        """See `Federation.ask`."""
        answers = [party.answer(message) for party in self._parties]
        self._bytes += message.payload_bytes() * len(answers)
        self._bytes += sum(answer.payload_bytes() for answer in answers)
        return answers
