"""Audits of selections that are not one exponential mechanism: top-m, permute-and-flip, Laplace noisy max."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from privfcd import checks
from privfcd.audits.scores import Array, Outputs
from privfcd.audits.setups import Pair, Setup, arrays, check_distance
from privfcd.mechanisms import LaplaceNoisyMax, PermuteAndFlip, TopM

_COPIES = 4


def top_setup(mechanism: TopM, sensitivity: float, runs: int, alpha: float, pair: Pair | None, monotone: bool) -> Setup:
    """Return how to audit top-m peeling."""
    scale = mechanism.scale or 1.0
    if pair is None:
        pair = top_pair(scale, mechanism.m, sensitivity, runs, alpha, monotone=monotone)
    first, second = _rows(pair, sensitivity)

    def ratio(picks: Outputs) -> Array:
        return _peeling_log_law(second / scale, picks) - _peeling_log_law(first / scale, picks)

    return Setup(
        pair=(first, second),
        draw=lambda scores, runs, stream: mechanism.release_many(scores, runs, stream),
        exact=[ratio],
        learn=True,
        gaussian=False,
        score_name="exact log-likelihood ratio, or frequencies learnt from the pilot",
    )


def top_pair(
    scale: float, m: int, sensitivity: float, runs: int = 10**6, alpha: float = 0.05, *, monotone: bool = False
) -> tuple[Array, Array]:
    """Return the scores of two neighbours on which m rounds of peeling leak nearly m eta.

    Half of the candidates, a few times m of them, rise by the sensitivity while the others fall by it (stay, if
    `monotone`). That all picks come from the rising half has probability about p^m before and nearly exp(m eta) times
    as much afterwards where p is small; p maximises what `runs` runs are expected to certify.
    """
    eta = sensitivity / scale * (1 if monotone else 2)
    share = np.geomspace(1e-7, 0.5, 400)
    raised = share / (share + (1 - share) * math.exp(-eta))
    with np.errstate(over="ignore"):
        uncertainty = np.sqrt((share**-m + raised**-m) / max(runs, 1))
    p = float(share[np.argmax(m * np.log(raised / share) + ndtri(alpha) * uncertainty)])
    rises = np.arange(2 * _COPIES * m) < _COPIES * m
    first = np.where(rises, scale * math.log(p / (1 - p)), 0.0)
    return first, first + np.where(rises, sensitivity, 0.0 if monotone else -sensitivity)


def flip_setup(mechanism: PermuteAndFlip, sensitivity: float, pair: Pair | None, monotone: bool) -> Setup:
    """Return how to audit permute-and-flip.

    Two candidates with a gap of 2 D that closes: the lower one has probability exp(-epsilon) / 2 before and 1/2
    afterwards, which attains epsilon exactly.
    """
    if pair is None:
        gap = sensitivity if monotone else 2 * sensitivity
        pair = (np.array([0.0, gap]), np.array([sensitivity, gap if monotone else gap - sensitivity]))
    return _one_pick(mechanism, *_rows(pair, sensitivity))


def noisy_max_setup(
    mechanism: LaplaceNoisyMax, sensitivity: float, runs: int, alpha: float, pair: Pair | None, monotone: bool
) -> Setup:
    """Return how to audit Laplace noisy max.

    Of two candidates at a distance of t scales the lower one wins with probability exp(-t) (1 + t/2) / 2. Where the
    distance shrinks by eta that grows by nearly exp(eta) if t is large, but then it is seen rarely; t maximises what
    `runs` runs are expected to certify.
    """
    scale = mechanism.scale or 1.0
    if pair is None:
        eta = sensitivity / scale * (1 if monotone else 2)
        distance = eta + np.linspace(0.0, 20.0, 400)
        low, high = (np.exp(-t) * (1 + t / 2) / 2 for t in (distance, distance - eta))
        uncertainty = np.sqrt((1 / low + 1 / high) / max(runs, 1))
        gap = scale * float(distance[np.argmax(np.log(high / low) + ndtri(alpha) * uncertainty)])
        pair = (np.array([0.0, gap]), np.array([sensitivity, gap if monotone else gap - sensitivity]))
    return _one_pick(mechanism, *_rows(pair, sensitivity))


def _one_pick(mechanism: PermuteAndFlip | LaplaceNoisyMax, first: Array, second: Array) -> Setup:
    gap = second - first
    return Setup(
        pair=(first, second),
        draw=lambda scores, runs, stream: mechanism.release_many(scores, runs, stream),
        exact=[lambda picks: gap[picks]],
        learn=True,
        gaussian=False,
        score_name="movement of the picked score, or frequencies learnt from the pilot",
    )


def _rows(pair: Pair, sensitivity: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = arrays(pair)
    if first.ndim != 1:
        raise checks.refuse("pair", pair, "two rows of scores")
    check_distance(float(np.abs(second - first).max()), sensitivity, "linf")
    return first, second


def _peeling_log_law(logits: Array, picks: Outputs) -> Array:
    """Return the log-probability of each sequence of picks, shape (runs, m)."""
    left = np.tile(logits, (len(picks), 1))
    runs = np.arange(len(picks))
    total = np.zeros(len(picks))
    for picked in np.asarray(picks, dtype=np.int64).T:
        total += logits[picked] - logsumexp(left, axis=1)
        left[runs, picked] = -np.inf
    return total
