"""The coordinator's half of FedACD: it counts votes, and sees neither rows nor p-values."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.constraint.orientation import Orientation, unshielded_triples
from privfcd.algorithms.fedacd import messages
from privfcd.algorithms.fedacd.settings import Settings
from privfcd.algorithms.fedacd.votes import MASKED, CountedArcs, counted, counted_arcs, counted_triples
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.rounds import expect

Edges = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LayerRecord:
    """One layer: conditioning sets of `size`, edges before and after, masked votes, bytes and seconds so far."""

    size: int
    before: int
    after: int
    masked: int
    bytes_exchanged: int
    seconds: float
    adjacent: Edges


@dataclass(frozen=True, eq=False)
class Outcome:
    """The skeleton, the DAG of votes, the class that v-structures make of its edges (None by the paper's rules).

    `asked` and `silent` count the parties' tests of each pair: how many there were, and how many could not say.
    """

    skeleton: Edges
    arcs: CountedArcs
    orientation: Orientation | None
    layers: list[LayerRecord]
    asked: NDArray[np.int64]
    silent: NDArray[np.int64]


class FedACDCoordinator:
    """Runs the layers and the orientation.

    Parameters
    ----------
    settings : Settings
        Public parameters.
    columns : tuple of str
        The variables' names, in the order of the matrices.
    """

    def __init__(self, settings: Settings, columns: tuple[str, ...]) -> None:
        self._settings = settings
        self._columns = columns

    def run(self, federation: Federation) -> Outcome:
        """Offer, charge, vote layer by layer until no variable has more neighbours than a set needs, and orient."""
        began = time.perf_counter()
        settings = self._settings.voted_by(len(federation.names))
        federation.ask(messages.Offer(settings, self._columns))
        federation.ask(messages.Charge())
        d = len(self._columns)
        adjacent: Edges = ~np.eye(d, dtype=np.bool_)
        layers: list[LayerRecord] = []
        for size in range(settings.max_cond_vars + 1):
            if int(adjacent.sum(axis=1).max(initial=0)) <= size:
                break
            ask = messages.Layer(size, adjacent)
            answers = expect(federation, ask, messages.EdgeVotes, adjacent)
            votes = [answer.votes for answer in answers]
            after = counted(adjacent, votes, masked_stay=settings.as_published)
            layers.append(
                LayerRecord(
                    size=size,
                    before=int(adjacent.sum()) // 2,
                    after=int(after.sum()) // 2,
                    masked=int((np.stack(votes) == MASKED).sum()) // 2,
                    bytes_exchanged=federation.bytes_exchanged,
                    seconds=time.perf_counter() - began,
                    adjacent=after,
                )
            )
            adjacent = after
        graphs = expect(federation, messages.Orient(adjacent), messages.Arcs, adjacent)
        arcs = counted_arcs([graph.matrix for graph in graphs], settings.quorum)
        orientation = None if settings.as_published else self._v_structures(federation, arcs.matrix | arcs.matrix.T)
        tests = expect(federation, messages.AskTests(), messages.Tests, d)
        federation.ask(messages.Finish())
        asked, silent = sum(counts.asked for counts in tests), sum(counts.silent for counts in tests)
        return Outcome(adjacent, arcs, orientation, layers, np.asarray(asked), np.asarray(silent))

    def _v_structures(self, federation: Federation, adjacent: Edges) -> Orientation:
        many = len(unshielded_triples(adjacent))
        if not many:
            return counted_triples(adjacent, [])
        answers = expect(federation, messages.Triples(adjacent), messages.VStructureVotes, many)
        return counted_triples(adjacent, [answer.votes for answer in answers])
