"""What a run's noise alone makes where it can only be made by running: the same plan on simulated independent columns.

Used for private releases of coordinates. The tables are made here, of Gaussian numbers that have the variances that the
run released and no dependence, as many rows as each party declared, and a ledger of their own with the rho that the run
cost: the plan, whose noise follows from it and from public numbers, has the same noise. The model's own tables are not
there, and nothing is charged to their ledgers: rows, variances and rho are in the released result and its report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from dp_accounting import NeighboringRelation

from privfcd.accounting import REPLACE_ONE, Budget
from privfcd.algorithms.stability.late_rounds import LateRounds
from privfcd.algorithms.stability.streams import stream
from privfcd.algorithms.stability.tally import Tally
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.mechanisms import SimulatedNoise

SPARE = 1 + 1e-9
"""Room in a simulated budget for what was rounded up in the report."""

ROWS = 2
"""Kind of the streams; fresh draws have 0 and 1, see `privfcd.algorithms.stability.redraws`."""


def runs_on_noise(
    model: Any,
    late: LateRounds,
    columns: tuple[str, ...],
    runs: int,
    seed: int,
    on_run: Callable[[int, int], None] | None = None,
) -> Tally:
    """Return what `runs` runs of a private `FedSparseBNSL` find on columns without dependence.

    Parameters
    ----------
    model : FedSparseBNSL
        Fitted to tables with budgets; it is left as it is.
    late : LateRounds
        Of its run.
    columns : tuple of str
    runs, seed : int
    on_run : callable, optional
        Called with (done, runs) after each.

    Raises
    ------
    InvalidParameter
        The reports are not here (a run between machines), or the noise does not follow from the cost.
    """
    reports = getattr(model, "privacy_report_", None)
    if not reports:
        raise InvalidParameter(
            "noise_runs must be 0 where the parties' privacy reports are not known, as between machines"
        )
    if model.mechanisms == "mangold-published":
        raise InvalidParameter(
            "noise_runs must be 0 for mechanisms='mangold-published', whose noise is not that of its cost"
        )
    tally = Tally(len(columns))
    for run in range(runs):
        again = type(model)(
            **{**model.fitted_params(), **late.parameters, "epsilon": None, "delta": None, "release": "coordinates"}
        )
        again.fit(_tables(reports, late, columns, seed, run))
        tally.add(again.adjacency_matrix_)
        if on_run is not None:
            on_run(run + 1, runs)
    return tally


def _tables(
    reports: Sequence[PrivacyReport], late: LateRounds, columns: tuple[str, ...], seed: int, run: int
) -> list[PrivateTable]:
    generator = stream(seed, ROWS, run)
    scale = np.sqrt(late.second_moments)
    noise = int(generator.integers(2**62))
    tables = []
    for number, report in enumerate(reports):
        rows = int(report.declared["rows"])
        replaced = report.change == "another one"
        bounds = report.declared.get("bounds")
        tables.append(
            PrivateTable(
                generator.normal(size=(rows, len(columns))) * scale,
                columns,
                name=f"simulated-{number}",
                budget=None if math.isinf(report.rho) else Budget(rho=report.rho * SPARE),
                bounds=None if bounds is None else dict(zip(report.declared["columns"], bounds, strict=True)),
                noise=SimulatedNoise(noise),
                relation=REPLACE_ONE if replaced else NeighboringRelation.ADD_OR_REMOVE_ONE,
                declared_rows=None if replaced else rows,
            )
        )
    return tables
