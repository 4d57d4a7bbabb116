"""Fed-BNSL, its Frank-Wolfe variant and DP-Fed-BNSL as one estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Self

from privfcd.algorithms.base import Estimator
from privfcd.algorithms.equal_variance.diagnostics import variance_notes
from privfcd.algorithms.fed_bnsl.coordinator import FedBNSLCoordinator
from privfcd.algorithms.fed_bnsl.party import FedBNSLParty
from privfcd.algorithms.fed_bnsl.settings import LocalStep, Settings, default_l1
from privfcd.algorithms.inputs import names_and_columns
from privfcd.algorithms.release.gather import centring, gather
from privfcd.algorithms.results import store_graph, store_privacy, store_released
from privfcd.algorithms.rounds import RoundRecord, check_on_round, history_rows
from privfcd.algorithms.scale_notes import store_moment_notes
from privfcd.data.private import PrivateTable
from privfcd.federation.local import LocalFederation
from privfcd.moments import Moments

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

    from privfcd.accounting.privacy_report import PrivacyReport
    from privfcd.graphs.dag import DagProjection


class FedBNSL(Estimator):
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
    released_moments_ : tuple of Moments or None
        The parties' noisy ones, in this process only, for `edge_stability`; None where one party's are exact.
    feature_names_in_, n_features_in_
        As in scikit-learn.
    """

    causal_graph_: nx.DiGraph[str]
    adjacency_matrix_: NDArray[np.float64]
    dropped_: DagProjection
    privacy_report_: list[PrivacyReport] | None
    privacy_spent_: tuple[float, float]
    feature_names_in_: NDArray[np.object_]
    n_features_in_: int

    def __init__(
        self,
        rounds: int = 100,
        l1: float | None = None,
        rho1: float = 1000.0,
        rho2: float = 1.0,
        growth: float = 1.0,
        rho1_max: float = 1e5,
        threshold: float = 0.3,
        local_step: LocalStep = "closed-form",
        steps: int = 10,
        radius: float = 4.0,
        center: bool | None = None,
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.rounds = rounds
        self.l1 = l1
        self.rho1 = rho1
        self.rho2 = rho2
        self.growth = growth
        self.rho1_max = rho1_max
        self.threshold = threshold
        self.local_step: LocalStep = local_step
        self.steps = steps
        self.radius = radius
        self.center = center
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta

    def fit(
        self,
        source: Sequence[PrivateTable] | Moments | Sequence[Moments],
        *,
        on_round: Callable[[RoundRecord], None] | None = None,
    ) -> Self:
        """Learn the graph from the parties' tables or moments.

        Columns are aligned by name to the first one's order. Everything is checked, and every party's budget is asked,
        before any ledger is charged; every ledger is charged before any row is read.

        Parameters
        ----------
        source : sequence of PrivateTable, or Moments, or a sequence of Moments
            One for each party; one Moments is a federation of one.
        on_round : callable, optional
            Called after every round with its `RoundRecord`.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party.
        """
        check_on_round(on_round)
        names, columns = names_and_columns(source)
        settings = self._settings(len(names))
        coordinator = FedBNSLCoordinator(settings, columns)
        gathered = gather(
            source,
            "auto",
            send=False,
            epsilon=self.epsilon,
            delta=self.delta,
            row_norm=self.row_norm,
            center=centring(self.center, source),
        )
        parties = [FedBNSLParty(name, part) for name, part in zip(names, gathered.parts, strict=True)]
        federation = LocalFederation(parties)
        records = coordinator.run(federation, on_round)
        store_graph(self, records[-1].weights, settings.threshold, columns)
        store_privacy(self, gathered.reports, gathered.parts)
        store_released(self, gathered.parts)
        store_moment_notes(self, gathered.parts)
        assumed = variance_notes(gathered.moments)
        self.notes_ = [*self.notes_, *gathered.notes, *assumed, *coordinator.notes]
        self.history_ = history_rows(records)
        self.settings_ = dict(vars(settings))
        self.bytes_exchanged_ = federation.bytes_exchanged
        return self

    def _settings(self, parties: int) -> Settings:
        return Settings(
            rounds=self.rounds,
            l1=default_l1(self.local_step, parties) if self.l1 is None else self.l1,
            rho1=self.rho1,
            rho2=self.rho2,
            growth=self.growth,
            rho1_max=self.rho1_max,
            threshold=self.threshold,
            local_step=self.local_step,
            steps=self.steps,
            radius=self.radius,
        )
