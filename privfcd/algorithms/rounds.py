"""What coordinators share: a round's record, and answers of the expected kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms.protocol import Check, Federation, Message
from privfcd.errors import InvalidParameter, PartyFailed

Array = NDArray[np.float64]
Reply = TypeVar("Reply")


@dataclass(frozen=True, eq=False)
class RoundRecord:
    """What one round came to.

    Attributes
    ----------
    number, rounds : int
        1, 2, ... of how many.
    h : float
        Acyclicity of W.
    edges : int
        Entries of W above the threshold.
    support : int
        Entries of W that are not zero.
    bytes_exchanged : int
        Bytes so far, by the rule of B.2.1.
    seconds : float
        Since the run began.
    weights : ndarray of shape (d, d)
        W.
    threshold : float
        Of the settings.
    columns : tuple of str
        The variables' names.
    """

    number: int
    rounds: int
    h: float
    edges: int
    support: int
    bytes_exchanged: int
    seconds: float
    weights: Array
    threshold: float
    columns: tuple[str, ...]


def history_rows(records: Iterable[RoundRecord]) -> list[dict[str, Any]]:
    """Return an estimator's `history_`: a row a round."""
    return [
        {
            "round": record.number,
            "h": record.h,
            "edges": record.edges,
            "support": record.support,
            "bytes": record.bytes_exchanged,
            "seconds": record.seconds,
        }
        for record in records
    ]


def ended_early(number: int, rounds: int, error: Exception) -> str:
    """Return the note of a run that ended in a round without finite weights, with what the rounds before it had found."""
    return f"The run ended in round {number} of {rounds}, with the weights of the rounds before it: {error}."


def check_on_round(on_round: Any) -> None:
    """Refuse, before anything is charged, what could not be called after the first round."""
    if on_round is not None and not callable(on_round):
        raise checks.refuse("on_round", on_round, "a function of a RoundRecord, or None")


def expect(federation: Federation, message: Message, kind: type[Reply], *shape: Any) -> list[Reply]:
    """Ask all parties, and return their answers; PartyFailed names a party that answers with something else.

    The answers are in the order of `federation.names` as it is afterwards: a party may be lost by the question.

    Parameters
    ----------
    federation : Federation
    message : Message
    kind : type
        Of each answer.
    *shape
        What the answer's `check` takes before the party's name, such as the number of columns. It raises PartyFailed for
        an answer of another shape, or of values that cannot be; between machines that party is then lost, as if it had
        not answered. Without a shape the class alone is checked.
    """

    def checked(answer: Message, name: str) -> None:
        if not isinstance(answer, kind):
            raise PartyFailed(f"{name} answered {type(answer).__name__} where {kind.__name__} was expected")
        if shape:
            cast("Any", answer).check(*shape, name)

    return cast("list[Reply]", federation.ask(message, checked))


def still_there(federation: Federation, names: Sequence[str]) -> list[int]:
    """Return at which places of `names`, the parties of an earlier moment, those stand who were not lost since."""
    now = set(federation.names)
    return [place for place, name in enumerate(names) if name in now]


class PartyLost(Exception):
    """A party was lost by a question that only answers of the same parties can be compared over."""


class SameParties:
    """A federation whose questions raise `PartyLost` once a party is lost: what was begun with it must be begun again.

    For questions whose answers are post-processing of what the parties keep, so that asking again costs nothing.
    """

    def __init__(self, inner: Federation) -> None:
        self._inner = inner
        self.names = tuple(inner.names)

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`."""
        return self._inner.bytes_exchanged

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """See `Federation.ask`."""
        answers = self._inner.ask(message, check)
        if len(self._inner.names) != len(self.names):
            raise PartyLost
        return answers


def check_rows(rows: Sequence[int], columns: int) -> None:
    """Raise InvalidParameter where all parties together have fewer rows than there are columns; both are public."""
    if sum(rows) < columns:
        raise InvalidParameter(
            f"{sum(rows)} rows at {len(rows)} part{'y' if len(rows) == 1 else 'ies'} are fewer than the {columns} columns: "
            "no column's regression on the others has a residual. Leave out columns, or add rows"
        )
