"""FedACD and its private version as one estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any, Self

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.constraint.block_moments import BlockMoments
from privfcd.algorithms.constraint.orientation import Orientation
from privfcd.algorithms.constraint.untested import store_untested
from privfcd.algorithms.fedacd.coordinator import FedACDCoordinator, LayerRecord, Outcome
from privfcd.algorithms.fedacd.levels import Levels, declared_levels, encoded_variables
from privfcd.algorithms.fedacd.party import FedACDParty
from privfcd.algorithms.fedacd.settings import EXACT_ALPHA, Settings, noisy_alpha
from privfcd.algorithms.fedacd.votes import CountedArcs
from privfcd.algorithms.inputs import aligned, checked_tables, moments_given
from privfcd.algorithms.release.gather import RELEASES, Gathered, centring, gather
from privfcd.algorithms.results import store_cpdag, store_privacy, store_released, table_report
from privfcd.algorithms.scores import effective_rows
from privfcd.data.encoding import Contrasts
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.federation.local import LocalFederation
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.pdag import Pdag, pdag_to_networkx
from privfcd.moments import Moments, pooled

COMBINE = ("auto", "vote", "sum")

Tests = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Of each pair how many tests were made, and how many of them could not say."""


class FedACD(Estimator):
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
    largest : int
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
        `"per-party"`, or `"trusted"`: one noise for the sum over all tables, see `release_moments`.
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

    adjacency_matrix_: NDArray[np.float64]
    cpdag_: Pdag
    causal_graph_: nx.DiGraph[str]

    def __init__(
        self,
        levels: Levels | None = None,
        alpha: float | None = None,
        largest: int = 3,
        mask_rate: float = 0.6,
        quorum: float = 0.0,
        combine: str = "auto",
        variant: str = "stable",
        per_cell: float = 5.0,
        sample_size: float = 10.0,
        release: str = "auto",
        sum: str = "per-party",
        center: bool | None = None,
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.levels = levels
        self.alpha = alpha
        self.largest = largest
        self.mask_rate = mask_rate
        self.quorum = quorum
        self.combine = combine
        self.variant = variant
        self.per_cell = per_cell
        self.sample_size = sample_size
        self.release = release
        self.sum = sum
        self.center = center
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta

    def fit(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments]) -> Self:
        """Learn the graph from tables or moments, one for each party.

        Moments of discrete columns are those of `Contrasts(levels)`, as `moments_` of an earlier fit.

        Parameters
        ----------
        source : sequence of PrivateTable, or Moments, or a sequence of Moments
            One for each party.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party.
        """
        if self.combine not in COMBINE:
            raise checks.refuse("combine", self.combine, "one of " + ", ".join(COMBINE))
        if self.release not in RELEASES:
            raise checks.refuse("release", self.release, "one of " + ", ".join(RELEASES))
        center = centring(self.center, source)
        given = moments_given(source)
        tables = checked_tables(source) if given is None else []
        if given is None:
            names, exact = tables[0].columns, all(table.open for table in tables)
        else:
            names = given[0].columns if self.levels is None else encoded_variables(given[0].columns)
            exact = all(part.exact for part in given)
        settings = self._settings(names)
        if settings.levels is not None and self.center:
            raise checks.refuse(
                "center", self.center, "left out for discrete columns, whose marginals hold their means"
            )
        if settings.levels is not None:
            center = False
        self.moments_: Moments | None = None
        self.rule_: dict[str, Any] = {}
        if tables and exact and settings.levels and self.combine != "sum" and self.release in ("auto", "exact"):
            outcome, tests, reports, sent = self._vote_on_rows(tables, names, settings)
            store_released(self)
            self._store(outcome, names, reports, sent)
            self._store_untested(tests, names, noisy=False)
            return self
        if given is None:
            gathered = self._release(tables, names, settings, center)
        else:
            gathered = gather(given, self.release, look=settings.levels is None, **self._options(center))
        voters = gathered.parts
        if self.combine == "sum" or (self.combine == "auto" and not exact):
            voters = (pooled(voters),)
        outcome, tests, sent = self._vote(voters, names, settings)
        if len(voters) == 1:
            self.moments_ = gathered.released
        elif not (tables and exact):  # exact moments of a party stay there
            self.moments_ = gathered.released
        order = names if settings.levels is None else Contrasts(settings.levels).columns(names)
        store_released(self, [aligned(part, order) for part in voters])  # in the order that `levels` may be given in
        self.rule_ = gathered.rule
        self._store(outcome, names, gathered.reports, gathered.bytes_exchanged + sent, gathered.parts)
        self._store_untested(tests, names, noisy=not exact)
        self.notes_ = [*self.notes_, *gathered.notes]
        return self

    def _settings(self, names: Sequence[str]) -> Settings:
        return Settings(
            alpha=EXACT_ALPHA if self.alpha is None else self.alpha,
            largest=self.largest,
            mask_rate=self.mask_rate,
            quorum=self.quorum,
            variant=self.variant,
            per_cell=self.per_cell,
            sample_size=self.sample_size,
            levels=declared_levels(self.levels, names),
        )

    def _options(self, center: bool) -> dict[str, Any]:
        """Return the options of a release that were set; moments, which were released before, take none."""
        options: dict[str, Any] = {"center": center}
        options.update({name: getattr(self, name) for name in ("row_norm", "epsilon", "delta")})
        if self.sum != "per-party":
            options["sum"] = self.sum
        return options

    def _release(
        self, tables: list[PrivateTable], names: tuple[str, ...], settings: Settings, center: bool
    ) -> Gathered:
        """Release moments of the tables, of encoded ones for discrete columns."""
        options, release = self._options(center), self.release
        exact = all(table.open for table in tables)
        # one order of columns for the noise too, whatever the tables' own
        order = tuple(sorted(names))
        tables = [table.reordered(order) for table in tables]
        options["send"] = not exact or self.combine == "sum"
        if settings.levels is None:
            return gather(tables, release, **options)
        encoding = Contrasts(_reordered(settings, names, order).levels or ())
        if not exact and release in ("auto", "covariance"):
            release = "covariance"
            options["row_norm"] = encoding.row_norm if self.row_norm is None else self.row_norm
        gathered = gather([table.encoded(encoding) for table in tables], release, look=False, **options)
        declared = {"levels": dict(zip(order, encoding.levels, strict=True))}
        reports = [replace(report, declared={**report.declared, **declared}) for report in gathered.reports or ()]
        rule = gathered.rule
        if self.release == "auto" and not exact:
            rule = {**rule, "why": "encoded records have one length: clipping cuts nothing"}
        return replace(gathered, reports=reports, rule=rule)

    def _vote(self, voters: Sequence[Moments], names: Sequence[str], settings: Settings) -> tuple[Outcome, Tests, int]:
        order = tuple(sorted(names))
        settings = _reordered(settings, names, order)
        columns = order
        if settings.levels is not None:
            columns = Contrasts(settings.levels).columns(order)
            if sorted(voters[0].columns) != sorted(columns):
                raise InvalidParameter(
                    f"levels must be those of the encoding of the moments, whose columns are {list(voters[0].columns)}, "
                    f"got {dict(zip(order, settings.levels, strict=True))}"
                )
        if self.alpha is None and not all(part.exact for part in voters):
            rows = median(_effective_rows(part, settings) for part in voters)
            settings = replace(settings, alpha=noisy_alpha(rows, len(order)))
        self.alpha_ = settings.alpha
        parties = [
            FedACDParty(aligned(part, columns), f"party-{number}") for number, part in enumerate(voters, start=1)
        ]
        federation = LocalFederation(parties)
        outcome = FedACDCoordinator(settings, order).run(federation)
        return outcome, _tests_of(parties, len(order)), 0 if len(parties) == 1 else federation.bytes_exchanged

    def _vote_on_rows(
        self, tables: list[PrivateTable], names: Sequence[str], settings: Settings
    ) -> tuple[Outcome, Tests, list[PrivacyReport], int]:
        for name, value in self._options(False).items():
            if value is not None and value is not False:
                raise checks.refuse(name, value, "left out for tables without a budget, which answer exactly")
        self.alpha_ = settings.alpha
        order = tuple(sorted(names))
        parties = [FedACDParty(table, table.name) for table in tables]
        federation = LocalFederation(parties)
        outcome = FedACDCoordinator(_reordered(settings, names, order), order).run(federation)
        declared = {"levels": dict(zip(names, settings.levels or (), strict=True))}
        reports = [
            table_report(table, party.paid, delta=None, declared=declared, assumptions=())
            for party, table in zip(parties, tables, strict=True)
        ]
        return outcome, _tests_of(parties, len(order)), reports, federation.bytes_exchanged

    def _store(
        self,
        outcome: Outcome,
        names: Sequence[str],
        reports: list[PrivacyReport] | None,
        sent: int,
        parts: Sequence[Moments] = (),
    ) -> None:
        place = np.argsort(np.argsort(np.array(names, dtype=object)))
        back = np.ix_(place, place)
        dag = outcome.arcs.matrix[back]
        self.orientation_: Orientation | None = outcome.orientation
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
        store_privacy(self, reports, parts)
        self.skeleton_ = outcome.skeleton[back]
        own = np.argsort(place)
        self.votes_: CountedArcs = replace(
            outcome.arcs,
            matrix=outcome.arcs.matrix[back],
            support=outcome.arcs.support[back],
            turned=[(int(own[i]), int(own[j])) for i, j in outcome.arcs.turned],
        )
        self.layers_: list[LayerRecord] = [replace(record, adjacent=record.adjacent[back]) for record in outcome.layers]
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
        self.bytes_exchanged_ = sent

    def _store_untested(self, tests: Tests, names: Sequence[str], *, noisy: bool) -> None:
        """Say which edges no voter could test; the parties' tests are in this process, in the order of sorted names."""
        place = np.argsort(np.argsort(np.array(names, dtype=object)))
        asked, silent = (counts[np.ix_(place, place)] for counts in tests)
        joined = self.adjacency_matrix_ != 0
        store_untested(self, joined | joined.T, asked, silent, names, noisy=noisy)


def _tests_of(parties: Sequence[FedACDParty], d: int) -> Tests:
    """Return how many tests of each pair the parties made together, and how many could not say, shape (d, d) each."""
    none = np.zeros((d, d), dtype=np.int64)
    asked = sum((party.asked for party in parties if party.asked is not None), none)
    return asked, sum((party.silent for party in parties if party.silent is not None), none)


def _effective_rows(moments: Moments, settings: Settings) -> float:
    if settings.levels is None:
        return effective_rows(moments)
    return BlockMoments(moments, Contrasts(settings.levels)).rows


def _reordered(settings: Settings, names: Sequence[str], order: Sequence[str]) -> Settings:
    if settings.levels is None:
        return settings
    by_name = dict(zip(names, settings.levels, strict=True))
    return replace(settings, levels=tuple(by_name[name] for name in order))
