"""A party that can be asked over a network: charged once, the same answer to the same question, whatever is lost.

Order within one question: known already? - in turn? - as agreed? - the run is bound to the ledger - the charge is
committed - rows are read - the noisy answer is stored - it is sent. Once charged, a party's opening messages (offers,
plans) are final: the same one gets the same answer, another one is refused; after the run's end nothing new is answered.
A party that dies in between has at most paid for an answer that nobody got. What a party's half keeps in memory
(residuals, duals) dies with it: then stored answers are still given, and new questions of that run are refused.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from privfcd.accounting import Ledger
from privfcd.errors import PartyFailed, PrivfcdError
from privfcd.federation.envelope import ENVELOPES, HELLO, Answer, Kind, Refusal, Request, kind_of
from privfcd.federation.protocol import Message, Party
from privfcd.federation.wire import Codec, MalformedMessage


class DurableParty:
    """Answers requests, bytes to bytes; never raises for what a request holds.

    Parameters
    ----------
    make : callable
        Returns the party's half, afresh.
    ledger : Ledger
        The data set's; answers are stored there.
    codec : Codec
        Of the study's messages.
    study : str
        The study's digest. Requests of others are refused.
    name : str
        The party's, in the study.
    agreed : mapping of type to message
        For each class of opening messages, the one that its owner agreed to. Others are refused.
    charging : tuple of type
        The messages that charge, each once in a run.
    ending : tuple of type
        The message that ends the run.
    attempt : int
        1, or more where the owner allows the study another run, which is charged again.
    log : callable
        Told in words what happens; for the owner only.
    """

    def __init__(
        self,
        make: Callable[[], Party],
        ledger: Ledger,
        codec: Codec,
        study: str,
        *,
        name: str,
        agreed: Mapping[type, Message],
        charging: tuple[type, ...],
        ending: tuple[type, ...] = (),
        attempt: int = 1,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._make = make
        self._ledger = ledger
        self._codec = codec
        self._study = study
        self._agreed = {kind: codec.encode(message) for kind, message in agreed.items()}
        self._charging = charging
        self._name = name
        self._ending = ending
        self._process = secrets.token_hex(8)
        self._scope = f"study {study[:16]} party {name} attempt {attempt}"
        self._write = log
        self._restart("")

    @property
    def charged(self) -> bool:
        """Whether this process has charged the study."""
        return bool(self._done)

    @property
    def finished(self) -> bool:
        """Whether the run has come to its end, or cannot go on with this process."""
        return self._ended or self._broken

    def _restart(self, run: str) -> None:
        self._run = run
        self._party = self._make()
        self._answers: dict[str, bytes] = {}
        self._next = 1
        self._done: set[type] = set()
        self._opening: dict[type, tuple[bytes, bytes]] = {}
        self._broken = self._ended = False

    def handle(self, data: bytes) -> bytes:
        """Return the answer to a request, or a refusal, as bytes; to a greeting for this study, the party's name.

        Whatever goes wrong here, such as a ledger that cannot be read just now, is a refusal too.
        """
        try:
            return self._handled(data)
        except Exception as error:
            return self._refuse("", "failed", type(error).__name__)

    def _handled(self, data: bytes) -> bytes:
        if data == HELLO + self._study.encode():
            return HELLO + self._name.encode()
        try:
            request = ENVELOPES.decode(data)
            if not isinstance(request, Request):
                raise MalformedMessage("only requests can be answered")
        except MalformedMessage as error:
            return self._refuse("", "malformed", str(error))
        if request.study != self._study:
            return self._refuse(request.id, "study", "a question of another study")
        known = self._answers.get(request.id)
        if known is None:
            known = self._ledger.stored_answer(f"{self._scope} {request.id}")
        if known is not None:
            self._log(f"question {request.sequence} again: the same answer, nothing charged")
            return known
        kind = self._unfit(request)
        if kind is not None:
            return self._refuse(request.id, kind, f"question {request.sequence}", self._next)
        try:
            message = self._codec.decode(request.payload)
        except MalformedMessage as error:
            return self._refuse(request.id, "malformed", str(error))
        return self._answer(request, message)

    def _unfit(self, request: Request) -> Kind | None:
        """Return why a question cannot be answered whatever it says; None if it can."""
        _, bound = self._bound()
        process, _, run = (b"" if bound is None else bound).partition(b" ")
        if bound is not None and run != request.run.encode():
            return "run"
        if self._broken or (bound is not None and process != self._process.encode()):
            return "gone"
        if request.run != self._run:  # nothing is charged, so that a run may be begun again
            self._restart(request.run)
        if self._ended:
            return "final"
        if request.sequence > self._next:
            return "behind"
        return "changed" if request.sequence < self._next else None

    def _bound(self) -> tuple[str, bytes | None]:
        """Return the name under which the current binding is stored, and the process and run that it binds, if any."""
        number = 1
        while self._ledger.stored_answer(f"{self._scope} run {number} freed") is not None:
            number += 1
        name = f"{self._scope} run {number}"
        return name, self._ledger.stored_answer(name)

    def _answer(self, request: Request, message: Any) -> bytes:
        kind = type(message)
        agreed = self._agreed.get(kind)
        if agreed is not None and agreed != request.payload:
            return self._refuse(request.id, "settings", "an offer with other settings than the study's")
        before = self._ledger.spent()
        if self._done and kind in self._opening:  # what was agreed before the charge is final
            asked, reply = self._opening[kind]
            if asked != request.payload:
                return self._refuse(request.id, "final", f"another {self._codec.name_of(message)} after the charge")
            return self._store(request, message, ENVELOPES.encode(Answer(request.id, reply)), before)
        if kind in self._charging:
            if kind in self._done:
                return self._refuse(request.id, "changed", "a second charge")
            run = f"{self._process} {request.run}".encode()  # of two processes that come at once, one is bound
            binding, _ = self._bound()
            if self._ledger.store_answer(binding, run, f"{self._scope}: run begun") != run:
                return self._refuse(request.id, "run", "a charge for another run")
            first, head = not self._done, self._ledger.head()
            self._done.add(kind)
        try:
            reply = self._codec.encode(self._party.answer(message))
            answer = ENVELOPES.encode(Answer(request.id, reply))
        except Exception as error:
            if kind in self._charging and first:
                self._free(binding, head)
            return self._fail(request, error)
        if not self._done:
            self._opening[kind] = request.payload, reply
        return self._store(request, message, answer, before)

    def _store(self, request: Request, message: Any, answer: bytes, before: Mapping[str, float]) -> bytes:
        """Keep an answer, after a charge on disk, and return it."""
        if self._done:
            label = f"{self._scope}: answer {request.sequence}"
            try:
                answer = self._ledger.store_answer(f"{self._scope} {request.id}", answer, label)
            except Exception as error:  # an answer that was made and is not stored must not be made again
                return self._fail(request, error)
        self._answers[request.id] = answer
        self._next += 1
        self._ended = bool(self._done) and type(message) in self._ending
        self._tell(request, message, before)
        return answer

    def _free(self, binding: str, head: str) -> None:
        """Take a binding back where the ledger shows that its charge was not made: nothing was recorded since `head`."""
        if head and self._ledger.head() == head:
            self._ledger.store_answer(f"{binding} freed", b"", f"{self._scope}: nothing was charged, run not begun")
            self._done.clear()

    def _fail(self, request: Request, error: Exception) -> bytes:
        """Refuse; after a charge nothing more is answered, before it the run may be begun again."""
        if self._done:
            self._broken = True
        else:
            self._restart("")
        known = isinstance(error, PrivfcdError | PartyFailed)
        words = f"{type(error).__name__}: {error}" if known else f"{type(error).__name__}"
        return self._refuse(request.id, kind_of(error), f"question {request.sequence}: {words}")

    def _log(self, line: str) -> None:
        """Tell the owner; a log that cannot be written does not end a run that was paid for."""
        with contextlib.suppress(OSError, ValueError):
            self._write(line)

    def _refuse(self, request: str, kind: Kind, words: str, expected: int = 0) -> bytes:
        self._log(f"refused ({kind}): {words}")
        return ENVELOPES.encode(Refusal(request, kind, expected))

    def _tell(self, request: Request, message: Any, before: Mapping[str, float]) -> None:
        after = self._ledger.spent()
        paid = {name: now - before.get(name, 0.0) for name, now in after.items() if now != before.get(name, 0.0)}
        what = self._codec.name_of(message)
        if paid:
            amounts = ", ".join(f"{name} {amount:+.6g}" for name, amount in paid.items())
            self._log(
                f"question {request.sequence} ({what}): CHARGED {amounts}; left: {self._ledger.left() or 'nothing'}"
            )
        else:
            self._log(f"question {request.sequence} ({what}): answered, nothing charged")
