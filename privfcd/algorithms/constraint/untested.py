"""Edges that no test could judge: never stated without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NAMED = 10

LOUD = (
    "the privacy noise is louder than what is left to be tested of one of the two columns. A larger budget, or columns of "
    "one size, make them testable"
)
FEW = "there are too few records for them, or columns determine each other"


def store_untested(
    model: Any,
    adjacent: NDArray[np.bool_],
    asked: NDArray[np.int64],
    silent: NDArray[np.int64],
    columns: Sequence[str],
    *,
    noisy: bool,
) -> None:
    """Set `untested_` of an estimator, and say in `notes_` which edges were kept because no test could say.

    Parameters
    ----------
    model : estimator
    adjacent : ndarray of bool, shape (d, d)
        The edges of the result, symmetric.
    asked, silent : ndarray of int, shape (d, d)
        As of `Skeleton`.
    columns : sequence of d str
    noisy : bool
        Whether there was noise, which is the reason then.
    """
    pairs = np.argwhere(np.triu(adjacent, 1) & (asked > 0) & (asked == silent)).tolist()
    doubtful = int((np.triu(adjacent, 1) & (silent > 0) & (silent < asked)).sum())
    model.untested_ = [(str(columns[i]), str(columns[j])) for i, j in pairs]
    model.notes_ = untested_notes(model.untested_, int(adjacent.sum()) // 2, doubtful, noisy)
    model._untested_notes = list(model.notes_)


def untested_notes(untested: Sequence[tuple[str, str]], edges: int, doubtful: int, noisy: bool) -> list[str]:
    """Return in sentences that edges were kept without a test; nothing where all were tested.

    Parameters
    ----------
    untested : sequence of (str, str)
        The edges of which no test could say anything.
    edges : int
        How many there are in all.
    doubtful : int
        How many others have some tests that could not say.
    noisy : bool
        Whether noise is the reason.
    """
    reason, said = LOUD if noisy else FEW, []
    if untested:
        shown = ", ".join(f"{one} \N{EN DASH} {other}" for one, other in untested[:_NAMED])
        more = f" and {len(untested) - _NAMED} more" if len(untested) > _NAMED else ""
        said.append(
            f"{len(untested)} of {edges} edges could not be tested: {reason}. They were kept because nothing speaks "
            f"against them, not because anything speaks for them, however often they are found again: {shown}{more}."
        )
    if doubtful:
        others = "other edges were" if untested else f"of {edges} edges were"
        said.append(
            f"{doubtful} {others} kept although some of the tests that might have removed them could not be made: "
            f"{'for the same reason' if untested else reason}."
        )
    return said
