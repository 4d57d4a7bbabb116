"""A note where columns are of very different sizes: a trap for learners whose thresholds are in the columns' own units.

It comes from second moments that the run has released (or charged as non-private), so that it costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.markup import writable
from privfcd.moments import Moments

Array = NDArray[np.float64]

RATIO = 30.0
"""From which factor between columns on. Random graphs of 200 variables with equal error variances reach 23."""

CLIPPED_RATIO = 10.0
"""From which factor between columns on clipped answers draw weights towards 0: of 100 between second moments."""

MOST_NAMED = 5

NOISE_SDS = 2.0
"""So many standard deviations of noise are held against the note."""


MOSTLY_CUT = 0.5
"""Clipped second moments of this share of the largest that the clip allows, or more, say only that there is no less."""


def sizes_known(rule: Mapping[str, Any]) -> bool:
    """Return whether released second moments say how large columns are: not where most of the rows were cut.

    Parameters
    ----------
    rule : mapping
        Of the release: what its clips were, and what was left within them.
    """
    filled = rule.get("share of the row norm", 0.0)
    rounds = rule.get("rounds")
    left = rounds[-1]["kept"] if rounds and isinstance(rounds[-1], Mapping) else 1.0
    return bool(filled < MOSTLY_CUT and left > MOSTLY_CUT)


def scale_notes(
    squares: Array,
    noise_sd: Array,
    columns: Sequence[str],
    clipped: bool = False,
    cut: NDArray[np.bool_] | None = None,
) -> list[str]:
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
    cut : ndarray of bool, shape (d,), optional
        Columns that may be larger than their second moments say, see `MOSTLY_CUT`: they are never called small.
    """
    low, high = squares - NOISE_SDS * noise_sd, np.maximum(squares, 0.0) + NOISE_SDS * noise_sd
    known = np.flatnonzero((high > 0) if cut is None else (high > 0) & ~cut)  # a constant column has no size
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


OTHER_SCALE, FEW_SDS, PEAKED = 2.0, 4.0, 20.0
"""A party's column is said to differ if its standard deviation is this many times another's, beyond so many standard
deviations of noise and of sampling, which counts errors as peaked as this kurtosis: exponential columns have 9."""

OTHER_MEAN = 0.25
"""A party's mean is said to differ if it is this many standard deviations of the column away, beyond noise and sampling."""


def party_notes(
    parts: Sequence[Moments], mean_noise: Sequence[float] | None = None, aside: Sequence[str] = ()
) -> list[str]:
    """Return notes that name parties and columns whose scales or means differ from the others' by more than noise.

    Parameters
    ----------
    parts : sequence of Moments
        One for each party, released or exact.
    mean_noise : sequence of float, optional
        Standard deviation of the noise in the means that were taken off; noisy means without it are not compared.
    aside : sequence of str
        Columns to leave out.
    """
    if len(parts) < 2:
        return []
    columns = parts[0].columns
    squares = np.array([np.diag(part.matrix) for part in parts])
    noise = np.array([np.zeros(len(columns)) if part.noise_sd is None else np.diag(part.noise_sd) for part in parts])
    rows = np.array([part.rows for part in parts], dtype=np.float64)
    skipped = np.isin(np.array(columns, dtype=object), list(aside))
    names = [_party_name(part, place) for place, part in enumerate(parts, start=1)]
    notes = scale_differences(squares, noise, rows, names, columns, skipped)
    exact = all(part.exact for part in parts)
    if all(part.mean is not None for part in parts) and (exact or mean_noise is not None):
        means = np.array([part.mean for part in parts])
        loud = np.zeros(len(columns)) if mean_noise is None or exact else np.array(mean_noise)
        notes += _mean_differences(means, loud, squares, rows, names, columns, skipped)
    return notes


def _party_name(part: Moments, place: int) -> str:
    known = [origin.party for origin in part.origins if origin.party]
    return repr(" ".join(writable(known[0]).split())) if len(known) == 1 else f"number {place}"


def scale_differences(
    squares: Array,
    noise: Array,
    rows: Array,
    names: Sequence[str],
    columns: Sequence[str],
    skipped: NDArray[np.bool_] | None = None,
) -> list[str]:
    """Return a note on parties whose columns have other sizes than those of the other parties.

    Parameters
    ----------
    squares, noise : ndarray of shape (P, d)
        Second moments of each party's columns, and the standard deviations of their noise.
    rows : ndarray of shape (P,)
    names : sequence of P str
    columns : sequence of d str
    skipped : ndarray of bool, shape (d,), optional
    """
    sds = FEW_SDS * np.sqrt(noise**2 + np.maximum(squares, 0.0) ** 2 * (PEAKED - 1) / rows[:, None])
    low, high = np.maximum(squares - sds, 0.0), np.maximum(squares, 0.0) + sds
    used = np.ones(len(columns), dtype=bool) if skipped is None else ~skipped
    found = []
    for p, name in enumerate(names):
        others = np.arange(len(names)) != p
        named = used & (low[p] > OTHER_SCALE**2 * high[others].max(axis=0))
        # of two parties the larger one is named; and where one column of a party is too large, others may only look small,
        # because directions of records, which rounds release, say relative sizes only
        if not named.any() and len(names) > 2:
            named = used & (high[p] * OTHER_SCALE**2 < low[others].min(axis=0))
        for j in map(int, np.flatnonzero(named)):
            rest, doubt = float(np.median(squares[others, j])), float(np.median(sds[others, j]))
            known = rest > doubt  # else the others' size is no more than noise
            factor = math.sqrt(max(squares[p, j], 0.0) / max(rest, doubt, np.finfo(float).tiny))
            size = f"{'about' if known else 'at least'} {factor:.2g} times as large as"
            found.append(f"{columns[j]!r} at party {name} is {size} at the others")
    tail = "It may be in another unit there (mg/dl and mmol/l of glucose differ by 18): ask the party."
    return _differing(found, "Sizes", tail)


def _mean_differences(
    means: Array,
    loud: Array,
    squares: Array,
    rows: Array,
    names: Sequence[str],
    columns: Sequence[str],
    skipped: NDArray[np.bool_],
) -> list[str]:
    spread = np.sqrt(np.maximum(rows @ squares / rows.sum(), 0.0))
    sds = np.sqrt(loud**2 + np.maximum(squares, 0.0) / rows[:, None])
    found = []
    for j, column in enumerate(columns):
        if skipped[j] or not spread[j] > 0:
            continue
        middle = float(np.median(means[:, j])) if len(names) > 2 else float(means[:, j].mean())
        away = np.abs(means[:, j] - middle)
        p = int(np.argmax(away))
        beside = float(np.median(sds[:, j])) * math.sqrt(math.pi / 2) + sds[p, j]
        if away[p] > OTHER_MEAN * spread[j] and away[p] > FEW_SDS * beside:
            found.append(
                f"the mean of {column!r} at party {names[p]} is {(means[p, j] - middle) / spread[j]:+.2g} standard "
                "deviations from the others'"
            )
    tail = (
        "Each party's own mean was taken off, so that this makes no edges by itself; the parties' people or instruments "
        "differ, though, and what differs there may have causes in common with other columns."
    )
    return _differing(found, "Means", tail)


def _differing(found: Sequence[str], what: str, tail: str) -> list[str]:
    if not found:
        return []
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return [f"{what} differ between parties by more than noise: {'; '.join(found[:MOST_NAMED])}{more}. {tail}"]


def store_scale_notes(
    model: Any,
    squares: Array | None,
    noise_sd: Array | None,
    columns: Sequence[str],
    *,
    clipped: bool = False,
    cut: NDArray[np.bool_] | None = None,
) -> None:
    """Set `notes_` of an estimator; nothing is noted where no second moments were released."""
    model.notes_ = []
    if squares is not None:
        known = np.zeros(len(squares)) if noise_sd is None else noise_sd
        model.notes_ = scale_notes(squares, known, columns, clipped, cut)


def store_moment_notes(model: Any, parts: Sequence[Moments], rule: Mapping[str, Any] | None = None) -> None:
    """Set `notes_` of an estimator that learnt from these moments, one for each party; `rule` is that of their release."""
    model.notes_ = []
    if not sizes_known(rule or {}):
        return
    rows = sum(part.rows for part in parts)
    d = len(parts[0].columns)
    squares, variances = np.zeros(d), np.zeros(d)
    for part in parts:
        squares += part.rows / rows * np.diag(part.matrix)
        if part.noise_sd is not None:
            variances += (part.rows / rows * np.diag(part.noise_sd)) ** 2
    store_scale_notes(model, squares, np.sqrt(variances), parts[0].columns)
