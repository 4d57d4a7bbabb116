"""Edges of which nothing is known beside the noise: never stated without a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.constraint.fisher_z import CAUTION
from privfcd.moments import Moments

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


def loud_notes(parts: Sequence[Moments], adjacency: NDArray[Any], columns: Sequence[str]) -> list[str]:
    """Return in a sentence that edges join columns that drown in noise; nothing where none do.

    For learners that score instead of testing: a column whose second moment, of all parties' rows together, is not above
    `CAUTION` standard deviations of its noise could not be tested either.

    Parameters
    ----------
    parts : sequence of Moments
        What was learnt from, of the same columns.
    adjacency : ndarray of shape (d, d)
        The result; not 0 where there is an edge.
    columns : sequence of d str
        In the order of `adjacency`.
    """
    noisy = [part for part in parts if part.noise_sd is not None]
    if not noisy:
        return []
    rows = sum(part.rows for part in parts)
    squares, variances = np.zeros(len(columns)), np.zeros(len(columns))
    for part in parts:
        order = [part.columns.index(column) for column in columns]
        squares += part.rows / rows * part.matrix.diagonal()[order]
        if part.noise_sd is not None:
            variances += (part.rows / rows * part.noise_sd.diagonal()[order]) ** 2
    loud = squares <= CAUTION * np.sqrt(variances)
    joined = np.triu((adjacency != 0) | (adjacency != 0).T, 1)
    touched = joined & (loud[:, None] | loud[None, :])
    if not touched.any():
        return []
    ends = touched.any(axis=0) | touched.any(axis=1)
    names = [str(column) for column, told in zip(columns, loud & ends, strict=True) if told]
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return [
        f"{int(touched.sum())} of {int(joined.sum())} edges join columns of which nothing is known beside the noise "
        f"({shown}): their second moments are not above {CAUTION:g} standard deviations of it. Nothing speaks for these "
        "edges, however often they are found again."
    ]
