"""Greedy equivalence search as an estimator."""

from __future__ import annotations

from dataclasses import dataclass, field

from privfcd import checks
from privfcd.algorithms.ges.search import SearchResult, greedy_search
from privfcd.algorithms.learner import LINEAR_GAUSSIAN
from privfcd.algorithms.moment_learner import _MomentLearner
from privfcd.algorithms.results import store_cpdag
from privfcd.algorithms.scores import GaussianBIC
from privfcd.graphs.pdag import Pdag
from privfcd.moments import Moments


@dataclass(eq=False, repr=False)
class GES(_MomentLearner):
    """Greedy equivalence search with the Gaussian BIC, on second moments whose noise lowers the number of rows.

    Chickering (2002), with the turning phase of Hauser and Bühlmann (2012); for linear Gaussian data without hidden
    common causes. It finds a Markov equivalence class, and needs no equal error variances.

    Parameters
    ----------
    penalty : float
        Factor of the BIC's penalty.
    turning : bool
        Whether edges may be turned.
    max_parents : int, optional
        Largest number of parents.
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
        The class.
    adjacency_matrix_ : ndarray of bool, shape (d, d)
        [i, j] alone is i -> j, [i, j] and [j, i] together are i - j.
    causal_graph_ : networkx.DiGraph
        The same; an undirected edge is two arcs with `undirected` True.
    search_ : SearchResult
        Steps and counts.
    released_moments_ : tuple of Moments or None
        The noisy ones that were learnt from, for `edge_stability`; None for exact ones.
    moments_, rule_, bytes_exchanged_, privacy_report_, privacy_spent_, feature_names_in_, n_features_in_
        As of the other estimators.
    """

    method = "ges"
    graph = "cpdag"
    weight = ""
    rests_on = LINEAR_GAUSSIAN

    penalty: float = 1.0
    turning: bool = True
    max_parents: int | None = None

    cpdag_: Pdag = field(init=False)
    search_: SearchResult = field(init=False)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        checks.positive("penalty", self.penalty)
        if not isinstance(self.turning, bool):
            raise checks.refuse("turning", self.turning, "True or False")
        if self.max_parents is not None:
            checks.count("max_parents", self.max_parents, least=0)

    def learn_from(self, moments: Moments) -> None:
        """See `_MomentLearner.learn_from`."""
        score = GaussianBIC(moments, self.penalty)
        self.search_ = greedy_search(score, turning=self.turning, max_parents=self.max_parents)
        store_cpdag(self, self.search_.cpdag, moments.columns)
        self.rule_ = {"effective rows": score.rows}
