"""A picture of the covariance attack: what was reconstructed over what was true, and who is known to be a member.

Needs Matplotlib (extra `plot`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from privfcd.drawing.picture import new_figure, save_figure
from privfcd.errors import InvalidParameter

if TYPE_CHECKING:
    from privfcd.audits.attack import AttackReport

_MOST_POINTS = 400


def draw_attack(reports: Sequence[AttackReport], path: str | os.PathLike[str]) -> None:
    """Draw attacks on one or several methods, a row of panels for each number of columns.

    Parameters
    ----------
    reports : sequence of AttackReport
        At least one.
    path : path
        File to write; its suffix chooses the format.

    Raises
    ------
    InvalidParameter
        There is no report.
    """
    if not reports:
        raise InvalidParameter("reports must hold at least one attack, got none")
    sizes = list(dict.fromkeys(report.d for report in reports))
    figure = new_figure((10.0, 4.0 * len(sizes)))
    panels = figure.subplots(len(sizes), 2, squeeze=False)
    for (entries, rates), d in zip(panels, sizes, strict=True):
        for report in (one for one in reports if one.d == d):
            label = report.method
            if math.isfinite(report.epsilon):
                label += f", epsilon = {report.epsilon:g}"
            upper = np.triu_indices(d)
            shown = np.unique(np.linspace(0, len(upper[0]) - 1, _MOST_POINTS).astype(int))
            rows, columns = upper[0][shown], upper[1][shown]
            entries.plot(
                report.truth[rows, columns], report.found[rows, columns], ".", markersize=3,
                label=f"{label}: relative error {report.relative_error:.2g}",
            )  # fmt: skip
            rates.plot(*report.membership.roc(), label=f"{label}: AUC {report.membership.auc:.2f}")
        low, high = entries.get_xlim()
        entries.plot([low, high], [low, high], ":", color="grey", linewidth=1)
        entries.set_yscale("symlog", linthresh=max(abs(low), abs(high), 1e-12))
        entries.set(xlabel="true second moment", ylabel="reconstructed", title=f"d = {d}: entries")
        rates.plot([0, 1], [0, 1], ":", color="grey", linewidth=1)
        rates.set(
            xlabel="share of outsiders called members", ylabel="share of members found", xlim=(0, 1), ylim=(0, 1),
            title=f"d = {d}: membership",
        )  # fmt: skip
        for axes in (entries, rates):
            axes.legend(fontsize=7, frameon=False)
            axes.grid(alpha=0.3)
    save_figure(figure, path)
