"""The PC algorithm as an estimator."""

from __future__ import annotations

from dataclasses import dataclass, field

from privfcd.algorithms.constraint.fisher_z import FisherZ
from privfcd.algorithms.constraint.orientation import Orientation, oriented
from privfcd.algorithms.constraint.skeleton import Skeleton, check_levels, stable_skeleton
from privfcd.algorithms.constraint.untested import store_untested
from privfcd.algorithms.learner import LINEAR_GAUSSIAN
from privfcd.algorithms.moment_learner import _MomentLearner
from privfcd.algorithms.results import store_cpdag
from privfcd.graphs.pdag import Pdag
from privfcd.moments import Moments


@dataclass(eq=False, repr=False)
class PC(_MomentLearner):
    """The stable PC algorithm on second moments, with Fisher's z tests that know the moments' noise.

    Spirtes, Glymour and Scheines (2000), in the order-independent form of Colombo and Maathuis (2014); for linear Gaussian
    data without hidden common causes. It finds a Markov equivalence class, and needs no equal error variances.

    Parameters
    ----------
    alpha : float
        Level of the tests, in (0, 1).
    max_cond_vars : int, optional
        Size of the largest conditioning set; None for no limit.
    release : str
        What tables release: `"preconditioned"`, `"covariance"`, `"exact"` (open tables), or `"auto"`.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget (see
        `release_moments`). False says that the means are 0.
    row_norm, epsilon, delta : float, optional
        Of `release_moments`.
    sum : str
        `"per-party"`; or one noise for the sum over all tables, `"trusted"` or `"secure"`, see `release_moments`.
    colluders, dropouts : int
        For `sum="secure"`: how many parties may tell the coordinator all they know, and how many may be lost.

    Attributes
    ----------
    cpdag_ : Pdag
        The class; where the tests contradict each other (`orientation_.valid` False) a graph that is none.
    adjacency_matrix_ : ndarray of bool, shape (d, d)
        [i, j] alone is i -> j, [i, j] and [j, i] together are i - j.
    causal_graph_ : networkx.DiGraph
        The same; an undirected edge is two arcs with `undirected` True.
    skeleton_ : Skeleton
        With separators and p-values.
    orientation_ : Orientation
        How many v-structures contradicted each other.
    untested_ : list of (str, str)
        Edges of which no test could say anything, mostly because of loud noise. They are kept: nothing speaks against them,
        and nothing for them. `notes_` say so.
    released_moments_ : tuple of Moments or None
        The noisy ones that were learnt from, for `edge_stability`; None for exact ones.
    moments_, rule_, bytes_exchanged_, privacy_report_, privacy_spent_, feature_names_in_, n_features_in_
        As of the other estimators.
    """

    method = "pc"
    graph = "cpdag"
    weight = ""
    rests_on = LINEAR_GAUSSIAN

    alpha: float = 0.01
    max_cond_vars: int | None = 3

    cpdag_: Pdag = field(init=False)
    skeleton_: Skeleton = field(init=False)
    orientation_: Orientation = field(init=False)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        check_levels(self.alpha, self.max_cond_vars)

    def learn_from(self, moments: Moments) -> None:
        """See `_MomentLearner.learn_from`."""
        found = self.skeleton_ = stable_skeleton(FisherZ(moments), self.alpha, self.max_cond_vars)
        self.orientation_ = oriented(found)
        store_cpdag(self, self.orientation_.graph, moments.columns)
        store_untested(self, found.adjacent, found.asked, found.silent, moments.columns, noisy=not moments.exact)
