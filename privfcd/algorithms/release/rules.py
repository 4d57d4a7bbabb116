"""Constants of a release, from public or released quantities only: numbers of rows, parties and columns, mu, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.release.messages import Quote
from privfcd.algorithms.release.plan import round_label
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.errors import BudgetExceeded
from privfcd.moments.octaves import largest_noise, upper_bounds

Array = NDArray[np.float64]

HISTOGRAM_NOISE = 0.025
"""Noise in each share of a histogram, pooled over the parties, below which more of the budget buys little."""

HISTOGRAM_SHARES = (0.01, 0.08)
"""Least and largest share of mu² for a histogram, while scales can be found with the largest."""

MOST_HISTOGRAM = 0.25
"""Largest share where they cannot."""

FIRST_POWER = 0.75
"""Columns are divided by their scale to this power before the first round: between raw and standardised."""

OTHER_UNITS = 32.0
"""Released scales of columns that differ by more than this factor are taken to be of columns in different units."""

CLIP_FACTOR = 1.15
"""Rows are clipped at this many times sqrt(d), their norm's root mean square when they are white."""

MOST_RESIDUAL = 2.0
"""In different units: a residual variance is at most this many times the column's own, which octaves say roughly."""

FAR = 4.0
"""In different units: a variance is solved again that is this factor away from the guess near which it was solved."""

REFITS = 2
"""Searches after each round: the second one on moments that were solved near what the first one found."""

SETTLING, SETTLING_SDS = 8, 2.0

DISAGREE, DISAGREE_SDS = 2.0, 3.0
"""A second moment is doubtful that differs from the square of its column's scale by this factor, and by so much noise."""

SCALE_NOISE = 5.0
"""Standard deviation of the logarithm of a squared scale for noise of 1 in each share of its histogram."""

LOUD = 0.05
"""Noise of a direction round at all of mu, in entries of white second moments, from which on fewer rounds do better."""

QUIET_SHARES, LOUD_SHARES = (0.3, 0.25, 0.25, 0.2), (0.6, 0.25, 0.15)
"""What each round gets of the mu² that is left for rounds. In loud noise the first round has to find the structure alone."""


def pooled_weights(quotes: Sequence[Quote]) -> Array:
    """Return each party's share of all rows."""
    rows = np.array([quote.n_rows for quote in quotes], dtype=np.float64)
    return rows / rows.sum()


def units(scales: Array) -> Array:
    """Return what columns are divided by before all rounds: 1, or powers of 2 near scales that differ by `OTHER_UNITS`.

    Within that factor, scales are what equal error variances leave in a graph, and tell rounds where it begins.
    """
    if scales.max() <= OTHER_UNITS * scales.min():
        return np.ones(len(scales))
    return np.exp2(np.round(np.log2(scales)))


def pooled_noise(quotes: Sequence[Quote], sensitivity: float) -> float:
    """Return the noise of a mean over all parties' rows at all of mu.

    Each party's mean moves by `sensitivity` / n_p and gets noise of that over mu_p.
    """
    sds = [0.0 if math.isinf(quote.mu) else sensitivity / (quote.n_rows * quote.mu) for quote in quotes]
    return math.hypot(*(pooled_weights(quotes) * sds))


def moved(quotes: Sequence[Quote]) -> float:
    """Return how many records a neighbour differs in: 2 where one is replaced, 1 where one is added or removed."""
    return 2.0 if any(quote.replaced for quote in quotes) else 1.0


def histogram_share(quotes: Sequence[Quote], d: int) -> float:
    """Return the share of mu² that buys histograms with noise of sd `HISTOGRAM_NOISE`, within `HISTOGRAM_SHARES`.

    Where that is too much noise for scales to be found, the share is what they need, up to `MOST_HISTOGRAM`.
    """
    noise = pooled_noise(quotes, math.sqrt(moved(quotes) * (d + 1)))
    low, high = HISTOGRAM_SHARES
    share = min(max((noise / HISTOGRAM_NOISE) ** 2, low), high)
    return min(max(share, (noise / (0.8 * largest_noise(d))) ** 2), MOST_HISTOGRAM)


def check_histogram(quotes: Sequence[Quote], d: int, share: float) -> None:
    """Refuse a run whose histogram noise would hide where the data are: public numbers say so beforehand."""
    noise = pooled_noise(quotes, math.sqrt(moved(quotes) * (d + 1) / share))
    if noise > largest_noise(d):
        raise BudgetExceeded(
            f"the budgets allow a histogram with noise of sd {noise:.2g} in each share, and {largest_noise(d):.2g} is the "
            "most that scales can be found with: declare bounds or a row norm, or give larger budgets"
        )


def bounds_from(shares: Array, noise_sd: float) -> tuple[Array, float]:
    """Return bounds on |x_j| and on the rows' norm, from a released histogram."""
    found = upper_bounds(shares, noise_sd)
    return found[:-1], float(found[-1])


def norm_of(bounds: Array, centre: Sequence[float] | None) -> float:
    """Return the largest norm of a row that keeps its declared bounds, once `centre` is taken off."""
    shift = 0.0 if centre is None else np.abs(centre)
    return float(np.linalg.norm(bounds + shift)) * (1 + 1e-12)


def round_shares(quotes: Sequence[Quote], d: int, settings: ReleaseSettings) -> dict[str, float]:
    """Return each round's share of what is left of mu²: as asked for, or by how loud one round of all of it would be."""
    shares = settings.shares
    if shares is None:
        shares = LOUD_SHARES if white_noise(quotes, d) >= LOUD else QUIET_SHARES
    return {round_label(number): share for number, share in enumerate(shares, start=1)}


def white_noise(quotes: Sequence[Quote], d: int) -> float:
    """Return the noise's sd off the diagonal of white second moments after one round of directions at all of mu."""
    return (d + 2) * pooled_noise(quotes, math.sqrt(moved(quotes) / 2))
