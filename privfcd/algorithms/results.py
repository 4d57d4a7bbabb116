"""What a fitted estimator shows: the same attributes whichever learner made the weights."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privfcd.data.private import PrivateTable
from privfcd.graphs.dag import project_to_dag, to_networkx
from privfcd.graphs.pdag import Pdag, pdag_to_networkx
from privfcd.ledger import Reservation
from privfcd.ledger.privacy_report import PrivacyReport, report_on
from privfcd.moments import Moments, Origin
from privfcd.moments.origins import NONE, SIMULATED, counted, named, unsaid

if TYPE_CHECKING:
    from privfcd.algorithms.stability.late_rounds import LateRounds


EXACT = "what it was fitted to was exact, and has no noise"


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


def store_privacy(model: Any, reports: list[PrivacyReport] | None, given: Sequence[Moments] = ()) -> None:
    """Set `privacy_report_` and `privacy_spent_`, one (epsilon, delta) that holds for every party, and `paid_before_`.

    Of moments, `given`, `unprotected_` is set too: how many parties' have no noise, pooled ones included, so that no release
    protects their records.

    Noisy moments were paid for when they were released: a fit to them has no reports and spends (0, 0). Whoever has the
    reports on their release may set them then; `paid_before_` goes on saying that this fit cost nothing. Where a party's
    moments have no noise, nobody paid for them and no epsilon holds: epsilon is inf, as for an open table.
    """
    model.privacy_report_ = reports
    model.paid_before_ = reports is None
    model._origins = tuple(origin for part in given for origin in part.origins) if reports is None else ()
    model.unprotected_ = sum(origin.noise == NONE for origin in model._origins)
    model.unreported_ = 0
    model.privacy_spent_ = (
        math.inf if model.unprotected_ else max((report.epsilon for report in reports or ()), default=0.0),
        max((report.delta for report in reports or ()), default=0.0),
    )


def store_released(
    model: Any,
    moments: Sequence[Moments] = (),
    rounds: LateRounds | None = None,
    *,
    otherwise: str = EXACT,
) -> None:
    """Set `released_moments_` and `late_rounds_`: all that a fitted estimator keeps of noisy answers.

    Where both are None, `no_stability_` says why. This is the only place where an estimator keeps moments for edge
    stability, and it never keeps exact ones: where one party's are, none are kept. Noisy ones are released, and public
    under the promise, or a party's own, made by a mechanism that was paid for (`send=False`); there too they say no more
    than what was paid for. A stability of an earlier fit is forgotten.

    Parameters
    ----------
    model : estimator
    moments : sequence of Moments
        What was learnt from.
    rounds : LateRounds, optional
        Of a private run with noise in every round.
    otherwise : str
        Why there is no stability, where neither is kept.
    """
    noisy = bool(moments) and all(part.protected for part in moments)
    if not noisy and any(origin.noise != NONE for part in moments for origin in part.origins):
        otherwise = "the moments of one party at least are exact, and exact ones are not kept"
    model.released_moments_ = tuple(moments) if noisy else None
    model.late_rounds_ = rounds
    model.no_stability_ = None if noisy or rounds is not None else otherwise
    model._fitted_with = model.get_params()
    model.__dict__.pop("edge_stability_", None)


def warn_when_paid(text: str, category: type[Warning], stacklevel: int = 2) -> None:
    """Warn after a run that was paid for, whose result says the same: where warnings are errors, it must not be lost."""
    with suppress(category):
        warnings.warn(text, category, stacklevel=stacklevel + 1)


def moment_notes(origins: Sequence[Origin], reports: Sequence[PrivacyReport] = ()) -> list[str]:
    """Return in sentences whose moments nothing protects, of those that no report says it of; mostly nothing.

    Parameters
    ----------
    origins : sequence of Origin
        Of the moments that were given.
    reports : sequence of PrivacyReport
        On their release.
    """
    opened = [report.party for report in reports if math.isinf(report.epsilon) and math.isinf(report.rho)]
    exact = unsaid([origin for origin in origins if origin.noise == NONE], opened)
    loud = unsaid(
        [origin for origin in origins if origin.noise == SIMULATED],
        [report.party for report in reports if not report.secure and report.party not in opened],
    )
    said = []
    if exact:
        said.append(
            f"The moments of {counted(exact)} carry no noise{named(exact)}: unless their data are public, nothing protects "
            "their records."
        )
    if loud:
        said.append(
            f"The noise in the moments of {counted(loud)} was simulated{named(loud)}: whoever knows how it was made can "
            "remove it, so that it protects nobody."
        )
    return said


def missing_promises(model: Any) -> list[str]:
    """Return in sentences what no report says of the records behind a fitted estimator; mostly nothing.

    That is of moments that were given to it: some may have no noise, and some may have come without a report although others
    have one.
    """
    said = moment_notes(getattr(model, "_origins", ()), getattr(model, "privacy_report_", None) or ())
    unknown = getattr(model, "unreported_", 0)
    if unknown:
        said.append(
            f"{unknown} of the moments came without the report of a release: what is promised to their records is not known "
            "here, and the promises that are stated are those of the other parties only."
        )
    return said


def table_report(
    table: PrivateTable,
    reservation: Reservation,
    *,
    delta: float | None,
    declared: Mapping[str, Any],
    assumptions: Sequence[str],
    trusted: str = "",
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
    trusted : str
        Who could see more than the answers with noise, see `PrivacyReport.trusted`.
    """
    facts: dict[str, Any] = {"rows": table.n_rows, "columns": list(table.columns)}
    if table.schema is not None:
        facts["schema"] = table.schema.lines()
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
        trusted=trusted,
    )
