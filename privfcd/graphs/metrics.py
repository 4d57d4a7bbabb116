"""How near an estimated graph comes to a true one: SHD, TPR, FDR, F1, skeleton and v-structures.

Conventions, which differ between papers:

- Only the presence of edges counts, not their weights. Both graphs may hold cycles, and both directions of a
  pair at once (two directed edges, as an undirected edge of a CPDAG is written in a matrix).
- SHD goes over unordered pairs {i, j}: a pair costs 1 where its two entries (i -> j, j -> i) differ in any
  way between the graphs. So a missing edge, an extra edge, and a reversed edge cost 1 each.
- TPR, FDR, precision and recall go over directed edges. A reversed edge is a wrong edge, and counts as one
  false discovery and one miss.
- A ratio with denominator 0 is 0: an empty estimate has precision 0 and FDR 0, an empty truth has recall 0.
- A v-structure is i -> k <- j with no edge between i and j in the same graph, where both edges go in one
  direction only.

Papers that compare partially directed graphs differ more. `compare_pdags` gives every usual number under a name of its
own, and compares like with like only if the caller does: a DAG with a DAG, a CPDAG with the truth's CPDAG
(`dag_to_cpdag`), a Phi-CPDAG with the truth's Phi-CPDAG (`phi_cpdag`). A CPDAG that is held against a DAG pays for every
edge that no method could direct.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd.errors import InvalidParameter
from privfcd.graphs.dag import plain_digraph, square_matrix
from privfcd.graphs.pdag import Pdag, as_pdag, same_nodes

__all__ = ["GraphMetrics", "PdagMetrics", "compare", "compare_pdags"]

if TYPE_CHECKING:
    Graph = ArrayLike | nx.DiGraph[Any]


@dataclass(frozen=True)
class GraphMetrics:
    """The comparison of an estimate with a truth; the module's docstring states the conventions.

    Attributes
    ----------
    edges_true, edges : int
        Directed edges in the truth and in the estimate.
    shd : int
        Structural Hamming distance; a reversal counts 1.
    tpr, recall : float
        Directed hits / true edges (two names for one number).
    fdr : float
        (edges - directed hits) / max(edges, 1).
    precision : float
        Directed hits / max(edges, 1).
    f1 : float
        2 hits / (true edges + edges), over directed edges.
    directed_hits : int
        Edges that are in both graphs in the same direction.
    undirected_hits : int
        Unordered pairs that are adjacent in both graphs, in whatever direction.
    skeleton_f1 : float
        F1 over unordered adjacent pairs.
    v_structures_true, v_structures_found, v_structures_right : int
        V-structures in the truth, in the estimate, and in both.
    """

    edges_true: int
    edges: int
    shd: int
    tpr: float
    fdr: float
    precision: float
    recall: float
    f1: float
    directed_hits: int
    undirected_hits: int
    skeleton_f1: float
    v_structures_true: int
    v_structures_found: int
    v_structures_right: int


@dataclass(frozen=True)
class PdagMetrics:
    """The comparison of two partially directed graphs, under each convention that papers use.

    A pair of nodes is in one of four states: no edge, i -> j, i <- j, i - j. The ways to differ cost

    =====================  ===  ==================  ===========  ============
    a pair that has        shd  shd_reversal_twice  shd_entries  shd_skeleton
    =====================  ===  ==================  ===========  ============
    a directed edge or no    1                   1            1             1
    i - j or no edge         1                   1            2             1
    opposite directions      1                   2            2             0
    i - j or a direction     1                   1            1             0
    =====================  ===  ==================  ===========  ============

    Attributes
    ----------
    shd : int
        Pairs in different states: the default, and the number that `compare` gives.
    shd_reversal_twice : int
        The same with 2 for opposite directions.
    shd_entries : int
        Differing entries of the two matrices, as the authors' program of I-PERI counts.
    shd_skeleton : int
        Pairs that are adjacent in one graph only.
    f1 : float
        Over entries of the matrices, an undirected edge being two: the number that `compare` gives.
    edge_precision, edge_recall, edge_f1 : float
        Over edges: a hit is a pair with an edge in the same state in both graphs.
    directed_precision, directed_recall, directed_f1 : float
        Over directed edges only: a hit is the same direction in both graphs.
    skeleton_precision, skeleton_recall, skeleton_f1 : float
        Over adjacent pairs.
    reversed : int
        Pairs with opposite directions.
    overdirected : int
        Pairs that the estimate directs and the truth leaves undirected.
    undirected : int
        Pairs that the estimate leaves undirected and the truth directs.
    """

    shd: int
    shd_reversal_twice: int
    shd_entries: int
    shd_skeleton: int
    f1: float
    edge_precision: float
    edge_recall: float
    edge_f1: float
    directed_precision: float
    directed_recall: float
    directed_f1: float
    skeleton_precision: float
    skeleton_recall: float
    skeleton_f1: float
    reversed: int
    overdirected: int
    undirected: int


def compare_pdags(truth: Pdag | ArrayLike, estimate: Pdag | ArrayLike) -> PdagMetrics:
    """Compare two graphs whose edges may be directed or undirected: DAGs, CPDAGs, Phi-CPDAGs.

    Parameters
    ----------
    truth, estimate : Pdag or arrays of shape (p, p)
        Both [i, j] and [j, i] are one undirected edge. An estimate that is sound for a true DAG has `reversed` 0
        against it and directs no pair that is not adjacent.

    Returns
    -------
    PdagMetrics

    Raises
    ------
    InvalidParameter
        Different numbers of nodes, a self-loop, or entries that are not finite.

    Examples
    --------
    >>> result = compare_pdags([[0, 1], [1, 0]], [[0, 1], [0, 0]])
    >>> result.shd, result.overdirected, result.edge_f1
    (1, 1, 0.0)
    """
    true = as_pdag(truth, "truth")
    found = same_nodes(true, as_pdag(estimate, "estimate"), "estimate")

    def total(masks: Iterable[int]) -> int:
        return sum(mask.bit_count() for mask in masks)

    def shared(one: tuple[int, ...], other: tuple[int, ...]) -> int:
        return total(a & b for a, b in zip(one, other, strict=True))

    hits, reversals = shared(true.parents, found.parents), shared(true.parents, found.children)
    both_undirected = shared(true.neighbours, found.neighbours) // 2
    overdirected, undirected = shared(true.neighbours, found.parents), shared(true.parents, found.neighbours)
    near = shared(true.adjacent, found.adjacent) // 2
    arrows_true, arrows = total(true.parents), total(found.parents)
    edges_true, edges = total(true.adjacent) // 2, total(found.adjacent) // 2
    same = hits + both_undirected
    one_sided = edges_true + edges - 2 * near
    entries_true, entries = 2 * edges_true - arrows_true, 2 * edges - arrows
    entry_hits = shared(true.entries(), found.entries())
    shd = one_sided + near - same
    return PdagMetrics(
        shd=shd,
        shd_reversal_twice=shd + reversals,
        shd_entries=entries_true + entries - 2 * entry_hits,
        shd_skeleton=one_sided,
        f1=_ratio(2 * entry_hits, entries_true + entries),
        edge_precision=_ratio(same, edges),
        edge_recall=_ratio(same, edges_true),
        edge_f1=_ratio(2 * same, edges_true + edges),
        directed_precision=_ratio(hits, arrows),
        directed_recall=_ratio(hits, arrows_true),
        directed_f1=_ratio(2 * hits, arrows_true + arrows),
        skeleton_precision=_ratio(near, edges),
        skeleton_recall=_ratio(near, edges_true),
        skeleton_f1=_ratio(2 * near, edges_true + edges),
        reversed=reversals,
        overdirected=overdirected,
        undirected=undirected,
    )


def compare(truth: Graph, estimate: Graph) -> GraphMetrics:
    """Compare an estimated directed graph with the true one.

    Parameters
    ----------
    truth, estimate : arrays of shape (d, d), or two networkx.DiGraph
        Matrices, weighted or 0/1: a non-zero entry [i, j] is the edge i -> j. Graphs are aligned by the names
        of their nodes. One of each is refused, because nothing says which row is which node. The truth need
        not be acyclic.

    Returns
    -------
    GraphMetrics

    Raises
    ------
    InvalidParameter
        Different shapes or node sets, a self-loop, entries that are not finite, or one matrix and one graph.
    """
    if isinstance(truth, nx.Graph) or isinstance(estimate, nx.Graph):
        true_edges, edges = _aligned(truth, estimate)
    else:
        true_edges = square_matrix("truth", truth) != 0
        edges = square_matrix("estimate", estimate) != 0
        if true_edges.shape != edges.shape:
            raise InvalidParameter(f"estimate must have the truth's shape {true_edges.shape}, got shape {edges.shape}")
    for name, present in (("truth", true_edges), ("estimate", edges)):
        loops = np.flatnonzero(present.diagonal())
        if loops.size:
            raise InvalidParameter(f"{name} must have no self-loop, got one at node {int(loops[0])}")

    hits = int((true_edges & edges).sum())
    total_true, total = int(true_edges.sum()), int(edges.sum())
    skeleton_true, skeleton = true_edges | true_edges.T, edges | edges.T
    differs = true_edges != edges
    pairs_true, pairs = int(skeleton_true.sum()) // 2, int(skeleton.sum()) // 2
    pair_hits = int((skeleton_true & skeleton).sum()) // 2
    v_true, v_found, v_right = _v_structures(true_edges, edges)
    return GraphMetrics(
        edges_true=total_true,
        edges=total,
        shd=int((differs | differs.T).sum()) // 2,
        tpr=_ratio(hits, total_true),
        fdr=_ratio(total - hits, total),
        precision=_ratio(hits, total),
        recall=_ratio(hits, total_true),
        f1=_ratio(2 * hits, total_true + total),
        directed_hits=hits,
        undirected_hits=pair_hits,
        skeleton_f1=_ratio(2 * pair_hits, pairs_true + pairs),
        v_structures_true=v_true,
        v_structures_found=v_found,
        v_structures_right=v_right,
    )


def _aligned(truth: object, estimate: object) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    if not (isinstance(truth, nx.Graph) and isinstance(estimate, nx.Graph)):
        raise InvalidParameter(
            "truth and estimate must be two matrices or two networkx.DiGraph, got "
            f"{type(truth).__name__} and {type(estimate).__name__}"
        )
    pair = (plain_digraph("truth", truth), plain_digraph("estimate", estimate))
    place = {node: k for k, node in enumerate(truth)}
    missing = [node for node in truth if node not in estimate]
    extra = [node for node in estimate if node not in place]
    if missing or extra:
        raise InvalidParameter(f"estimate must have the truth's nodes; missing {missing}, extra {extra}")
    if not place:
        raise InvalidParameter("truth must have at least one node, got an empty graph")
    matrices = []
    for graph in pair:
        present = np.zeros((len(place), len(place)), dtype=np.bool_)
        for source, target in graph.edges():
            present[place[source], place[target]] = True
        matrices.append(present)
    return matrices[0], matrices[1]


def _v_structures(truth: NDArray[np.bool_], estimate: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Count the v-structures of the first graph, of the second, and those that they share."""
    arrows_true, arrows = truth & ~truth.T, estimate & ~estimate.T
    apart_true, apart = ~(truth | truth.T), ~(estimate | estimate.T)
    counts = [0, 0, 0]
    for child in range(truth.shape[0]):
        of_true, of_estimate = arrows_true[:, child], arrows[:, child]
        settings = (
            (of_true, apart_true),
            (of_estimate, apart),
            (of_true & of_estimate, apart_true & apart),
        )
        for k, (parents, unlinked) in enumerate(settings):
            chosen = np.flatnonzero(parents)
            if chosen.size > 1:
                block = unlinked[np.ix_(chosen, chosen)]
                counts[k] += (int(block.sum()) - chosen.size) // 2  # the diagonal is always apart
    return counts[0], counts[1], counts[2]


def _ratio(part: int, whole: int) -> float:
    return part / max(whole, 1)
