"""Fed-Sparse-BNSL and DP-Fed-Sparse-BNSL as one estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from privfcd import checks
from privfcd.accounting import Reservation, zcdp_to_epsilon
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.equal_variance.diagnostics import variance_notes
from privfcd.algorithms.fed_sparse import constants
from privfcd.algorithms.fed_sparse.choice import (
    AUTO,
    COORDINATES,
    PRECONDITIONED,
    RELEASES,
    check_preconditioned,
    choose_release,
)
from privfcd.algorithms.fed_sparse.coordinator import FedSparseCoordinator
from privfcd.algorithms.fed_sparse.losses import Loss, checked_loss
from privfcd.algorithms.fed_sparse.moment_party import MomentParty, check_moment_settings
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.algorithms.fed_sparse.settings import GUMBEL_GAUSSIAN, Settings
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.release.gather import BEFORE, centred, usable
from privfcd.algorithms.release.release import release_notes
from privfcd.algorithms.results import EXACT, store_graph, store_privacy, store_released, table_report
from privfcd.algorithms.rounds import RoundRecord, check_on_round, history_rows
from privfcd.algorithms.scale_notes import store_moment_notes, store_scale_notes
from privfcd.data.private import PrivateTable
from privfcd.federation.local import LocalFederation, processors
from privfcd.federation.protocol import Federation, Party
from privfcd.moments import Moments, pooled

if TYPE_CHECKING:
    import networkx as nx
    from numpy.typing import NDArray

    from privfcd.graphs.dag import DagProjection

ASSUMPTIONS = (
    "Records are independent rows: a person with several rows has this promise for each row, not for all together.",
    "Every record's part in every answer is clipped before it is summed, so no assumption on the values is needed.",
    "The number of rows, the columns' names, the declared bounds and all settings are public and were not computed "
    "from the rows.",
    "Other runs on the same records add to this cost; the ledger adds up those that are charged to it.",
)


class FedSparseBNSL(Estimator):
    """Federated structure learning of linear Gaussian Bayesian networks by greedy sparse updates.

    ADMM with an acyclicity constraint: in each of T rounds every party makes K proximal greedy coordinate updates on
    its own rows, and the coordinator fits acyclic weights to their average (Fassy et al. 2025, Algorithm 1). On
    tables with a budget the same code is DP-Fed-Sparse-BNSL (Algorithm 2): coordinates are selected by the
    exponential mechanism and updated with Gaussian noise, with every record's contribution clipped. Tables without a
    budget are open: exact answers, charged as `NonPrivateDpEvent`, epsilon = inf.

    Parameters
    ----------
    rounds : int, optional
        T. By default 100, and 60 for a private run below epsilon = 5.
    updates : int, optional
        K, a round and party. By default 100 + d / 2, at most 5 d, and for a private run what
        `constants.default_updates` says.
    clip : float, optional
        C: record k's part of gradient entry (i, j) is clipped to C sqrt(M_i / (d sum M)). By default chosen from
        the released second moments (see `constants.default_clip`); for open tables no clipping.
    step : float, optional
        gamma in (0, 1]: how far an update goes. By default 0.5, and 1 for a private run.
    l1 : float
        lambda, the weight of the l1 penalty.
    rho1, rho2 : float
        Penalties of the acyclicity and of the consensus.
    threshold : float
        Final weights of at most this size are dropped. Weights are in the columns' own units, as l1 is: columns on
        very different scales must be brought to comparable units first, by public factors.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget (see
        `release_moments`). False says that the means are 0.
    smoothness : sequence of float, optional
        Declared second moments of the columns, public. By default they are released by each party and averaged.
    epsilon, delta : float, optional
        What this run may spend of each table's budget; all that is left by default. delta defaults to the budget's,
        in proportion to epsilon.
    noise_multiplier : float, optional
        Noise of the selections and updates in units of their sensitivity, instead of the most that the budget allows.
    bounds_share, mean_share, smoothness_share : float
        Shares of the run's zCDP for the histogram that supplies undeclared bounds, the mean and the second moments,
        where they are needed; the rest goes to 2KT equal events.
    refit_share : float
        Share for the final refit of the weights on their support (see `refit`); 0 for none.
    keep : float, optional
        Consensus weights below this size are set to 0 after every round, so that noise does not fill what is sent:
        post-processing. By default 0, and for a private run `constants.default_keep`.
    loss : "squared" or Loss
        The local loss, such as `HuberLoss(width)`; see `privfcd.algorithms.fed_sparse.losses`.
    mechanisms : str
        `"gumbel-gaussian"`, or the variant of Mangold et al. (2023) with Laplace noise for both, `"mangold-published"` or
        `"mangold-proven"`; see `plan` for the noise of each, and what is charged.
    release : str
        What is paid for: `"coordinates"` (the algorithm as above), `"preconditioned"` (second moments of each party,
        released in a few rounds as by `release_moments`, on which all is then computed) or `"auto"` (see
        `choose_release`). Tables without a budget release coordinates. For one clipped covariance, fit to
        `release_moments(tables, method="covariance").parts`.
    workers : int, optional
        How many parties compute at a time, with the same result; as many as there are processors by default for private
        runs.
    fast : bool, optional
        Whether loops over records are compiled (numba); by default where it is installed.

    Attributes
    ----------
    causal_graph_ : networkx.DiGraph
        Acyclic; all columns as nodes, `weight` on the edges.
    adjacency_matrix_ : ndarray of shape (d, d)
        Entry [i, j] is the weight of i -> j.
    dropped_ : DagProjection
        What the threshold and the projection to a DAG dropped.
    history_ : list of dict
        A row a round.
    bytes_exchanged_ : int
        By the paper's rule (B.2.1).
    privacy_report_ : list of PrivacyReport or None
        One for each party; None for moments.
    privacy_spent_ : tuple of float or None
        (epsilon, delta) that holds for every party: the largest of each; (0, 0) for moments.
    settings_ : dict
        The parameters as they were used, defaults included.
    rule_ : dict
        Which `release` was taken; where it was chosen here, why; and what a release of moments chose.
    released_moments_ : tuple of Moments or None
        The noisy ones that were learnt from, for `edge_stability`.
    late_rounds_ : LateRounds or None
        What the noise of the late rounds says of each edge, for `edge_stability`; of a private release of coordinates.
    feature_names_in_, n_features_in_
        As in scikit-learn.
    """

    causal_graph_: nx.DiGraph[str]
    adjacency_matrix_: NDArray[np.float64]
    dropped_: DagProjection
    privacy_report_: list[PrivacyReport] | Any
    privacy_spent_: tuple[float, float]
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int
    rule_: dict[str, Any]
    notes_: list[str]

    def __init__(
        self,
        rounds: int | None = None,
        updates: int | None = None,
        clip: float | None = None,
        step: float | None = None,
        l1: float = 0.1,
        rho1: float = 1000.0,
        rho2: float = 1.0,
        threshold: float = 0.3,
        center: bool | None = None,
        smoothness: Sequence[float] | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        noise_multiplier: float | None = None,
        bounds_share: float = 0.05,
        mean_share: float = 0.1,
        smoothness_share: float = 0.2,
        refit_share: float = 0.05,
        keep: float | None = None,
        loss: str | Loss = "squared",
        mechanisms: str = GUMBEL_GAUSSIAN,
        release: str = COORDINATES,
        workers: int | None = None,
        fast: bool | None = None,
    ) -> None:
        self.rounds = rounds
        self.updates = updates
        self.clip = clip
        self.step = step
        self.l1 = l1
        self.rho1 = rho1
        self.rho2 = rho2
        self.threshold = threshold
        self.center = center
        self.smoothness = smoothness
        self.epsilon = epsilon
        self.delta = delta
        self.noise_multiplier = noise_multiplier
        self.bounds_share = bounds_share
        self.mean_share = mean_share
        self.smoothness_share = smoothness_share
        self.refit_share = refit_share
        self.keep = keep
        self.loss = loss
        self.mechanisms = mechanisms
        self.release = release
        self.workers = workers
        self.fast = fast

    def fit(
        self,
        source: Sequence[PrivateTable] | Moments | Sequence[Moments],
        *,
        on_round: Callable[[RoundRecord], None] | None = None,
    ) -> Self:
        """Learn the graph from the parties' tables, or from moments.

        Columns are aligned by name to the first table's order. Everything is checked, and every party's budget is
        asked, before any ledger is charged; every ledger is charged before any row is read. Moments are what was
        released before: learning from them is post-processing, is charged nowhere, and `privacy_report_` is None.

        Parameters
        ----------
        source : sequence of PrivateTable, Moments, or sequence of Moments
            One for each party.
        on_round : callable, optional
            Called after every round with its `RoundRecord`.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party.
        """
        if self.release not in RELEASES:
            raise checks.refuse("release", self.release, "one of " + ", ".join(RELEASES))
        check_on_round(on_round)
        moments = moments_given(source)
        if moments is not None:
            if self.center:
                raise checks.refuse("center", self.center, BEFORE)
            self._fit_moments(moments, None, on_round)
            self.rule_ = {"release": "moments that were released before"}
            store_privacy(self, None, moments)
            return self
        tables = checked_tables(source)
        settings = self._settings(tables)
        private = any(not table.open for table in tables)
        release = self.release if private else COORDINATES
        self.rule_ = {"release": release}
        if release == AUTO:
            choice = choose_release(tables, settings)
            release = choice.release
            self.rule_ = {"release": release, "why": choice.reason, "predicted noise": choice.predicted}
        reports: list[PrivacyReport]
        if release == PRECONDITIONED:
            check_preconditioned(settings)
            self._moment_settings(tables[0].n_columns)  # refused now, or not at all
            released = release_moments(tables, epsilon=self.epsilon, delta=self.delta, center=settings.center)
            self._fit_moments(released.parts, released.rule, on_round, together=True)
            self.bytes_exchanged_ += released.bytes_exchanged
            self.rule_ = {**self.rule_, "moments": released.rule}
            self.notes_ += release_notes(released.rule)
            reports = released.privacy_report
        else:
            parties = [FedSparseParty(table, index) for index, table in enumerate(tables)]
            self._run(parties, settings, tables[0].columns, on_round, processors() if private else 1)
            reports = [_report(party, table, settings) for party, table in zip(parties, tables, strict=True)]
        store_privacy(self, reports)
        return self

    def _fit_moments(
        self,
        given: Sequence[Moments],
        rule: dict[str, Any] | None,
        on_round: Callable[[RoundRecord], None] | None,
        *,
        together: bool = False,
    ) -> None:
        """Run on moments, each party's or those of all rows together; `rule` is that of their release."""
        moments, looked = usable(given, rule)
        if together:
            moments = (pooled(moments),)
        settings = self._moment_settings(len(moments[0].columns))
        parties = [MomentParty(part, f"moments-{index}") for index, part in enumerate(moments, start=1)]
        self._run(parties, settings, moments[0].columns, on_round)
        store_released(self, moments)
        early = list(self.notes_)
        store_moment_notes(self, moments)
        self.notes_ += [*looked, *variance_notes(pooled(moments)), *early]

    def _moment_settings(self, d: int) -> Settings:
        """Return checked settings; a mean was taken off moments before, if at all, so there is none to take off now."""
        settings = replace(self._settings_at(math.inf, d), center=False)
        check_moment_settings(settings)
        settings.check_columns(d)
        return settings

    def _run(
        self,
        parties: Sequence[Party],
        settings: Settings,
        columns: tuple[str, ...],
        on_round: Callable[[RoundRecord], None] | None,
        workers: int = 1,
    ) -> None:
        """Run on these parties, `workers` at a time unless the estimator's own number says otherwise.

        Exact gradients are loops over few numbers, which hold the interpreter: threads would wait for each other.
        """
        self._run_over(
            LocalFederation(parties, workers if self.workers is None else self.workers), settings, columns, on_round
        )

    def _run_over(
        self,
        federation: Federation,
        settings: Settings,
        columns: tuple[str, ...],
        on_round: Callable[[RoundRecord], None] | None,
    ) -> None:
        """Run the coordinator's half, and keep what it learnt; costs and reports are the caller's."""
        coordinator = FedSparseCoordinator(settings, columns)
        quotes = coordinator.offer(federation)
        records = coordinator.run(federation, quotes, on_round)
        store_graph(self, coordinator.weights, settings.threshold, columns)
        self.history_ = history_rows(records)
        self.settings_ = dict(vars(settings))
        self.bytes_exchanged_ = federation.bytes_exchanged
        clipped = coordinator.late_rounds is not None and settings.clip is None  # a private run with the default clip
        store_scale_notes(self, coordinator.second_moments, coordinator.second_moments_sd, columns, clipped=clipped)
        self.notes_ += coordinator.notes
        store_released(
            self, rounds=coordinator.late_rounds, otherwise=EXACT if records else "it ended in its first round"
        )

    def _settings(self, tables: Sequence[PrivateTable]) -> Settings:
        """Return the settings of a run on these tables, defaults included."""
        epsilon = min(_planned_epsilon(table, self.epsilon) for table in tables)
        return self._settings_at(epsilon, tables[0].n_columns)

    def _settings_at(self, epsilon: float, d: int) -> Settings:
        params: dict[str, Any] = self.get_params()
        for name in ("release", "workers"):
            del params[name]
        if params["smoothness"] is not None:
            params["smoothness"] = _numbers("smoothness", params["smoothness"])
        params["center"] = centred(params["center"])
        params["loss"] = checked_loss(params["loss"])
        defaults = {
            "rounds": constants.default_rounds(epsilon),
            "updates": constants.default_updates(d, epsilon),
            "step": constants.default_step(epsilon),
            "keep": constants.default_keep(epsilon),
        }
        params.update({name: value for name, value in defaults.items() if params[name] is None})
        return Settings(**params)


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not np.iterable(values):
        raise checks.refuse(name, values, "one number for each column")
    return tuple(checks.moderate(name, value) for value in values)


def _planned_epsilon(table: PrivateTable, epsilon: float | None) -> float:
    """Return roughly what a run will spend of a table's budget, for the default settings; inf for an open table."""
    left = table.ledger.left()
    if table.open:
        return math.inf
    if isinstance(epsilon, int | float) and epsilon > 0:
        return epsilon
    if left is None:
        return 1.0
    if left.rho is not None:
        return zcdp_to_epsilon(left.rho, 1 / max(table.n_rows, 2) ** 2)
    return left.epsilon or 1.0


def _report(party: FedSparseParty, table: PrivateTable, settings: Settings) -> PrivacyReport:
    reservation: Reservation | None = party.reservation
    plan = party.plan
    assert reservation is not None and plan is not None
    return run_report(table, reservation, settings, plan.delta)


def run_report(table: PrivateTable, reservation: Reservation, settings: Settings, delta: float | None) -> PrivacyReport:
    """Return the report on one table's part in a run; `delta` is its slice's, where it has one."""
    declared: dict[str, Any] = {}
    if settings.smoothness is not None:
        declared["second moments"] = list(settings.smoothness)
    if settings.clip is not None and not math.isinf(settings.clip):
        declared["clip"] = settings.clip
    return table_report(
        table,
        reservation,
        delta=settings.delta if delta is None else delta,
        declared=declared,
        assumptions=ASSUMPTIONS,
    )
