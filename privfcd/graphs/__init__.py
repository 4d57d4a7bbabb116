"""Directed graphs: cycles and DAGs, metrics against a truth, and files."""

from privfcd.graphs.dag import (
    DagProjection,
    find_cycle,
    from_networkx,
    is_acyclic,
    project_to_dag,
    to_networkx,
)
from privfcd.graphs.interchange import read_graph, write_graph
from privfcd.graphs.metrics import GraphMetrics, compare

__all__ = [
    "DagProjection",
    "GraphMetrics",
    "compare",
    "find_cycle",
    "from_networkx",
    "is_acyclic",
    "project_to_dag",
    "read_graph",
    "to_networkx",
    "write_graph",
]
