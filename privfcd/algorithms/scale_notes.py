"""A note where columns are of very different sizes: a trap for learners whose thresholds are in the columns' own units.

It comes from second moments that the run has released (or charged as non-private), so that it costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.moments import Moments

Array = NDArray[np.float64]

RATIO = 30.0
"""From which factor between columns on. Random graphs of 200 variables with equal error variances reach 23."""

CLIPPED_RATIO = 10.0
"""From which factor between columns on clipped answers draw weights towards 0: of 100 between second moments."""

NOISE_SDS = 2.0
"""So many standard deviations of noise are held against the note."""


def scale_notes(squares: Array, noise_sd: Array, columns: Sequence[str], clipped: bool = False) -> list[str]:
    """Return the note, or nothing.

    Parameters
    ----------
    squares : ndarray of shape (d,)
        Second moments of the columns, released or exact.
    noise_sd : ndarray of shape (d,)
        Standard deviation of the noise in them; 0 where exact.
    columns : sequence of d str
    clipped : bool
        Whether the answers' records are clipped in proportion to the smallest column.
    """
    low, high = squares - NOISE_SDS * noise_sd, np.maximum(squares, 0.0) + NOISE_SDS * noise_sd
    known = np.flatnonzero(high > 0)  # a constant column has no size
    if not len(known):
        return []
    largest, smallest = int(np.argmax(low)), int(known[np.argmin(high[known])])
    ratio = math.sqrt(max(low[largest], 0.0) / high[smallest])
    clipping = (
        "Records are clipped by the smallest column, which stands for the size of all errors: where errors are larger, more "
        "of every record is cut, weights stop short of their size (mostly too near 0), and their intervals leave this out."
    )
    if ratio <= RATIO:
        if not clipped or ratio <= CLIPPED_RATIO:
            return []
        return [
            f"Columns differ in size: {columns[largest]!r} is {ratio:.2g} times as large as {columns[smallest]!r} or more. "
            f"{clipping} Bring the columns to comparable units by public factors, and learn again."
        ]
    return [
        f"Columns are of very different sizes: {columns[largest]!r} has values of about {math.sqrt(low[largest]):.2g}, "
        f"{columns[smallest]!r} of about {math.sqrt(high[smallest]):.2g}, a factor of {ratio:.2g} or more (seen in second "
        "moments that were charged for anyway). Thresholds, the l1 penalty and equal error variances are in the columns' "
        "own units: edges from large into small columns are lost, and edges from small into large ones invented. Bring the "
        "columns to comparable units by public factors, such as g instead of mg, and learn again; released moments can be "
        "rescaled free of charge (Moments.carried)." + (f" {clipping}" if clipped else "")
    ]


def store_scale_notes(
    model: Any, squares: Array | None, noise_sd: Array | None, columns: Sequence[str], *, clipped: bool = False
) -> None:
    """Set `notes_` of an estimator; nothing is noted where no second moments were released."""
    model.notes_ = []
    if squares is not None:
        known = np.zeros(len(squares)) if noise_sd is None else noise_sd
        model.notes_ = scale_notes(squares, known, columns, clipped)


def store_moment_notes(model: Any, parts: Sequence[Moments]) -> None:
    """Set `notes_` of an estimator that learnt from these moments, one for each party."""
    rows = sum(part.rows for part in parts)
    d = len(parts[0].columns)
    squares, variances = np.zeros(d), np.zeros(d)
    for part in parts:
        squares += part.rows / rows * np.diag(part.matrix)
        if part.noise_sd is not None:
            variances += (part.rows / rows * np.diag(part.noise_sd)) ** 2
    store_scale_notes(model, squares, np.sqrt(variances), parts[0].columns)
