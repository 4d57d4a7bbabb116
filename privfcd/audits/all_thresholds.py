"""All thresholds at once: bounds that need no pilot, because they hold for every threshold that is looked at.

Order statistics (`"bonferroni"`). An attack fires on {score > t} with t the k-th largest score of the table that it does
not name. Its false-positive rate is then at most a Beta(k, n - k + 1) variable, whatever the scores' law is (Wilks
1941; ties only make it smaller), and given t its hits on the other table are binomial. Both are bounded exactly at a
level divided by the number of ranks, sides and directions.

Bands (`"dkw"`). The empirical distribution functions are within sqrt(log(2 / level) / (2 n)) of the true ones everywhere
at once (Dvoretzky, Kiefer and Wolfowitz 1956; Massart 1990): simple, and useless where rates are small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, ndtri

from privfcd import checks
from privfcd.audits.estimators import Attack, Bound, Rates, checked_scores, clopper_pearson_lower, ranks

Array = NDArray[np.float64]
Corner = Callable[[Array, Array], Array]
Method = Literal["bonferroni", "dkw"]


def epsilon_bound_all(
    scores0: ArrayLike,
    scores1: ArrayLike,
    delta: float = 0.0,
    confidence: float = 0.95,
    method: Method = "bonferroni",
) -> Bound:
    """Return a lower bound on epsilon at `delta`, the largest over all thresholds; no runs are spent on a pilot.

    Parameters
    ----------
    scores0, scores1 : array of shape (runs,)
        Scores of independent runs on each table.
    delta : float
        In [0, 1).
    confidence : float
    method : `"bonferroni"` or `"dkw"`
        See the module.
    """
    delta = checks.delta("delta", delta)

    def epsilon(tpr: Array, fpr: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(tpr > delta, np.log((tpr - delta) / fpr), 0.0)

    return _largest(scores0, scores1, epsilon, confidence, method)


def mu_bound_all(
    scores0: ArrayLike, scores1: ArrayLike, confidence: float = 0.95, method: Method = "bonferroni"
) -> Bound:
    """Return a lower bound on mu, the largest over all thresholds.

    Parameters
    ----------
    scores0, scores1 : array of shape (runs,)
        Scores of independent runs on each of two neighbouring tables.
    confidence : float
        In (0, 1).
    method : `"bonferroni"` or `"dkw"`
        See the module.
    """

    def mu(tpr: Array, fpr: Array) -> Array:
        with np.errstate(invalid="ignore"):
            gap = ndtri(tpr) - ndtri(fpr)
        return np.where(np.isfinite(gap), gap, 0.0)

    return _largest(scores0, scores1, mu, confidence, method)


def curve_test_all(
    scores0: ArrayLike,
    scores1: ArrayLike,
    curve: Callable[[Array], Array],
    confidence: float = 0.95,
    method: Method = "bonferroni",
) -> Bound:
    """Return the largest margin over `curve`; above 0, `curve` is refuted.

    Parameters
    ----------
    scores0, scores1 : array of shape (runs,)
        Scores of independent runs on each of two neighbouring tables.
    curve : function of an array
        The largest true-positive rate at each false-positive rate, for both directions: `Claim.curve`.
    confidence : float
        In (0, 1).
    method : `"bonferroni"` or `"dkw"`
        See the module.
    """
    return _largest(scores0, scores1, lambda tpr, fpr: tpr - curve(fpr), confidence, method)


def _largest(scores0: ArrayLike, scores1: ArrayLike, value: Corner, confidence: float, method: str) -> Bound:
    alpha = 1 - checks.fraction("confidence", confidence)
    if method not in ("bonferroni", "dkw"):
        raise checks.refuse("method", method, '"bonferroni" or "dkw"')
    scores = checked_scores("scores0", scores0), checked_scores("scores1", scores1)
    best, answer = -math.inf, None
    for names in (1, 0):
        for above in (True, False):
            sign = 1.0 if above else -1.0
            named, other = np.sort(-sign * scores[names]), np.sort(-sign * scores[1 - names])
            places = ranks(len(other))
            # {sign * score > t}: how many of each are strictly beyond t, the k-th largest of `other`
            hits = np.searchsorted(named, other[places], "left")
            if method == "dkw":
                band = np.sqrt(math.log(4 / alpha) / (2 * np.array([len(named), len(other)])))
                tpr = np.maximum(hits / len(named) - band[0], 0.0)
                fpr = np.minimum(np.searchsorted(other, other[places], "left") / len(other) + band[1], 1.0)
            else:
                level = alpha / (8 * len(places))
                tpr = clopper_pearson_lower(hits, len(named), level)
                fpr = betainccinv(places + 1.0, len(other) - places, level)
            values = np.maximum(value(tpr, fpr), -1.0)
            top = int(np.argmax(values))
            if values[top] > best:
                best = float(values[top])
                beyond = math.nextafter(-float(other[places[top]]), math.inf)
                attack = Attack(0, sign * beyond, above, names)
                answer = Bound(best, attack, _rates(attack, scores), confidence)
    assert answer is not None
    return answer


def _rates(attack: Attack, scores: tuple[Array, Array]) -> Rates:
    return attack.rates(*scores)
