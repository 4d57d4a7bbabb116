"""NOTEARS as an estimator: on all parties' rows together, or on each party's alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

from privfcd import checks
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.equal_variance.diagnostics import variance_notes
from privfcd.algorithms.inputs import moments_given, names_and_columns
from privfcd.algorithms.notears.solver import OuterStep, solve
from privfcd.algorithms.release.gather import Gathered, centring, gather
from privfcd.algorithms.results import store_graph, store_privacy, store_released
from privfcd.algorithms.scale_notes import store_moment_notes
from privfcd.data.private import PrivateTable
from privfcd.errors import ConvergenceFailure
from privfcd.moments import Moments

if TYPE_CHECKING:
    import networkx as nx
    import numpy as np
    from numpy.typing import NDArray

    from privfcd.accounting.privacy_report import PrivacyReport
    from privfcd.graphs.dag import DagProjection


class NOTEARS(Estimator):
    """Structure learning of linear Gaussian Bayesian networks by continuous optimisation, in one place.

    Least squares with an l1 penalty and the smooth acyclicity constraint, by the augmented Lagrangian (Zheng, Aragam,
    Ravikumar and Xing 2018). It needs second moments only. `fit` pools all parties' moments (what could be reached if the
    rows lay in one place); `fit_each` fits one model to each party alone.

    Open tables give exact moments, charged as `NonPrivateDpEvent`. Tables with a budget release theirs with noise first
    (see `release_moments`); on Moments the fit is post-processing.

    Parameters
    ----------
    l1 : float
        lambda, the weight of ‖W‖₁ against the mean loss of a row.
    threshold : float
        Final weights of at most this size are dropped, in the columns' own units, as `l1` is.
    max_iterations : int
        Steps of the multiplier, at most.
    h_tolerance : float
        Ends when h(W) is at most this.
    rho_max : float
        Ends when the penalty of h has grown to this.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget (see
        `release_moments`). False says that the means are 0.
    release : str
        How tables release their moments: `"auto"`, or a method of `release_moments`.
    row_norm : float, optional
        Of `release_moments`: rows are shortened to this norm by `"covariance"`; public.
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
        A row for each step of the multiplier.
    bytes_exchanged_ : int
        What the moments took to one place; 0 for moments and for `fit_each`.
    privacy_report_ : list of PrivacyReport or None
        One for each table; None for a fit to moments.
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
        l1: float = 0.1,
        threshold: float = 0.3,
        max_iterations: int = 100,
        h_tolerance: float = 1e-8,
        rho_max: float = 1e16,
        center: bool | None = None,
        release: str = "auto",
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.l1 = l1
        self.threshold = threshold
        self.max_iterations = max_iterations
        self.h_tolerance = h_tolerance
        self.rho_max = rho_max
        self.center = center
        self.release = release
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta

    def fit(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments]) -> Self:
        """Learn one graph from all parties' rows together.

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
        """
        self._check(len(names_and_columns(source)[1]))
        gathered = self._gather(source, send=True)
        return self._solve(gathered)

    def fit_each(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments]) -> list[NOTEARS]:
        """Return one fitted model for each party, of its rows alone; this one is left as it is.

        All tables are checked and charged before the rows of any are read. The moments stay at the parties: `release`
        can be `"covariance"` at most.

        Parameters
        ----------
        source : sequence of PrivateTable, or Moments, or a sequence of Moments
            One for each party.

        Raises
        ------
        BudgetExceeded, InvalidParameter, InvalidTable
            As `fit`.
        """
        self._check(len(names_and_columns(source)[1]))
        gathered = self._gather(source, send=False)
        reports = [None] * len(gathered.parts) if gathered.reports is None else [[one] for one in gathered.reports]
        return [
            NOTEARS(**self.get_params())._solve(Gathered((part,), report, 0, {}))
            for part, report in zip(gathered.parts, reports, strict=True)
        ]

    def _check(self, d: int) -> None:
        if self.l1 != 0:
            checks.moderate("l1", self.l1)
        checks.non_negative("threshold", self.threshold)
        checks.count("max_iterations", self.max_iterations)
        checks.positive("h_tolerance", self.h_tolerance)
        checks.moderate("rho_max", self.rho_max)
        if d < 2:
            raise checks.refuse("the number of columns", d, "at least 2: a graph needs two variables")

    def _gather(self, source: Any, *, send: bool) -> Gathered:
        options: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta, "row_norm": self.row_norm}
        options["center"] = centring(self.center, source)
        if moments_given(source) is None:
            options["send"] = send
        return gather(source, self.release, **options)

    def _solve(self, gathered: Gathered) -> Self:
        moments = gathered.moments
        matrix = moments.matrix if moments.exact else moments.repaired().matrix
        steps: list[OuterStep] = []
        early = []
        try:
            solve(
                matrix,
                l1=self.l1,
                max_iterations=self.max_iterations,
                h_tolerance=self.h_tolerance,
                rho_max=self.rho_max,
                on_step=steps.append,
            )
        except ConvergenceFailure as error:  # the moments may have been paid for
            if not steps:
                raise
            early = [f"The optimisation ended after step {len(steps)}, with the weights of that step: {error}."]
        store_graph(self, steps[-1].weights, self.threshold, moments.columns)
        store_privacy(self, gathered.reports, gathered.parts)
        store_moment_notes(self, [moments])
        self.notes_ = [*self.notes_, *gathered.notes, *variance_notes(moments), *early]
        store_released(self, [moments])
        self.history_ = [
            {
                "step": step.number,
                "h": step.h,
                "alpha": step.alpha,
                "rho": step.rho,
                "loss": step.loss,
                "seconds": step.seconds,
            }
            for step in steps
        ]
        self.bytes_exchanged_ = gathered.bytes_exchanged
        return self
