"""What a notebook shows of an estimator: its parameters, and once fitted its graph and what was promised.

Everything comes from what the fit left in the estimator, which left the parties before: nothing is computed from rows.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from typing import Any

from privfcd.algorithms.results import missing_promises
from privfcd.drawing.edges import drawn_edges
from privfcd.drawing.layers import PictureTooLarge
from privfcd.drawing.svg import graph_svg
from privfcd.graphs.interchange import share
from privfcd.markup import bullets, card, folded, paragraph, table

_MOST_NODES, _MOST_EDGES = 120, 250  # of a graph that is drawn in a notebook
_LISTED = 60


def changed_parameters(model: Any) -> dict[str, Any]:
    """Return the parameters that differ from the defaults.

    By how they are written, which any value has: equality of arrays is no truth value, and an estimator that was stored and
    loaded has equal defaults, but not the same objects.
    """
    defaults = inspect.signature(type(model).__init__).parameters
    return {name: value for name, value in model.get_params().items() if repr(value) != repr(defaults[name].default)}


def estimator_html(model: Any) -> str:
    """Return an estimator as HTML for notebooks; all names are escaped."""
    changed = changed_parameters(model)
    rows = [(name, repr(value)) for name, value in model.get_params().items()]
    parameters = folded(f"All {len(rows)} parameters", table(rows, ("parameter", "value")))
    if changed:
        parameters = table(((name, repr(value)) for name, value in changed.items()), ("changed", "value")) + parameters
    name = type(model).__name__
    if not hasattr(model, "causal_graph_"):
        return card(f"{name}, not fitted", parameters)
    notes = bullets(model.notes_) if model.notes_ else ""
    heading = f"{name}, fitted to {model.n_features_in_} columns"
    judged = getattr(model, "judgement_", None)
    said = "" if judged is None else paragraph(judged.text)
    return card(heading, said, _graph(model), notes, _promises(model), parameters)


def _graph(model: Any) -> str:
    graph, stability = model.causal_graph_, getattr(model, "edge_stability_", None)
    shares = None if stability is None else stability.shares(graph)
    edges = drawn_edges(graph, stability=shares)
    picture = paragraph(f"{len(graph)} variables and {len(edges)} edges: too many to draw here.")
    if len(graph) <= _MOST_NODES and len(edges) <= _MOST_EDGES:
        with suppress(PictureTooLarge):
            picture = graph_svg(graph, stability=shares)
    if not edges:
        return picture + paragraph("No edges.")
    order = sorted(edges.values(), key=lambda edge: -abs(edge.weight or 0.0))
    rows = [
        (
            f"{edge.source} {'→' if edge.directed else '–'} {edge.target}",
            "" if edge.weight is None else f"{edge.weight:.4g}",
            "" if edge.stability is None else share(edge.stability),
        )
        for edge in order
    ]
    header = ("edge", "weight", "stability")
    columns = 3 if shares is not None else 2 if any(row[1] for row in rows) else 1
    listed = table((row[:columns] for row in rows), header[:columns], limit=_LISTED)
    return picture + folded(f"{len(edges)} edge{'' if len(edges) == 1 else 's'}", listed)


def _promises(model: Any) -> str:
    reports = getattr(model, "privacy_report_", None)
    said = "".join(map(paragraph, missing_promises(model)))
    if reports is None and getattr(model, "paid_before_", False):
        release = "" if said else " What is promised to the records is what their release promised."
        return said + paragraph(f"Learnt from moments: this fit charged nothing.{release}")
    if reports is None:
        return said + paragraph(
            "The parties paid from their own ledgers: what they were promised is in their own reports."
        )
    return said + paragraph("Promised to each record of") + bullets(report.headline() for report in reports)
