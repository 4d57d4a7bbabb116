"""Bytes of the operating system's generator in bulk, and exact integers made from them.

Every random bit behind a secure release comes from the operating system (`os.urandom`: getrandom on Linux).
There is no seed and no generator of our own. Bytes are fetched in blocks, because a system call for eight
bytes costs fifty times what the bytes cost; each byte of a block is handed out once.

Whoever holds a block holds future noise, so a block must never serve twice:

- a block belongs to one call at a time: it is popped from a list (one atomic step) and put back afterwards,
  so that threads, signal handlers and finalisers cannot read the same bytes, and an exception in between
  drops the block;
- a block belongs to one process: it is dropped after a fork, noticed by the process id and by a counter that
  the interpreter raises in every child (a process id alone can come round again);
- copying or pickling an `Entropy` gives an empty one.

What a user-space buffer cannot survive is a virtual machine that is snapshotted and resumed twice, and memory
that an attacker can read. Used bytes are not wiped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfcd import checks

BLOCK = 65536
"""Bytes fetched by one system call where less is asked for (the rate is flat from 4096 on)."""

_WORD = 1 << 64
_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)

T = TypeVar("T")


class Pool(Generic[T]):
    """Objects that one call in one process uses at a time.

    Parameters
    ----------
    make : callable
        Makes a fresh object where none is free. Objects that were made before a fork are never lent in the
        child.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._free: list[tuple[int, int, T]] = []

    def lend(self) -> T:
        """Return an object that nobody else has; `give_back` it, or drop it."""
        while True:
            try:
                process, forks, item = self._free.pop()
            except IndexError:
                return self._make()
            if process == os.getpid() and forks == _forks:
                return item

    def give_back(self, item: T) -> None:
        """Put an object back for the next call."""
        self._free.append((os.getpid(), _forks, item))


class _Block:
    __slots__ = ("data", "used")

    def __init__(self) -> None:
        self.data = b""
        self.used = 0


class Entropy:
    """Uniform bits and integers from the operating system's generator; safe with threads and forks.

    Parameters
    ----------
    _source : callable, private
        Where bytes come from, for tests only; a copy or a pickle of the object always reads the operating
        system.
    """

    def __init__(self, _source: Callable[[int], bytes] = os.urandom) -> None:
        self._source = _source
        self._blocks: Pool[_Block] = Pool(_Block)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Entropy, ())

    def _read(self, count: int) -> bytes:
        data = self._source(count)
        if len(data) != count:
            raise OSError(f"the source of random bytes gave {len(data)} bytes where {count} were asked for")
        return data

    def take(self, count: int) -> bytes:
        """Return `count` bytes that were never handed out before."""
        if count >= BLOCK:
            return self._read(count)
        block = self._blocks.lend()
        start = block.used
        stop = start + count
        if stop > len(block.data):
            block.data = self._read(BLOCK)
            start, stop = 0, count
        block.used = stop
        data = block.data[start:stop]
        self._blocks.give_back(block)
        return data

    def uint64(self, size: int) -> NDArray[np.uint64]:
        """Return `size` independent words, uniform on [0, 2^64); the array is read-only."""
        return np.frombuffer(self.take(8 * size), dtype="<u8").astype(np.uint64, copy=False)

    def uint32(self, size: int) -> NDArray[np.uint32]:
        """Return `size` independent words, uniform on [0, 2^32); the array is read-only."""
        return np.frombuffer(self.take(4 * size), dtype="<u4").astype(np.uint32, copy=False)

    def word(self) -> int:
        """Return one integer, uniform on [0, 2^64)."""
        return int.from_bytes(self.take(8), "little")

    def bits(self, count: int) -> int:
        """Return one integer, uniform on [0, 2^count)."""
        whole = (count + 7) // 8
        return int.from_bytes(self.take(whole), "little") >> (8 * whole - count)

    def bits_many(self, count: int, size: int) -> NDArray[np.uint64]:
        """Return `size` independent integers, uniform on [0, 2^count), for count in 1..64."""
        if not 1 <= checks.count("count", count) <= 64:
            raise checks.refuse("count", count, "a whole number in 1..64")
        return self.uint64(size) >> np.uint64(64 - count)

    def below(self, bound: int) -> int:
        """Return one integer, uniform on [0, bound), for any bound of at least 1.

        Bits are drawn and thrown away until they fall below the bound: no modulo, so no bias. Up to 2^64 the
        top half of a product does the same with fewer draws (Lemire 2019, "Fast random integer generation in
        an interval").
        """
        if bound < 1:
            raise checks.refuse("bound", bound, "a whole number of at least 1")
        if bound > _WORD:
            count = (bound - 1).bit_length()
            while True:
                number = self.bits(count)
                if number < bound:
                    return number
        product = self.word() * bound
        if product % _WORD < bound:
            least = _WORD % bound
            while product % _WORD < least:
                product = self.word() * bound
        return product >> 64

    def below_many(self, bound: int, size: int) -> NDArray[np.uint64]:
        """Return `size` independent integers, uniform on [0, bound), for a bound in 1..2^64."""
        if not 1 <= bound <= _WORD:
            raise checks.refuse("bound", bound, "a whole number in 1..2^64")
        if bound == 1:
            return np.zeros(size, dtype=np.uint64)
        count = (bound - 1).bit_length()
        numbers = np.empty(size, dtype=np.uint64)
        filled = 0
        while filled < size:
            # at least half of the drawn numbers are below the bound
            drawn = self.bits_many(count, (size - filled) * 2 + 16)
            drawn = drawn[drawn <= np.uint64(bound - 1)][: size - filled]
            numbers[filled : filled + len(drawn)] = drawn
            filled += len(drawn)
        return numbers
