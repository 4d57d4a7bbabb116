"""One run with many canaries: what a single release betrays about many coins that were tossed into its input.

Each of m canaries is decided by a fair coin of its own. From the output an auditor guesses r of the coins, chosen as
they like, and v guesses are right.

- (epsilon, delta) (Steinke, Nasr and Jagielski 2023, Theorem 3.1 and Appendix D): with f(v) = P[Binomial(r, p) >= v] and
  p = e^epsilon / (1 + e^epsilon), P[V >= v] <= f(v) + 2 m delta max over i of (f(v - i) - f(v)) / i.
- A trade-off curve G (Mahloujifar, Melis and Chaudhuri 2025). For a random canary T let r_i = P[T is guessed rightly, and
  at least i guesses are right] and h_i = P[T is guessed wrongly, and at least i are right]. Fix all coins but T's. "T is
  guessed as b, and at least i - 1 of the others are right" is an event of the output, so r_i <= G(h_{i-1}) by f-DP and
  because G is concave. With p_j = P[V = j], r_i - r_{i+1} = (i/m) p_i and h_i - h_{i+1} = ((r - i)/m) p_i, and r_0 + h_0 =
  r/m. Starting from P[V >= v] = alpha and going down with the least h that this allows, a sum above r/m at the end
  means that P[V >= v] < alpha under the claim, and refutes it.

Coins are tossed independently of each other; replaced records (one of two for each coin) and added ones are alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from privfcd import checks
from privfcd.audits.claims import Claim
from privfcd.audits.estimators import checked_scores
from privfcd.errors import InvalidParameter

GUESSES = (1.0, 0.5, 0.25, 0.125, 0.0625)
"""Shares of the canaries that are guessed, when several are tried."""

_LARGEST_EPSILON = 60.0


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float = 0.0) -> float:
    """Return the largest probability of at least `correct` right guesses under (epsilon, delta)-DP.

    Parameters
    ----------
    canaries : int
        m: how many independent fair coins there were.
    guesses : int
        r: how many were guessed, a number fixed before the output was seen.
    correct : int
        v: how many guesses are right.
    epsilon : float
        At least 0.
    delta : float
        In [0, 1).
    """
    _check(canaries, guesses, correct)
    epsilon, delta = checks.non_negative("epsilon", epsilon), checks.delta("delta", delta)
    share = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, share))
    if delta == 0 or correct == 0:
        return tail
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, share))
    steepest = float(np.max(below / np.arange(1, correct + 1)))
    return min(1.0, tail + 2 * canaries * delta * steepest)


def one_run_epsilon(canaries: int, guesses: int, correct: int, delta: float = 0.0, confidence: float = 0.95) -> float:
    """Return a lower bound on epsilon at `delta`.

    Parameters
    ----------
    canaries : int
        m: how many independent fair coins there were.
    guesses : int
        r: how many were guessed, a number fixed before the output was seen.
    correct : int
        v: how many guesses are right.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1).
    """
    alpha = 1 - checks.fraction("confidence", confidence)
    if one_run_p_value(canaries, guesses, correct, 0.0, delta) > alpha:
        return 0.0
    return _last_refuted(lambda epsilon: one_run_p_value(canaries, guesses, correct, epsilon, delta) <= alpha)


def one_run_mu(canaries: int, guesses: int, correct: int, confidence: float = 0.95) -> float:
    """Return a lower bound on mu of Gaussian differential privacy.

    Parameters
    ----------
    canaries : int
        m: how many independent fair coins there were.
    guesses : int
        r: how many were guessed, a number fixed before the output was seen.
    correct : int
        v: how many guesses are right.
    confidence : float
        In (0, 1).
    """
    _check(canaries, guesses, correct)
    alpha = 1 - checks.fraction("confidence", confidence)

    def refuted(mu: float) -> bool:
        return _impossible(canaries, guesses, correct, alpha, lambda r: float(ndtr(ndtri(r) - mu)))

    return _last_refuted(refuted) if refuted(0.0) else 0.0


def one_run_refutes(claim: Claim, canaries: int, guesses: int, correct: int, confidence: float = 0.95) -> bool:
    """Return whether so many right guesses refute the claim's whole curve; parameters as for `one_run_epsilon`."""
    _check(canaries, guesses, correct)
    alpha = 1 - checks.fraction("confidence", confidence)
    # G is symmetric (both directions are claimed), so its inverse is 1 - G(1 - r); rounding must not make it larger
    return _impossible(canaries, guesses, correct, alpha, lambda r: max(0.0, 1 - float(claim.curve(1 - r)) - 4e-16))


@dataclass(frozen=True)
class OneRunBound:
    """What one run with many canaries certifies.

    Attributes
    ----------
    epsilon : float
        Lower bound at `delta`.
    delta : float
    mu : float
        Lower bound on mu; model-based.
    canaries, guesses, correct : int
        Behind `epsilon`: coins, guesses, right guesses.
    confidence : float
        Of both bounds at once.
    """

    epsilon: float
    delta: float
    mu: float
    canaries: int
    guesses: int
    correct: int
    confidence: float


def one_run_bound(
    scores: ArrayLike,
    coins: ArrayLike,
    delta: float = 0.0,
    confidence: float = 0.95,
    shares: Sequence[float] = GUESSES,
) -> OneRunBound:
    """Return the bounds of one run.

    Parameters
    ----------
    scores : array of shape (m,)
        One for each canary: above 0 speaks for the coin's 1, below for its 0; the surest are guessed.
    coins : array of shape (m,)
        0 or 1: independent fair coins that the run was given.
    delta : float
        In [0, 1).
    confidence : float
        In (0, 1); divided among the shares, and between epsilon and mu.
    shares : sequence of float
        Which shares of the canaries are guessed; fixed before the output is seen.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted, or scores and coins are not of one length.
    """
    values = checked_scores("scores", scores)
    truth = np.asarray(coins)
    if truth.shape != values.shape or not np.isin(truth, (0, 1)).all():
        raise InvalidParameter(
            f"coins must be 0 or 1 and as many as scores, got shapes {truth.shape} and {values.shape}"
        )
    delta = checks.delta("delta", delta)
    level = 1 - (1 - checks.fraction("confidence", confidence)) / (2 * len(shares))
    surest = np.argsort(-np.abs(values), kind="stable")
    right = np.cumsum((values[surest] > 0) == (truth[surest] == 1))
    best, mu = (-1.0, 1, 0), 0.0
    for share in shares:
        guesses = max(1, round(checks.real("shares", share) * len(values)))
        correct = int(right[guesses - 1])
        best = max(best, (one_run_epsilon(len(values), guesses, correct, delta, level), guesses, correct))
        mu = max(mu, one_run_mu(len(values), guesses, correct, level))
    return OneRunBound(best[0], delta, mu, len(values), best[1], best[2], confidence)


def _impossible(canaries: int, guesses: int, correct: int, alpha: float, inverse: Callable[[float], float]) -> bool:
    """Return whether P[V >= correct] = alpha is more than the curve with this inverse leaves room for."""
    right, wrong = alpha * correct / canaries, alpha * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        least = max(wrong, inverse(right))
        right += i / (guesses - i) * (least - wrong)
        wrong = least
        if right + wrong > guesses / canaries:
            return True
    return False


def _last_refuted(refuted: Callable[[float], bool]) -> float:
    """Return the largest number, up to a cap, below which all are refuted; 0 is."""
    if refuted(_LARGEST_EPSILON):
        return _LARGEST_EPSILON
    low, high = 0.0, _LARGEST_EPSILON
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def _check(canaries: int, guesses: int, correct: int) -> None:
    canaries = checks.count("canaries", canaries)
    guesses = checks.count("guesses", guesses)
    correct = checks.count("correct", correct, least=0)
    if not correct <= guesses <= canaries:
        raise InvalidParameter(
            f"correct must be at most guesses, and guesses at most canaries, got {correct}, {guesses} and {canaries}"
        )
