"""Results that are kept, and computed once however many threads ask for them at the same time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

Result = TypeVar("Result")


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
