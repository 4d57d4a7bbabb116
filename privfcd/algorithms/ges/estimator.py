"""Greedy equivalence search as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from privfcd import checks
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.constraint.untested import loud_notes
from privfcd.algorithms.ges.search import SearchResult, greedy_search
from privfcd.algorithms.release.gather import centring, gather
from privfcd.algorithms.results import store_cpdag, store_privacy, store_released
from privfcd.algorithms.scores import GaussianBIC
from privfcd.data.private import PrivateTable
from privfcd.graphs.pdag import Pdag
from privfcd.moments import Moments


class GES(Estimator):
    """Greedy equivalence search with the Gaussian BIC, on second moments whose noise lowers the number of rows.

    Chickering (2002), with the turning phase of Hauser and Bühlmann (2012); for linear Gaussian data without hidden
    common causes. It finds a Markov equivalence class, and needs no equal error variances.

    Parameters
    ----------
    penalty : float
        Factor of the BIC's penalty.
    turning : bool
        Whether edges may be turned.
    most_parents : int, optional
        Largest number of parents.
    release : str
        What tables release: `"preconditioned"`, `"covariance"`, `"exact"` (open tables), or `"auto"`.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget (see
        `release_moments`). False says that the means are 0.
    row_norm, epsilon, delta : float, optional
        Of `release_moments`.

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

    cpdag_: Pdag

    def __init__(
        self,
        penalty: float = 1.0,
        turning: bool = True,
        most_parents: int | None = None,
        release: str = "auto",
        center: bool | None = None,
        row_norm: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        self.penalty = penalty
        self.turning = turning
        self.most_parents = most_parents
        self.release = release
        self.center = center
        self.row_norm = row_norm
        self.epsilon = epsilon
        self.delta = delta

    def fit(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments]) -> Self:
        """Learn the class from tables or moments, one for each party.

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
        checks.positive("penalty", self.penalty)
        if not isinstance(self.turning, bool):
            raise checks.refuse("turning", self.turning, "True or False")
        if self.most_parents is not None:
            checks.count("most_parents", self.most_parents, least=0)
        gathered = gather(
            source,
            self.release,
            center=centring(self.center, source),
            row_norm=self.row_norm,
            epsilon=self.epsilon,
            delta=self.delta,
        )
        moments = gathered.moments
        score = GaussianBIC(moments, self.penalty)
        self.search_: SearchResult = greedy_search(score, turning=self.turning, most_parents=self.most_parents)
        store_cpdag(self, self.search_.cpdag, moments.columns)
        store_privacy(self, gathered.reports, gathered.parts)
        store_released(self, [moments])
        self.notes_ = [*loud_notes([moments], self.cpdag_.matrix(), moments.columns), *gathered.notes]
        self.moments_ = gathered.released
        self.rule_ = {"effective rows": score.rows, **gathered.rule}
        self.bytes_exchanged_ = gathered.bytes_exchanged
        return self
