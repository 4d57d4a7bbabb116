"""The messages of PERI and I-PERI, in the order in which they pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.protocol import BYTES_A_FLOAT, Empty
from privfcd.algorithms.scores import Family
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.graphs.pdag import Pdag

Array = NDArray[np.float64]
Mask = Literal["directed", "none", "skeleton", "targets"]
MASKS: tuple[Mask, ...] = ("directed", "none", "skeleton", "targets")


def graph_bytes(d: int) -> int:
    """Return the size of a partially directed graph: two bits for each pair of nodes."""
    return -(-d * (d - 1) // 8)


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: what will be run. Answered by `Quote`."""

    settings: Settings
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Quote(Empty):
    """From a party: it can take part. Row counts are public."""

    n_rows: int


@dataclass(frozen=True)
class AskRegrets:
    """To the parties: the regrets of some families. Answered by `Regrets`.

    Attributes
    ----------
    families : tuple of (int, int)
        Nodes with the masks of their parents.
    mask : str
        What a party does to the parents first: `"directed"` keeps those that its CPDAG has as neighbours or parents
        (mu), `"skeleton"` those that are adjacent there, `"none"` all. `"targets"`: all or nothing, whichever fits
        better, where nothing says that the node is one of the party's targets and costs ln(n) / 2.
    per_parent : float, optional
        Factor of ln n for each parent, in place of the BIC's 1/2.
    d : int
        Number of nodes.
    """

    families: tuple[Family, ...]
    mask: Mask
    d: int
    per_parent: float | None = None

    def payload_bytes(self) -> int:
        """Return the size of the families: a node and one bit for each possible parent."""
        return len(self.families) * -(-(max(1, (self.d - 1).bit_length()) + self.d) // 8)


@dataclass(frozen=True, eq=False)
class Regrets:
    """From a party: a regret for each family asked for, in nats of its log-likelihood.

    Attributes
    ----------
    values : ndarray of shape (families,)
        The score of the family in the party's own CPDAG less that of the masked family.
    """

    values: Array

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless these are `size` finite numbers."""
        if self.values.shape != (size,) or not np.isfinite(self.values).all():
            raise PartyFailed(f"{sender} sent malformed regrets: shape {self.values.shape}, expected ({size},), finite")

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return BYTES_A_FLOAT * len(self.values)


@dataclass(frozen=True)
class AskColliders:
    """To the parties: the regrets of a graph with more colliders. Answered by `ColliderRegrets`.

    Attributes
    ----------
    graph : Pdag
        The common graph so far.
    candidates : tuple of tuples of (int, int)
        Arrows that each candidate adds to the graph: none, for the graph itself, or the two of a collider.
    """

    graph: Pdag
    candidates: tuple[tuple[tuple[int, int], ...], ...]

    def payload_bytes(self) -> int:
        """Return the size of the graph and of three node numbers a candidate."""
        node = -(-max(1, (self.graph.p - 1).bit_length()) // 8)
        return graph_bytes(self.graph.p) + 3 * node * len(self.candidates)


@dataclass(frozen=True, eq=False)
class ColliderRegrets:
    """From a party: its regret of each candidate, under nu and under mu.

    Attributes
    ----------
    undirected, directed : ndarray of shape (candidates,)
        In nats of its log-likelihood.
    """

    undirected: Array
    directed: Array

    def check(self, size: int, sender: str) -> None:
        """Raise PartyFailed unless these are twice `size` finite numbers."""
        for values in (self.undirected, self.directed):
            Regrets(values).check(size, sender)

    def payload_bytes(self) -> int:
        """Return 8 bytes a number."""
        return 2 * BYTES_A_FLOAT * len(self.undirected)


@dataclass(frozen=True)
class AskGraph(Empty):
    """To the parties: what does your CPDAG say? Answered by `Graph`."""


@dataclass(frozen=True)
class Graph:
    """From a party: its CPDAG, which is as private as the moments that it was learnt from.

    Attributes
    ----------
    entries : tuple of int
        Columns of its matrix, as masks.
    """

    entries: tuple[int, ...]

    def check(self, d: int, sender: str) -> None:
        """Raise PartyFailed where this is no graph on `d` nodes."""
        self.decode(d, sender)

    def decode(self, d: int, sender: str) -> Pdag:
        """Return the graph, or raise PartyFailed where it is none on `d` nodes."""
        if not isinstance(self.entries, Sequence) or len(self.entries) != d:
            raise PartyFailed(f"{sender} sent a malformed graph: expected {d} columns")
        try:
            return Pdag.from_entries(self.entries)
        except (InvalidParameter, TypeError, IndexError) as error:
            raise PartyFailed(f"{sender} sent a malformed graph: {error}") from error

    def payload_bytes(self) -> int:
        """Return two bits for each pair of nodes."""
        return graph_bytes(len(self.entries))


@dataclass(frozen=True)
class Finish(Empty):
    """To the parties: the run is over. Answered by `Empty`."""
