"""How sure each edge is under the noise that was paid for: asked for after a run, for a short time by default."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from privfcd.cli.progress import progress

if TYPE_CHECKING:
    from privfcd.algorithms.stability import EdgeStability

DEFAULT_DRAWS = 50
PATIENCE = 10.0
"""Seconds after which no draw is begun that nobody asked for."""


class _Stopped(Exception):
    """The draws were interrupted."""


def stability_of(
    model: Any, draws: int | None, quiet: bool, stopped: Sequence[int]
) -> tuple[EdgeStability | None, str]:
    """Return how often each edge comes back under fresh noise, and what is to be said if that is not known.

    Parameters
    ----------
    model : estimator
        Fitted.
    draws : int or None
        0 for none; None for `DEFAULT_DRAWS`, or as many as `PATIENCE` seconds allow.
    quiet : bool
        No bar.
    stopped : sequence
        The draws end once it is not empty.
    """
    if draws == 0 or not noisy(model):
        return None, ""
    from privfcd.algorithms.stability import edge_stability

    with progress("stability", quiet=quiet) as show:

        def on_draw(done: int, total: int) -> None:
            if stopped:
                raise _Stopped
            show(done, total)

        try:
            if draws is None:
                return edge_stability(model, draws=DEFAULT_DRAWS, seconds=PATIENCE, on_draw=on_draw), ""
            return edge_stability(model, draws=draws, on_draw=on_draw), ""
        except _Stopped:
            return None, "Stability: interrupted, and left out."
        except Exception as error:  # whatever it is: the run is paid for, and its result must still be shown
            return None, f"Stability: not known; {str(error).removeprefix('model has no edge stability: ')}"


def noisy(model: Any) -> bool:
    """Return whether there was noise to draw again; exact answers have none."""
    return any(math.isfinite(report.epsilon) or math.isfinite(report.rho) for report in model.privacy_report_ or ())
