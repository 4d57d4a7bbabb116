"""NOTEARS as an estimator: on all parties' rows together, or on each party's alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from privfcd import checks
from privfcd.algorithms.equal_variance.diagnostics import variance_notes
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.learner import EQUAL_VARIANCES, SLOPE
from privfcd.algorithms.moment_learner import _MomentLearner
from privfcd.algorithms.notears.solver import OuterStep, solve
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.results import store_graph, store_privacy
from privfcd.algorithms.scale_notes import store_moment_notes
from privfcd.data.private import PrivateTable
from privfcd.errors import ConvergenceFailure
from privfcd.moments import Moments


@dataclass(eq=False, repr=False)
class NOTEARS(_MomentLearner):
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
    max_iter : int
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
    sum : str
        `"per-party"`; or one noise for the sum over all tables, `"trusted"` or `"secure"`, see `release_moments`.
    colluders, dropouts : int
        For `sum="secure"`: how many parties may tell the coordinator all they know, and how many may be lost.

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
    moments_ : Moments
        What was released, of all rows: another fit to them costs nothing.
    rule_ : dict
        What was chosen for the release.
    released_moments_ : tuple of Moments or None
        The noisy ones that were learnt from, for `edge_stability`; None for exact ones.
    feature_names_in_, n_features_in_
        As in scikit-learn.
    """

    method = "notears"
    least_columns = 2
    graph = "dag"
    weight = SLOPE
    rests_on = EQUAL_VARIANCES

    l1: float = 0.1
    threshold: float = 0.3
    max_iter: int = 100
    h_tolerance: float = 1e-8
    rho_max: float = 1e16

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        if self.l1 != 0:
            checks.moderate("l1", self.l1)
        checks.non_negative("threshold", self.threshold)
        checks.count("max_iter", self.max_iter)
        checks.positive("h_tolerance", self.h_tolerance)
        checks.moderate("rho_max", self.rho_max)

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
        self.check()
        given = moments_given(source)
        if given is not None:
            return [NOTEARS(**self.get_params()).fit([part]) for part in given]
        tables = checked_tables(source, self.takes, self.method)
        self.check_columns(tables[0].columns)
        made = release_moments(
            tables,
            method=None if self.release == "auto" else self.release,
            send=False,
            epsilon=self.epsilon,
            delta=self.delta,
            row_norm=self.row_norm,
            center=self.center,
        )
        models = []
        for part, report in zip(made.parts, made.privacy_report, strict=True):
            model = NOTEARS(**self.get_params())
            model.learn([part])
            store_privacy(model, [report])
            models.append(model)
        return models

    def learn_from(self, moments: Moments) -> None:
        """See `_MomentLearner.learn_from`."""
        matrix = moments.matrix if moments.exact else moments.repaired().matrix
        steps: list[OuterStep] = []
        early = []
        try:
            solve(
                matrix,
                l1=self.l1,
                max_iter=self.max_iter,
                h_tolerance=self.h_tolerance,
                rho_max=self.rho_max,
                on_step=steps.append,
            )
        except ConvergenceFailure as error:  # the moments may have been paid for
            if not steps:
                raise
            early = [f"The optimisation ended after step {len(steps)}, with the weights of that step: {error}."]
        store_graph(self, steps[-1].weights, self.threshold, moments.columns)
        store_moment_notes(self, [moments], self._release_rule)
        self.notes_ = [*self.notes_, *variance_notes(moments), *early]
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
