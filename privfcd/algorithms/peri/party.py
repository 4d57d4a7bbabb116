"""The party's half of PERI and I-PERI: it keeps its CPDAG, and answers with regrets of what the coordinator asks about.

Where its moments were released with noise that was paid for, all that happens here is post-processing. With exact
moments every answer tells something about single records, and the mask tells the party's graph: the regret of (x,
nothing) is that of (x, z) exactly where z is not adjacent to x. Such a run is charged as non-private.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.inputs import aligned
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.local_graph import learnt_cpdag, repaired
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.peri.sources import MomentRegrets, RegretSource
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.terms import Terms
from privfcd.errors import PartyFailed
from privfcd.graphs.masks import directed_consensus, undirected_consensus
from privfcd.graphs.orders import consistent_extension
from privfcd.graphs.pdag import Pdag, with_arrows
from privfcd.moments import Moments

Array = NDArray[np.float64]


class PERIParty:
    """Answers the coordinator's messages from one party's moments.

    Parameters
    ----------
    name : str
        The party's name, public.
    moments : Moments
        Its own; they do not leave.
    graph : Pdag, optional
        Its CPDAG, where it has one already; learnt from the moments by default.
    source : RegretSource, optional
        What answers for it; the moments by default.
    """

    def __init__(
        self, name: str, moments: Moments, graph: Pdag | None = None, source: RegretSource | None = None
    ) -> None:
        self._name = name
        self._moments = moments
        self._given = graph
        self._source = source
        self._settings: Settings | None = None
        self._terms = Terms()

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._name

    @property
    def graph(self) -> Pdag:
        """Its CPDAG, once it was offered a run; for its owner."""
        self._agreed()
        return self._graph

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        if self._settings is not None and not isinstance(message, messages.Offer):
            self._terms.final = True
        match message:
            case messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case messages.AskRegrets():
                return messages.Regrets(self._regrets(message))
            case messages.AskColliders():
                return self._colliders(message)
            case messages.AskGraph():
                if self._agreed().orientation != "votes":
                    raise PartyFailed(f"{self.name} agreed to no votes, and was asked for its graph")
                return messages.Graph(self.graph.entries())
            case messages.Finish():
                return Empty()
        raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")

    def _consider(self, offer: messages.Offer) -> messages.Quote:
        own = self._moments
        offer.settings.check_columns(len(offer.columns))
        if sorted(offer.columns) != sorted(own.columns):
            raise PartyFailed(f"{self.name} has the columns {list(own.columns)}, not {list(offer.columns)}")
        own = aligned(own, offer.columns)
        self._settings = offer.settings
        self._columns = offer.columns
        self._graph = learnt_cpdag(own, offer.settings) if self._given is None else repaired(self._given)
        if self._graph.p != len(offer.columns):
            raise PartyFailed(f"{self.name} has a graph on {self._graph.p} nodes for {len(offer.columns)} columns")
        self._regret_of = MomentRegrets(own, offer.settings.penalty) if self._source is None else self._source
        member = consistent_extension(self._graph)
        assert member is not None  # learnt graphs are CPDAGs, and given ones were repaired
        self._own = member.parents
        return messages.Quote(own.rows)

    def _agreed(self) -> Settings:
        if self._settings is None:
            raise PartyFailed(f"{self.name} was asked to work before it was offered a run")
        return self._settings

    def _regrets(self, message: messages.AskRegrets) -> Array:
        self._agreed()
        d = len(self._columns)
        if message.mask not in self._masks():
            raise PartyFailed(f"{self.name} was asked for a mask that the run does not use: {message.mask!r}")
        for node, parents in message.families:
            if not 0 <= node < d or parents < 0 or parents >> d or parents >> node & 1:
                raise PartyFailed(f"{self.name} was asked for a family that is none: {(node, parents)}")
        sets: tuple[int, ...] = ((1 << d) - 1,) * d
        if message.mask in ("directed", "skeleton"):
            sets = self._graph.entries() if message.mask == "directed" else self._graph.adjacent
        masked = [(node, parents & sets[node]) for node, parents in message.families]
        regrets = self._regret_of.regrets(masked, self._own)
        rows = math.log(self._regret_of.rows)
        if message.mask == "targets":
            alone = self._regret_of.regrets([(node, 0) for node, _ in masked], self._own) + rows / 2
            regrets = np.where([parents > 0 for _, parents in masked], np.minimum(regrets, alone), regrets)
        if message.per_parent is not None:
            extra = (message.per_parent - self._agreed().penalty / 2) * rows
            regrets = regrets + extra * np.array([parents.bit_count() for _, parents in masked])
        return np.asarray(regrets)

    def _masks(self) -> set[messages.Mask]:
        """Return what a run of these settings asks for: every further mask would show more of the party's graph."""
        settings = self._agreed()
        masks: set[messages.Mask] = {"directed" if settings.masked else "none"}
        if settings.refine:
            masks.add("targets")
        if settings.orientation == "authors":
            masks.add("skeleton")
        return masks

    def _regret(self, graph: Pdag) -> float:
        """Return the regret of a partially directed graph: that of a DAG of its class."""
        dag = consistent_extension(repaired(graph))
        assert dag is not None
        return math.fsum(self._regret_of.regrets(list(enumerate(dag.parents)), self._own).tolist())

    def _colliders(self, message: messages.AskColliders) -> messages.ColliderRegrets:
        """Return the regret of the common graph with each candidate's arrows, under nu and under mu."""
        settings, d = self._agreed(), len(self._columns)
        if not settings.masked and settings.orientation != "regret":
            raise PartyFailed(f"{self.name} agreed to no masks, and was asked for regrets of a masked graph")
        if message.graph.p != d:
            raise PartyFailed(f"{self.name} was asked about a graph on {message.graph.p} nodes")
        if not all(0 <= node < d for more in message.candidates for arrow in more for node in arrow):
            raise PartyFailed(f"{self.name} was asked about arrows between nodes that are none of {d}")
        graphs = [with_arrows(message.graph, more) for more in message.candidates]
        undirected, directed = (
            np.array([self._regret(mask(graph, self._graph)) for graph in graphs])
            for mask in (undirected_consensus, directed_consensus)
        )
        return messages.ColliderRegrets(undirected, directed)
