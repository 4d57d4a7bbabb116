"""The answer to a request that may arrive more than once: made once, whoever asks at the same time.

Two threads of one process wait for each other. Two processes on one stored ledger do so by a claim, which is stored before
the charge: the first one stored is whose turn it is. Whoever finds the claim of another waits for its answer. Where the
process that claimed is known to have died, the next one claims; where that cannot be known, nothing is charged.

With an answer is stored what was asked, as a digest: a request's id never gets the answer to something else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from privfcd.errors import InvalidParameter, PrivfcdError

MARK = b"PFCQ"
"""Before every answer, and the digest of what was asked."""
CLAIM = b"PFCC "
"""Before every claim, which is no answer to whoever asks under its name."""
WAIT = 10.0
"""Seconds to wait for the answer of another process."""


class OtherQuestion(InvalidParameter):
    """A request's id was used before, for another question. Nothing was charged for this one."""


class AnswerPending(PrivfcdError):
    """Another process has taken the request on and has not stored its answer. Nothing was charged by this one."""


class Store(Protocol):
    """Where answers are: `privfcd.ledger.ledger.Ledger`."""

    name: str

    @property
    def account(self) -> tuple[object, str]:
        """What tells one account from others."""

    def stored_answer(self, request: str) -> bytes | None:
        """Return the answer stored for a request."""

    def store_answer(self, request: str, answer: bytes, label: str, *, reservation: int = 0) -> bytes:
        """Store an answer that is paid for."""


def answered(
    store: Store, request: str, question: str, make: Callable[[], bytes], label: str, *, reservation: int = 0
) -> bytes:
    """Return the answer stored for a request; where there is none, what `make` pays for and returns, stored.

    Parameters
    ----------
    store : Ledger
    request : str
        The id.
    question : str
        All that is asked: the same id with another text is refused.
    make : callable
        Charges, reads rows, and returns the noisy answer; called once.
    label : str
        For the journal.
    reservation : int
        The entry of the plan that pays; then there is no claim, for each process has paid for its own plan.

    Raises
    ------
    OtherQuestion, AnswerPending
        Nothing was charged.
    LedgerUnavailable
        The answer could not be stored: it is kept, and given when it is asked for again.
    """
    asked = MARK + hashlib.sha256(question.encode("utf-8", "surrogatepass")).digest()
    key = (*store.account, request)
    with _turn(key):
        known = _unstored.get(key)
        if known is None:
            known = store.stored_answer(request)
        if known is None and not reservation and isinstance(store.account[0], str):  # other processes may be asked too
            known = _claimed(store, request, label)
        if known is None:
            known = _unstored[key] = asked + make()
        if (
            key in _unstored
        ):  # made, and paid for: where it cannot be stored now, it is kept until it is asked for again
            known = store.store_answer(request, known, label, reservation=reservation)
            del _unstored[key]
    if not known.startswith((MARK, CLAIM)):  # stored by an earlier version, which did not note what was asked
        return known
    if known[: len(asked)] != asked:
        raise OtherQuestion(
            f"request {request!r} on {store.name!r} was used for another question before: give each an id of its own"
        )
    return known[len(asked) :]


def _claimed(store: Store, request: str, label: str) -> bytes | None:
    """Claim a request for this process; return the answer instead where another process comes up with it."""
    mine, number, ends = _who(), 1, time.monotonic() + WAIT
    while True:
        name = f"{request} claim {number}"
        holder = store.stored_answer(name) or store.store_answer(name, mine, f"{label}: asked")
        if holder == mine or _ended(holder):
            known = store.stored_answer(request)  # it may have been stored, by another or before that one ended
            if known is not None or holder == mine:
                return known
            number += 1
            continue
        while (known := store.stored_answer(request)) is None and not _ended(holder):
            if time.monotonic() > ends:
                raise AnswerPending(
                    f"request {request!r} on {store.name!r} was taken on by another process, which has not answered yet: "
                    "ask again later, or, if that process is gone, ask under a new id, which is charged"
                )
            time.sleep(0.05)
        if known is not None:
            return known


def _who() -> bytes:
    """Return what tells this process, as it runs now, from all others: machine's start, namespace, number, own start."""
    return CLAIM + " ".join((*_where(), str(os.getpid()), _started(os.getpid()))).encode()


def _ended(holder: bytes) -> bool:
    """Return whether the process that claimed is known to be gone."""
    boot, namespace, process, started = [*holder.removeprefix(CLAIM).decode(errors="replace").split(" "), *[""] * 4][:4]
    here = _where()
    if boot != here[0]:
        return bool(boot and here[0])  # the machine was started again since; ledgers are on local disks
    return namespace == here[1] != "" and bool(started) and _started(process) != started


def _where() -> tuple[str, str]:
    boot = namespace = ""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    with contextlib.suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return boot, namespace


def _started(process: int | str) -> str:
    """Return when a process was started, in the kernel's ticks; nothing where there is none, or that cannot be known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        state = Path(f"/proc/{int(process)}/stat").read_text().rpartition(")")[2].split()
        return "" if state[0] in "ZX" else state[19]  # dead, and not yet buried
    return ""


_turns: dict[tuple[object, ...], tuple[threading.RLock, int]] = {}
_unstored: dict[tuple[object, ...], bytes] = {}
_guard = threading.Lock()


def _begin_anew() -> None:
    """In a forked child: nobody else's turns, and nobody else's answers."""
    global _guard
    _guard = threading.Lock()
    _turns.clear()
    _unstored.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextlib.contextmanager
def _turn(key: tuple[object, ...]) -> Iterator[None]:
    """Let one thread of this process at a time answer a request."""
    with _guard:
        lock, users = _turns.get(key, (threading.RLock(), 0))
        _turns[key] = lock, users + 1
    try:
        with lock:
            yield
    finally:
        with _guard:
            lock, users = _turns.pop(key, (lock, 1))  # gone in a child that was forked while the answer was made
            if users > 1:
                _turns[key] = lock, users - 1
