"""The messages of Fed-BNSL, in the order in which they pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_bnsl.settings import Settings
from privfcd.algorithms.protocol import BYTES_A_FLOAT, Empty, SparseMatrix
from privfcd.errors import PartyFailed

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DenseMatrix:
    """A whole square matrix.

    Attributes
    ----------
    values : ndarray of shape (d, d)
        Finite.
    """

    values: Array

    @classmethod
    def of(cls, matrix: Array) -> DenseMatrix:
        """Return a copy of `matrix` as a message."""
        return cls(matrix.copy())

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        return self.values.copy()

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed unless this is a finite matrix of `d` columns."""
        if self.values.shape != (d, d) or self.values.dtype.kind != "f" or not np.isfinite(self.values).all():
            raise PartyFailed(
                f"{sender} sent a malformed matrix: shape {self.values.shape}, expected ({d}, {d}), finite"
            )

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * self.values.size


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: what will be run. Answered by `Quote`."""

    settings: Settings
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Quote(Empty):
    """From a party: it can take part. Row counts are public."""

    n_rows: int


@dataclass(frozen=True, eq=False)
class Round:
    """To the parties: the consensus W that round `number` (1, 2, ...) starts from. Answered by `LocalUpdate`.

    Attributes
    ----------
    weights : DenseMatrix or SparseMatrix, optional
        None in the first round, where W is known to be 0.
    """

    number: int
    weights: DenseMatrix | SparseMatrix | None

    def payload_bytes(self) -> int:
        """Return the size of W."""
        return 0 if self.weights is None else self.weights.payload_bytes()


@dataclass(frozen=True, eq=False)
class LocalUpdate:
    """From a party: its B."""

    weights: DenseMatrix | SparseMatrix

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed unless B is a well-formed matrix of `d` columns."""
        self.weights.check(d, sender)

    def payload_bytes(self) -> int:
        """Return the size of B."""
        return self.weights.payload_bytes()


@dataclass(frozen=True, eq=False)
class Finish:
    """To the parties: the final W. Answered by `Empty`."""

    weights: DenseMatrix | SparseMatrix

    def payload_bytes(self) -> int:
        """Return the size of W."""
        return self.weights.payload_bytes()
