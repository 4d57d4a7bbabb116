"""A party's own CPDAG, from its own moments."""

from __future__ import annotations

from privfcd.algorithms.constraint.fisher_z import FisherZ
from privfcd.algorithms.constraint.orientation import oriented
from privfcd.algorithms.constraint.skeleton import stable_skeleton
from privfcd.algorithms.ges.search import greedy_search
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.scores import GaussianBIC
from privfcd.graphs.cpdag import dag_to_cpdag
from privfcd.graphs.orders import OrientationClass, consistent_extension
from privfcd.graphs.pdag import Pdag, topological_order
from privfcd.moments import Moments


def learnt_cpdag(moments: Moments, settings: Settings) -> Pdag:
    """Return the CPDAG that PC or GES finds in one party's moments; tests and scores know the moments' noise."""
    if settings.local == "ges":
        return greedy_search(GaussianBIC(moments, settings.penalty), max_parents=settings.max_parents).cpdag
    skeleton = stable_skeleton(FisherZ(moments), settings.alpha, settings.max_cond_vars)
    return repaired(oriented(skeleton).graph)


def repaired(graph: Pdag) -> Pdag:
    """Return the graph where it has a consistent extension, and else a CPDAG with its skeleton and as many arrows as fit.

    Samples can ask for v-structures that no DAG has together with the skeleton. Then arrows are kept in the order
    of their nodes while they close no cycle, and undirected edges may form new v-structures.
    """
    if consistent_extension(graph) is not None:
        return graph
    kept: list[tuple[int, int]] = []
    for arrow in graph.directed_edges():
        if topological_order(Pdag.from_edges(graph.p, [*kept, arrow])) is not None:
            kept.append(arrow)
    after = [0] * graph.p
    for i, j in kept:
        after[i] |= 1 << j
    dag = OrientationClass(graph.adjacent, tuple(after), tuple({} for _ in after)).member()
    assert dag is not None  # acyclic arrows extend to an order
    return dag_to_cpdag(dag)
