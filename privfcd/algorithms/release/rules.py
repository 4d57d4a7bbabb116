"""Constants of a release, from public or released quantities only: numbers of rows, parties and columns, mu, histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.release.messages import Quote
from privfcd.algorithms.release.plan import round_label
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.data.pairs import MOVED
from privfcd.errors import BudgetExceeded
from privfcd.moments.octaves import largest_noise, mostly_zeros, upper_bounds

Array = NDArray[np.float64]

HISTOGRAM_NOISE = 0.025
"""Noise in each share of a histogram, pooled over the parties, below which more of the budget buys little."""

HISTOGRAM_SHARES = (0.01, 0.08)
"""Least and largest share of mu² for a histogram, while scales can be found with the largest."""

MOST_HISTOGRAM = 0.25
"""Largest share where they cannot; twice as much for differences of records, whose histogram is the only one."""

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

NOISE_SDS = 3.0
"""So many standard deviations of noise away from 1 a trace of directions says that rows of zeros are among them."""

LOUD_MEAN = 0.1
"""Noise of a mean that is taken off, in standard deviations of its column, from which on moments are not what they say."""

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


def takes_differences(settings: ReleaseSettings, quotes: Sequence[Quote]) -> bool:
    """Return whether rounds look at differences of records: where a replaced record moves few of them."""
    return settings.differences(all(quote.replaced for quote in quotes))


def seen(settings: ReleaseSettings, quotes: Sequence[Quote]) -> list[Quote]:
    """Return the quotes with the mu that predicts noise: one record moves `MOVED` times as much of differences."""
    factor = MOVED if takes_differences(settings, quotes) else 1.0
    return [replace(quote, mu=quote.mu / factor) for quote in quotes]


def part_with_directions(parts: Array, scales: Array, weights: Array) -> float:
    """Return which part of the rows have a direction, from the released trace of the mean of uu'; 1 up to its noise.

    A row of zeros, such as the difference of two equal records, counts as u = 0, and would be solved for as if it were short
    in all directions at once.

    Parameters
    ----------
    parts : ndarray of shape (P, d, d)
        Each party's released mean.
    scales : ndarray of shape (P,)
        Of its noise, on the diagonal.
    weights : ndarray of shape (P,)
    """
    noise = NOISE_SDS * math.hypot(*(weights * scales)) * math.sqrt(parts.shape[1])
    found = float(weights @ np.trace(parts, axis1=1, axis2=2))
    return 1.0 if 1 - found <= noise else max(found, noise)


def histogram_share(quotes: Sequence[Quote], d: int, most: float = MOST_HISTOGRAM) -> float:
    """Return the share of mu² that buys histograms with noise of sd `HISTOGRAM_NOISE`, within `HISTOGRAM_SHARES`.

    Where that is too much noise for scales to be found, the share is what they need, up to `most`.
    """
    noise = pooled_noise(quotes, math.sqrt(moved(quotes) * (d + 1)))
    low, high = HISTOGRAM_SHARES
    share = min(max((noise / HISTOGRAM_NOISE) ** 2, low), high)
    return min(max(share, (noise / (0.8 * largest_noise(d))) ** 2), most)


def check_histogram(quotes: Sequence[Quote], d: int, share: float, helps: str = "declare bounds") -> None:
    """Refuse a run whose histogram noise would hide where the data are: public numbers say so beforehand.

    Parameters
    ----------
    quotes : sequence of Quote
    d : int
    share : float
        Of mu².
    helps : str
        What would make the histogram needless, see `instead_of_histogram`.
    """
    noise = _histogram_noise(quotes, d, share)
    if noise > largest_noise(d):
        raise BudgetExceeded(
            f"the budgets allow a histogram with noise of sd {noise:.2g} in each share, and {largest_noise(d):.2g} is the "
            f"most that scales can be found with: {helps}, or give larger budgets"
        )


def _histogram_noise(quotes: Sequence[Quote], d: int, share: float) -> float:
    return pooled_noise(quotes, math.sqrt(moved(quotes) * (d + 1) / share))


def instead_of_histogram(quotes: Sequence[Quote], d: int, settings: ReleaseSettings, declared: bool) -> str:
    """Return what would spare a run the histogram that its budgets are too small for, or make it good enough.

    One covariance needs a histogram only where bounds are not declared, for the row norm and for means. Rounds always need
    one, for the scales that they begin with: neither bounds nor a mean that is left alone spare it. That of differences of
    records, which rounds without a mean take, has more noise than one of records.

    Parameters
    ----------
    quotes : sequence of Quote
        Whose histograms are pooled, as `seen`.
    d : int
    settings : ReleaseSettings
    declared : bool
        Whether all parties declare bounds.
    """
    share, pairs = settings.histogram_share, takes_differences(settings, quotes)
    most = MOST_HISTOGRAM * (2 if pairs else 1)
    if share is not None and _histogram_noise(quotes, d, histogram_share(quotes, d, most)) <= largest_noise(d):
        return f"leave out histogram_share, which is {share:g}"
    if settings.method == "covariance":
        if settings.row_norm is not None:
            return "declare bounds, or take off public values near the means and leave them (center=False)"
        return "declare bounds, or a row norm" + (" with center=False" if settings.center else "")
    one = (
        "one clipped covariance instead of rounds needs no histogram where bounds are declared (method='covariance' of "
        "release_moments, release='covariance' of most learners)"
    )
    one = one if declared else f"declare bounds: {one}"
    plain = [replace(quote, mu=quote.mu * MOVED) for quote in quotes]  # as without differences
    if pairs and _histogram_noise(plain, d, histogram_share(plain, d)) <= largest_noise(d):
        return f"take off public values near the means and leave them (center=False); or {one}"
    return one


def bounds_from(shares: Array, noise_sd: float) -> tuple[Array, float]:
    """Return bounds on |x_j| and on the rows' norm, from a released histogram."""
    found = upper_bounds(shares, noise_sd)
    bounds, norm = found[:-1], float(found[-1])
    if noise_sd > 0 and mostly_zeros(shares[-1:], noise_sd)[0]:  # most rows are 0: the longest that the bounds allow
        norm = float(np.linalg.norm(bounds))
    return bounds, norm


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
