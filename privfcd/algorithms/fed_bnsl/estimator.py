"""Fed-BNSL, its Frank-Wolfe variant and DP-Fed-BNSL as one estimator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

from privfcd.algorithms import kept_messages
from privfcd.algorithms.equal_variance.diagnostics import variance_notes
from privfcd.algorithms.fed_bnsl import messages
from privfcd.algorithms.fed_bnsl.coordinator import FedBNSLCoordinator
from privfcd.algorithms.fed_bnsl.party import FedBNSLParty
from privfcd.algorithms.fed_bnsl.settings import LocalStep, Settings
from privfcd.algorithms.kept_learner import _KeptMomentLearner
from privfcd.algorithms.learner import EQUAL_VARIANCES, SLOPE, OnRound, settings_of
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.results import store_graph
from privfcd.algorithms.rounds import history_rows
from privfcd.algorithms.scale_notes import store_moment_notes
from privfcd.moments import Moments, pooled


@dataclass(eq=False, repr=False)
class FedBNSL(_KeptMomentLearner):
    """Federated structure learning of linear Gaussian Bayesian networks with a closed-form local step.

    ADMM with an acyclicity constraint (NOTEARS-ADMM: Ng and Zhang 2022; the baseline Fed-BNSL of Fassy et al. 2025): in each
    of T rounds every party fits B to its own second moments near the consensus, exactly, and the coordinator fits sparse
    acyclic weights W to the parties' average. Parties need nothing but their second moments, so there are three cases:

    - open tables: exact moments. Not private, whatever stays at the parties: the first message gives the second moments
      away (A.1, `reconstructed_moments`); charged as `NonPrivateDpEvent`, epsilon = inf.
    - tables with a budget: DP-Fed-BNSL. Every party releases one covariance with the noise of the analytic Gaussian
      mechanism, rows clipped in norm, and keeps it; all that follows is post-processing of it.
    - Moments, released before: post-processing, free of charge.

    Parameters
    ----------
    rounds : int
        T.
    l1 : float, optional
        lambda, the weight of ‖W‖₁ against the sum of the parties' losses. By default 1/16 for each party, and 0 with
        `"frank-wolfe"`. (The paper's 0.01 found more false edges on the instances
        that the default was chosen on, seeds 1, 100, 400 and from 1000 on.)
    rho1, rho2 : float
        Penalties of the acyclicity and of the consensus.
    growth : float
        Factor by which rho1 grows after each round, at least 1; constant by default, as in the paper. With rho1 = 1 and
        growth 1.15 fewer runs end in a poor local minimum (SHD 0.0 on the same instances).
    rho1_max : float
        Where rho1 stops growing.
    threshold : float
        Final weights of at most this size are dropped, in the columns' own units, as `l1` is.
    local_step : str
        `"closed-form"`, or `"frank-wolfe"` (Fed-BNSL-FW, C.1): every column of B in an l1 ball, a few sparse steps from W.
    steps : int
        For `"frank-wolfe"`: steps for each column and round.
    radius : float
        For `"frank-wolfe"`: of the l1 ball that each column lies in.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget (see
        `release_moments`). False says that the means are 0.
    release : str
        What tables release: `"covariance"`, `"exact"` (open tables), or `"auto"`.
    row_norm : float, optional
        Tables with a budget: rows are shortened to this norm, public. By default the norm of the declared bounds, or one
        that a part of the budget supplies.
    epsilon, delta : float, optional
        What this run may spend of each table's budget; all that is left by default. delta defaults to the budget's,
        in proportion to epsilon.

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
        By the paper's rule (B.2.1): 2 T P d² floats with the closed form.
    privacy_report_ : list of PrivacyReport or None
        One for each table; None for a fit to moments.
    privacy_spent_ : tuple of float
        (epsilon, delta) of this fit that holds for every party.
    settings_ : dict
        The parameters as they were used, defaults included.
    rule_ : dict
        What was chosen for the release.
    released_moments_ : tuple of Moments or None
        The parties' noisy ones, for `edge_stability`; None where one party's are exact.
    feature_names_in_, n_features_in_
        As in scikit-learn.
    """

    method = "fed-bnsl"
    graph = "dag"
    weight = SLOPE
    rests_on = EQUAL_VARIANCES
    message_modules = (release_messages, kept_messages, messages)
    second: ClassVar[ModuleType] = messages
    charging = (release_messages.Charge,)
    ending = (messages.Finish,)
    reports_rounds = True

    rounds: int = 100
    l1: float | None = None
    rho1: float = 1000.0
    rho2: float = 1.0
    growth: float = 1.0
    rho1_max: float = 1e5
    threshold: float = 0.3
    local_step: LocalStep = "closed-form"
    steps: int = 10
    radius: float = 4.0

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        self._settings()

    def half(self, name: str, moments: Moments) -> FedBNSLParty:
        """See `_KeptMomentLearner.half`."""
        return FedBNSLParty(name, moments)

    def learn_over(
        self, federation: Federation, columns: tuple[str, ...], known: Sequence[Moments], on_round: OnRound
    ) -> None:
        """See `_KeptMomentLearner.learn_over`."""
        settings = self._settings()
        coordinator = FedBNSLCoordinator(settings, columns)
        records = coordinator.run(federation, on_round)
        store_graph(self, records[-1].weights, settings.threshold, columns)
        store_moment_notes(self, known, self._release_rule)
        alike = len({part.exact for part in known}) == 1  # of exact moments that stayed no relations are known
        assumed = variance_notes(pooled(known)) if alike else []
        self.notes_ = [*self.notes_, *assumed, *coordinator.notes]
        self.history_ = history_rows(records)
        self.settings_: dict[str, Any] = {**vars(settings), "l1": settings.l1_for(len(federation.names))}

    def second_offer(self, columns: tuple[str, ...]) -> messages.Offer:
        """See `_KeptMomentLearner.second_offer`."""
        return messages.Offer(self._settings(), columns)

    def _settings(self) -> Settings:
        return settings_of(Settings, self)
