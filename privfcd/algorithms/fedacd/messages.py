"""The messages of FedACD, in the order in which they pass."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fedacd.settings import Settings
from privfcd.algorithms.fedacd.votes import KEEP, MASKED, MOST_SURE, REMOVE, TripleVotes, Votes
from privfcd.algorithms.protocol import Empty
from privfcd.errors import PartyFailed
from privfcd.moments.dependence import LeftOut

Edges = NDArray[np.bool_]


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: what will be run, before anything is charged. Answered by `Empty`."""

    settings: Settings
    columns: tuple[str, ...]


@dataclass(frozen=True)
class AskDetermined(Empty):
    """To parties that keep exact moments: which columns do others determine? Answered by `Determined`."""


@dataclass(frozen=True)
class Determined:
    """From a party: the columns that others determine by its own exact moments.

    Attributes
    ----------
    speaks : bool
        Whether it has more rows than columns: fewer rows determine some whatever the columns are.
    determined : tuple of LeftOut
    """

    speaks: bool
    determined: tuple[LeftOut, ...]

    def check(self, columns: tuple[str, ...], sender: str) -> None:
        """Raise PartyFailed unless this is of these columns, and can be printed."""
        said = [each for each in self.determined if each.column not in columns or not each.relation.isprintable()]
        if said or len(self.determined) > len(columns) or (self.determined and not self.speaks):
            raise PartyFailed(f"{sender} named columns that are none of the run's, or in words that cannot be printed")

    def payload_bytes(self) -> int:
        """Return the size of the words."""
        return 1 + sum(len((each.column + each.relation).encode()) for each in self.determined)


@dataclass(frozen=True)
class SetAside(Empty):
    """To the parties: vote without relations of these columns, which no voter can use. Answered by `Empty`."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Charge(Empty):
    """To the parties: charge the run. Answered by `Empty`; rows are read only when all have been charged."""


@dataclass(frozen=True, eq=False)
class Layer:
    """To the parties: vote on the edges of a skeleton, given sets of `size` neighbours. Answered by `EdgeVotes`."""

    size: int
    adjacent: Edges

    def payload_bytes(self) -> int:
        """Return one bit a pair of variables."""
        return _pair_bytes(self.adjacent, 1)


@dataclass(frozen=True, eq=False)
class EdgeVotes:
    """From a party: keep, remove or "cannot say" for every edge."""

    votes: Votes

    def payload_bytes(self) -> int:
        """Return two bits a pair of variables."""
        return _pair_bytes(self.votes, 2)

    def check(self, adjacent: Edges, sender: str) -> None:
        """Raise PartyFailed unless the votes are on the edges of `adjacent`."""
        votes = np.asarray(self.votes)
        if votes.shape != adjacent.shape or not np.isin(votes, (KEEP, REMOVE, MASKED)).all():
            raise PartyFailed(f"{sender} sent votes of shape {votes.shape}, or others than -1, 0 and 1")
        if not np.array_equal(votes, votes.T) or (votes[~adjacent] != REMOVE).any():
            raise PartyFailed(f"{sender} sent votes on pairs that were not asked for, or not the same both ways")


@dataclass(frozen=True, eq=False)
class Orient:
    """To the parties: orient this skeleton. Answered by `Arcs`."""

    adjacent: Edges

    def payload_bytes(self) -> int:
        """Return one bit a pair of variables."""
        return _pair_bytes(self.adjacent, 1)


@dataclass(frozen=True, eq=False)
class Arcs:
    """From a party: its DAG within the skeleton."""

    matrix: Edges

    def payload_bytes(self) -> int:
        """Return two bits a pair of variables."""
        return _pair_bytes(self.matrix, 2)

    def check(self, adjacent: Edges, sender: str) -> None:
        """Raise PartyFailed unless these are arcs on edges of `adjacent`, one way each."""
        matrix = np.asarray(self.matrix)
        if matrix.shape != adjacent.shape or matrix.dtype != np.bool_:
            raise PartyFailed(f"{sender} sent arcs of shape {matrix.shape} and type {matrix.dtype}")
        if (matrix & ~adjacent).any() or (matrix & matrix.T).any():
            raise PartyFailed(f"{sender} sent arcs outside the skeleton, or both ways")


@dataclass(frozen=True, eq=False)
class Triples:
    """To the parties: vote on the v-structures of these common edges. Answered by `VStructureVotes`."""

    adjacent: Edges

    def payload_bytes(self) -> int:
        """Return one bit a pair of variables."""
        return _pair_bytes(self.adjacent, 1)


@dataclass(frozen=True, eq=False)
class VStructureVotes:
    """From a party: a vote from -100 to 100 on each unshielded triple, in the order of `unshielded_triples`."""

    votes: TripleVotes

    def payload_bytes(self) -> int:
        """Return one byte a triple."""
        return len(self.votes)

    def check(self, many: int, sender: str) -> None:
        """Raise PartyFailed unless these are votes on `many` triples."""
        votes = np.asarray(self.votes)
        if votes.shape != (many,) or votes.dtype != np.int8 or (np.abs(votes.astype(np.int64)) > MOST_SURE).any():
            raise PartyFailed(
                f"{sender} sent votes of shape {votes.shape} and type {votes.dtype} on {many} v-structures, or others than "
                f"-{MOST_SURE} to {MOST_SURE}"
            )


@dataclass(frozen=True)
class AskTests(Empty):
    """To the parties: how many tests of each pair were made? Answered by `Tests`."""


@dataclass(frozen=True, eq=False)
class Tests:
    """From a party: of each pair how many tests it made, and how many of them could not say, shape (d, d) each."""

    asked: NDArray[np.int64]
    silent: NDArray[np.int64]

    def payload_bytes(self) -> int:
        """Return two bytes a pair for each."""
        return 2 * _pair_bytes(self.asked, 16)

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed unless these are counts of pairs of `d` variables."""
        for counts in (self.asked, self.silent):
            if counts.shape != (d, d) or counts.dtype != np.int64 or (counts < 0).any():
                raise PartyFailed(f"{sender} sent counts of shape {counts.shape} and type {counts.dtype}")


@dataclass(frozen=True)
class Finish(Empty):
    """To the parties: the run is over. Answered by `Empty`."""


def check_skeleton(adjacent: Edges, d: int, receiver: str) -> None:
    """Raise PartyFailed unless `adjacent` is a skeleton on `d` variables."""
    matrix = np.asarray(adjacent)
    if matrix.shape != (d, d) or matrix.dtype != np.bool_ or (matrix != matrix.T).any() or matrix.diagonal().any():
        raise PartyFailed(f"{receiver} was sent a skeleton of shape {matrix.shape} that is none on {d} variables")


def _pair_bytes(matrix: NDArray[np.generic], bits: int) -> int:
    d = len(matrix)
    return math.ceil(bits * d * (d - 1) / 2 / 8)
