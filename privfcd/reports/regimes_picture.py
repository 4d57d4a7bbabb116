"""A picture of the noise regimes over the number of releases. Needs Matplotlib (extra `plot`)."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any

from privfcd.drawing.picture import new_figure, save_figure

LABELS = {
    "mangold-published": "Mangold 2023, as published (not proven)",
    "mangold-proven": "Mangold 2023, as proven",
    "zcdp-loose": "zCDP, loose conversion (the paper)",
    "zcdp": "zCDP, tight conversion",
    "tight": "tight accountant",
}


def draw_regimes(
    rows: Sequence[dict[str, Any]],
    path: str | os.PathLike[str],
    *,
    epsilon: float,
    delta: float,
    factors: Sequence[dict[str, Any]] = (),
) -> None:
    """Draw the noise for the same epsilon, and the epsilon for the same noise, each relative to the paper's regime.

    With `factors` a third panel shows Mangold 2023's epsilon over each other regime's where the update's noise has the same
    variance, and the sqrt(2) of appendix A.4.

    Parameters
    ----------
    rows : sequence of dict
        `compare_regimes` rows as dicts, each with its number of `pairs`.
    path : path
        File to write; its suffix chooses the format.
    epsilon, delta : float
        The target.
    factors : sequence of dict, optional
        `regime_factors` as dicts, each with its number of `pairs`.
    """
    panels = 3 if factors else 2
    figure = new_figure((5.0 * panels, 4.2))
    noise, cost, *rest = figure.subplots(1, panels)
    for regime in dict.fromkeys(row["regime"] for row in rows):
        chosen = [row for row in rows if row["regime"] == regime]
        pairs = [row["pairs"] for row in chosen]
        style = {"marker": "o", "markersize": 3, "label": LABELS.get(regime, regime)}
        reference = {row["pairs"]: row["update_sd"] for row in rows if row["regime"] == "zcdp-loose"}
        noise.plot(pairs, [row["update_sd"] / reference[row["pairs"]] for row in chosen], **style)
        cost.plot(pairs, [row["epsilon_same_scale"] / epsilon for row in chosen], **style)
    noise.set_ylabel("sd of the update's noise, paper = 1")
    noise.set_title(f"same epsilon = {epsilon:g}, delta = {delta:g}", fontsize=10)
    cost.set_ylabel(f"epsilon / {epsilon:g}")
    cost.set_title("same scale of noise as the paper", fontsize=10)
    for axes in rest:
        _draw_factors(axes, factors)
    for axes in (noise, cost, *rest):
        axes.set_xscale("log")
        axes.set_xlabel("selections, and as many updates")
        axes.grid(alpha=0.3)
    noise.legend(fontsize=7, frameon=False)
    save_figure(figure, path)


def _draw_factors(axes: Any, factors: Sequence[dict[str, Any]]) -> None:
    for index, regime in enumerate(dict.fromkeys(row["regime"] for row in factors)):
        chosen = [row for row in factors if row["regime"] == regime]
        for key, line, words in (("epsilon", "-", "published"), ("epsilon_proven", "--", "proven")):
            axes.plot(
                [row["pairs"] for row in chosen], [row[key] for row in chosen], line, marker="o", markersize=3,
                color=f"C{index + 2}", label=f"{words} / {LABELS.get(regime, regime)}",
            )  # fmt: skip
    axes.axhline(math.sqrt(2), color="black", linewidth=1, linestyle=":", label="sqrt(2), appendix A.4")
    axes.set_ylabel("epsilon of Mangold 2023 / epsilon")
    axes.set_title("same variance of the update's noise", fontsize=10)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, frameon=False, loc="lower right")
