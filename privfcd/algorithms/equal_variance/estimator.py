"""Order search under equal error variances, as an estimator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from privfcd import checks
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.equal_variance.diagnostics import KURTOSIS, EqualVarianceTest, equal_variance_test
from privfcd.algorithms.equal_variance.law import Law
from privfcd.algorithms.equal_variance.search import CAUTIONS, order_search
from privfcd.algorithms.release.gather import RELEASES, Gathered, centring, gather
from privfcd.algorithms.results import store_graph, store_privacy, store_released, warn_when_paid
from privfcd.algorithms.scale_notes import store_moment_notes
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

    from privfcd.accounting.privacy_report import PrivacyReport
    from privfcd.graphs.dag import DagProjection


class EqualVarianceWarning(UserWarning):
    """The error variances do not look equal."""


class EqualVarianceSearch(Estimator):
    """Structure learning from second moments under equal error variances: one release, then free of charge.

    If all errors of a linear Gaussian Bayesian network have one variance, the order of the variables can be read off
    their second moments (Peters and Buhlmann 2014; top-down search: Chen, Drton and Wang 2019). Here every step knows the
    noise that the moments carry, so the same search runs on exact and on private moments; see `order_search`.

    The columns must be in units in which the errors' variances are equal: rescaling a column breaks the assumption. A
    test on the same moments says whether it holds up.

    Parameters
    ----------
    release : str
        What tables release, see `release_moments`: `"preconditioned"`, `"covariance"`, `"exact"` (open tables), or
        `"auto"`.
    threshold : float
        Weights of at most this size are dropped, in the columns' own units.
    level : float
        In (0, 1): edges differ from 0 at this level, divided by d, sampling and noise counted.
    tau : float, optional
        Standard deviations from 0 that make a parent during the search; from d by default.
    cautions : sequence of float
        A top-down pass for each: so many standard deviations of its noise are added to a residual variance before the
        smallest is taken. The best order is kept.
    local : bool
        Whether orders are improved by local search.
    polish : bool
        Whether, under noise and for few variables, the graph is improved by the likelihood of all moments at once.
    test_level : float
        In (0, 1): level of the test of equal variances.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget (see
        `release_moments`). False says that the means are 0.
    row_norm : float, optional
        Of `release_moments`: rows are shortened to this norm by `"covariance"`; public.
    epsilon, delta : float, optional
        What this run may spend of each table's budget; all that is left by default.

    Attributes
    ----------
    causal_graph_ : networkx.DiGraph
        Acyclic; all columns as nodes, `weight` on the edges.
    adjacency_matrix_ : ndarray of shape (d, d)
        Entry [i, j] is the weight of i -> j.
    order_ : list of str
        Columns, causes first.
    residual_variances_ : ndarray of shape (d,)
        Of each column given its significant parents; noise can make them negative.
    equal_variances_ : EqualVarianceTest
        Whether they can all be equal; `.warning` says what to do if not.
    moments_ : Moments
        What was learnt from: other learners can use it, free of charge.
    rule_ : dict
        Constants of the search and of the release, and what they came from.
    dropped_ : DagProjection
        Nothing is dropped here: the search's graph is acyclic.
    history_ : list of dict
        One row: cost and time of the search.
    bytes_exchanged_ : int
        For the release; 0 for Moments.
    privacy_report_ : list of PrivacyReport or None
        One for each table; None for a fit to Moments, which were paid for before.
    privacy_spent_ : tuple of float
        (epsilon, delta) of this fit that holds for every party.
    released_moments_ : tuple of Moments or None
        The noisy ones that were learnt from, for `edge_stability`; None for exact ones.
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
        release: str = "auto",
        threshold: float = 0.3,
        level: float = 0.05,
        tau: float | None = None,
        cautions: Sequence[float] = CAUTIONS,
        local: bool = True,
        polish: bool = True,
        test_level: float = 0.01,
        center: bool | None = None,
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.release = release
        self.threshold = threshold
        self.level = level
        self.tau = tau
        self.cautions = cautions
        self.local = local
        self.polish = polish
        self.test_level = test_level
        self.center = center
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta

    def fit(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments]) -> Self:
        """Learn the graph.

        Columns are aligned by name to the first one's order. Everything is checked, and every party's budget is asked,
        before any ledger is charged; every ledger is charged before any row is read.

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

        Warns
        -----
        EqualVarianceWarning
            Equal error variances are rejected at `test_level`.
        """
        self._check()
        gathered = gather(
            source,
            self.release,
            center=centring(self.center, source),
            row_norm=self.row_norm,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        rule = {"release": gathered.rule} if gathered.rule else {}
        return self._search(gathered, rule)

    def _check(self) -> None:
        if self.release not in RELEASES:
            raise checks.refuse("release", self.release, "one of " + ", ".join(RELEASES))
        checks.non_negative("threshold", self.threshold)
        for name in ("level", "test_level"):
            checks.fraction(name, getattr(self, name))
        if self.tau is not None:
            checks.positive("tau", self.tau)
        if isinstance(self.cautions, str) or not isinstance(self.cautions, Sequence) or not self.cautions:
            raise checks.refuse("cautions", self.cautions, "a list of numbers of at least 0")
        for value in self.cautions:
            checks.non_negative("cautions", value)
        for name in ("local", "polish"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidParameter(f"{name} must be True or False, got {getattr(self, name)!r}")

    def _search(self, gathered: Gathered, rule: dict[str, Any]) -> Self:
        moments = gathered.moments
        began = time.perf_counter()
        found = order_search(
            moments,
            threshold=self.threshold,
            tau=self.tau,
            level=self.level,
            cautions=self.cautions,
            local=self.local,
            polish=self.polish,
        )
        self.equal_variances_: EqualVarianceTest = equal_variance_test(
            Law.of(moments), found.structure, self.test_level, KURTOSIS
        )
        store_graph(self, found.weights, 0.0, moments.columns)
        store_privacy(self, gathered.reports, gathered.parts)
        store_released(self, [moments])
        store_moment_notes(self, [moments])
        self.notes_ = [*self.notes_, *gathered.notes]
        if self.equal_variances_.loud:
            self.notes_ = [*self.notes_, "Equal error variances could not be tested: the noise is too loud at this budget."]
        self.order_ = [moments.columns[k] for k in found.order]
        self.residual_variances_ = found.variances
        self.moments_ = gathered.released
        self.rule_ = {**found.rule, **rule}
        self.history_ = [
            {
                "step": 1,
                "cost": found.cost,
                "edges": self.causal_graph_.number_of_edges(),
                "seconds": time.perf_counter() - began,
            }
        ]
        self.bytes_exchanged_ = gathered.bytes_exchanged
        if self.equal_variances_.warning is not None:
            warn_when_paid(self.equal_variances_.warning, EqualVarianceWarning, stacklevel=3)
        return self
