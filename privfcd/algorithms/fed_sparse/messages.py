"""The messages of Fed-Sparse-BNSL, in the order in which they pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import BYTES_A_FLOAT, Empty, SparseMatrix
from privfcd.errors import PartyFailed


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: what will be run, before anything is charged. Answered by `Quote`.

    Attributes
    ----------
    settings : Settings
    columns : tuple of str
    required : bool
        Whether a party whose budget does not allow it refuses, or says so.
    """

    settings: Settings
    columns: tuple[str, ...]
    required: bool = True


@dataclass(frozen=True)
class Quote(Empty):
    """From a party: it can take part. Row counts are public.

    Attributes
    ----------
    n_rows : int
        Public.
    private : bool
        Whether the table has a budget.
    update_noise, refit_noise : float
        Standard deviation of the noise that the plan puts on a gradient entry of an update, and of the refit on a support
        of one entry, in units of the entry's clip: public, as the plan is; 0 without noise.
    possible : bool
        Whether the budget allows the run.
    """

    n_rows: int
    private: bool
    update_noise: float = 0.0
    refit_noise: float = 0.0
    possible: bool = True


@dataclass(frozen=True)
class Charge(Empty):
    """To the parties: charge the whole run. Answered by `Empty`; rows are read only when all have been charged.

    Parties are asked in turn, so that after a refusal no other is charged.
    """

    in_turn: ClassVar[bool] = True


@dataclass(frozen=True)
class Start(Empty):
    """To the parties: do the setup releases. Answered by `Started`."""

    share_smoothness: bool


@dataclass(frozen=True)
class Started:
    """From a party: what its setup released.

    Attributes
    ----------
    second_moments : tuple of float, optional
        The released mean squares of the columns, if they are to be shared.
    noise_sd : tuple of float, optional
        Standard deviation of the noise in them.
    most : tuple of float, optional
        What the squares were cut off at; left out where they were not.
    """

    second_moments: tuple[float, ...] | None
    noise_sd: tuple[float, ...] | None
    most: tuple[float, ...] | None = None

    def check(self, d: int, shared: bool, sender: str) -> None:
        """Raise PartyFailed unless every list has `d` finite numbers, and those that are to be `shared` are there."""
        for what in ("second_moments", "noise_sd", "most"):
            values = getattr(self, what)
            if values is None and not (shared and what != "most"):
                continue
            if values is None or len(values) != d or not np.isfinite(np.array(values, dtype=np.float64)).all():
                raise PartyFailed(f"{sender} sent {what} that are not {d} finite numbers")

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        lists = (self.second_moments, self.noise_sd, self.most)
        return BYTES_A_FLOAT * sum(len(values) for values in lists if values is not None)


@dataclass(frozen=True)
class Configure:
    """To the parties: the constants that all share. Answered by `Empty`.

    Attributes
    ----------
    second_moments : tuple of float, optional
        Mean squares of the columns, averaged over parties; None where each party keeps its own.
    clip : float, optional
        C; None where each party finds its own.
    """

    second_moments: tuple[float, ...] | None
    clip: float | None

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * (len(self.second_moments or ()) + (self.clip is not None))


@dataclass(frozen=True, eq=False)
class Round:
    """To the parties: the consensus W that round `number` (1, 2, ...) starts from. Answered by `LocalUpdate`."""

    number: int
    weights: SparseMatrix

    def payload_bytes(self) -> int:
        """Return the size of W."""
        return self.weights.payload_bytes()


@dataclass(frozen=True, eq=False)
class LocalUpdate:
    """From a party: its B after this round's updates; None where its weights are too large to be computed with.

    What is too large follows from public and released numbers, never from the rows.
    """

    weights: SparseMatrix | None

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed unless B is a well-formed matrix of `d` columns, or left out."""
        if self.weights is not None:
            self.weights.check(d, sender)

    def payload_bytes(self) -> int:
        """Return the size of B."""
        return 0 if self.weights is None else self.weights.payload_bytes()


@dataclass(frozen=True, eq=False)
class Refit:
    """To the parties: the gradient on the support of these weights, please. Answered by `SupportSlope`.

    Attributes
    ----------
    number : int
        1, 2, ... of the refit.
    weights : SparseMatrix
        Acyclic, not all 0.
    """

    number: int
    weights: SparseMatrix

    def payload_bytes(self) -> int:
        """Return the size of the weights."""
        return self.weights.payload_bytes()


@dataclass(frozen=True, eq=False)
class SupportSlope:
    """From a party: its gradient on the support, in the order of the weights' indices, with noise."""

    values: NDArray[np.float64]

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless there are `size` finite numbers."""
        if self.values.shape != (size,) or not np.isfinite(self.values).all():
            raise PartyFailed(f"{sender} sent a gradient that is not {size} finite numbers")

    def payload_bytes(self) -> int:
        """Return 8 bytes a number: the places are known."""
        return BYTES_A_FLOAT * len(self.values)


@dataclass(frozen=True, eq=False)
class Finish:
    """To the parties: the final W. Answered by `Empty`."""

    weights: SparseMatrix

    def payload_bytes(self) -> int:
        """Return the size of W."""
        return self.weights.payload_bytes()
