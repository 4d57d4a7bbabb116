"""Moments of a private table: exact on an open one, by one covariance release on one with a budget."""

from __future__ import annotations

import math

import numpy as np

from privfcd import checks
from privfcd.data.private import PrivateTable
from privfcd.data.queries import SecondMoments
from privfcd.errors import InvalidParameter
from privfcd.ledger import PlanPart
from privfcd.mechanisms import AnalyticGaussian
from privfcd.moments import Moments, NoiseTerm, Origin
from privfcd.moments.origins import origin_of


def table_moments(
    table: PrivateTable,
    *,
    row_norm: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    offset: tuple[float, ...] | None = None,
) -> Moments:
    """Return the second moments of a table, in one release.

    Parameters
    ----------
    table : PrivateTable
        An open table gives exact moments and charges a non-private release.
    row_norm : float, optional
        Rows are shortened to this Euclidean norm. By default the norm of the table's declared bounds.
    epsilon, delta : float, optional
        The release's (epsilon, delta), by the analytic Gaussian mechanism; required for a table with a budget.
    offset : tuple of float, optional
        Public vector that is taken off every row first.

    Raises
    ------
    InvalidParameter
        What is given is no PrivateTable, or a parameter is missing or outside what is accepted; nothing was charged.
    BudgetExceeded
        The release does not fit; no row was read.
    """
    checks.instance("table", table, PrivateTable, "a PrivateTable: PrivateTable(rows, bounds=..., budget=Budget(...))")
    if table.open:
        answer = table.release(SecondMoments(math.inf, offset), AnalyticGaussian(0.0))
        return Moments(answer.matrix, table.n_rows, table.columns, (), _mean(offset), (table_origin(table),))
    if row_norm is None:
        if table.bounds is None:
            raise InvalidParameter(f"row_norm must be given for {table.name!r}, which declares no bounds, got None")
        shift = np.zeros(table.n_columns) if offset is None else np.abs(offset)
        row_norm = float(np.linalg.norm(np.array(table.bounds) + shift))
    if epsilon is None or delta is None:
        raise InvalidParameter(f"epsilon and delta must be given for a table with a budget, got {epsilon!r}, {delta!r}")
    query = SecondMoments(checks.positive("row_norm", row_norm), offset)
    mechanism = AnalyticGaussian.calibrated(epsilon, delta, query.sensitivity(table.n_rows, table.relation))
    if table.ledger.budget is not None and table.ledger.budget.notion == "approximate":
        plan = [PlanPart(query.name, table.event(query, mechanism), 1)]
        reservation = table.ledger.reserve(plan, query.name, delta=delta)
        answer = table.release(query, mechanism, reservation=reservation)
        reservation.close("released")
    else:
        answer = table.release(query, mechanism)
    noise = (NoiseTerm(answer.scale),)
    return Moments(answer.matrix, table.n_rows, table.columns, noise, _mean(offset), (table_origin(table),))


def table_origin(table: PrivateTable) -> Origin:
    """Return what stands before the moments that a table releases: noise of its own source, or none where it is open."""
    return origin_of(table.name, noisy=not table.open, secure=table.noise.secure)


def _mean(offset: tuple[float, ...] | None) -> np.ndarray | None:
    return None if offset is None else np.array(offset)
