"""What a learner's edges mean, and what they rest on: what no number on the page can show."""

from __future__ import annotations

from typing import Any

_ROWS = "The rows are independent of each other."
_CAUSES = "No variable outside the table is a common cause of two inside it."
_ACYCLIC = "No variable is its own cause, however indirectly."
_LINEAR = "Each variable is a linear function of its causes plus an error that is independent of them."
_EQUAL = "The errors of all variables have one variance, in the columns' own units: rescaling a column can turn edges."
_GAUSSIAN = "Errors are Gaussian, or correlations stand for dependence."
_FAITHFUL = "Dependences do not cancel out exactly."

_DIRECTED = (_ROWS, _CAUSES, _ACYCLIC, _LINEAR, _EQUAL)
_CLASS = (_ROWS, _CAUSES, _ACYCLIC, _LINEAR, _GAUSSIAN, _FAITHFUL)
_RESTS_ON = {
    "FedSparseBNSL": _DIRECTED,
    "FedBNSL": _DIRECTED,
    "NOTEARS": _DIRECTED,
    "EqualVarianceSearch": _DIRECTED,
    "GES": _CLASS,
    "PC": _CLASS,
    "FedACD": (_ROWS, _CAUSES, _ACYCLIC, _FAITHFUL),
    "PERI": (*_CLASS, "All parties' data have one graph."),
    "IPERI": (*_CLASS, "Parties differ by their interventions only, and at least one does not intervene."),
}


def rests_on(model: Any) -> tuple[str, ...]:
    """Return the assumptions under which the edges are causes."""
    return _RESTS_ON.get(type(model).__name__, (_ROWS, _CAUSES, _ACYCLIC))


def weight_words(model: Any) -> str:
    """Return what an edge's weight is; empty where edges have none."""
    if not any("weight" in data for *_, data in model.causal_graph_.edges(data=True)):
        return ""
    if type(model).__name__ == "FedACD":
        return "The weight counts voters: how many of them had the edge in their graphs, whichever its direction."
    return (
        "The weight is the change of the effect for one unit more of the cause, the effect's other causes held fixed, in "
        "the columns' units as the learner saw them."
    )


def weight_name(model: Any) -> str:
    """Return what the column of weights is called."""
    return "Votes" if type(model).__name__ == "FedACD" else "Weight"


def direction_words(model: Any) -> str:
    """Return what is to be known of the directions of a DAG of votes (`FedACD` by the paper's rules)."""
    if getattr(model, "orientation_", model) is not None or not model.causal_graph_.number_of_edges():
        return ""
    return (
        "Read the skeleton first: which pairs are joined. Graphs of one equivalence class fit equally well, so that an "
        "arrow that the class leaves open may point either way by chance, however many votes and reruns it has."
    )


def class_words(model: Any) -> str:
    """Return what an undirected edge means; empty where the graph has none."""
    if not any(data.get("undirected") for *_, data in model.causal_graph_.edges(data=True)):
        return ""
    return (
        "The result is an equivalence class: an edge without an arrowhead may point either way; the data cannot tell."
    )
