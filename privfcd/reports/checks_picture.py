"""Pictures of the sensitivity search and of the sampler's tests: one bar for each query or test, and the limit.

Needs Matplotlib (extra `plot`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from privfcd.drawing.picture import new_figure, save_figure
from privfcd.errors import InvalidParameter

if TYPE_CHECKING:
    from privfcd.audits.sampler import SamplerReport
    from privfcd.audits.sensitivity import SensitivityReport

_RIGHT, _WRONG = "#35618f", "#b2182b"
_LEAST_P = 1e-30


def draw_sensitivities(reports: Sequence[SensitivityReport], path: str | os.PathLike[str]) -> None:
    """Draw for each query the largest movement that was found, as a share of the claimed sensitivity.

    Parameters
    ----------
    reports : sequence of SensitivityReport
        Of `search_sensitivity`; at least one.
    path : path
        File to write; its suffix chooses the format.

    Raises
    ------
    InvalidParameter
        There is no report.
    """
    if not reports:
        raise InvalidParameter("reports must hold at least one sensitivity search, got none")
    _bars(
        [report.query for report in reports],
        [report.ratio for report in reports],
        [report.verdict == "violated" for report in reports],
        1.0,
        "largest movement found / claimed sensitivity",
        path,
    )


def draw_sampler(report: SamplerReport, path: str | os.PathLike[str]) -> None:
    """Draw for each test of a law how improbable a right source makes what was seen, as -log10 p.

    Parameters
    ----------
    report : SamplerReport
        Of `check_sampler`.
    path : path
        File to write; its suffix chooses the format.
    """
    from math import log10

    limit = report.level / (2 * len(report.laws))
    _bars(
        [test.name for test in report.laws],
        [-log10(max(test.p_value, _LEAST_P)) for test in report.laws],
        [test in report.failures for test in report.laws],
        -log10(limit),
        f"-log10 p; a test fails beyond the line (level {report.level:g} for all together)",
        path,
    )


def _bars(
    names: Sequence[str],
    values: Sequence[float],
    wrong: Sequence[bool],
    limit: float,
    label: str,
    path: str | os.PathLike[str],
) -> None:
    figure = new_figure((8.0, 1.2 + 0.32 * len(names)))
    axes = figure.subplots()
    largest = max(3 * limit, 1.0)
    axes.barh(
        range(len(names)), [min(value, largest) for value in values],
        color=[_WRONG if bad else _RIGHT for bad in wrong],
    )  # fmt: skip
    axes.axvline(limit, color="black", linewidth=1)
    axes.set_yticks(range(len(names)), labels=names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel(label)
    save_figure(figure, path)
