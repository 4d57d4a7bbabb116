"""What a fitted estimator shows: the same attributes whichever learner made the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport, report_on
from privfcd.data.private import PrivateTable
from privfcd.graphs.dag import project_to_dag, to_networkx
from privfcd.graphs.pdag import Pdag, pdag_to_networkx


def store_graph(model: Any, weights: NDArray[np.float64], threshold: float, columns: Sequence[str]) -> None:
    """Set `dropped_`, `adjacency_matrix_`, `causal_graph_`, `feature_names_in_` and `n_features_in_` of an estimator."""
    model.dropped_ = project_to_dag(weights, threshold)
    model.adjacency_matrix_ = model.dropped_.weights
    model.causal_graph_ = to_networkx(model.adjacency_matrix_, columns)
    model.feature_names_in_ = np.array(columns, dtype=object)
    model.n_features_in_ = len(columns)


def store_cpdag(model: Any, graph: Pdag, columns: Sequence[str]) -> None:
    """Set `cpdag_`, `adjacency_matrix_`, `causal_graph_`, `feature_names_in_` and `n_features_in_` of an estimator."""
    model.cpdag_ = graph
    model.adjacency_matrix_ = graph.matrix()
    model.causal_graph_ = pdag_to_networkx(graph, columns)
    model.feature_names_in_ = np.array(columns, dtype=object)
    model.n_features_in_ = len(columns)


def store_privacy(model: Any, reports: list[PrivacyReport] | None) -> None:
    """Set `privacy_report_` and `privacy_spent_`, one (epsilon, delta) that holds for every party.

    Moments were paid for when they were released: a fit to them has no reports and spends (0, 0).
    """
    model.privacy_report_ = reports
    model.privacy_spent_ = (
        max((report.epsilon for report in reports or ()), default=0.0),
        max((report.delta for report in reports or ()), default=0.0),
    )


def table_report(
    table: PrivateTable,
    reservation: Reservation,
    *,
    delta: float | None,
    declared: Mapping[str, Any],
    assumptions: Sequence[str],
) -> PrivacyReport:
    """Return the report on what one reservation paid for, with the table's own public facts.

    Parameters
    ----------
    table : PrivateTable
        What was read.
    reservation : Reservation
        What was charged.
    delta : float, optional
        At which epsilon is stated: the slice's, or 1 / n² for a budget that has none.
    declared : mapping
        What else was declared public.
    assumptions : sequence of str
        What the promise rests on; an open table promises nothing.
    """
    facts: dict[str, Any] = {"rows": table.n_rows, "columns": list(table.columns)}
    if table.bounds is not None:
        facts["bounds"] = list(table.bounds)
    if delta is None and not table.open:
        delta = 1 / max(table.n_rows, 2) ** 2
    return report_on(
        reservation,
        delta=delta,
        relation=table.relation,
        noise="none: exact answers" if table.open else table.noise.label,
        secure=table.noise.secure and not table.open,
        declared={**facts, **declared},
        assumptions=() if table.open else assumptions,
    )
