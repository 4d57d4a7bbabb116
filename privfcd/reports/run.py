"""A finished run as plain data for machines, and as text for people."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from privfcd.graphs.metrics import GraphMetrics, compare

if TYPE_CHECKING:
    import networkx as nx


def run_summary(model: Any, seconds: float, target: nx.DiGraph[str] | None = None) -> dict[str, Any]:
    """Return what a run came to, ready for JSON.

    Parameters
    ----------
    model : estimator
        Fitted.
    seconds : float
        Wall time of the run.
    target : networkx.DiGraph, optional
        A graph to compare with.
    """
    epsilon, delta = model.privacy_spent_
    columns = [str(name) for name in model.feature_names_in_]
    return {
        "columns": columns,
        "edges": _edges(model.causal_graph_),
        "against_target": None if target is None else vars_of_metrics(compare(target, model.causal_graph_)),
        "privacy": {
            "epsilon": "inf" if math.isinf(epsilon) else epsilon,
            "delta": delta,
            "parties": [report.as_dict() for report in model.privacy_report_],
        },
        "dropped": _dropped(model, columns),
        "parameters": {name: _plain(value) for name, value in model.get_params().items()},
        "history": getattr(model, "history_", []),
        "bytes": model.bytes_exchanged_,
        "seconds": seconds,
    }


def _edges(graph: nx.DiGraph[str]) -> list[dict[str, Any]]:
    """Return the edges; one that is not directed is listed once."""
    edges: list[dict[str, Any]] = []
    for cause, effect, attributes in graph.edges(data=True):
        if attributes.get("undirected"):
            if cause < effect:
                edges.append({"from": cause, "to": effect, "undirected": True})
        elif "weight" in attributes:
            edges.append({"from": cause, "to": effect, "weight": float(attributes["weight"])})
        else:
            edges.append({"from": cause, "to": effect})
    return edges


def _dropped(model: Any, columns: list[str]) -> dict[str, Any]:
    """Return what the threshold and the projection to a DAG dropped; an equivalence class drops nothing."""
    dropped = getattr(model, "dropped_", None)
    if dropped is None:
        return {"by_threshold": 0, "for_cycles": []}
    return {
        "by_threshold": len(dropped.dropped_small),
        "for_cycles": [
            {"from": columns[i], "to": columns[j], "weight": weight} for i, j, weight in dropped.dropped_for_cycles
        ],
    }


def vars_of_metrics(metrics: GraphMetrics) -> dict[str, Any]:
    """Return metrics for JSON."""
    return {name: _plain(getattr(metrics, name)) for name in metrics.__dataclass_fields__}


def privacy_text(model: Any) -> str:
    """Return the privacy report of every party, in words."""
    return "\n\n\n".join(str(report) for report in model.privacy_report_) + "\n"


def _plain(value: Any) -> Any:
    """Return a number, an array or a sequence of numbers as JSON can hold it."""
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
