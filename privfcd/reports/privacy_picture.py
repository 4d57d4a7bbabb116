"""A picture of what releases cost: delta at every epsilon, and what an attacker can do.

Needs Matplotlib (extra `plot`).
"""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING

import numpy as np

from privfcd import checks
from privfcd.accounting.tight import TightAccountant
from privfcd.accounting.tradeoff import true_positive_rate
from privfcd.drawing.picture import new_figure, save_figure
from privfcd.errors import InvalidParameter

if TYPE_CHECKING:
    from dp_accounting import DpEvent

LEAST = 1e-12
_POINTS = 60


def draw_privacy(event: DpEvent, path: str | os.PathLike[str], *, delta: float | None = None, title: str = "") -> None:
    """Draw delta(epsilon) and the bound on an attacker's true positive rate.

    Both are upper bounds, by the tight accountant, under the neighbouring relation that the event was computed for.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        All that is released.
    path : path
        File to write; its suffix chooses the format.
    delta : float, optional
        Marked on the curve, with its epsilon; in (0, 1).
    title : str
        Above the picture.

    Raises
    ------
    InvalidParameter
        Matplotlib is missing, the file cannot be written, or the event has no bound (an exact answer).

    Examples
    --------
    >>> from privfcd.accounting import GaussianDpEvent
    >>> draw_privacy(GaussianDpEvent(2.0), "privacy.svg", delta=1e-6)  # doctest: +SKIP
    """
    accountant = TightAccountant().compose(event)
    largest = accountant.get_epsilon(LEAST)
    if not math.isfinite(largest):
        raise InvalidParameter("event must have an epsilon: an exact answer has none, and no curve")
    epsilons = np.linspace(0.0, max(largest, 1e-6), _POINTS)
    deltas = np.array([accountant.get_delta(float(epsilon)) for epsilon in epsilons])
    rates = np.concatenate([np.geomspace(1e-4, 0.1, _POINTS // 2), np.linspace(0.12, 1, _POINTS // 2)])
    right = [true_positive_rate(event, float(rate)) for rate in rates]
    figure = new_figure((10.0, 4.5))
    left_axes, right_axes = figure.subplots(1, 2)
    left_axes.semilogy(epsilons, np.maximum(deltas, LEAST), color="#35618f")
    left_axes.set(xlabel="epsilon", ylabel="delta (upper bound)", ylim=(LEAST, 1))
    if delta is not None:
        at = accountant.get_epsilon(checks.delta("delta", delta, zero=False))
        left_axes.plot([at], [delta], "o", color="#b2182b", label=f"epsilon = {at:.4g} at delta = {delta:.3g}")
        left_axes.legend(loc="upper right", fontsize=8, frameon=False)
    right_axes.plot(rates, right, color="#35618f", label="most that an attacker can reach")
    right_axes.plot([0, 1], [0, 1], ":", color="grey", label="guessing")
    right_axes.set(xlabel="false positive rate", ylabel="true positive rate", xlim=(0, 1), ylim=(0, 1))
    right_axes.legend(loc="lower right", fontsize=8, frameon=False)
    for axes in (left_axes, right_axes):
        axes.grid(alpha=0.3)
    if title:
        figure.suptitle(title, fontsize=10, parse_math=False)
    save_figure(figure, path)
