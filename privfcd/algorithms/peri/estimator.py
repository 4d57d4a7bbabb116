"""PERI and I-PERI as estimators."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from privfcd import checks
from privfcd.algorithms.learner import LINEAR_GAUSSIAN
from privfcd.algorithms.peri.base import Orientation, _RegretLearner
from privfcd.algorithms.peri.coordinator import Outcome
from privfcd.graphs.pdag import Pdag


@dataclass(eq=False, repr=False)
class PERI(_RegretLearner):
    """Federated causal discovery by regrets, for parties that share one causal structure.

    Mian, Kaltenpoth, Kamp and Vreeken (AAAI 2023). Each party learns a CPDAG of its own, which stays there; the
    coordinator searches the equivalence class for which the worst party's regret is least. It hears regrets of
    families (a node with its parents) only: by how much they score worse at the party than the party's own graph.
    Where parties intervene, a regret for an edge that a party has cut never vanishes: see `IPERI`.

    Parameters
    ----------
    local : {"pc", "ges"}
        How a party learns its own CPDAG.
    worst : {"party", "node"}
        What is least: the largest sum of regrets over nodes, the paper's definition, or the sum over nodes of the
        largest regret at each, as in the authors' program.
    turning, max_parents
        Of the search: whether edges are turned, and the largest number of parents.
    alpha, max_cond_vars
        Of PC: the tests' level, and the size of the largest conditioning set.
    penalty : float
        Factor of the BIC's penalty.
    release : {"auto", "exact", "covariance", "preconditioned"}
        What tables pay for; the moments stay at the parties. "exact": open tables only, charged as non-private;
        "covariance": one clipped covariance a party; "preconditioned": rounds of each party alone, whose noise is small in
        every direction. By default "exact" for open tables, and for others "preconditioned", or "covariance" where
        `row_norm` is given or a budget is too small for rounds.
    center : bool, optional
        Whether means are taken off; paid for, on tables with a budget, see `release_moments`. By default on for tables.
    row_norm, epsilon, delta : float, optional
        Of `release_moments`.
    privacy : {"moments", "regret"}
        One charge for moments, whereupon regrets are post-processing and free; or one for each distinct regret, as
        in the paper, with noise that holds. The latter is for comparison: it is hopeless at usual budgets.
    max_regrets : int
        With `privacy="regret"`: how many distinct regrets of each party are paid for. Fewer than the first step of a search
        needs are refused before the charge; where a later step needs more than are left, the run ends with what it has,
        warns with `UnfinishedWarning`, and `notes_` say what was left undone.
    value_bound : float, optional
        With `privacy="regret"`: public bound on |x_j| that values are clipped to; the tables' declared bounds by
        default.
    radius, variance_floor : float
        With `privacy="regret"`: largest norm of regression coefficients, and least residual variance, see
        `RegressionLoss`.
    graph_share : float
        With `privacy="regret"`: share of the budget that each party's own CPDAG is learnt with.

    Attributes
    ----------
    cpdag_ : Pdag
        The class.
    adjacency_matrix_ : ndarray of bool, shape (d, d)
        [i, j] alone is i -> j, [i, j] and [j, i] together are i - j.
    causal_graph_ : networkx.DiGraph
        The same; an undirected edge is two arcs with `undirected` True.
    history_ : list of dict
        A row for each step.
    messages_ : int
        Questions to the parties; all families of one step pass in one.
    regrets_ : int
        Distinct families asked for.
    rule_ : dict
        What was chosen for the release.
    released_moments_ : tuple of Moments or None
        The parties' noisy ones, for `edge_stability`; None where one party's are exact.
    bytes_exchanged_ : int
        Both ways: 8 a regret, a node and one bit for each possible parent of a family.
    privacy_report_, privacy_spent_, feature_names_in_, n_features_in_
        As of the other estimators; no reports for Moments.
    """

    method = "peri"
    rests_on = (*LINEAR_GAUSSIAN, "All parties' data have one graph.")

    def _phases(self) -> dict[str, Any]:
        return {"masked": False, "refine": False, "orientation": None, "min_support": 1, "missing_edges": True}


@dataclass(eq=False, repr=False)
class IPERI(_RegretLearner):
    """Federated causal discovery by regrets where parties intervene on targets that nobody tells.

    Regret-based federated causal discovery with unknown interventions (arXiv:2512.23626), for linear Gaussian data;
    at least one party must not intervene. Phase 1 is PERI with candidates masked by each party's CPDAG, so that an
    edge that a party cut does not count against the common graph. Phase 2 directs edges of the common CPDAG by what
    the interventions show: cutting the shield of a collider makes a v-structure. The result is a Phi-CPDAG.

    With the defaults two things are ours: the common CPDAG is refined by the sum of all parties' regrets, where a
    party may name a node its target, and directions are votes, with the exact class of unknown targets where the
    CPDAGs are consistent. The paper's method is `IPERI(refine=False, orientation="regret")`, and its program about
    `IPERI(refine=False, orientation="authors", worst="node")`.

    Parameters
    ----------
    orientation : {"votes", "regret", "authors"}
        Phase 2: see `privfcd.algorithms.peri.orientation`. For votes every party's CPDAG leaves it. It is made from
        what was paid for (released moments) or charged as non-private (exact ones).
    refine : bool
        Whether the common CPDAG is refined, see `privfcd.algorithms.peri.refinement`.
    min_support : int
        For votes: least number of parties behind a direction.
    missing_edges : bool
        For votes: whether an edge that a party lacks says something about targets.
    local, worst, turning, max_parents, alpha, max_cond_vars, penalty, release, center, row_norm, epsilon, delta
        As of `PERI`.
    privacy, max_regrets, value_bound, radius, variance_floor, graph_share
        As of `PERI`.

    Attributes
    ----------
    cpdag_ : Pdag
        The common CPDAG.
    phi_cpdag_ : Pdag
        The same with the directions of phase 2; `adjacency_matrix_` and `causal_graph_` are its.
    history_ : list of dict
        A row for each step of either phase, with how many parties were for and against a direction.
    rule_ : dict
        What was chosen for the release, and what decided the directions.
    adjacency_matrix_, causal_graph_, messages_, regrets_, bytes_exchanged_
        As of `PERI`.
    released_moments_, privacy_report_, privacy_spent_, feature_names_in_, n_features_in_
        As of `PERI`.
    """

    method = "iperi"
    rests_on = (
        *LINEAR_GAUSSIAN,
        "Parties differ by their interventions only, and at least one does not intervene.",
    )

    orientation: Orientation = "votes"
    refine: bool = True
    min_support: int = 1
    missing_edges: bool = True
    max_regrets: int = field(default=1000, kw_only=True)

    phi_cpdag_: Pdag = field(init=False)

    def _phases(self) -> dict[str, Any]:
        if self.orientation is None:
            raise checks.refuse("orientation", self.orientation, "one of votes, regret, authors")
        names = ("refine", "orientation", "min_support", "missing_edges")
        return {"masked": True, **{name: getattr(self, name) for name in names}}

    def _store(self, outcome: Outcome, columns: tuple[str, ...]) -> None:
        super()._store(outcome, columns)
        self.phi_cpdag_ = outcome.graph
