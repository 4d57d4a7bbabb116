"""The messages of a release of moments, in the order in which they pass.

With secure sums the questions for histograms, means and moments are not put to a party by themselves. They come with
`AskKeys`, and the steps of `privfcd.algorithms.secure.seat` follow. Lists of keys, signatures and shares are bytes of a
fixed length each, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.protocol import BYTES_A_FLOAT, Empty, SparseMatrix
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.errors import PartyFailed

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: what will be run, before anything is charged. Answered by `Quote`."""

    settings: ReleaseSettings
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Quote(Empty):
    """From a party: it can take part, and these are its public facts.

    Attributes
    ----------
    n_rows : int
        The number by which its sums are divided.
    mu : float
        The Gaussian-DP parameter that its budget allows for the whole run; inf for an open table.
    replaced : bool
        Whether neighbours differ in a replaced record (else in an added or removed one).
    bounds : tuple of float, optional
        Declared bounds on |x_j|.
    """

    n_rows: int
    mu: float
    replaced: bool
    bounds: tuple[float, ...] | None

    @property
    def private(self) -> bool:
        """Whether there is a budget."""
        return self.mu != float("inf")


@dataclass(frozen=True)
class Plan(Empty):
    """To the parties: all that will be released, each with its share of mu²; they add up to 1.

    Answered by `Empty` where the budget allows it; nothing is charged yet.
    """

    shares: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Charge(Empty):
    """To the parties: charge the whole plan. Answered by `Empty`; rows are read only when all have been charged."""


@dataclass(frozen=True)
class AskHistogram:
    """To the parties: release a histogram of octaves, with `offset` taken off, or of differences of records. Answered by
    `Numbers`.
    """

    label: str
    offset: tuple[float, ...] | None
    differences: bool = False

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * len(self.offset or ())


@dataclass(frozen=True)
class AskMean:
    """To the parties: release the mean, values clipped to these bounds. Answered by `Numbers`, in units of the bounds."""

    bounds: tuple[float, ...]

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * len(self.bounds)


@dataclass(frozen=True, eq=False)
class AskMoments:
    """To the parties: release second moments. Answered by `Matrix`.

    Attributes
    ----------
    label : str
        Of the plan.
    row_norm : float
        Rows are clipped to this norm.
    linear : SparseMatrix, optional
        A by which rows are multiplied first.
    offset : tuple of float, optional
        What is taken off every row before that.
    differences : bool
        Whether rows are differences of records; not without `linear`.
    own_mean : bool
        Whether each party takes off the mean that it released itself, instead of `offset`.
    """

    label: str
    row_norm: float
    linear: SparseMatrix | None
    offset: tuple[float, ...] | None
    differences: bool = False
    own_mean: bool = False

    def payload_bytes(self) -> int:
        """Return the size of the numbers."""
        size = 0 if self.linear is None else self.linear.payload_bytes()
        return size + BYTES_A_FLOAT * (1 + len(self.offset or ()))


@dataclass(frozen=True)
class AskOwn(Empty):
    """To the parties: release one clipped covariance with bounds and a mean of your own, and keep it. Answered by
    `Empty`.
    """


@dataclass(frozen=True)
class Finish(Empty):
    """To the parties: the run is over. Answered by `Empty`."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """From a party: released numbers, and the standard deviation of the noise in each."""

    values: Array
    noise_sd: float

    def check(self, shape: tuple[int, ...], sender: str) -> None:
        """Raise PartyFailed unless the values are finite and of this shape."""
        if self.values.shape != shape or not np.isfinite(self.values).all() or not 0 <= self.noise_sd < float("inf"):
            raise PartyFailed(f"{sender} sent malformed numbers: shape {self.values.shape}, expected {shape}, finite")

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * (self.values.size + 1)


@dataclass(frozen=True, eq=False)
class Matrix:
    """From a party: a released symmetric matrix, as its upper triangle, and the noise's scale (see `AnalyticGaussian`)."""

    d: int
    upper: Array
    scale: float

    @classmethod
    def of(cls, matrix: Array, scale: float) -> Matrix:
        """Return the message for a symmetric matrix."""
        return cls(len(matrix), matrix[np.triu_indices(len(matrix))], scale)

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed unless the matrix is well-formed, finite, and of `d` columns."""
        if self.d != d or self.upper.shape != (d * (d + 1) // 2,) or not np.isfinite(self.upper).all():
            raise PartyFailed(f"{sender} sent a malformed matrix: d = {self.d}, expected {d} and finite entries")
        if not 0 <= self.scale < float("inf"):
            raise PartyFailed(f"{sender} sent noise of scale {self.scale!r}")

    def dense(self) -> Array:
        """Return the matrix, shape (d, d)."""
        rows, columns = np.triu_indices(self.d)
        matrix = np.empty((self.d, self.d))
        matrix[rows, columns] = matrix[columns, rows] = self.upper
        return matrix

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * (self.upper.size + 1)


def _check_size(content: bytes, size: int, sender: str) -> None:
    if len(content) != size:
        raise PartyFailed(f"{sender} sent {len(content)} bytes, expected {size}")


@dataclass(frozen=True)
class AskSeat(Empty):
    """To the parties, before the charge: take part in secure sums. Answered by `SeatTaken`."""


@dataclass(frozen=True)
class SeatTaken:
    """From a party: a random number, so that what follows belongs to this run and no other."""

    nonce: bytes

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless these are so many bytes."""
        _check_size(self.nonce, size, sender)

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.nonce)


@dataclass(frozen=True)
class SeatsTaken:
    """To the parties, before the charge: who takes part. Answered by `Empty`.

    Attributes
    ----------
    names : tuple of str
        Of all who are there.
    nonces : bytes
        Theirs.
    mu : float
        The least that their budgets allow: the sum has noise for it.
    """

    names: tuple[str, ...]
    nonces: bytes
    mu: float

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.nonces) + BYTES_A_FLOAT


Question = AskHistogram | AskMean | AskMoments


@dataclass(frozen=True, eq=False)
class AskKeys:
    """To the parties: begin a secure sum of the answers to this question. Answered by `Keys`."""

    number: int
    question: AskHistogram | AskMean | AskMoments

    def payload_bytes(self) -> int:
        """Return the size of the numbers."""
        return self.question.payload_bytes()


@dataclass(frozen=True)
class Keys:
    """From a party: its keys for this sum, their signature, and what stands for the session, the sum and the question."""

    public: bytes
    signature: bytes
    context: bytes

    def check(self, public: int, signature: int, context: int, sender: str) -> None:
        """Raise PartyFailed unless these are so many bytes."""
        for content, size in ((self.public, public), (self.signature, signature), (self.context, context)):
            _check_size(content, size, sender)

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.public) + len(self.signature) + len(self.context)


@dataclass(frozen=True)
class AskShares:
    """To the parties: everybody's keys. Answered by `Sealed`."""

    number: int
    names: tuple[str, ...]
    public: bytes
    signatures: bytes

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.public) + len(self.signatures)


@dataclass(frozen=True)
class Sealed:
    """From a party: shares of its secrets, sealed for each receiver."""

    shares: bytes

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless these are so many bytes."""
        _check_size(self.shares, size, sender)

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.shares)


@dataclass(frozen=True)
class AskMasked:
    """To the parties: everybody's sealed shares. Answered by `Masked`; rows are read now."""

    number: int
    names: tuple[str, ...]
    shares: bytes

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.shares)


@dataclass(frozen=True, eq=False)
class Masked:
    """From a party: its numbers, masked, modulo 2^64.

    Attributes
    ----------
    words : ndarray of int64
        The same bits as the whole numbers from 0 to 2^64 - 1.
    unit : float
        What 1 of the sum stands for, in the sum of answers that are not divided by a number of rows.
    scale : float
        Standard deviation of one party's noise, in the same units; on the diagonal of a matrix.
    """

    words: NDArray[np.int64]
    unit: float
    scale: float

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless there are so many numbers, of a unit and noise that can be."""
        if self.words.shape != (size,) or not 0 < self.unit < float("inf") or not 0 < self.scale < float("inf"):
            raise PartyFailed(
                f"{sender} sent masked numbers of shape {self.words.shape}, expected {(size,)}, or no unit"
            )

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * (self.words.size + 2)


@dataclass(frozen=True)
class AskConfirmed(Empty):
    """To the parties: whose numbers arrived. Answered by `Confirmed`."""

    number: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Confirmed:
    """From a party: its signature under the list."""

    signature: bytes

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless these are so many bytes."""
        _check_size(self.signature, size, sender)

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.signature)


@dataclass(frozen=True)
class AskUnmask:
    """To the parties: who signed the list. Answered by `Unmasked`."""

    number: int
    names: tuple[str, ...]
    signers: tuple[str, ...]
    signatures: bytes

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.signatures)


@dataclass(frozen=True)
class Unmasked:
    """From a party: a share for each of those whose shares it has."""

    shares: bytes

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless these are so many bytes."""
        _check_size(self.shares, size, sender)

    def payload_bytes(self) -> int:
        """Return the number of bytes."""
        return len(self.shares)
