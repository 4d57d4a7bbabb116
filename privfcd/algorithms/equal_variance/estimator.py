"""Order search under equal error variances, as an estimator."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms.equal_variance.diagnostics import KURTOSIS, EqualVarianceTest, equal_variance_test
from privfcd.algorithms.equal_variance.law import Law
from privfcd.algorithms.equal_variance.search import CAUTIONS, order_search
from privfcd.algorithms.learner import EQUAL_VARIANCES, SLOPE
from privfcd.algorithms.moment_learner import _MomentLearner
from privfcd.algorithms.results import store_graph, warn_when_paid
from privfcd.algorithms.scale_notes import store_moment_notes
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments


class EqualVarianceWarning(UserWarning):
    """The error variances do not look equal."""


@dataclass(eq=False, repr=False)
class EqualVarianceSearch(_MomentLearner):
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

    method = "equal-variance"
    graph = "dag"
    weight = SLOPE
    rests_on = EQUAL_VARIANCES
    rule_apart = True

    threshold: float = 0.3
    level: float = 0.05
    tau: float | None = None
    cautions: Sequence[float] = CAUTIONS
    local: bool = True
    polish: bool = True
    test_level: float = 0.01

    order_: list[str] = field(init=False)
    residual_variances_: NDArray[np.float64] = field(init=False)
    equal_variances_: EqualVarianceTest = field(init=False)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
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

    def learn_from(self, moments: Moments) -> None:
        """See `_MomentLearner.learn_from`."""
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
        self.equal_variances_ = equal_variance_test(Law.of(moments), found.structure, self.test_level, KURTOSIS)
        store_graph(self, found.weights, 0.0, moments.columns)
        store_moment_notes(self, [moments], self._release_rule)
        if self.equal_variances_.loud:
            self.notes_ = [
                *self.notes_,
                "Equal error variances could not be tested: the noise is too loud at this budget.",
            ]
        self.order_ = [moments.columns[k] for k in found.order]
        self.residual_variances_ = found.variances
        self.rule_ = dict(found.rule)
        self.history_ = [
            {
                "step": 1,
                "cost": found.cost,
                "edges": self.causal_graph_.number_of_edges(),
                "seconds": time.perf_counter() - began,
            }
        ]
        if self.equal_variances_.warning is not None:
            warn_when_paid(self.equal_variances_.warning, EqualVarianceWarning, stacklevel=3)
