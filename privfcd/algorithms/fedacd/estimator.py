"""FedACD and its private version as one estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from privfcd import checks
from privfcd.algorithms.constraint.block_moments import BlockMoments
from privfcd.algorithms.constraint.orientation import Orientation
from privfcd.algorithms.constraint.untested import store_untested
from privfcd.algorithms.declared import Takes
from privfcd.algorithms.fedacd import messages
from privfcd.algorithms.fedacd.coordinator import FedACDCoordinator, LayerRecord, Outcome
from privfcd.algorithms.fedacd.levels import Levels, declared_levels, encoded_variables
from privfcd.algorithms.fedacd.party import FedACDParty
from privfcd.algorithms.fedacd.settings import EXACT_ALPHA, Settings, noisy_alpha
from privfcd.algorithms.fedacd.votes import CountedArcs
from privfcd.algorithms.inputs import aligned
from privfcd.algorithms.judgement import judge
from privfcd.algorithms.learner import ACYCLIC, CAUSES, FAITHFUL, ROWS, OnRound, settings_of
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.moment_learner import _ReleaseLearner
from privfcd.algorithms.opening import AskFacts, Facts, StagedParty, ask_facts
from privfcd.algorithms.protocol import Empty, Federation, Message, Party
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.release import release_notes
from privfcd.algorithms.release.settings import SUMS, ReleaseSettings
from privfcd.algorithms.results import store_cpdag, store_released
from privfcd.algorithms.rounds import expect
from privfcd.algorithms.scores import effective_rows
from privfcd.algorithms.usable import left_out_notes, usable
from privfcd.data.encoding import CONSTANT, Contrasts
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.pdag import Pdag, pdag_to_networkx
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.moments import Moments, pooled
from privfcd.moments.dependence import LeftOut, left_out, without

COMBINE = ("auto", "vote", "sum")


@dataclass(eq=False, repr=False)
class FedACD(_ReleaseLearner):
    """Federated causal discovery by votes on the edges that each party can judge.

    Parties test independence on their own rows, layer by layer; of the edges that a party would remove it masks those
    that it is least sure of, and the federation keeps what most of the others keep. Then each votes on the v-structures, by
    its tests and by its score, and Meek's rules direct what follows from those that win: directions that the data cannot
    tell are left open. The result does not depend on the order of columns or parties.

    On tables with a budget one release of second moments per party pays for everything, and tests, masks and orientation are
    post-processing that knows the noise. Discrete columns are encoded record by record first, so that their second
    moments are all pairs of marginals.

    Parameters
    ----------
    levels : int, sequence or mapping of column to int, optional
        Declared number of levels of each discrete column, public, values 0, 1, ...; None for continuous columns. All
        columns must be of one kind.
    alpha : float, optional
        Level of the tests, in (0, 1). By default 0.01 on exact answers; more on noisy ones, see
        `noisy_alpha`: where noise takes power, edges are lost rather than invented.
    max_cond_vars : int
        Size of the largest conditioning set.
    mask_rate : float
        r in [0, 1]: the share of its removals, those with the smallest p-values, on which a party does not vote. 0 is
        plain voting; a single voter masks nothing.
    quorum : float
        In [0, 1]: the share of parties that must have an edge in their DAGs for it to enter the result.
    combine : str
        `"vote"`: parties vote. `"sum"`: their moments are added up, and the sum is the only voter. `"auto"`: vote where
        answers are exact, sum where they are noisy: noise that is averaged first misleads fewer tests.
    variant : str
        `"stable"`; `"paper"`: the paper's rules, by which an edge that all parties mask stays, and the votes' DAG is the
        result; or `"reference"`: those with the authors' order-dependent skeleton phase, for comparison.
    per_cell : float
        Tests of discrete columns with fewer rows for each cell leave the edge.
    sample_size : float
        Equivalent sample size of the BDeu score.
    release : str
        What tables release: `"preconditioned"`, `"covariance"`, `"exact"` (open tables), or `"auto"`. Open tables of
        discrete columns answer with contingency tables under `"auto"` and `"exact"`.
    sum : str
        `"per-party"`; or one noise for the sum over all tables, `"trusted"` or `"secure"`, see `release_moments`.
    colluders, dropouts : int
        For `sum="secure"`: how many parties may tell the coordinator all they know, and how many may be lost.
    center : bool, optional
        Whether continuous columns' means are taken off; paid for, on tables with a budget, see `release_moments`. By default
        on for tables.
    row_norm, epsilon, delta : float, optional
        Of `release_moments`. The row norm of discrete columns is known from their levels.

    Attributes
    ----------
    cpdag_ : Pdag
        The class; where the votes on v-structures contradict each other (`orientation_.valid` False) a graph that is none.
        By the paper's rules the class of the DAG.
    causal_graph_ : networkx.DiGraph
        The same; an undirected edge is two arcs with `undirected` True. By the paper's rules the DAG of votes,
        `votes_.matrix`. `weight` is the number of parties whose DAG has the edge, whichever its direction.
    adjacency_matrix_ : ndarray of shape (d, d)
        These weights: [i, j] alone is i -> j, [i, j] and [j, i] together are i - j.
    orientation_ : Orientation or None
        How many v-structures contradicted each other; None by the paper's rules.
    alpha_ : float
        The tests' level.
    skeleton_ : ndarray of bool, shape (d, d)
        After the last layer.
    votes_ : CountedArcs
        The DAG of votes, as in the paper: support, ties, and arcs that were turned to avoid cycles. It directs every edge.
    layers_ : list of LayerRecord
    history_ : list of dict
        A row a layer.
    untested_ : list of (str, str)
        Edges of which no test of any voter could say anything, as of `PC`.
    moments_ : Moments or None
        What was released, of all rows: another fit to them costs nothing. None where every party kept its own.
    released_moments_ : tuple of Moments or None
        Each voter's noisy ones, in this process, for `edge_stability`; None where one voter's are exact.
    rule_, bytes_exchanged_, privacy_report_, privacy_spent_, feature_names_in_, n_features_in_
        As of the other estimators.
    """

    method = "fedacd"
    least_columns = 1
    may_take = (("numbers",), ("levels",))
    graph = "cpdag"
    weight = "The weight counts voters: how many of them had the edge, whichever its direction."
    weight_name = "Votes"
    rests_on = (ROWS, CAUSES, ACYCLIC, FAITHFUL)
    charging = (release_messages.Charge, messages.Charge)
    ending = (messages.Finish,)
    message_modules = (release_messages, messages)

    levels: Levels | None = None
    alpha: float | None = None
    max_cond_vars: int = 3
    mask_rate: float = 0.6
    quorum: float = 0.0
    combine: str = "auto"
    variant: str = "stable"
    per_cell: float = 5.0
    sample_size: float = 10.0
    sum: str = field(default="per-party", kw_only=True)
    colluders: int = field(default=1, kw_only=True)
    dropouts: int = field(default=0, kw_only=True)

    cpdag_: Pdag = field(init=False)
    orientation_: Orientation | None = field(init=False)
    votes_: CountedArcs = field(init=False)
    layers_: list[LayerRecord] = field(init=False)
    moments_: Moments | None = field(init=False)

    @property
    def takes(self) -> tuple[Takes, ...]:
        """See `Learner.takes`."""
        return self.may_take[0] if self.levels is None else self.may_take[1]

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        for name, accepted in (("combine", COMBINE), ("sum", SUMS)):
            if getattr(self, name) not in accepted:
                raise checks.refuse(name, getattr(self, name), "one of " + ", ".join(accepted))
        if self.levels is not None and self.center:
            raise checks.refuse(
                "center", self.center, "left out for discrete columns, whose marginals hold their means"
            )

    def check_columns(self, columns: Sequence[str]) -> None:
        """See `Learner.check_columns`."""
        super().check_columns(columns)
        self._named = tuple(columns)  # the order of levels that are given as a list
        self._settings(columns)

    def variables(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """See `Learner.variables`."""
        encoded = self.levels is not None and all(":" in column or column == CONSTANT for column in columns)
        return tuple(encoded_variables(columns)) if encoded else columns

    def opening(self, columns: tuple[str, ...]) -> AskFacts:
        """See `Learner.opening`; one order of columns for the noise too, whatever the tables' own."""
        return super().opening(tuple(sorted(columns)))

    def party(self, tables: Sequence[PrivateTable], index: int) -> StagedParty:
        """See `Learner.party`."""
        return _Half(self, tables, index)

    def release_settings(self, facts: Facts) -> ReleaseSettings:
        """See `_ReleaseLearner.release_settings`; encoded records have one length, so that clipping cuts nothing."""
        settings = super().release_settings(facts)
        encoding = self.encoding(facts.columns)
        if encoding is None:
            return settings
        settings = replace(settings, center=False)
        if facts.private and self.release in ("auto", "covariance"):
            norm = encoding.row_norm if self.row_norm is None else self.row_norm
            settings = replace(settings, method="covariance", row_norm=norm)
        return settings

    def sends(self, facts: Facts) -> bool:
        """See `_ReleaseLearner.sends`: exact moments stay at the parties unless their sum votes."""
        return facts.private or self.combine == "sum" or self.sum != "per-party"

    def released_columns(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """See `_ReleaseLearner.released_columns`."""
        encoding = self.encoding(columns)
        return columns if encoding is None else encoding.columns(columns)

    def encoding(self, columns: Sequence[str]) -> Contrasts | None:
        """Return what discrete columns are encoded by; None for continuous ones."""
        levels = self._levels(columns)
        return None if levels is None else Contrasts(levels)

    def offers(self, facts: Facts) -> tuple[Message, ...]:
        """See `Learner.offers`."""
        votes = messages.Offer(self._settings(facts.columns).voted_by(len(facts.parties)), facts.columns)
        if self._on_rows(facts):
            return (votes,)
        return super().offers(facts) if self.sends(facts) else (*super().offers(facts), votes)

    def run(self, federation: Federation, columns: tuple[str, ...], on_round: OnRound = None) -> None:
        """See `Learner.run`."""
        facts = ask_facts(federation, self.opening(columns))
        self.moments_, self.rule_ = None, {}
        if self._on_rows(facts):
            for name in ("row_norm", "epsilon", "delta", "center", "sum"):
                if getattr(self, name) not in (None, False, "per-party"):
                    raise checks.refuse(
                        name, getattr(self, name), "left out for tables without a budget, which answer exactly"
                    )
            settings = self._settings(facts.columns)
            store_released(self)
            self._vote(federation, facts.columns, columns, settings, noisy=False)
        else:
            outcome = self.released(federation, facts)
            self.rule_ = outcome.rule
            if self.levels is not None and self.release == "auto" and facts.private:
                self.rule_ = {**self.rule_, "why": "encoded records have one length: clipping cuts nothing"}
            if self.sends(facts):
                self._learn_from(outcome.parts, columns, outcome.rule)
            else:
                store_released(self)
                out = self._set_aside(federation, facts.columns) if self.levels is None else []
                self._vote(federation, facts.columns, columns, self._settings(facts.columns), noisy=False)
                self.notes_ = [*self.notes_, *left_out_notes(out)]
            self.notes_ = [*self.notes_, *release_notes(outcome.rule)]
        self.bytes_exchanged_ = federation.bytes_exchanged

    def learn(self, parts: Sequence[Moments], on_round: OnRound = None) -> None:
        """See `Learner.learn`. Moments of discrete columns are those of `Contrasts(levels)`, as `moments_` of a fit."""
        names = self.variables(parts[0].columns)
        self.rule_ = {}
        self.bytes_exchanged_ = self._learn_from(parts, names, None)

    def ends(self, facts: Facts) -> tuple[type, ...]:
        """See `Learner.ends`: where moments are sent, nobody is asked for votes."""
        return (release_messages.Finish,) if self.sends(facts) else self.ending

    def _on_rows(self, facts: Facts) -> bool:
        """Return whether open tables of discrete columns answer with contingency tables."""
        exact = not facts.private and self.release in ("auto", "exact")
        return exact and self.combine != "sum" and self._levels(facts.columns) is not None

    def _learn_from(self, parts: Sequence[Moments], names: Sequence[str], rule: Mapping[str, Any] | None) -> int:
        """Let moments vote here, each party's or their sum; return how many bytes votes took."""
        noisy = not all(part.exact for part in parts)
        used, looked = usable(parts, rule) if self.levels is None else (tuple(parts), ())
        voters = list(used)
        if self.combine == "sum" or (self.combine == "auto" and noisy):
            voters = [pooled(used)]
        order = tuple(sorted(names))
        settings, encoding = self._settings(order), self.encoding(order)
        columns = order if encoding is None else encoding.columns(order)
        if sorted(voters[0].columns) != sorted(columns):
            raise InvalidParameter(
                f"levels must be those of the encoding of the moments, whose columns are {list(voters[0].columns)}, "
                f"got {dict(zip(order, settings.levels or (), strict=False))}"
            )
        if self.alpha is None and noisy:
            rows = median(_effective_rows(part, settings) for part in voters)
            settings = replace(settings, alpha=noisy_alpha(rows, len(order)))
        halves = [FedACDParty(aligned(part, columns), f"party-{number}") for number, part in enumerate(voters, start=1)]
        federation = LocalFederation(halves)
        self._vote(federation, order, names, settings, noisy=noisy)
        self.notes_ = [*self.notes_, *looked]
        self.moments_ = pooled(parts)
        own = self.encoding(names)
        kept = tuple(names) if own is None else own.columns(tuple(names))
        judge(self, self.moments_)
        store_released(self, [aligned(part, kept) for part in voters])  # in the order that `levels` may be given in
        return 0 if len(voters) == 1 else federation.bytes_exchanged

    def _set_aside(self, federation: Federation, columns: tuple[str, ...]) -> list[LeftOut]:
        """Let the parties set aside the columns that others determine at all of them, and return these."""
        answers = expect(federation, messages.AskDetermined(), messages.Determined, columns)
        said = [answer.determined for answer in answers if answer.speaks]
        common = set.intersection(*({each.column for each in own} for own in said)) if said else set()
        out = [each for each in said[0] if each.column in common] if said else []
        if out:
            expect(federation, messages.SetAside(tuple(each.column for each in out)), Empty)
        return out

    def _vote(
        self,
        federation: Federation,
        order: tuple[str, ...],
        names: Sequence[str],
        settings: Settings,
        *,
        noisy: bool,
    ) -> None:
        """Run the coordinator's half of the votes, and store what came of them in the order of `names`."""
        self.alpha_ = settings.alpha
        self._store(FedACDCoordinator(settings, order).run(federation), names, noisy=noisy)
        judge(self, None)  # where moments were sent, they are judged by afterwards

    def _settings(self, names: Sequence[str]) -> Settings:
        alpha = EXACT_ALPHA if self.alpha is None else self.alpha
        return settings_of(Settings, self, alpha=alpha, levels=self._levels(names))

    def _levels(self, names: Sequence[str]) -> tuple[int, ...] | None:
        """Return the declared number of levels of each of these columns; None for continuous ones."""
        if self.levels is None:
            return None
        by_name = dict(zip(self._named, declared_levels(self.levels, self._named) or (), strict=True))
        return tuple(by_name[name] for name in names)

    def _store(self, outcome: Outcome, names: Sequence[str], *, noisy: bool) -> None:
        place = np.argsort(np.argsort(np.array(names, dtype=object)))
        back = np.ix_(place, place)
        dag = outcome.arcs.matrix[back]
        self.orientation_ = outcome.orientation
        if outcome.orientation is not None:
            graph = Pdag.from_matrix(outcome.orientation.graph.matrix()[back])
            self.orientation_ = replace(outcome.orientation, graph=graph)
        store_cpdag(self, dag_to_cpdag(dag) if self.orientation_ is None else self.orientation_.graph, names)
        stated = dag if self.orientation_ is None else self.cpdag_.matrix()
        support = outcome.arcs.support[back]
        self.adjacency_matrix_ = np.where(stated, support + support.T, 0).astype(np.float64)
        if self.orientation_ is None:
            self.causal_graph_ = pdag_to_networkx(Pdag.from_matrix(dag), names)
        for i, j in np.argwhere(stated).tolist():
            self.causal_graph_.edges[names[i], names[j]]["weight"] = float(self.adjacency_matrix_[i, j])
        self.skeleton_ = outcome.skeleton[back]
        own = np.argsort(place)
        self.votes_ = replace(
            outcome.arcs,
            matrix=outcome.arcs.matrix[back],
            support=outcome.arcs.support[back],
            turned=[(int(own[i]), int(own[j])) for i, j in outcome.arcs.turned],
        )
        self.layers_ = [replace(record, adjacent=record.adjacent[back]) for record in outcome.layers]
        self.history_ = [
            {
                "layer": record.size,
                "edges before": record.before,
                "edges": record.after,
                "masked": record.masked,
                "bytes": record.bytes_exchanged,
                "seconds": record.seconds,
            }
            for record in outcome.layers
        ]
        joined = self.adjacency_matrix_ != 0
        asked, silent = (counts[back] for counts in (outcome.asked, outcome.silent))
        store_untested(self, joined | joined.T, asked, silent, names, noisy=noisy)


class _Half(StagedParty):
    """A party's half: votes on rows or on moments that it keeps, or a release of moments."""

    def __init__(self, learner: FedACD, tables: Sequence[PrivateTable], index: int) -> None:
        order = tuple(sorted(tables[0].columns))
        self._encoding = learner.encoding(order)
        own = [table.reordered(order) for table in tables]
        if self._encoding is not None:
            own = [_in_codes(table, self._encoding.levels) for table in own]
            encoded = [table.encoded(self._encoding) for table in own]
        else:
            encoded = own
        self._declared = (
            {} if self._encoding is None else {"levels": dict(zip(order, self._encoding.levels, strict=True))}
        )
        super().__init__(
            own,
            {release_messages: lambda: ReleaseParty(encoded, index), messages: lambda: self._votes(own[0])},
            learner.charging,
        )
        self._aside: tuple[str, ...] = ()

    def answer(self, message: Message) -> Message:
        """See `Party.answer`; of exact continuous moments that it keeps it says which columns others determine."""
        if isinstance(message, messages.AskDetermined | messages.SetAside):
            kept = self._kept()
            if kept is None or not kept.exact or self._encoding is not None or messages.__name__ in self.stages:
                raise PartyFailed(f"{self.name} was not asked for {type(message).__name__} in turn")
            if isinstance(message, messages.SetAside):
                if not set(message.columns) <= set(kept.columns):
                    raise PartyFailed(f"{self.name} was asked to set aside columns that it does not have")
                self._aside = message.columns
                return Empty()
            speaks = kept.rows > len(kept.columns) + 1
            return messages.Determined(speaks, left_out(kept) if speaks else ())
        return super().answer(message)

    def _kept(self) -> Moments | None:
        """Return the moments that it keeps; None where there are none yet."""
        released = self.stages.get(release_messages.__name__)
        return released.kept if isinstance(released, ReleaseParty) else None

    def pays(self, message: Message) -> bool:
        """See `StagedParty.pays`: votes on moments that were paid for cost nothing more."""
        on_moments = isinstance(message, messages.Charge) and release_messages.__name__ in self.stages
        return super().pays(message) and not on_moments

    def _votes(self, table: PrivateTable) -> Party:
        """Return the half that votes: on moments where there are some, else on rows."""
        if release_messages.__name__ not in self.stages:
            return FedACDParty(table, self.name)
        kept = self._kept()
        if kept is None:
            raise PartyFailed(f"{self.name} was asked to vote before it released its moments to itself")
        return FedACDParty(aligned(without(kept, self._aside), kept.columns), self.name)

    def reports(self) -> list[PrivacyReport]:
        """See `privfcd.algorithms.opening.PayingParty.reports`."""
        return [replace(report, declared={**report.declared, **self._declared}) for report in super().reports()]


def _in_codes(table: PrivateTable, levels: tuple[int, ...]) -> PrivateTable:
    """Return the table with the codes of its declared levels, whose numbers must be those of `levels`."""
    if table.schema is None:
        return table
    said = tuple(table.schema.levels[name] for name in table.columns)
    if said != levels:
        raise checks.refuse("levels", dict(zip(table.columns, levels, strict=True)), f"the schema's, {table.schema.levels}")
    return table.declared()


def _effective_rows(moments: Moments, settings: Settings) -> float:
    if settings.levels is None:
        return effective_rows(moments)
    return BlockMoments(moments, Contrasts(settings.levels)).rows
