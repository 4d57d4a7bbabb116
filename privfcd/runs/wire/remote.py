"""A federation of parties on other machines, over any transport of bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from privfcd import checks
from privfcd.algorithms.protocol import Check, Empty, Message
from privfcd.errors import PartyFailed
from privfcd.runs.wire.checkpoint import Checkpoint
from privfcd.runs.wire.codec import Codec, MalformedMessage
from privfcd.runs.wire.envelope import ENVELOPES, WORDS, Answer, Refusal, Request

LEAST_TIMEOUT = 75.0
"""A node that was killed in the middle of a question is noticed by Flower after about a minute."""


FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0
"""Seconds until a party whose ledger cannot be used just now is asked again: twice as long each time."""

LATE = "it did not answer in time"


class Transport(Protocol):
    """Takes bytes to parties and brings bytes back."""

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """Send each party its request, and return the answers that arrived within `timeout` seconds."""


class PartiesLost(PartyFailed):
    """Parties did not answer before anything was charged: the run may be begun again without them."""

    def __init__(self, lost: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name}: {why}" for name, why in lost.items()))
        self.lost = dict(lost)


class AskAgain(PartyFailed):
    """A party could not use its ledger just now: the same question gets its answer later."""


class RemoteFederation:
    """Asks parties over a transport, each question once, and keeps what they answer.

    After the charge a party that does not answer as it should is lost: it is not asked again, its name is dropped from
    `names`, and the run goes on with the others as long as `least` are left. What it paid stays spent.

    Parameters
    ----------
    transport : Transport
        The way to the parties.
    codec : Codec
        Of the study's messages.
    study : str
        The study's digest.
    checkpoint : Checkpoint
        With a run begun.
    charging : tuple of type
        Messages that charge; they go to one party after the other, so that where a refusal ends the run no other is charged.
    ending : tuple of type
        The message that ends a run. Who does not hear it loses nobody's answers: see `unheard`.
    least : int, optional
        How many parties the run needs after the charge; all of them by default.
    timeout : float
        Seconds to wait for answers before a party is asked again.
    tries : int
        How often a party is asked, the same question and id each time.
    check : callable
        Called with each question and answer; raises PartyFailed for an answer that cannot be.

    Attributes
    ----------
    unheard : dict of str to str
        Who did not hear that the run is over, and why.
    """

    def __init__(
        self,
        transport: Transport,
        codec: Codec,
        study: str,
        checkpoint: Checkpoint,
        *,
        charging: tuple[type, ...],
        ending: tuple[type, ...] = (),
        least: int | None = None,
        timeout: float = 90.0,
        tries: int = 2,
        check: Callable[[Any, Any], None] = lambda question, answer: None,
    ) -> None:
        self._transport = transport
        self._codec = codec
        self._study = study
        self._checkpoint = checkpoint
        self._charging = charging
        self._ending = ending
        self._least = len(checkpoint.parties) if least is None else checks.count("least", least)
        self.unheard: dict[str, str] = {}
        self._timeout = checks.positive("timeout", timeout)
        self._tries = checks.count("tries", tries)
        self._check = check
        self._own_check: Check | None = None
        self._sequence = 0
        self._bytes = 0
        self.wire_bytes = 0
        self.seconds: list[float] = []

    @property
    def names(self) -> Sequence[str]:
        """See `Federation.names`: those who are still there. To be read after `ask`, which may drop some."""
        lost = self._checkpoint.lost
        return tuple(
            name
            for name in self._checkpoint.parties
            if name not in lost or lost[name][0] > self._sequence  # a checkpoint knows who will be lost later
        )

    @property
    def lost(self) -> dict[str, tuple[int, str]]:
        """Who was lost after the charge: at which question, and why."""
        return self._checkpoint.lost

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`: the paper's count. `wire_bytes` is what requests and answers take."""
        return self._bytes

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """See `Federation.ask`; a party whose answer fails the check has not answered.

        Raises
        ------
        PartiesLost
            Nothing was charged yet.
        PartyFailed
            Which parties did not answer as they should, and why.
        """
        began = time.perf_counter()
        self._sequence += 1
        self._own_check = check
        request = Request(self._study, self._checkpoint.run, self._sequence, self._codec.encode(message))
        data = ENVELOPES.encode(request)
        self._checkpoint.ask(self._sequence, data)
        here = self.names
        alone = getattr(message, "in_turn", False) or isinstance(message, self._charging)
        if isinstance(message, self._charging):
            self._checkpoint.charge()
        answers: dict[str, Message] = {}
        for names in [(name,) for name in here] if alone else [here]:
            found, why = self._gather(message, request, data, names)
            answers.update(found)
            if why:
                self._without(why, request.sequence, message)
                answers.update(dict.fromkeys(self.unheard, Empty()))
        in_order = [answers[name] for name in self.names]
        self._bytes += message.payload_bytes() * len(in_order) + sum(answer.payload_bytes() for answer in in_order)
        self.seconds.append(time.perf_counter() - began)
        return in_order

    def _gather(
        self, question: Message, request: Request, data: bytes, names: Sequence[str]
    ) -> tuple[dict[str, Message], dict[str, str]]:
        """Return the answers of these parties, those in the checkpoint first, and why others have none."""
        known = {name: answer for name, answer in self._checkpoint.answers(request.sequence).items() if name in names}
        answers = {name: self._read(question, name, answer, request) for name, answer in known.items()}
        waiting = [name for name in names if name not in answers]
        why: dict[str, str] = {}
        later: dict[str, str] = {}
        tries, pause, ends = self._tries, FIRST_PAUSE, time.monotonic() + self._tries * self._timeout
        while waiting and tries:
            busy = False
            for name, answer in self._exchange(dict.fromkeys(waiting, data)).items():
                try:
                    answers[name] = self._opened(question, name, answer, request)
                except AskAgain as error:
                    later[name], busy = str(error), True
                    continue
                except PartyFailed as error:
                    why[name] = str(error)
                waiting.remove(name)
            if busy and time.monotonic() + pause < ends:  # its ledger is locked or its disk is full: patience
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                tries -= 1
        why.update({name: later.get(name, LATE) for name in waiting})
        return answers, why

    def _exchange(self, requests: Mapping[str, bytes]) -> Mapping[str, bytes]:
        answers = self._transport.exchange(requests, self._timeout)
        self.wire_bytes += sum(map(len, requests.values())) + sum(map(len, answers.values()))
        return {name: answer for name, answer in answers.items() if name in requests}

    def _opened(self, question: Message, name: str, data: bytes, request: Request) -> Message:
        """Return the message in an answer, kept in the checkpoint; raise PartyFailed with why there is none."""
        envelope = _envelope(data)
        if isinstance(envelope, Refusal) and envelope.kind == "behind" and 0 < envelope.expected < request.sequence:
            data = self._caught_up(name, envelope.expected, request)
        message = self._read(question, name, data, request)
        self._checkpoint.keep(request.sequence, name, data)
        return message

    def _read(self, question: Message, name: str, data: bytes, request: Request) -> Message:
        envelope = _envelope(data)
        if isinstance(envelope, Refusal):
            kind = AskAgain if envelope.kind == "again" else PartyFailed
            raise kind(WORDS[envelope.kind])
        if not isinstance(envelope, Answer) or envelope.request != request.id:
            raise PartyFailed("it answered another question")
        try:
            message: Message = self._codec.decode(envelope.payload)
        except MalformedMessage as error:
            raise PartyFailed(f"its answer makes no sense: {error}") from error
        self._check(question, message)
        if self._own_check is not None:
            self._own_check(message, name)
        return message

    def _caught_up(self, name: str, first: int, request: Request) -> bytes:
        """Ask a party that was started afresh all questions from `first` on; return its answer to the last one."""
        answer = b""
        for sequence in range(first, request.sequence + 1):
            data = self._checkpoint.asked(sequence)
            assert data is not None
            got = self._exchange({name: data}).get(name)
            if got is None:
                raise PartyFailed(LATE)
            refusal = _envelope(got)
            if isinstance(refusal, Refusal) and refusal.kind == "again":
                raise AskAgain(WORDS["again"])
            before = self._checkpoint.answers(sequence).get(name)
            if before is not None and before != got:
                raise PartyFailed("it was started afresh, and answers differently from before")
            answer = got
        return answer

    def _without(self, why: Mapping[str, str], sequence: int, question: Message) -> None:
        """Go on without these parties, or raise where that cannot be."""
        if not self._checkpoint.charged:
            raise PartiesLost(why)
        if isinstance(question, self._ending):
            self.unheard.update(why)
            return
        words = "; ".join(f"{name}: {reason}" for name, reason in why.items())
        left = len(self.names) - len(why)
        if left < self._least:
            before = "".join(f" {name} was lost at question {at}." for name, (at, _) in self.lost.items())
            raise PartyFailed(
                f"question {sequence} was not answered by all: {words}. The run needs {self._least} parties and {left} are "
                f"left.{before} What was charged stays spent; the run goes on from its checkpoint if they come back"
            )
        for name, reason in why.items():
            self._checkpoint.lose(sequence, name, reason)


def _envelope(data: bytes) -> Any:
    try:
        return ENVELOPES.decode(data)
    except MalformedMessage as error:
        raise PartyFailed(f"its answer makes no sense: {error}") from error
