"""Parties and coordinators: what passes between them, and how its bytes are counted.

An algorithm is two halves. The party's half holds a private table and answers messages; the coordinator's half sees
answers only. Messages are small frozen dataclasses; none carries rows or exact statistics of a private table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import PartyFailed

Array = NDArray[np.float64]

BYTES_A_FLOAT = 8


class Message(Protocol):
    """Something that passes between a party and the coordinator."""

    def payload_bytes(self) -> int:
        """Return its size by the rule of Fassy et al. 2025, B.2.1: numbers and matrix indices, no envelopes."""


Check = Callable[[Any, str], None]
"""Looks at an answer and its party's name, and raises PartyFailed for an answer that cannot be."""


class Party(Protocol):
    """A party's half of an algorithm."""

    @property
    def name(self) -> str:
        """The party's name, public."""

    def answer(self, message: Message) -> Message:
        """Return the answer to one message."""


class Federation(Protocol):
    """The way from a coordinator to its parties."""

    @property
    def names(self) -> Sequence[str]:
        """The parties' names, in the order of their answers."""

    @property
    def bytes_exchanged(self) -> int:
        """Bytes so far, both ways."""

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """Send `message` to every party and return their answers in order; `check` sees each of them."""


@dataclass(frozen=True)
class Empty:
    """An answer, or a request, without numbers."""

    def payload_bytes(self) -> int:
        """Return 0."""
        return 0


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """The entries of a square matrix that are not zero.

    Attributes
    ----------
    d : int
        Number of rows and columns.
    indices : ndarray of int
        Row-major positions, increasing.
    values : ndarray of float
        Finite.
    """

    d: int
    indices: NDArray[np.int64]
    values: Array

    @classmethod
    def of(cls, matrix: Array) -> SparseMatrix:
        """Return the entries of `matrix` that are not zero."""
        flat = matrix.ravel()
        indices = np.flatnonzero(flat)
        return cls(len(matrix), indices, flat[indices])

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        flat = np.zeros(self.d * self.d)
        flat[self.indices] = self.values
        return flat.reshape(self.d, self.d)

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed unless this is a well-formed matrix of `d` columns."""
        right_types = self.indices.dtype.kind in "iu" and self.values.dtype.kind == "f"
        inside = self.indices.ndim == 1 and bool(np.all((self.indices >= 0) & (self.indices < d * d)))
        once = inside and len(np.unique(self.indices)) == len(self.indices)
        if self.d != d or not (right_types and once) or self.values.shape != self.indices.shape:
            raise PartyFailed(f"{sender} sent a malformed matrix: d = {self.d}, expected {d}")
        if not np.isfinite(self.values).all():
            raise PartyFailed(f"{sender} sent a matrix with entries that are not finite")

    def payload_bytes(self) -> int:
        """Return 8 bytes a value and ceil(log2(d²) / 8) an index."""
        return len(self.values) * (BYTES_A_FLOAT + index_bytes(self.d))


def index_bytes(d: int) -> int:
    """Return how many bytes the index of one entry of a d x d matrix takes.

    Parameters
    ----------
    d : int
        At least 1.
    """
    return max(1, math.ceil(math.log2(d * d) / 8)) if d > 1 else 1
