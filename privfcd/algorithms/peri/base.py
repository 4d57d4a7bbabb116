"""What PERI and I-PERI have in common as estimators: parties from tables or moments, a run, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.constraint.untested import loud_notes
from privfcd.algorithms.inputs import checked_tables, moments_given, refuse_release_options
from privfcd.algorithms.peri.coordinator import Outcome, PERICoordinator
from privfcd.algorithms.peri.own_moments import own_moments, planned_rounds
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.peri.private_regrets import RegretOptions, least_regrets, private_parties, private_report
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.release.gather import RELEASES, centring, usable
from privfcd.algorithms.release.release import release_notes
from privfcd.algorithms.results import EXACT, store_cpdag, store_privacy, store_released, warn_when_paid
from privfcd.algorithms.rounds import check_rows
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.federation.local import LocalFederation
from privfcd.graphs.pdag import Pdag, as_pdag
from privfcd.moments import Moments

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

REGRETS = "its noisy regrets cannot be noised again: each was asked because of those before"
GIVEN = "it was fitted to graphs of the parties, whose own noise is not known here"

Source = Sequence[PrivateTable] | Moments | Sequence[Moments]
Local = Literal["pc", "ges"]
Worst = Literal["party", "node"]
Orientation = Literal["votes", "regret", "authors"]
Privacy = Literal["moments", "regret"]


class UnfinishedWarning(UserWarning):
    """A run had too few answers left of those that were paid for, and ended with what it had found."""


class RegretEstimator(Estimator):
    """The base of `PERI` and `IPERI`."""

    cpdag_: Pdag
    party_cpdags_: tuple[Pdag, ...]
    causal_graph_: nx.DiGraph[str]
    adjacency_matrix_: NDArray[np.bool_]
    privacy_report_: list[PrivacyReport] | None
    privacy_spent_: tuple[float, float]
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int

    # parameters of both, set in the subclasses' __init__
    local: Local
    worst: Worst
    turning: bool
    most_parents: int | None
    alpha: float
    largest: int | None
    penalty: float
    release: str
    center: bool | None
    row_norm: float | None
    epsilon: float | None
    delta: float | None
    privacy: Privacy
    most_regrets: int
    value_bound: float | None
    radius: float
    variance_floor: float
    graph_share: float

    def fit(self, source: Source, *, graphs: Sequence[Pdag | ArrayLike] | None = None) -> Self:
        """Learn the graphs from the parties' tables or moments.

        Columns are aligned by name to the first one's order. Everything is checked, and every party's budget is
        asked, before any ledger is charged; every ledger is charged before any row is read.

        Parameters
        ----------
        source : sequence of PrivateTable, or Moments, or a sequence of Moments
            One for each party.
        graphs : sequence of Pdag or arrays of shape (d, d), optional
            For Moments: the parties' own CPDAGs, in the order of the first one's columns, instead of learning them.
            What they cost is not known here.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party. With `privacy="regret"` also fewer `most_regrets` than the first step of a
            search needs, see `least_regrets`; no party was charged.

        Warns
        -----
        UnfinishedWarning
            With `privacy="regret"`: the run needed more distinct regrets than were planned, and ended with what it had.
            `notes_` say what was left undone.
        """
        settings = self._settings()
        if self.privacy not in ("moments", "regret"):
            raise checks.refuse("privacy", self.privacy, "one of moments, regret")
        if self.release not in RELEASES:
            raise checks.refuse("release", self.release, "one of " + ", ".join(RELEASES))
        options = self._options()
        centre = centring(self.center, source)
        parts = moments_given(source)
        reports: list[PrivacyReport] | None = None
        reservations: list[Reservation] = []
        rule: dict[str, Any] = {}
        learnt: Sequence[Moments] = ()
        looked: Sequence[str] = ()
        otherwise = EXACT
        if parts is not None:
            learnt, otherwise = (parts, EXACT) if graphs is None else ((), GIVEN)
            used, looked = usable(parts, differ=False)
            learnt = used if learnt else ()
            parties = self._parties_of(used, graphs, settings)
            columns = parts[0].columns
        else:
            tables = checked_tables(source)
            columns = tables[0].columns
            settings.check_columns(len(columns))
            for table in tables:  # each learns a graph of its own
                check_rows([table.n_rows], len(columns))
            if graphs is not None:
                raise InvalidParameter(
                    "graphs must be left out for tables: what the parties learn there is paid for here"
                )
            if self.privacy == "regret":
                self._refuse_with_regrets(settings, len(columns))
                tables = [table.reordered(columns) for table in tables]
                parties, reservations, plans = private_parties(tables, settings, options)
                otherwise = REGRETS
                rule = {"regrets planned": self.most_regrets, "noise multipliers": [plan.regret for plan in plans]}
            else:
                released, reports, rule = self._released(tables, centre)
                learnt, looked = usable(released, differ=False)
                parties = [PERIParty(table.name, part) for table, part in zip(tables, learnt, strict=True)]
        federation = LocalFederation(parties)
        outcome = PERICoordinator(settings, columns).run(federation)
        if reservations:
            for reservation in reservations:
                reservation.close()
            reports = [
                private_report(table, reservation, plan, options)
                for table, reservation, plan in zip(tables, reservations, plans, strict=True)
            ]
        self._store(outcome, columns, rule)
        self.notes_ = []
        if outcome.unfinished:
            self.notes_.append(
                f"{outcome.unfinished}; plan more with most_regrets, or release the moments once (privacy='moments')"
            )
        self.party_cpdags_ = tuple(party.graph for party in parties)
        store_privacy(self, reports, parts or ())
        store_released(self, learnt, otherwise=otherwise)
        self.notes_ += loud_notes(learnt, self.adjacency_matrix_, columns)
        self.notes_ += [words for part in (rule, *rule.get("parties", ())) for words in release_notes(part)]
        self.notes_ += looked
        self.bytes_exchanged_ = federation.bytes_exchanged
        if outcome.unfinished:
            warn_when_paid(self.notes_[0], UnfinishedWarning)
        return self

    def _settings(self, **phases: Any) -> Settings:
        return Settings(
            local=self.local,
            worst=self.worst,
            turning=self.turning,
            most_parents=self.most_parents,
            alpha=self.alpha,
            largest=self.largest,
            penalty=self.penalty,
            **phases,
        )

    def _options(self) -> RegretOptions:
        return RegretOptions(
            self.most_regrets,
            self.value_bound,
            self.radius,
            self.variance_floor,
            self.graph_share,
            self.epsilon,
            self.delta,
        )

    def _released(
        self, tables: Sequence[PrivateTable], center: bool
    ) -> tuple[Sequence[Moments], list[PrivacyReport], dict[str, Any]]:
        """Return each party's moments, which stay there, with the reports on them and what was chosen."""
        method = self.release
        if method == "auto":
            closed = any(not table.open for table in tables)
            method = "exact" if not closed else ("preconditioned" if self.row_norm is None else "covariance")
        if method == "preconditioned":
            if self.row_norm is not None:
                raise checks.refuse("row_norm", self.row_norm, "None for release 'preconditioned'")
            try:
                planned = planned_rounds(tables, epsilon=self.epsilon, delta=self.delta, center=center)
            except BudgetExceeded:
                if self.release != "auto":
                    raise
                method = "covariance"  # which may do with less; public numbers decide, and nothing was charged
            else:
                own = own_moments(planned)
                return own.parts, own.reports, own.rule
        made = release_moments(
            tables,
            method=method,
            send=False,
            epsilon=self.epsilon,
            delta=self.delta,
            row_norm=self.row_norm,
            center=center,
        )
        return made.parts, made.privacy_report, made.rule

    def _parties_of(
        self, parts: Sequence[Moments], graphs: Sequence[Pdag | ArrayLike] | None, settings: Settings
    ) -> list[PERIParty]:
        refuse_release_options(self, ("epsilon", "delta", "row_norm", "center", "value_bound"))
        for name, plain in (("release", "auto"), ("privacy", "moments")):
            if getattr(self, name) != plain:
                raise checks.refuse(name, getattr(self, name), f"{plain!r} for Moments, which were released before")
        d = len(parts[0].columns)
        settings.check_columns(d)
        given: list[Pdag | None] = [None] * len(parts)
        if graphs is not None:
            if len(graphs) != len(parts):
                raise InvalidParameter(f"graphs must be one for each of the {len(parts)} parties, got {len(graphs)}")
            given = [as_pdag(graph, f"graphs[{k}]") for k, graph in enumerate(graphs)]
            for k, graph in enumerate(given):
                if graph is not None and graph.p != d:
                    raise InvalidParameter(f"graphs[{k}] must have {d} nodes, got {graph.p}")
        return [
            PERIParty(f"party-{number}", part, graph)
            for number, (part, graph) in enumerate(zip(parts, given, strict=True), start=1)
        ]

    def _refuse_with_regrets(self, settings: Settings, d: int) -> None:
        for name, plain in (("release", "auto"), ("row_norm", None)):
            if getattr(self, name) != plain:
                raise checks.refuse(name, getattr(self, name), f"{plain!r} with privacy='regret'")
        if self.center:
            raise checks.refuse("center", self.center, "None or False with privacy='regret', which takes means to be 0")
        least = least_regrets(settings, d)
        if self.most_regrets < least:
            without = "; refine=False needs fewer" if settings.masked and settings.refine else ""
            raise checks.refuse(
                "most_regrets",
                self.most_regrets,
                f"at least {least} for {d} columns, the first step of a search{without}",
            )

    def _store(self, outcome: Outcome, columns: tuple[str, ...], rule: dict[str, Any]) -> None:
        store_cpdag(self, outcome.graph, columns)
        self.cpdag_ = outcome.common
        self.history_ = outcome.history
        self.messages_ = outcome.messages
        self.regrets_ = outcome.families
        self.rule_ = dict(rule)
        if outcome.directed is not None:
            self.rule_["orientation"] = outcome.directed.rule
