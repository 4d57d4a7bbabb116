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
from privfcd.errors import BudgetExceeded, PartyFailed
from privfcd.moments import Moments
from privfcd.moments.octaves import largest_noise, mostly_zeros, upper_bounds

Array = NDArray[np.float64]

HISTOGRAM_NOISE = 0.025
"""Noise in each share of a histogram, pooled over the parties, below which more of the budget buys little."""

HISTOGRAM_SHARES = (0.01, 0.08)
"""Least and largest share of mu² for a histogram, while scales can be found with the largest."""

MOST_HISTOGRAM = 0.25
"""Largest share where they cannot; twice as much for differences of records, whose histogram is the only one."""

OTHER_UNITS = 32.0
"""Released scales of columns that differ by more than this factor are taken to be of columns in different units."""

MOST_LOST, LOST_NOISES = 0.1, 2.0
"""Share of the rows' trace that clipping may lose: so many times the noise of an entry, at most the first."""

LOUD = 0.05
"""Noise of a round at all of mu, in entries of white second moments, from which on the rows' norm is chosen tightly. On the
paper's data (d = 20, seeds 1000-1011) the order search then has SHD 5.0 and not 9.5 at epsilon 0.1 (noise 0.066), and at
epsilon 0.25 (noise 0.026) 0.1 with the wide norm and not 1.7."""

FEW = 2.0
"""Columns that are not 0 in less than this share of the rows, divided by d, are made smaller than the others: else their few
rows would be the ones that are clipped."""

MOST_CONDITION = 1e6
"""A party answers no round whose matrix has a larger condition number, with rows brought to length 1."""

UNKNOWN_SDS = 2.0
"""A variance within so many standard deviations of its noise is not known."""

SHARES, LARGE_SHARES, LARGE = (0.1, 0.2, 0.7), (0.15, 0.2, 0.25, 0.4), 50
"""What each round gets of the mu² that is left for rounds; the second from `LARGE` columns on, which whiten more slowly."""


def pooled_weights(quotes: Sequence[Quote]) -> Array:
    """Return each party's share of all rows."""
    rows = np.array([quote.n_rows for quote in quotes], dtype=np.float64)
    return rows / rows.sum()


def units(scales: Array) -> Array:
    """Return what columns are divided by before all rounds: 1, or powers of 2 near scales that differ by `OTHER_UNITS`.

    Within that factor, scales are what equal error variances leave in a graph, and the structure may use them.
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


def unknown(moments: Moments) -> NDArray[np.bool_]:
    """Return of which columns no variance is known: it is within its noise, shape (d,)."""
    noise = 0.0 if moments.noise_sd is None else np.diag(moments.noise_sd)
    return np.asarray(np.diag(moments.matrix) <= UNKNOWN_SDS * noise)


def root(moments: Moments) -> Array:
    """Return L with LL' the second moments, made positive semidefinite, shape (d, d)."""
    values, vectors = np.linalg.eigh(moments.matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def check_condition(linear: Array, name: str) -> None:
    """Refuse a matrix for a round whose inverse would blow up what it releases, or that is not invertible.

    Columns may be in any units, so that its rows are compared by their directions: no round needs a condition number near
    `MOST_CONDITION`, since a matrix stretches no direction beyond the noise of what was released before.

    Raises
    ------
    PartyFailed
        Nothing was read.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(linear, axis=1, keepdims=True)
        even = linear / lengths if (lengths > 0).all() and np.isfinite(lengths).all() else np.full((1, 1), np.nan)
    if not np.isfinite(even).all() or not np.linalg.cond(even) <= MOST_CONDITION:
        raise PartyFailed(
            f"{name} was sent a matrix for a round that is not well conditioned: entries must be finite, and the condition "
            f"number at most {MOST_CONDITION:g} once all rows have length 1"
        )


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


def bounds_from(shares: Array, noise_sd: float, known: Sequence[float] | None = None) -> tuple[Array, float]:
    """Return bounds on |x_j| and on the rows' norm, from a released histogram.

    `known` are declared bounds, inf for columns without one; the histogram is of these columns and the norms then.
    """
    found = upper_bounds(shares, noise_sd)
    bounds, norm = found[:-1], float(found[-1])
    if known is not None:
        bounds = np.array(known)
        bounds[np.isinf(bounds)] = found[:-1]
    if noise_sd > 0 and mostly_zeros(shares[-1:], noise_sd)[0]:  # most rows are 0: the longest that the bounds allow
        norm = float(np.linalg.norm(bounds))
    return bounds, norm


def norm_of(bounds: Array, offset: Sequence[float] | None) -> float:
    """Return the largest norm of a row that keeps its declared bounds, once `offset` is taken off."""
    shift = 0.0 if offset is None else np.abs(offset)
    return float(np.linalg.norm(bounds + shift)) * (1 + 1e-12)


def round_shares(d: int, settings: ReleaseSettings) -> dict[str, float]:
    """Return each round's share of what is left of mu²: as asked for, or by the number of columns."""
    shares = settings.shares
    if shares is None:
        shares = LARGE_SHARES if d >= LARGE else SHARES
    return {round_label(number): share for number, share in enumerate(shares, start=1)}


def white_noise(quotes: Sequence[Quote], d: int) -> float:
    """Return the noise's sd off the diagonal of white second moments after one round at all of mu, clipped at norm² d."""
    return d * pooled_noise(quotes, math.sqrt(moved(quotes) / 2))
