"""Fed-Sparse-BNSL and DP-Fed-Sparse-BNSL as one estimator."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from privfcd import checks
from privfcd.algorithms.equal_variance.diagnostics import variance_notes
from privfcd.algorithms.fed_sparse import constants, messages
from privfcd.algorithms.fed_sparse.choice import (
    AUTO,
    COORDINATES,
    PRECONDITIONED,
    RELEASES,
    check_preconditioned,
    choose_release,
    reason_for_coordinates,
)
from privfcd.algorithms.fed_sparse.coordinator import FedSparseCoordinator
from privfcd.algorithms.fed_sparse.losses import HuberLoss, Loss, SquaredLoss, checked_loss
from privfcd.algorithms.fed_sparse.moment_party import MomentParty, check_moment_settings
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.algorithms.fed_sparse.settings import GUMBEL_GAUSSIAN, Settings
from privfcd.algorithms.judgement import judge
from privfcd.algorithms.learner import BEFORE, EQUAL_VARIANCES, SLOPE, Learner, OnRound, settings_of
from privfcd.algorithms.local import LocalFederation, processors
from privfcd.algorithms.opening import Facts, StagedParty, ask_facts
from privfcd.algorithms.protocol import Federation, Message
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.release import release_notes, released
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.results import EXACT, store_graph, store_released
from privfcd.algorithms.rounds import expect, history_rows
from privfcd.algorithms.scale_notes import store_moment_notes, store_scale_notes
from privfcd.algorithms.usable import usable
from privfcd.data.private import PrivateTable
from privfcd.moments import Moments, pooled

if TYPE_CHECKING:
    from privfcd.graphs.dag import DagProjection


@dataclass(eq=False, repr=False)
class FedSparseBNSL(Learner):
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
    loss : "squared", Loss or {"huber": width}
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

    method = "fed-sparse"
    graph = "dag"
    weight = SLOPE
    rests_on = EQUAL_VARIANCES
    charging = (messages.Charge, release_messages.Charge)
    ending = (messages.Finish, release_messages.Finish)
    message_modules = (messages, release_messages)
    implementations: ClassVar = {Loss: (SquaredLoss, HuberLoss)}
    reports_rounds = True
    pure = True

    rounds: int | None = None
    updates: int | None = None
    clip: float | None = None
    step: float | None = None
    l1: float = 0.1
    rho1: float = 1000.0
    rho2: float = 1.0
    threshold: float = 0.3
    center: bool | None = None
    smoothness: Sequence[float] | None = None
    noise_multiplier: float | None = None
    bounds_share: float = 0.05
    mean_share: float = 0.1
    smoothness_share: float = 0.2
    refit_share: float = 0.05
    keep: float | None = None
    loss: str | Loss | Mapping[str, float] = "squared"
    mechanisms: str = GUMBEL_GAUSSIAN
    release: str = COORDINATES
    workers: int | None = None
    fast: bool | None = None

    dropped_: DagProjection = field(init=False)
    rule_: dict[str, Any] = field(init=False)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        if self.release not in RELEASES:
            raise checks.refuse("release", self.release, "one of " + ", ".join(RELEASES))
        if self.workers is not None:
            checks.count("workers", self.workers)
        settings = self._settings(math.inf, 2)
        if self.release == PRECONDITIONED:
            check_preconditioned(settings)

    def check_columns(self, columns: Sequence[str]) -> None:
        """See `Learner.check_columns`."""
        self._settings(math.inf, len(columns)).check_columns(len(columns))
        if self.release == PRECONDITIONED:
            self._moment_settings(len(columns))

    def check_given(self) -> None:
        """See `Learner.check_given`."""
        if self.center:
            raise checks.refuse("center", self.center, BEFORE)

    def party(self, tables: Sequence[PrivateTable], index: int) -> StagedParty:
        """See `Learner.party`."""
        return StagedParty(
            tables,
            {messages: lambda: FedSparseParty(tables[0], index), release_messages: lambda: ReleaseParty(tables, index)},
            self.charging,
        )

    def workers_for(self, tables: Sequence[PrivateTable]) -> int:
        """See `Learner.workers_for`. Exact gradients hold the interpreter: threads would wait for each other."""
        if self.workers is not None:
            return self.workers
        return 1 if all(table.open for table in tables) else processors()

    def offers(self, facts: Facts) -> tuple[Message, ...]:
        """See `Learner.offers`."""
        settings = self.settings_for(facts)
        coordinates = messages.Offer(settings, facts.columns, required=True)
        moments = release_messages.Offer(self._release_settings(settings), facts.columns)
        if not facts.private or self.release == COORDINATES or (self.release == AUTO and reason_for_coordinates(settings)):
            return (coordinates,)
        if self.release == PRECONDITIONED:
            return (moments,)
        return (messages.Offer(settings, facts.columns, required=False), moments)

    def run(self, federation: Federation, columns: tuple[str, ...], on_round: OnRound = None) -> None:
        """See `Learner.run`."""
        facts = ask_facts(federation, self.opening(columns))
        settings = self.settings_for(facts)
        release = self.release if facts.private else COORDINATES
        self.rule_ = {"release": release}
        required = True
        if release == AUTO:
            why = reason_for_coordinates(settings)
            if why:
                release = COORDINATES
                self.rule_ = {"release": release, "why": why, "predicted noise": {}}
            else:
                offers = self.offers(facts)
                quotes = expect(federation, offers[0], messages.Quote)
                others = expect(federation, offers[1], release_messages.Quote)
                choice = choose_release(settings, quotes, others, len(columns))
                release, required = choice.release, False
                self.rule_ = {"release": release, "why": choice.reason, "predicted noise": choice.predicted}
        if release == COORDINATES:
            self._learn_over(federation, settings, columns, on_round, required=required)
            return
        coordinator = ReleaseCoordinator(self._release_settings(settings), columns, structure_whitening)
        outcome = released(coordinator, federation, facts)
        self._learn_from(outcome.parts, outcome.rule, on_round, together=True)
        self.bytes_exchanged_ += federation.bytes_exchanged
        self.rule_ = {**self.rule_, "moments": outcome.rule}
        self.notes_ = [*release_notes(outcome.rule), *self.notes_]

    def learn(self, parts: Sequence[Moments], on_round: OnRound = None) -> None:
        """See `Learner.learn`."""
        self._learn_from(parts, None, on_round)
        self.rule_ = {"release": "moments that were released before"}

    def _learn_from(
        self, given: Sequence[Moments], rule: Mapping[str, Any] | None, on_round: OnRound, *, together: bool = False
    ) -> None:
        """Learn from moments, each party's or those of all rows together; `rule` is that of their release."""
        used, looked = usable(given, rule)
        moments = [pooled(used)] if together else used
        settings = self._moment_settings(len(moments[0].columns))
        halves = [MomentParty(part, f"moments-{index}") for index, part in enumerate(moments, start=1)]
        federation = LocalFederation(halves, 1 if self.workers is None else self.workers)
        self._learn_over(federation, settings, moments[0].columns, on_round)
        store_released(self, moments)
        judge(self, pooled(moments))
        early = list(self.notes_)
        store_moment_notes(self, moments, rule)
        self.notes_ = [*self.notes_, *looked, *variance_notes(pooled(moments)), *early]

    def _learn_over(
        self, federation: Federation, settings: Settings, columns: tuple[str, ...], on_round: OnRound, required: bool = True
    ) -> None:
        """Run the coordinator's half of the rounds, and keep what it learnt."""
        coordinator = FedSparseCoordinator(settings, columns)
        quotes = coordinator.offer(federation, required=required)
        records = coordinator.run(federation, quotes, on_round)
        store_graph(self, coordinator.weights, settings.threshold, columns)
        self.history_ = history_rows(records)
        self.settings_ = dict(vars(settings))
        self.bytes_exchanged_ = federation.bytes_exchanged
        clipped = coordinator.late_rounds is not None and settings.clip is None  # a private run with the default clip
        store_scale_notes(
            self,
            coordinator.second_moments,
            coordinator.second_moments_sd,
            columns,
            clipped=clipped,
            cut=coordinator.cut,
        )
        self.notes_ = [*self.notes_, *coordinator.notes]
        store_released(
            self, rounds=coordinator.late_rounds, otherwise=EXACT if records else "it ended in its first round"
        )
        judge(self, None)  # of rounds on rows no covariance is known

    def _release_settings(self, settings: Settings) -> ReleaseSettings:
        return ReleaseSettings(
            method=PRECONDITIONED, epsilon=self.epsilon, delta=self.delta, center=settings.center
        )

    def _moment_settings(self, d: int) -> Settings:
        """Return checked settings; a mean was taken off moments before, if at all, so there is none to take off now."""
        without_mean = copy.copy(self)
        without_mean.center = False
        settings = without_mean._settings(math.inf, d)
        check_moment_settings(settings)
        settings.check_columns(d)
        return settings

    def settings_for(self, facts: Facts) -> Settings:
        """Return the settings of a run of which these facts are known, defaults included."""
        return self._settings(facts.epsilon, len(facts.columns))

    def _settings(self, epsilon: float, d: int) -> Settings:
        """Return the settings of a run that spends roughly `epsilon` on `d` columns, defaults included."""
        if self.center is not None and not isinstance(self.center, bool):
            raise checks.refuse("center", self.center, "True, False or None")
        defaults = {
            "rounds": constants.default_rounds(epsilon),
            "updates": constants.default_updates(d, epsilon),
            "step": constants.default_step(epsilon),
            "keep": constants.default_keep(epsilon),
            "center": True,
        }
        chosen = {name: value for name, value in defaults.items() if getattr(self, name) is None}
        given = self.smoothness
        smoothness = None if given is None else _numbers("smoothness", given)
        return settings_of(Settings, self, loss=checked_loss(self.loss), smoothness=smoothness, **chosen)


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not np.iterable(values):
        raise checks.refuse(name, values, "one number for each column")
    return tuple(checks.moderate(name, value) for value in values)
