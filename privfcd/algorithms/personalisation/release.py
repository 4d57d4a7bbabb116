"""Weights that may leave the party: from moments of the families that are paid for, or that were released before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE
from privfcd.algorithms.charging import reserve_all, run_label
from privfcd.algorithms.inputs import aligned, checked_tables, moments_given
from privfcd.algorithms.personalisation.weights import (
    Array,
    Families,
    PersonalWeights,
    check_names,
    families_of,
    refitted,
    structure_of,
)
from privfcd.algorithms.release.messages import Quote
from privfcd.algorithms.release.party import ASSUMPTIONS
from privfcd.algorithms.release.plan import HISTOGRAM, MEAN, TablePlan, plan_tables
from privfcd.algorithms.release.rules import check_histogram, norm_of
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.results import table_report
from privfcd.data.family_moments import FamilyMoments
from privfcd.data.histogram import OctaveHistogram, upper_bounds
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean, Query
from privfcd.errors import InvalidParameter
from privfcd.ledger import Reservation
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.mechanisms import Gaussian
from privfcd.moments import Moments, NoiseTerm

RUN = "personal weights"
FAMILIES = "second moments of the graph's families"
HISTOGRAM_SHARE = 0.05


def personalise(
    model: Any,
    source: Sequence[PrivateTable] | Moments | Sequence[Moments],
    *,
    center: bool | None = None,
    row_norms: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    mean_share: float = 0.1,
) -> list[PersonalWeights]:
    """Return each party's weights on the learnt graph, fit to leave the party.

    Everything is checked, and every party's budget is asked, before any ledger is charged; every ledger is charged before
    any row is read. A graph without edges costs nothing.

    Parameters
    ----------
    model : fitted estimator or networkx.DiGraph
        The graph; acyclic.
    source : sequence of PrivateTable, or Moments, or a sequence of Moments
        One for each party. A table with a budget makes one paid release of the families' moments; an open table exact ones,
        charged as non-private. Moments cost nothing.
    center : bool, optional
        Whether each party's own means are taken off tables: they are by default, and paid for where there is a budget. False
        says that the means are 0.
    row_norms : float, optional
        Every family's rows are shortened to this norm; public. By default the norm of the family's declared bounds, or of
        bounds that a paid histogram supplies (5 % of the run).
    epsilon, delta : float, optional
        What may be spent of each table's budget; all that is left by default.
    mean_share : float
        Share of the run's mu² for the mean, where it is needed.

    Returns
    -------
    list of PersonalWeights
        One for each party, columns in the order of the model.

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow it; no party was charged.
    InvalidParameter, InvalidTable
        What is wrong, and with which party.
    """
    columns, weights = structure_of(model)
    families = families_of(weights)
    if center is not None and not isinstance(center, bool):
        raise checks.refuse("center", center, "True, False or None")
    settings = ReleaseSettings(
        method="covariance",
        send=False,
        epsilon=epsilon,
        delta=delta,
        row_norm=row_norms,
        center=center is not False,
        mean_share=mean_share,
    )
    parts = moments_given(source)
    if parts is not None:
        if center or any(given is not None for given in (row_norms, epsilon, delta)):
            raise InvalidParameter(
                "center, row_norms, epsilon and delta belong to tables; Moments were released before"
            )
        check_names(columns, parts[0].columns)
        return [
            refitted([(aligned(part, columns), family) for family in families], families, columns, f"party-{number}")
            for number, part in enumerate(parts, start=1)
        ]
    tables = checked_tables(source)
    check_names(columns, tables[0].columns)
    tables = [table.reordered(columns) for table in tables]
    if not families:
        return [refitted([], (), columns, table.name) for table in tables]
    plans = [_plan(table, families, settings) for table in tables]
    reservations = reserve_all(tables, plans, RUN)
    answers = []
    for table, plan, reservation in zip(tables, plans, reservations, strict=True):
        released = _released(table, families, plan, reservation, settings)
        reservation.close()
        report = _report(table, plan, reservation, settings)
        answers.append(refitted(released, families, columns, table.name, report))
    return answers


def _plan(table: PrivateTable, families: Families, settings: ReleaseSettings) -> TablePlan:
    """Return what will be released from the table, with its shares of mu²; reads no rows and charges nothing."""
    shares: list[tuple[str, float]] = []
    if not table.open and table.bounds is None and (settings.row_norm is None or settings.center):
        shares.append((HISTOGRAM, HISTOGRAM_SHARE))
    if settings.center:
        shares.append((MEAN, settings.mean_share))
    shares.append((FAMILIES, 1 - math.fsum(share for _, share in shares)))
    if shares[-1][1] <= 0:
        raise checks.refuse("mean_share", settings.mean_share, f"less than {1 - HISTOGRAM_SHARE}")
    plan = plan_tables([table], settings, shares, run_label(RUN, table))[0]
    if HISTOGRAM in plan.multipliers:
        mu = 1 / (plan.multipliers[HISTOGRAM] * math.sqrt(HISTOGRAM_SHARE))
        quote = Quote(table.n_rows, mu, table.relation is REPLACE_ONE, None)
        check_histogram([quote], table.n_columns, HISTOGRAM_SHARE)
    return plan


def _released(
    table: PrivateTable, families: Families, plan: TablePlan, reservation: Reservation, settings: ReleaseSettings
) -> list[tuple[Moments, tuple[int, ...]]]:
    """Release each family's moments, paid from the reservation, with the places of its columns in them."""

    def release(query: Query, label: str) -> tuple[Array, float]:
        multiplier = plan.multipliers[label]
        scale = multiplier * query.sensitivity(table.n_rows, table.relation) * (1 + 1e-14) if multiplier else 0.0
        return table.release(query, Gaussian(scale), label=label, reservation=reservation), scale

    d = table.n_columns
    bounds = np.full(d, math.inf) if table.open or table.bounds is None else np.array(table.bounds)
    if HISTOGRAM in plan.multipliers:
        bounds = upper_bounds(*release(OctaveHistogram(d), HISTOGRAM))[:d]
    offset: tuple[float, ...] | None = None
    if settings.center:
        mean = ClippedMean(tuple(bounds.tolist()))
        offset = tuple(mean.decode(release(mean, MEAN)[0]).tolist())
    if table.open:
        norms = [math.inf] * len(families)
    elif settings.row_norm is not None:
        norms = [settings.row_norm] * len(families)
    else:
        shifts = [None if offset is None else [offset[column] for column in family] for family in families]
        norms = [norm_of(bounds[list(family)], shift) for family, shift in zip(families, shifts, strict=True)]
    query = FamilyMoments(families, tuple(norms), offset)
    answer, scale = release(query, FAMILIES)
    parts = []
    for family, matrix, unit in zip(families, query.decode(answer), query.units, strict=True):
        noise = (NoiseTerm(scale * unit),) if scale else ()
        mean_off = None if offset is None else np.array(offset)[list(family)]
        names = tuple(table.columns[column] for column in family)
        parts.append((Moments(matrix, table.n_rows, names, noise, mean_off), tuple(range(len(family)))))
    return parts


def _report(table: PrivateTable, plan: TablePlan, reservation: Reservation, settings: ReleaseSettings) -> PrivacyReport:
    return table_report(
        table,
        reservation,
        delta=settings.delta if plan.delta is None else plan.delta,
        declared={} if settings.row_norm is None or table.open else {"row_norms": settings.row_norm},
        assumptions=(*ASSUMPTIONS, "The graph was public before this run."),
    )
