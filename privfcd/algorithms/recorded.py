"""A federation that keeps what passes: what a coordinator, or whoever listens at its door, has in hand."""

from __future__ import annotations

from collections.abc import Sequence

from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.protocol import Check, Federation, Message, Party


class RecordedFederation:
    """Passes messages on to another federation and keeps them.

    Parameters
    ----------
    inner : Federation
        Where the parties are.

    Attributes
    ----------
    transcript : list of (message, answers)
        In the order in which they passed; one answer for each party.
    """

    def __init__(self, inner: Federation) -> None:
        self._inner = inner
        self.transcript: list[tuple[Message, list[Message]]] = []

    @classmethod
    def local(cls, parties: Sequence[Party]) -> RecordedFederation:
        """Return a recorded `LocalFederation` of these parties."""
        return cls(LocalFederation(parties))

    @property
    def names(self) -> Sequence[str]:
        """See `Federation.names`."""
        return self._inner.names

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`."""
        return self._inner.bytes_exchanged

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """See `Federation.ask`."""
        answers = self._inner.ask(message, check)
        self.transcript.append((message, list(answers)))
        return answers
