"""A party that can be asked over a network: charged once, the same answer to the same question, whatever is lost.

Order within one question: known already? - in turn? - as agreed? - the run is bound to the ledger - the charge is
committed - rows are read - the noisy answer is stored - it is sent. Once charged, a party's opening messages (offers,
plans) are final: the same one gets the same answer, another one is refused; after the run's end nothing new is answered.
A party that dies in between has at most paid for an answer that nobody got. What a party's half keeps in memory
(residuals, duals) dies with it: then stored answers are still given, and new questions of that run are refused.

A ledger that cannot be written for a while ends nothing: a charge that was not recorded may be asked for again, and an
answer that was made and could not be stored is kept in memory, stored when its question comes again, and sent then.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from privfcd.algorithms.protocol import Message, Party
from privfcd.errors import PartyFailed, PrivfcdError
from privfcd.ledger import Ledger
from privfcd.ledger.journal_errors import LedgerUnavailable
from privfcd.runs.wire.codec import Codec, MalformedMessage
from privfcd.runs.wire.envelope import ENVELOPES, HELLO, Answer, Kind, Refusal, Request, differing, kind_of

MOST_QUESTIONS, MOST_STORED, MOST_CHARGES = 100_000, 2**30, 20
"""How many questions of one run are answered, how many bytes of answers are stored for it, and how many charges may fail
in one process: what a coordinator asks for over and over must not fill the disk of a party."""


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
    keys : mapping of str to str
        A digest of each key of the study file, see `Study.keys`: a coordinator with another file is told which differ.
    name : str
        The party's, in the study.
    agreed : mapping of type to sequence of message
        For each class of opening messages, those that its owner agreed to; none where it is not part of this run. Others
        are refused.
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
        keys: Mapping[str, str],
        agreed: Mapping[type, Sequence[Message]],
        charging: tuple[type, ...],
        ending: tuple[type, ...] = (),
        attempt: int = 1,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._make = make
        self._ledger = ledger
        self._codec = codec
        self._study = study
        self._keys = dict(keys)
        self._lock = threading.RLock()
        self._doubt: tuple[str, dict[str, int]] | None = None
        self._failures = 0
        self._agreed = {kind: tuple(map(codec.encode, those)) for kind, those in agreed.items()}
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
        self._unstored: dict[str, tuple[bytes, str]] = {}
        self._next = 1
        self._stored = 0
        self._done: set[type] = set()
        self._opening: dict[type, tuple[bytes, bytes]] = {}
        self._broken = self._ended = False

    def handle(self, data: bytes) -> bytes:
        """Return the answer to a request, or a refusal, as bytes; to a greeting for this study, the party's name.

        Whatever goes wrong here, such as a ledger that cannot be read just now, is a refusal too. One question is answered
        after the other, from whatever threads they come: the same one twice at once is made and paid once.
        """
        with self._lock:
            try:
                return self._handled(data)
            except Exception as error:
                return self._refuse("", "again" if _passing(error) else "failed", type(error).__name__)

    def _handled(self, data: bytes) -> bytes:
        if data.startswith(HELLO):
            return self._greet(data)
        try:
            request = ENVELOPES.decode(data)
            if not isinstance(request, Request):
                raise MalformedMessage("only requests can be answered")
        except MalformedMessage as error:
            return self._refuse("", "malformed", str(error))
        if request.study != self._study:
            return self._refuse(request.id, "study", "a question of another study")
        if request.id in self._unstored:
            return self._given(request)
        known = self._answers.get(request.id)
        if known is None:
            known = self._ledger.stored_answer(f"{self._scope} {request.id}")
        if known is not None:
            self._log(f"question {request.sequence} again: the same answer, nothing charged")
            return known
        self._settle_doubt()
        if request.run == self._run and self._done and not (self._broken or self._ended):
            repeated = self._repeated(request)
            if repeated is not None:
                return repeated
        kind = self._unfit(request)
        if kind is not None:
            return self._refuse(request.id, kind, f"question {request.sequence}", self._next)
        if self._next > MOST_QUESTIONS or self._stored > MOST_STORED:
            return self._refuse(request.id, "protocol", f"more than {MOST_QUESTIONS} questions, or too long answers")
        try:
            message = self._codec.decode(request.payload)
        except MalformedMessage as error:
            return self._refuse(request.id, "malformed", str(error))
        return self._answer(request, message)

    def _greet(self, data: bytes) -> bytes:
        """Say who this is to a coordinator with the same study file; to another, in what the files differ."""
        digest, _, listed = data[len(HELLO) :].partition(b" ")
        if digest == self._study.encode():
            return HELLO + self._name.encode()
        keys = differing(self._keys, listed)
        if keys is None:
            return self._refuse("", "malformed", "a greeting that is none")
        self._log(f"refused (study): the coordinator's study file is another one; what differs: {', '.join(keys)}")
        return ENVELOPES.encode(Refusal("", "study", keys=keys))

    def _repeated(self, request: Request) -> bytes | None:
        """Answer an opening message that was answered before the charge, again; nothing is stored for it."""
        for asked, reply in self._opening.values():
            if asked == request.payload and request.sequence <= self._next:
                self._next = max(self._next, request.sequence + 1)
                return ENVELOPES.encode(Answer(request.id, reply))
        return None

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
        if agreed is not None and request.payload not in agreed:
            return self._refuse(request.id, "settings", "an offer with other settings than the study's")
        before = self._ledger.spent()
        if self._done and kind in self._opening:  # what was agreed before the charge is final
            return self._refuse(request.id, "final", f"another {self._codec.name_of(message)} after the charge")
        first = kind in self._charging and not self._done
        if kind in self._charging:
            if kind in self._done:
                return self._refuse(request.id, "changed", "a second charge")
            if self._failures >= MOST_CHARGES:
                return self._refuse(
                    request.id, "protocol", f"{MOST_CHARGES} charges have failed: start this party again"
                )
            run = f"{self._process} {request.run}".encode()  # of two processes that come at once, one is bound
            binding, _ = self._bound()
            if first:  # until the charge is known to be made: whatever is spent from here on may be it
                self._doubt = binding, self._ledger.spent_units()
            if self._ledger.store_answer(binding, run, f"{self._scope}: run begun") != run:
                self._doubt = None
                return self._refuse(request.id, "run", "a charge for another run")
            self._done.add(kind)
        drawn = self._drawn()
        try:
            reply = self._codec.encode(self._party.answer(message))
            answer = ENVELOPES.encode(Answer(request.id, reply))
        except Exception as error:
            if first:
                self._failures += not _passing(error)
                return self._uncharged(request, error)
            if isinstance(error, PartyFailed) and self._done and drawn is not None and drawn == self._drawn():
                return self._refuse(request.id, kind_of(error), f"question {request.sequence}: {error}")
            return self._fail(request, error)
        self._doubt = None
        if not self._done:
            self._opening[kind] = request.payload, reply
        self._next += 1
        self._ended = bool(self._done) and kind in self._ending
        self._tell(request, message, before)
        if not self._done:
            self._answers[request.id] = answer
            return answer
        self._unstored[request.id] = answer, f"{self._scope}: answer {request.sequence}"
        return self._given(request)

    def _given(self, request: Request) -> bytes:
        """Store an answer that was made, after a charge, and return it; where it cannot be stored now, it is kept."""
        answer, label = self._unstored[request.id]
        try:
            answer = self._ledger.store_answer(f"{self._scope} {request.id}", answer, label)
        except Exception as error:
            words = f"the answer to question {request.sequence} is kept, and stored when it is asked again"
            return self._refuse(request.id, "again" if _passing(error) else kind_of(error), f"{words}: {error}")
        del self._unstored[request.id]
        self._answers[request.id] = answer
        self._stored += len(answer)
        return answer

    def _drawn(self) -> dict[str, int] | None:
        """Return what was drawn of the study's reservation: as long as it is the same, no row was read."""
        reservation = getattr(self._ledger, "reservation", None)
        return None if reservation is None else dict(reservation.drawn())

    def _uncharged(self, request: Request, error: Exception) -> bytes:
        """Refuse after a charge that failed; where the ledger shows that nothing was spent, the run may be begun again."""
        with contextlib.suppress(Exception):  # what cannot be looked at now is looked at before the next question
            self._settle_doubt()
        words = f"question {request.sequence}: {error}" if isinstance(error, PrivfcdError) else type(error).__name__
        return self._refuse(request.id, "again" if _passing(error) else kind_of(error), words)

    def _settle_doubt(self) -> None:
        """After a charge that failed: take its binding back if nothing was spent since, or take the run for charged.

        The doubt stays where the ledger cannot be looked at.
        """
        if self._doubt is None:
            return
        binding, before = self._doubt
        if self._ledger.spent_units() != before:
            self._doubt, self._broken = None, True
            return
        self._ledger.store_answer(f"{binding} freed", b"", f"{self._scope}: nothing was charged, run not begun")
        self._doubt = None
        self._restart("")

    def _fail(self, request: Request, error: Exception) -> bytes:
        """Refuse; after a charge nothing more is answered, before it the run may be begun again."""
        if not self._done and _passing(error):  # the half keeps what it agreed to, and the same question may come again
            return self._refuse(request.id, "again", f"question {request.sequence}: {error}")
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
        try:
            after, left = self._ledger.spent(), self._ledger.left()
        except Exception as error:  # words only: what was charged is on disk
            self._log(
                f"question {request.sequence}: answered; the ledger cannot be read just now ({type(error).__name__})"
            )
            return
        paid = {name: now - before.get(name, 0.0) for name, now in after.items() if now != before.get(name, 0.0)}
        what = self._codec.name_of(message)
        if paid:
            amounts = ", ".join(f"{name} {amount:+.6g}" for name, amount in paid.items())
            self._log(f"question {request.sequence} ({what}): CHARGED {amounts}; left: {left or 'nothing'}")
        else:
            self._log(f"question {request.sequence} ({what}): answered, nothing charged")


def _passing(error: Exception) -> bool:
    """Return whether a ledger that cannot be used now may be usable again, so that the same may be asked again."""
    return isinstance(error, LedgerUnavailable | OSError | sqlite3.OperationalError)
