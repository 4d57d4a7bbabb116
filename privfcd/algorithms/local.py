"""A federation within one process: parties are called in turn, or several at a time in threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from privfcd import checks
from privfcd.algorithms.protocol import Check, Message, Party
from privfcd.errors import InvalidParameter


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class LocalFederation:
    """Calls the parties, and counts the bytes of what passes.

    A party has a table, a ledger and noise streams of its own, so that answers do not depend on who is called when: they
    are the same for any number of workers. Threads help where a party's work is in loops that release the interpreter
    (NumPy's on whole tables, and compiled ones). Messages that say `in_turn` go to one party after the other.

    Parameters
    ----------
    parties : sequence of Party
        At least one.
    workers : int
        How many parties are called at a time.
    """

    def __init__(self, parties: Sequence[Party], workers: int = 1) -> None:
        if not parties:
            raise InvalidParameter("parties must hold at least one party, got none")
        self._parties = tuple(parties)
        self._workers = min(checks.count("workers", workers), len(self._parties))
        self._bytes = 0

    @property
    def names(self) -> tuple[str, ...]:
        """See `Federation.names`."""
        return tuple(party.name for party in self._parties)

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`."""
        return self._bytes

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """See `Federation.ask`. After failures the first failing party's error is raised, and nothing is counted."""
        if self._workers == 1 or getattr(message, "in_turn", False):
            answers = [party.answer(message) for party in self._parties]
        else:
            with ThreadPoolExecutor(self._workers) as pool:
                waiting = [pool.submit(party.answer, message) for party in self._parties]
                answers = [future.result() for future in waiting]
        if check is not None:
            for name, answer in zip(self.names, answers, strict=True):
                check(answer, name)
        self._bytes += message.payload_bytes() * len(answers)
        self._bytes += sum(answer.payload_bytes() for answer in answers)
        return answers
