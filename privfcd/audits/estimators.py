"""Lower bounds on privacy loss from scores of runs on two neighbouring tables, with a finite-sample guarantee.

Two arrays of scores come in, one from each table ("world" 0 and 1). An attack is a threshold and two directions: it
fires on {score >= t} or on {score <= t}, and then names world 1 or world 0. The first part of the runs (the pilot)
chooses it, the rest evaluates that one attack, so that no correction for the search is owed afterwards. Within the
pilot every candidate is judged by its own bound at a level divided by the number of candidates, which keeps the
search from running after noise; this only concerns which attack is chosen, never the guarantee.

What is then certified, at level alpha, from exact (Clopper-Pearson) bounds on the attack's rates:

- (epsilon, delta): epsilon >= log((lower(TPR) - delta) / upper(FPR)).
- pure epsilon: of the runs in which the attack fires, the share p that came from the world it names is at most
  e^epsilon / (1 + e^epsilon), so epsilon >= logit(lower(p)). Exact where a fair coin picks the world of every run.
  For equal, fixed numbers of runs it is conservative (by enumeration the error stays below 0.71 alpha).
- a curve G: refuted where lower(TPR) > G(upper(FPR)).
- Gaussian mu: Phi^-1(lower(TPR)) - Phi^-1(upper(FPR)). It bounds mu of any mechanism that is mu-GDP; an epsilon
  that is computed from it holds only under the model that the mechanism's curve is a Gaussian one.

Sources: Clopper and Pearson 1934; Kairouz, Oh and Viswanath 2015; Jagielski, Ullman and Oprea 2020; Nasr et al. 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv, ndtri

from privfcd import checks
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]
PILOT = 0.2
"""Share of the runs that chooses the attack."""

_TAIL_RANKS = 32
_MIDDLE_RANKS = 33


def clopper_pearson_lower(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Array:
    """Return the exact lower confidence bound on a probability: above it at most a share `alpha` of the time.

    Parameters
    ----------
    successes, trials : array of whole numbers
        Of one shape; 0 <= successes <= trials.
    alpha : float
        In (0, 1).
    """
    k, n = _counts(successes, trials)
    alpha = checks.fraction("alpha", alpha)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), n - k + 1, alpha), 0.0)


def clopper_pearson_upper(successes: ArrayLike, trials: ArrayLike, alpha: float) -> Array:
    """Return the exact upper confidence bound on a probability: below it at most a share `alpha` of the time.

    Parameters
    ----------
    successes, trials : array of whole numbers
        Of one shape; 0 <= successes <= trials.
    alpha : float
        In (0, 1).
    """
    k, n = _counts(successes, trials)
    alpha = checks.fraction("alpha", alpha)
    return np.where(k < n, betainccinv(k + 1, np.maximum(n - k, 1), alpha), 1.0)


@dataclass(frozen=True)
class Rates:
    """How often an attack fired, in the world that it names and in the other; numbers or arrays of one shape."""

    hits: ArrayLike
    trials: ArrayLike
    false_hits: ArrayLike
    false_trials: ArrayLike

    def swapped(self) -> Rates:
        """Return the rates of the attack that names the other world."""
        return Rates(self.false_hits, self.false_trials, self.hits, self.trials)

    def corner(self, alpha: float) -> tuple[Array, Array]:
        """Return lower(TPR) and upper(FPR), both of which hold at once except with probability `alpha`."""
        tpr = clopper_pearson_lower(self.hits, self.trials, alpha / 2)
        return tpr, clopper_pearson_upper(self.false_hits, self.false_trials, alpha / 2)

    def opposite_corner(self, alpha: float) -> tuple[Array, Array]:
        """Return upper(TPR) and lower(FPR), both of which hold at once except with probability `alpha`."""
        tpr = clopper_pearson_upper(self.hits, self.trials, alpha / 2)
        return tpr, clopper_pearson_lower(self.false_hits, self.false_trials, alpha / 2)


def epsilon_from_rates(rates: Rates, delta: float, alpha: float) -> Array:
    """Return the certified epsilon at `delta`, at least 0."""
    return np.maximum(_log_ratio(rates, delta, alpha), 0.0)


def pure_epsilon_from_rates(rates: Rates, alpha: float) -> Array:
    """Return the certified pure epsilon, at least 0; runs in both worlds equal in number, or picked by a fair coin."""
    return np.maximum(_log_odds(rates, alpha), 0.0)


def mu_from_rates(rates: Rates, alpha: float) -> Array:
    """Return the certified mu, at least 0."""
    return np.maximum(mu_objective(rates, alpha), 0.0)


def mu_upper_from_rates(rates: Rates, alpha: float) -> Array:
    """Return an upper bound on the mu of this pair, if its curve is Gaussian; inf without evidence."""
    tpr, fpr = rates.opposite_corner(alpha)
    return _quantile_gap(tpr, fpr)


def curve_margin(rates: Rates, curve: Callable[[Array], Array], alpha: float) -> Array:
    """Return lower(TPR) - G(upper(FPR)): above 0 the curve is refuted."""
    tpr, fpr = rates.corner(alpha)
    return np.asarray(tpr - curve(fpr))


@dataclass(frozen=True)
class Attack:
    """A threshold on a score.

    Attributes
    ----------
    score : int
        Which of the scores that were offered.
    threshold : float
    above : bool
        Whether it fires on {score >= threshold} or on {score <= threshold}.
    names : int
        Which world it then names, 0 or 1.
    """

    score: int
    threshold: float
    above: bool
    names: int

    def fires(self, scores: Array) -> int:
        """Return on how many of `scores` the attack fires."""
        hit = scores >= self.threshold if self.above else scores <= self.threshold
        return int(np.count_nonzero(hit))

    def centred(self, scores0: Array, scores1: Array) -> Attack:
        """Return this attack with its threshold halfway to the next score that it does not fire on.

        It fires on the same of these scores, and has room for others that are a little beyond the last of them.
        """
        scores = np.concatenate([scores0, scores1])
        spared = scores[scores < self.threshold] if self.above else scores[scores > self.threshold]
        if not len(spared):
            return self
        nearest = float(spared.max() if self.above else spared.min())
        middle = nearest + (self.threshold - nearest) / 2
        return self if middle == nearest or not math.isfinite(middle) else replace(self, threshold=middle)

    def rates(self, scores0: Array, scores1: Array) -> Rates:
        """Return the attack's rates on scores from world 0 and world 1."""
        return self.count((self.fires(scores0), self.fires(scores1)), (len(scores0), len(scores1)))

    def count(self, fired: tuple[int, int], runs: tuple[int, int]) -> Rates:
        """Return the attack's rates, given how often it fired on each world's runs."""
        other = 1 - self.names
        return Rates(fired[self.names], runs[self.names], fired[other], runs[other])

    def __str__(self) -> str:
        return f"score {'>=' if self.above else '<='} {self.threshold:.6g}, read as table {self.names}"


Objective = Callable[[Rates, float], Array]


def epsilon_objective(delta: float) -> Objective:
    """Return what the pilot maximises for an epsilon bound at `delta`: the bound, which may be below 0 there."""
    return _log_odds if delta == 0 else lambda rates, alpha: _log_ratio(rates, delta, alpha)


def mu_objective(rates: Rates, alpha: float) -> Array:
    """Return what the pilot maximises for a mu bound: the bound, which may be below 0 there."""
    tpr, fpr = rates.corner(alpha)
    return _quantile_gap(tpr, fpr)


def curve_objective(curve: Callable[[Array], Array]) -> Objective:
    """Return what the pilot maximises for a curve test: the margin in units of its own uncertainty."""

    def objective(rates: Rates, alpha: float) -> Array:
        tpr, fpr = rates.corner(alpha)
        tpr_up, fpr_low = rates.opposite_corner(alpha)
        allowed = curve(fpr)
        width = (tpr_up - tpr) + (allowed - curve(fpr_low))
        return np.asarray((tpr - allowed) / np.maximum(width, 1e-300))

    return objective


def choose_attack(pilots: Sequence[tuple[Array, Array]], objective: Objective, alpha: float) -> Attack:
    """Return the attack with the largest objective on the pilot runs.

    Parameters
    ----------
    pilots : sequence of (scores of world 0, scores of world 1)
        One pair for each kind of score.
    objective : function of Rates and a level
        Called with the level alpha / (number of candidates).
    alpha : float
        In (0, 1).
    """
    offered = [_candidates(*pair) for pair in pilots]
    number = sum(4 * len(thresholds) for thresholds, _, _ in offered)
    best, answer = -math.inf, Attack(0, float(offered[0][0][0]), True, 1)
    for index, (thresholds, above, below) in enumerate(offered):
        for is_above, rates in ((True, above), (False, below)):
            for names, named in ((1, rates), (0, rates.swapped())):
                values = objective(named, alpha / number)
                top = int(np.argmax(values))
                if values[top] > best:
                    best, answer = float(values[top]), Attack(index, float(thresholds[top]), is_above, names)
    return answer.centred(*pilots[answer.score])


def roc(scores0: Array, scores1: Array) -> tuple[Array, Array]:
    """Return false- and true-positive rates of {score >= t} for thresholds over the whole range."""
    _, above, _ = _candidates(scores0, scores1)
    fpr = np.asarray(above.false_hits)[::-1] / len(scores0)
    tpr = np.asarray(above.hits)[::-1] / len(scores1)
    return np.concatenate([[0.0], fpr, [1.0]]), np.concatenate([[0.0], tpr, [1.0]])


@dataclass(frozen=True)
class Bound:
    """A certified bound, the attack behind it and that attack's rates on the runs that did not choose it.

    Attributes
    ----------
    value : float
        The bound.
    attack : Attack
        When it fires, and what it then says.
    rates : Rates
        How often it fired on each table.
    confidence : float
        Probability with which the bound holds.
    """

    value: float
    attack: Attack
    rates: Rates
    confidence: float


def epsilon_bound(
    scores0: ArrayLike, scores1: ArrayLike, delta: float = 0.0, confidence: float = 0.95, pilot: float = PILOT
) -> Bound:
    """Return a lower bound on epsilon at `delta` that holds with probability `confidence`.

    Parameters
    ----------
    scores0, scores1 : array of shape (runs,)
        Scores of independent runs on each of two neighbouring tables. At delta = 0 their numbers must be equal, or
        a fair coin must have picked the table of every run.
    delta : float
        In [0, 1).
    confidence, pilot : float
        In (0, 1); `pilot` is the share of the runs that chooses the attack.
    """
    delta = checks.delta("delta", delta)

    def statistic(rates: Rates, alpha: float) -> Array:
        return epsilon_from_rates(rates, delta, alpha) if delta else pure_epsilon_from_rates(rates, alpha)

    return _bound(scores0, scores1, epsilon_objective(delta), statistic, confidence, pilot)


def mu_bound(scores0: ArrayLike, scores1: ArrayLike, confidence: float = 0.95, pilot: float = PILOT) -> Bound:
    """Return a lower bound on the mu of Gaussian differential privacy that holds with probability `confidence`.

    Parameters
    ----------
    scores0, scores1 : array of shape (runs,)
        Scores of independent runs on each of two neighbouring tables.
    confidence, pilot : float
        In (0, 1); `pilot` is the share of the runs that chooses the attack.
    """
    return _bound(scores0, scores1, mu_objective, mu_from_rates, confidence, pilot)


def curve_test(
    scores0: ArrayLike,
    scores1: ArrayLike,
    curve: Callable[[Array], Array],
    confidence: float = 0.95,
    pilot: float = PILOT,
) -> Bound:
    """Return lower(TPR) - G(upper(FPR)) of the best attack: above 0, `curve` is refuted at `confidence`.

    Parameters
    ----------
    scores0, scores1 : array of shape (runs,)
        Scores of independent runs on each of two neighbouring tables.
    curve : function of an array
        The largest true-positive rate at each false-positive rate, for both directions: `Claim.curve`.
    confidence, pilot : float
        In (0, 1); `pilot` is the share of the runs that chooses the attack.
    """
    return _bound(
        scores0,
        scores1,
        curve_objective(curve),
        lambda rates, alpha: curve_margin(rates, curve, alpha),
        confidence,
        pilot,
    )


def _bound(
    scores0: ArrayLike,
    scores1: ArrayLike,
    objective: Objective,
    statistic: Objective,
    confidence: float,
    pilot: float,
) -> Bound:
    confidence = checks.fraction("confidence", confidence)
    first, second = checked_scores("scores0", scores0), checked_scores("scores1", scores1)
    cut = pilot_size((first, second), pilot)
    alpha = 1 - confidence
    attack = choose_attack([(first[:cut], second[:cut])], objective, alpha)
    rates = attack.rates(first[cut:], second[cut:])
    return Bound(float(statistic(rates, alpha)), attack, rates, confidence)


def _candidates(scores0: Array, scores1: Array) -> tuple[Array, Rates, Rates]:
    """Return thresholds, dense in both tails, and at each the rates of {>=} and of {<=}, naming world 1."""
    sorted0, sorted1 = np.sort(scores0), np.sort(scores1)
    n0, n1 = len(sorted0), len(sorted1)
    thresholds = np.unique(np.concatenate([sorted0[ranks(n0)], sorted1[ranks(n1)]]))
    below0, below1 = (np.searchsorted(s, thresholds, "left") for s in (sorted0, sorted1))
    upto0, upto1 = (np.searchsorted(s, thresholds, "right") for s in (sorted0, sorted1))
    return thresholds, Rates(n1 - below1, n1, n0 - below0, n0), Rates(upto1, n1, upto0, n0)


def ranks(n: int) -> NDArray[np.int64]:
    """Return places in a sorted row of `n` scores, dense in both tails."""
    tail = np.geomspace(1, max(n / 2, 1), _TAIL_RANKS)
    middle = np.linspace(1, n, _MIDDLE_RANKS)
    return np.unique(np.rint(np.concatenate([tail, n + 1 - tail, middle])).astype(np.int64)) - 1


def pilot_size(scores: tuple[Array, Array], pilot: float) -> int:
    """Return how many runs of each table are the pilot, and leave some to evaluate."""
    share, runs = checks.fraction("pilot", pilot), min(len(scores[0]), len(scores[1]))
    size = math.ceil(runs * share)
    if size >= runs:
        raise InvalidParameter(f"pilot must leave runs to evaluate, got {pilot!r} of {runs}")
    return size


def checked_scores(name: str, values: ArrayLike) -> Array:
    """Return scores as an array of shape (runs,), refused where they cannot be compared."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) < 2 or np.isnan(array).any():
        raise checks.refuse(
            name, f"an array of shape {array.shape}", "at least two scores in one row, none of them NaN"
        )
    return array


def _counts(successes: ArrayLike, trials: ArrayLike) -> tuple[Array, Array]:
    k, n = np.asarray(successes, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    if not ((k >= 0) & (k <= n)).all():
        raise checks.refuse("successes", successes, "between 0 and the number of trials")
    return k, n


def _log_ratio(rates: Rates, delta: float, alpha: float) -> Array:
    tpr, fpr = rates.corner(alpha)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(tpr > delta, np.log((tpr - delta) / fpr), -np.inf)


def _log_odds(rates: Rates, alpha: float) -> Array:
    hits = np.asarray(rates.hits)
    share = clopper_pearson_lower(hits, hits + np.asarray(rates.false_hits), alpha)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(share) - np.log1p(-share))


def _quantile_gap(high: Array, low: Array) -> Array:
    with np.errstate(invalid="ignore"):
        gap = ndtri(high) - ndtri(low)
    return np.where(np.isnan(gap), 0.0, gap)
