"""Graphs: DAGs and CPDAGs, Meek's rules, consensus masks, classes of unknown targets, metrics, files."""

from privfcd.graphs.adapters import from_causal_learn, from_pgmpy, to_causal_learn, to_pgmpy
from privfcd.graphs.cpdag import dag_to_cpdag, is_cpdag, pdag_to_cpdag
from privfcd.graphs.dag import (
    DagProjection,
    find_cycle,
    from_networkx,
    is_acyclic,
    project_to_dag,
    to_networkx,
)
from privfcd.graphs.equivalence import common_graph, equivalence_class, markov_equivalent
from privfcd.graphs.interchange import read_graph, write_graph
from privfcd.graphs.masks import directed_consensus, skeleton_consensus, undirected_consensus
from privfcd.graphs.meek import meek_closure
from privfcd.graphs.metrics import GraphMetrics, PdagMetrics, compare, compare_pdags
from privfcd.graphs.orders import OrientationClass, consistent_extension, extensions
from privfcd.graphs.pdag import Pdag, is_dag, mutilate, skeleton, topological_order, v_structures
from privfcd.graphs.unknown_targets import (
    TargetClass,
    common_cpdag,
    known_target_class,
    party_cpdags,
    phi_cpdag,
    unknown_target_class,
)
from privfcd.graphs.votes import Statement, VotedGraph, transfer, vote

__all__ = [
    "DagProjection",
    "GraphMetrics",
    "OrientationClass",
    "Pdag",
    "PdagMetrics",
    "Statement",
    "TargetClass",
    "VotedGraph",
    "common_cpdag",
    "common_graph",
    "compare",
    "compare_pdags",
    "consistent_extension",
    "dag_to_cpdag",
    "directed_consensus",
    "equivalence_class",
    "extensions",
    "find_cycle",
    "from_causal_learn",
    "from_networkx",
    "from_pgmpy",
    "is_acyclic",
    "is_cpdag",
    "is_dag",
    "known_target_class",
    "markov_equivalent",
    "meek_closure",
    "mutilate",
    "party_cpdags",
    "pdag_to_cpdag",
    "phi_cpdag",
    "project_to_dag",
    "read_graph",
    "skeleton",
    "skeleton_consensus",
    "to_causal_learn",
    "to_networkx",
    "to_pgmpy",
    "topological_order",
    "transfer",
    "undirected_consensus",
    "unknown_target_class",
    "v_structures",
    "vote",
    "write_graph",
]
