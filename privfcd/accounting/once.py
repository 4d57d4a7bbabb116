"""State that may exist once: results that are computed once, and budgets that a copy must not spend again.

One set of hooks (`os.register_at_fork`) serves all of it. A process is known by an object that every fork replaces, and
by its id. The id alone is not enough: the first process of a container has the id 1, and so has a child that it forks
into a process namespace of its own.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Any, Generic, TypeVar

from privfcd.errors import CopiedBudget

Result = TypeVar("Result")


class _Process:
    """This process, until it forks: the child gets a new one."""

    def __init__(self) -> None:
        self.pid = os.getpid()


class OneProcess:
    """Base of what may exist once: it is used in the process that made it, and neither pickled nor copied.

    A subclass calls `check_process` before anything that spends. Where a forked child may go on with it, as with a file, the
    subclass leaves that out and lets go of what it holds open in `_before_fork`.
    """

    _new_lock: Callable[[], Any] = threading.Lock

    def __init__(self) -> None:
        self._lock = self._new_lock()
        self._home = _here
        with _registering:
            _alive.add(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise CopiedBudget(_SENTENCE)

    def __copy__(self) -> OneProcess:
        raise CopiedBudget(_SENTENCE)

    def check_process(self) -> None:
        """Raise CopiedBudget in any process but the one that made this."""
        if self._home is not _here or _here.pid != os.getpid():
            raise CopiedBudget(_SENTENCE)

    def _before_fork(self) -> None:
        """Let go of what must not cross a fork."""

    def _after_fork(self) -> None:
        """Go on in the parent."""

    def _in_child(self) -> None:
        """Go on in the child: a lock that another thread held stays locked for ever there."""
        self._lock = self._new_lock()


_SENTENCE = (
    "a budget in memory cannot be forked, pickled or copied: every copy would spend it again. Nothing was granted. Use a "
    "stored ledger (`privfcd ledger init`), which all processes share, or make the table in the process that uses it"
)
_here = _Process()
_alive: weakref.WeakSet[OneProcess] = weakref.WeakSet()
_registering = threading.RLock()
_forking: list[OneProcess] = []


def _before() -> None:
    _registering.acquire()
    _forking[:] = list(_alive)
    for each in _forking:
        each._before_fork()


def _after() -> None:
    for each in _forking:
        each._after_fork()
    _forking.clear()
    _registering.release()


def _child() -> None:
    global _here, _registering
    _here, _registering = _Process(), threading.RLock()
    for each in list(_alive):
        each._in_child()
    _forking.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_child)


class _Cell(Generic[Result]):
    """A result that the first thread computes while the others wait."""

    def __init__(self, compute: Callable[..., Result], arguments: tuple[Hashable, ...]) -> None:
        self._compute, self._arguments = compute, arguments
        self._lock = threading.Lock()
        self._found: list[Result] = []

    def result(self) -> Result:
        with self._lock:
            if not self._found:
                self._found.append(self._compute(*self._arguments))
            return self._found[0]


def computed_once(maxsize: int) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Return a decorator that keeps the last `maxsize` results, as `functools.lru_cache` does.

    Parties that are asked at the same time, in threads, price the same plan; under `lru_cache` each of them would compute
    it. Errors are not kept.

    Parameters
    ----------
    maxsize : int
        At least 1.
    """

    def decorate(compute: Callable[..., Result]) -> Callable[..., Result]:
        @lru_cache(maxsize=maxsize)
        def cell(*arguments: Hashable) -> _Cell[Result]:
            return _Cell(compute, arguments)

        if hasattr(os, "register_at_fork"):  # a lock that another thread held would stay locked in the child
            os.register_at_fork(after_in_child=cell.cache_clear)

        @wraps(compute)
        def once(*arguments: Hashable) -> Result:
            return cell(*arguments).result()

        return once

    return decorate
