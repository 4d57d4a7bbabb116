"""A picture of an audit: the measured trade-off between the two errors, with the claimed curve over it.

Needs Matplotlib (extra `plot`).
"""

from __future__ import annotations

import os
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from privfcd.drawing.picture import new_figure, save_figure

if TYPE_CHECKING:
    from privfcd.audits.report import AuditReport

_COLOURS = {"violated": "#b2182b", "consistent": "#1b7837", "inconclusive": "#8c6d31"}
_LEAST = 1e-6


def draw_audit(report: AuditReport, path: str | os.PathLike[str]) -> None:
    """Draw what was measured and what is claimed, on plain axes and on logarithmic ones.

    A claim is refuted where the certified corner (star) lies above the claimed curve.

    Parameters
    ----------
    report : AuditReport
    path : path
        File to write; its suffix chooses the format.

    Raises
    ------
    InvalidParameter
        Matplotlib is missing, or the file cannot be written.
    """
    figure = new_figure((10.0, 5.0))
    plain, logarithmic = figure.subplots(1, 2)
    grid = np.concatenate([[0.0], np.geomspace(_LEAST, 1, 600), np.linspace(0.002, 1, 500)])
    grid.sort()
    corner = (report.witness.false_positive_rate_at_most, report.witness.true_positive_rate_at_least)
    for axes in (plain, logarithmic):
        axes.plot(grid, report.curve.curve(grid), color="#b2182b", label="most that is claimed to be possible")
        axes.plot(*report.roc, ".-", markersize=3, linewidth=1, color="#35618f", label="measured (pilot runs)")
        axes.plot(
            *corner, "*", color=_COLOURS[report.verdict], markersize=12, clip_on=False,
            label=f"certified, confidence {report.confidence:.6g}: {report.verdict}",
        )  # fmt: skip
        axes.plot(grid, grid, ":", color="grey", label="perfect privacy")
        axes.set(xlabel="false-positive rate", ylabel="true-positive rate", xlim=(0, 1), ylim=(0, 1))
        axes.grid(alpha=0.3)
    least = max(_LEAST, min(0.1, corner[0] / 10, 1 / report.runs))
    logarithmic.set(xscale="log", yscale="log", xlim=(least, 1), ylim=(least, 1))
    plain.legend(loc="lower right", fontsize=7, frameon=False)
    at = f" at delta = {report.delta:.3g}" if report.delta else ""
    title = f"{report.subject}: epsilon ≥ {report.bound:.4g}{at}\nclaimed: {report.curve}"
    figure.suptitle(textwrap.fill(title, 110, replace_whitespace=False), fontsize=10, parse_math=False)
    save_figure(figure, path)
