"""The party's half of FedACD: tests, masks, and a climb, on rows behind a ledger or on moments that were released.

On a table that is open a party reads contingency tables of its rows through `PrivateTable`, charged as non-private. On
moments, exact or noisy, everything is post-processing.
"""

from __future__ import annotations

import numpy as np
from dp_accounting import NonPrivateDpEvent
from numpy.typing import NDArray

from privfcd.algorithms.bdeu import BDeu
from privfcd.algorithms.constraint.block_moments import BlockMoments
from privfcd.algorithms.constraint.fisher_z import FisherZ
from privfcd.algorithms.constraint.g_squared import GSquared
from privfcd.algorithms.constraint.separating_sets import separating_sets
from privfcd.algorithms.constraint.skeleton import IndependenceTest, Skeleton, run_layer
from privfcd.algorithms.fedacd import messages
from privfcd.algorithms.fedacd.reference import run_reference_layer
from privfcd.algorithms.fedacd.settings import Settings
from privfcd.algorithms.fedacd.votes import edge_votes, v_structure_votes
from privfcd.algorithms.hill_climb import hill_climb
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.results import table_report
from privfcd.algorithms.scores import GaussianBIC, LocalScore
from privfcd.algorithms.terms import Terms
from privfcd.data.contingency import ContingencyTables
from privfcd.data.encoding import Contrasts
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.ledger import PlanPart, Reservation
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.mechanisms import Gaussian
from privfcd.moments import Moments

Array = NDArray[np.float64]

COUNTS = "contingency tables"
MOST_QUERIES = 100_000
"""How many batches of contingency tables an open run reserves; a run asks a few dozen."""


class FedACDParty:
    """Answers the coordinator's messages from a table of discrete columns, or from moments.

    Parameters
    ----------
    source : PrivateTable or Moments
        A table without a budget, whose columns are discrete; or moments.
    name : str
        The party's name.

    Attributes
    ----------
    asked, silent : ndarray of int, shape (d, d), or None
        As of `Skeleton`, over all layers so far; they stay at the party.
    """

    def __init__(self, source: PrivateTable | Moments, name: str) -> None:
        self._source = source
        self._name = name
        self._settings: Settings | None = None
        self._columns: tuple[str, ...] = ()
        self._terms = Terms()
        self._test: IndependenceTest | None = None
        self._related: NDArray[np.bool_] | None = None
        self._score: LocalScore | None = None
        self._separators: dict[tuple[int, int], tuple[int, ...]] = {}
        self._arcs: NDArray[np.bool_] | None = None
        self.asked: NDArray[np.int64] | None = None
        self.silent: NDArray[np.int64] | None = None
        self.reservation: Reservation | None = None

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._name

    def reports(self) -> list[PrivacyReport]:
        """See `privfcd.algorithms.opening.PayingParty.reports`; on moments, which were paid for before, there are none."""
        if self.reservation is None or not isinstance(self._source, PrivateTable):
            return []
        return [table_report(self._source, self.reservation, delta=None, declared={}, assumptions=())]

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        match message:
            case messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case messages.Charge():
                return self._charge()
            case messages.Layer():
                return self._vote(message)
            case messages.Orient():
                return self._orient(message)
            case messages.Triples():
                return self._v_structures(message)
            case messages.AskTests():
                none = np.zeros((len(self._columns), len(self._columns)), dtype=np.int64)
                return messages.Tests(*(none if counts is None else counts for counts in (self.asked, self.silent)))
            case messages.Finish():
                if self.reservation is not None:
                    self.reservation.close()
                return Empty()
        raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")

    def _consider(self, offer: messages.Offer) -> Empty:
        source, settings = self._source, offer.settings
        self._settings, self._columns = settings, offer.columns
        if isinstance(source, PrivateTable):
            if not source.open or settings.levels is None:
                raise InvalidParameter(
                    f"{self.name} can be asked for exact counts of discrete columns of an open table only"
                )
            self._source = source.reordered(offer.columns)
            source.ledger.check([_part()], self._label)
        return Empty()

    def _charge(self) -> Empty:
        source, settings = self._source, self._agreed()
        self._terms.settle(self.name)
        if isinstance(source, PrivateTable):
            assert settings.levels is not None
            self.reservation = source.ledger.reserve([_part()], self._label)
            self._test = GSquared(settings.levels, self._counts, source.n_rows, settings.per_cell)
            self._score = BDeu(settings.levels, self._counts, settings.sample_size)
        elif settings.levels is None:
            self._test, self._score = FisherZ(source), GaussianBIC(source)
            self._related = np.asarray((source.matrix - np.diag(np.diag(source.matrix))).any(axis=0))
        else:
            blocks = BlockMoments(source, Contrasts(settings.levels))
            self._test, self._score = blocks, blocks
        return Empty()

    def _vote(self, message: messages.Layer) -> messages.EdgeVotes:
        settings = self._agreed()
        if self._test is None:
            raise PartyFailed(f"{self.name} was asked to vote before it was charged")
        messages.check_skeleton(message.adjacent, self._test.d, self.name)
        skeleton = Skeleton(message.adjacent.copy())
        run = run_reference_layer if settings.variant == "reference" else run_layer
        run(skeleton, self._test, settings.alpha, message.size)
        self.asked = skeleton.asked if self.asked is None else self.asked + skeleton.asked
        self.silent = skeleton.silent if self.silent is None else self.silent + skeleton.silent
        self._separators |= skeleton.separators
        # a column without any relation was set aside: it is no removal that could be masked
        unsure = message.adjacent
        if self._related is not None:
            unsure = unsure & np.outer(self._related, self._related)
        votes = edge_votes(unsure, skeleton.adjacent, skeleton.p_values, settings.mask_rate)
        self._note(f"layer {message.size}")
        return messages.EdgeVotes(votes)

    def _orient(self, message: messages.Orient) -> messages.Arcs:
        if self._score is None:
            raise PartyFailed(f"{self.name} was asked to orient before it was charged")
        messages.check_skeleton(message.adjacent, self._score.d, self.name)
        self._arcs = hill_climb(self._score, message.adjacent).matrix()
        self._note("orientation")
        return messages.Arcs(self._arcs)

    def _v_structures(self, message: messages.Triples) -> messages.VStructureVotes:
        settings = self._agreed()
        if self._test is None or self._arcs is None:
            raise PartyFailed(f"{self.name} was asked for v-structures before it was asked to orient")
        messages.check_skeleton(message.adjacent, self._test.d, self.name)
        shares = separating_sets(message.adjacent, self._test, settings.alpha, settings.max_cond_vars)
        votes = v_structure_votes(message.adjacent, self._arcs, self._separators, shares)
        self._note("v-structures")
        return messages.VStructureVotes(votes)

    def _counts(self, query: ContingencyTables) -> Array:
        source = self._source
        assert isinstance(source, PrivateTable)
        return source.release(query, Gaussian(0.0), label=COUNTS, reservation=self.reservation)

    def _note(self, label: str) -> None:
        if self.reservation is not None:
            self.reservation.checkpoint(label)

    def _agreed(self) -> Settings:
        if self._settings is None:
            raise PartyFailed(f"{self.name} was asked to work before it was offered a run")
        return self._settings

    @property
    def _label(self) -> str:
        return "FedACD"


def _part() -> PlanPart:
    return PlanPart(COUNTS, NonPrivateDpEvent(), MOST_QUERIES)
