"""What a released histogram of octaves says of scales and bounds; no rows.

The grid of octaves floor(log2 |x|) is fixed and public. `data.histogram` releases the shares of records in it.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf

Array = NDArray[np.float64]

LOWEST, HIGHEST = -40, 40
"""Octaves of the grid: |x| below 2^-39 falls into the lowest bin, |x| of 2^40 and more into the highest."""

BINS = HIGHEST - LOWEST + 1
"""Number of octaves."""


def upper_bounds(shares: Array, noise_sd: float, tail: float = 0.01) -> NDArray[np.float64]:
    """Return for each noisy histogram a bound on |x| that few of its records exceed: a power of two.

    Post-processing of released shares. The bulk is found first, by the centred normal law (on a grid of quarter octaves of
    its scale) whose octaves have the largest inner product with the released shares: the noise in many empty octaves does
    not mislead it. From four of these scales down, shares are then added up until they pass `tail` plus three standard
    deviations of the noise in the sum; the bound is the upper end of the octave where this happens.

    Where no size is known (`mostly_zeros`), the zeros must not pass for the bulk: a bound at their octave would clip a rare
    0/1 column away. Any bound is a guess then, and the middle one of the other histograms does no harm to them.

    Parameters
    ----------
    shares : ndarray of shape (m, bins)
        Released shares of records by octave.
    noise_sd : float
        Standard deviation of the noise in each share.
    tail : float
        Share of records that may lie above, in [0, 1).
    """
    log_scales, templates = _templates()
    fitted = log_scales[np.argmax(_without_zeros(shares, noise_sd)[0] @ templates.T, axis=1)]
    bounds = np.empty(len(shares))
    for row, (histogram, log_scale) in enumerate(zip(shares, fitted, strict=True)):
        top = min(int(np.ceil(log_scale + 2)), HIGHEST + 1) - LOWEST  # bins below are under four scales
        above = np.cumsum(histogram[top - 1 :: -1])
        passed = above > tail + 3 * noise_sd * np.sqrt(np.arange(1, top + 1))
        steps = int(np.argmax(passed)) if passed.any() else 2
        bounds[row] = np.exp2(LOWEST + top - min(steps, 3))
    guessed = mostly_zeros(shares, noise_sd) & (noise_sd > 0)
    if guessed.any():
        bounds[guessed] = 1.0 if guessed.all() else np.exp2(np.ceil(np.median(np.log2(bounds[~guessed]))))
    return bounds


def largest_noise(d: int) -> float:
    """Return the noise in each share above which the fit would often pick a scale that only noise suggests."""
    _, templates = _templates()
    length = float(np.linalg.norm(templates[len(templates) // 2]))
    return length / (math.sqrt(2 * math.log(len(templates) * d)) + 3)


ZERO_SDS = 5.0
"""Standard deviations of the noise from which on a share of zeros is taken to be there."""

STANDS_OUT = 1.5
"""Standard deviations beyond what the best template makes of noise, from which on a size is taken to be there."""


@lru_cache(maxsize=1)
def _templates() -> tuple[Array, Array]:
    """Return log2 of the scales of the grid, and for each the shares of |x| by octave, shape (scales, bins)."""
    log_scales = np.arange(LOWEST + 4, HIGHEST - 1, 0.25)
    return log_scales, _shares_of(log_scales)


def _without_zeros(shares: Array, noise_sd: float) -> tuple[Array, Array]:
    """Return the histograms of the records that are not 0, and which share of all these are, shape (m,).

    The lowest octave holds what is 0, which says nothing about the size of the rest. Only histograms are changed in which it
    stands out of the noise, and something else does.
    """
    zeros, rest = shares[:, 0], np.ones(len(shares))
    some = (zeros > ZERO_SDS * noise_sd) & (1 - zeros > ZERO_SDS * noise_sd) & (zeros < 1)
    rest[some] = 1 - zeros[some]
    kept = shares.copy()
    kept[some, 0] = 0.0
    return kept / rest[:, None], rest


def nonzero_shares(shares: Array, noise_sd: float) -> Array:
    """Return which share of each column's records is not 0, shape (m,); 1 where no zeros stand out of the noise.

    Parameters
    ----------
    shares, noise_sd
        As of `column_scales`.
    """
    return np.maximum(_without_zeros(shares, noise_sd)[1], max(noise_sd, np.finfo(float).tiny))


def mostly_zeros(shares: Array, noise_sd: float) -> NDArray[np.bool_]:
    """Return of which columns with zeros no size is known: no law of the rest stands out of the noise, shape (m,).

    The product of a template t with noise alone has standard deviation |t| noise_sd, and the largest of T templates over m
    columns is hardly more than sqrt(2 log(T m)) times that.

    Parameters
    ----------
    shares, noise_sd
        As of `column_scales`.
    """
    _, templates = _templates()
    rest = np.hstack([np.zeros((len(shares), 1)), shares[:, 1:]])
    best = (rest @ templates.T / np.linalg.norm(templates, axis=1)).max(axis=1)
    least = (math.sqrt(2 * math.log(len(templates) * len(shares))) + STANDS_OUT) * noise_sd
    few = (1 - shares[:, 0] <= ZERO_SDS * noise_sd) | (best <= least)
    return np.asarray((shares[:, 0] > ZERO_SDS * noise_sd) & few)


def column_scales(shares: Array, noise_sd: float) -> Array:
    """Return for each noisy histogram the scale of the centred normal law that fits it best, by least squares.

    Post-processing. Where many records are 0 the law is fitted to the others, and the scale is that of all. The nearest of
    the templates is refined on a grid of 1/32 octave within half an octave of it.

    Parameters
    ----------
    shares : ndarray of shape (m, bins)
        Released shares of records by octave.
    noise_sd : float
        Standard deviation of the noise in each share.
    """
    log_scales, templates = _templates()
    shares, rest = _without_zeros(shares, noise_sd)
    length = (templates**2).sum(axis=1)
    coarse = log_scales[np.argmax(shares @ templates.T - length / 2, axis=1)]
    tried = coarse[:, None] + np.arange(-16, 17) / 32
    fine = _shares_of(tried.ravel()).reshape(*tried.shape, BINS)
    misfit = ((shares[:, None, :] - fine) ** 2).sum(axis=2)
    return np.asarray(np.exp2(tried[np.arange(len(shares)), np.argmin(misfit, axis=1)]) * np.sqrt(rest))


def _shares_of(log_scales: Array) -> Array:
    """Return the shares of |x| by octave for centred normal laws of these log2 scales, shape (scales, bins)."""
    edges = np.arange(LOWEST, HIGHEST + 2, dtype=np.float64)[None, :] - log_scales[:, None]
    below = erf(np.exp2(edges) / math.sqrt(2))
    below[:, 0], below[:, -1] = 0.0, 1.0
    return np.diff(below, axis=1)
