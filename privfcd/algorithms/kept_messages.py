"""The messages about moments that parties release to themselves, by rounds of their own or otherwise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.protocol import BYTES_A_FLOAT, Empty
from privfcd.errors import PartyFailed
from privfcd.moments import Moments
from privfcd.moments.dependence import LeftOut

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: plan rounds of your own. Answered by `Planned`; nothing is charged yet.

    Attributes
    ----------
    required : bool
        Whether a party whose budget is too small for rounds refuses, or says so.
    """

    epsilon: float | None
    delta: float | None
    center: bool
    columns: tuple[str, ...]
    required: bool


@dataclass(frozen=True)
class Planned(Empty):
    """From a party: whether its budget allows the rounds."""

    possible: bool


@dataclass(frozen=True)
class Charge(Empty):
    """To the parties: charge the rounds. Answered by `Empty`; rows are read only when all have been charged."""


@dataclass(frozen=True)
class Release(Empty):
    """To the parties: do the rounds, and keep what comes of them. Answered by `Empty`."""


@dataclass(frozen=True)
class AskKept(Empty):
    """To the parties: what may be known of the moments that you keep? Answered by `Kept`."""


@dataclass(frozen=True, eq=False)
class Kept:
    """From a party: its moments where they are noisy; of exact ones no more than the columns' sizes.

    Attributes
    ----------
    moments : Moments, optional
        Noisy.
    squares : ndarray of shape (d,)
        Second moments of the columns.
    rows : int
    determined : tuple of LeftOut
        Of exact moments of more rows than columns: those that others determine.
    unknown : tuple of str
        Of noisy ones, from rounds of its own: columns of which the release says nothing.
    """

    moments: Moments | None
    squares: Array
    rows: int
    determined: tuple[LeftOut, ...]
    unknown: tuple[str, ...] = ()

    def check(self, columns: tuple[str, ...], sender: str) -> None:
        """Raise PartyFailed unless this is of these columns, and says no more than can be printed."""
        moments = self.moments
        fits = self.squares.shape == (len(columns),) and bool(np.isfinite(self.squares).all()) and self.rows >= 1
        fits = fits and (moments is None or (moments.columns == columns and moments.rows == self.rows))
        said = [each for each in self.determined if each.column not in columns or not each.relation.isprintable()]
        if not fits or said or len(self.determined) > len(columns) or not set(self.unknown) <= set(columns):
            raise PartyFailed(f"{sender} sent moments of other columns or rows, or none that can be")

    def payload_bytes(self) -> int:
        """Return the size of the numbers."""
        sent = self.squares.size
        if self.moments is not None:
            d = len(self.moments.columns)
            sent += d * (d + 1) // 2 + sum(_size(term.sd) + _size(term.carry) for term in self.moments.noise)
        return BYTES_A_FLOAT * sent


@dataclass(frozen=True)
class SetAside(Empty):
    """To the parties: learn without relations of these columns, which no learner can use. Answered by `Empty`."""

    columns: tuple[str, ...]


def _size(values: float | Array | None) -> int:
    return 0 if values is None else int(np.size(values))
