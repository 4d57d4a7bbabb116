"""A finished run as plain data for machines, and as text for people."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from privfcd.algorithms.results import missing_promises
from privfcd.graphs.metrics import GraphMetrics, compare
from privfcd.moments.origins import NONE

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.ledger.privacy_report import PrivacyReport


HERE, BEFORE, ELSEWHERE = "in this run", "when the moments were released", "at the parties"
"""Where what a model used was paid for, and its reports are."""
NOWHERE = "nowhere: the moments were exact"
_COMPUTED_WITH = ("numpy", "scipy", "dp-accounting", "networkx")


def versions() -> dict[str, str]:
    """Return the versions of privfcd, Python and the packages that a run is computed with, by name."""
    from privfcd import __version__

    found = {"privfcd": __version__, "Python": platform.python_version()}
    for package in _COMPUTED_WITH:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # installed in a way that leaves no record
            found[package] = "unknown"
    return found


def run_summary(model: Any, seconds: float, target: nx.DiGraph[str] | None = None) -> dict[str, Any]:
    """Return what a run came to, ready for JSON.

    Every fitted model has a summary. One that was learnt from moments has no reports of its own, and spends nothing here;
    what a coordinator learnt from parties on other machines was paid for there, and its epsilon is what the study allows, or
    null where nothing says it.

    Parameters
    ----------
    model : estimator
        Fitted.
    seconds : float
        Wall time of the run.
    target : networkx.DiGraph, optional
        A graph to compare with.
    """
    epsilon, delta = getattr(model, "privacy_spent_", (None, None))
    stability = getattr(model, "edge_stability_", None)
    columns = [str(name) for name in model.feature_names_in_]
    judgement = getattr(model, "judgement_", None)
    return {
        "judgement": None if judgement is None else judgement.as_dict(),
        "columns": columns,
        "edges": _marked(graph_edges(model.causal_graph_), getattr(model, "untested_", ())),
        "against_target": None if target is None else vars_of_metrics(compare(target, model.causal_graph_)),
        "privacy": {
            "paid": NOWHERE if only_exact(model) else where_paid(model),
            "epsilon": _plain(epsilon),
            "delta": delta,
            "parties": [report.as_dict() for report in reports_of(model)],
            "missing": missing_promises(model),
        },
        "stability": None if stability is None else stability.as_dict(),
        "notes": notes_of(model),
        "dropped": _dropped(model, columns),
        "parameters": {name: _plain(value) for name, value in model.fitted_params().items()},
        "history": getattr(model, "history_", []),
        "bytes": getattr(model, "bytes_exchanged_", None),
        "seconds": seconds,
        "versions": versions(),
    }


def reports_of(model: Any) -> Sequence[PrivacyReport]:
    """Return the parties' privacy reports; none where the model has none."""
    return getattr(model, "privacy_report_", None) or ()


def where_paid(model: Any) -> str:
    """Return where what the model used was paid for: `HERE`, `BEFORE` or `ELSEWHERE`."""
    if getattr(model, "paid_before_", False):
        return BEFORE
    return HERE if reports_of(model) else ELSEWHERE


def only_exact(model: Any) -> bool:
    """Return whether the model was learnt from moments without any noise: nobody paid for them."""
    origins = getattr(model, "_origins", ())
    return where_paid(model) == BEFORE and bool(origins) and all(origin.noise == NONE for origin in origins)


def notes_of(model: Any) -> list[str]:
    """Return what the run said of itself: its notes, and the warning of a test of its assumptions."""
    notes = getattr(model, "notes_", None) or ()
    said = [notes] if isinstance(notes, str) else [str(note) for note in notes]
    warning = getattr(getattr(model, "equal_variances_", None), "warning", None)
    return said if warning is None or warning in said else [*said, warning]


def graph_edges(graph: nx.DiGraph[str]) -> list[dict[str, Any]]:
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


def _marked(edges: list[dict[str, Any]], untested: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return the edges, with `untested` True where no test could say anything of one."""
    pairs = {frozenset(pair) for pair in untested}
    return [{**edge, "untested": True} if frozenset((edge["from"], edge["to"])) in pairs else edge for edge in edges]


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
    """Return the privacy report of every party, in words, and the versions of what computed it.

    Parameters
    ----------
    model : Estimator
        Fitted.
    """
    reports, missing = reports_of(model), missing_promises(model)
    paid = where_paid(model)
    parts = [str(report) for report in reports]
    if not reports and missing:
        parts = ["This run has no privacy report of its own: it charged nothing, and was learnt from given moments."]
    elif not reports:
        parts = [f"This run has no privacy report of its own: what it used was paid for {paid}."]
    made_with = f"Computed with {', '.join(f'{name} {number}' for name, number in versions().items())}."
    return "\n\n\n".join(["NOT ALL ARE PROTECTED. " + " ".join(missing)] * bool(missing) + parts + [made_with]) + "\n"


def _plain(value: Any) -> Any:
    """Return a number, an array or a sequence of numbers as JSON can hold it."""
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
