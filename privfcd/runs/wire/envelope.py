"""What passes between machines around a message: which study, which run, which question, and the answer or a refusal.

A question's id is a digest of all that it is. A party that is asked the same question again knows it by its id and
gives the same bytes; a coordinator that asks something else under an old number is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable, PartyFailed
from privfcd.runs.wire.codec import Codec

Kind = Literal[
    "malformed",
    "study",
    "run",
    "behind",
    "changed",
    "settings",
    "final",
    "gone",
    "again",
    "budget",
    "parameter",
    "protocol",
    "failed",
]
WORDS: dict[str, str] = {
    "malformed": "it could not read the message",
    "study": "it serves another study: both sides must have the same study file",
    "run": "it has taken part in this study already, in another run, and its owner allowed one",
    "behind": "it was started afresh and has to be asked again from the beginning",
    "changed": "it was asked something else under this number before, or out of order",
    "settings": "it was offered other settings than the study file's",
    "final": "it was charged for another plan, or its run is over: what was agreed is final",
    "gone": "it stopped after it was charged; what was charged stays spent, and this run cannot go on with it",
    "again": "its ledger could not be used for as long as it was asked, for another program held it or its disk was full; "
    "nothing is charged twice, and what it has answered it keeps",
    "budget": "its budget does not allow it",
    "parameter": "its table or its ledger does not fit the study; its own log says more",
    "protocol": "it was asked for something that it does not answer at this point",
    "failed": "it failed; its own log says more",
}
"""What a refusal means. A party sends the kind only: an error's text may quote what is nobody else's business."""


@dataclass(frozen=True)
class Request:
    """A question to one party.

    Attributes
    ----------
    study : str
        Digest of the study file.
    run : str
        The run's number, drawn at random when it began.
    sequence : int
        1, 2, ... within the run.
    payload : bytes
        The message, see `wire`.
    """

    study: str
    run: str
    sequence: int
    payload: bytes

    @property
    def id(self) -> str:
        """What stands for this question and no other."""
        parts = (self.study.encode(), self.run.encode(), str(self.sequence).encode(), self.payload)
        digest = hashlib.sha256()
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        return digest.hexdigest()


@dataclass(frozen=True)
class Answer:
    """A party's answer to the question of this id."""

    request: str
    payload: bytes


@dataclass(frozen=True)
class Refusal:
    """A party's refusal.

    Attributes
    ----------
    expected : int
        The number of the question that it waits for, where it is behind.
    keys : tuple of str
        To a greeting: the keys in which its study file and the coordinator's differ.
    """

    request: str
    kind: Kind
    expected: int = 0
    keys: tuple[str, ...] = ()


HELLO = b"PFCD hello "
"""Before a study's digest: which party of it are you? Answered by the same and the party's name, or by what differs."""

MOST_KEYS = 200


def greeting(study: str, keys: Mapping[str, str]) -> bytes:
    """Return the greeting of a coordinator: the study's digest, and one of each key of its file."""
    return HELLO + study.encode() + b" " + ",".join(f"{name}:{digest}" for name, digest in keys.items()).encode()


def differing(own: Mapping[str, str], listed: bytes) -> tuple[str, ...] | None:
    """Return the keys of this party's own file that differ in the greeting of another; None where that is no greeting.

    Keys that only the other has are counted and not repeated: they are whatever a stranger wrote.
    """
    if len(listed) > 2**16:
        return None
    others = dict(part.rpartition(":")[::2] for part in listed.decode(errors="replace").split(",")) if listed else {}
    keys = [name for name, digest in own.items() if others.get(name) != digest][:MOST_KEYS]
    more = len(set(others) - set(own))
    return (*keys, *([f"{more} that only the other has"] if more else []))


ENVELOPES = Codec({"request": Request, "answer": Answer, "refusal": Refusal}, most_header=2**14)


def kind_of(error: Exception) -> Kind:
    """Return what is told of an error."""
    if isinstance(error, BudgetExceeded):
        return "budget"
    if isinstance(error, InvalidParameter | InvalidTable):
        return "parameter"
    return "protocol" if isinstance(error, PartyFailed) else "failed"
