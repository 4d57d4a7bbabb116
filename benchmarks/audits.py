"""`python -m benchmarks audits`: how much of the truth the audits find, and how often they are wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import click
import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from benchmarks.common import run_parallel
from privfcd.accounting import gaussian_sigma, gdp_to_epsilon
from privfcd.accounting.roots import falling_root
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent
from privfcd.audits import Claim, Descent, audit, epsilon_bound, mu_bound, replay_scores, zcdp_bound
from privfcd.audits.algorithm import gaussian_mu
from privfcd.data.private import PrivateTable
from privfcd.mechanisms import AnalyticGaussian, Gaussian, GumbelMax, Laplace, SimulatedNoise

DELTA = 1e-5
SIGMA = gaussian_sigma(1.0, DELTA)
SELECTIONS, RANGE = 50, 0.2
UPDATES, MULTIPLIER = 8, 1.7
ALARM_RUNS = 10_000

Array = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True)
class Tightness:
    """One audit: the share of the truth that it found, and its time."""

    share: float
    seconds: float


def laplace(runs: int, seed: int) -> Tightness:
    """Return the share of epsilon = 1 that the audit of Laplace noise certifies."""
    report = audit(Laplace(1.0), Claim(epsilon=1.0), runs=runs, noise=SimulatedNoise(seed))
    return Tightness(report.bound, report.seconds)


def gaussian(runs: int, seed: int) -> Tightness:
    """Return the share of epsilon = 1 at 1e-5 that a bound on the Gaussian curve alone certifies."""
    stream = SimulatedNoise(seed).stream(0)
    scores0, scores1 = stream.gaussian(np.zeros(runs), SIGMA), stream.gaussian(np.ones(runs), SIGMA)
    began = time.perf_counter()
    mu = mu_bound(scores0, scores1).value
    return Tightness(gdp_to_epsilon(mu, DELTA), time.perf_counter() - began)


def gaussian_audit(runs: int, seed: int) -> Tightness:
    """Return the same for `audit`, where four statements share the error probability."""
    report = audit(Gaussian(SIGMA), Claim(epsilon=1.0, delta=DELTA), runs=runs, noise=SimulatedNoise(seed))
    return Tightness(report.model_epsilon or 0.0, report.seconds)


def gaussian_point(runs: int, seed: int) -> Tightness:
    """Return the share that a bound at the point delta = 1e-5 certifies, without any curve."""
    stream = SimulatedNoise(seed).stream(0)
    scores0, scores1 = stream.gaussian(np.zeros(runs), SIGMA), stream.gaussian(np.ones(runs), SIGMA)
    began = time.perf_counter()
    found = epsilon_bound(scores0, scores1, DELTA).value
    return Tightness(found, time.perf_counter() - began)


def selections(runs: int, seed: int) -> Tightness:
    """Return the share of the true pair's epsilon at 1e-5 for 50 selections of range 0.2.

    Among pairs of two candidates, repeated 50 times, the smallest range whose curve the attack's rates do not refute.
    """
    stream = SimulatedNoise(seed).stream(0)
    scores0, scores1 = (_counts(move, runs, stream) for move in (-RANGE / 2, RANGE / 2))
    began = time.perf_counter()
    rates = mu_bound(scores0, scores1).rates
    tpr, fpr = (float(rate) for rate in rates.corner(0.05))
    found = float(brentq(lambda range_: _pair_curve(range_, fpr) - tpr, 0.0, 5 * RANGE))
    share = selections_epsilon(found) / selections_epsilon(RANGE)
    return Tightness(share, time.perf_counter() - began)


def _counts(move: float, runs: int, stream: Any) -> Array:
    picks = stream.select_many(np.array([0.0, move]), 1.0, runs * SELECTIONS)
    return np.asarray(picks.reshape(runs, SELECTIONS).sum(axis=1), dtype=np.float64)


def _pair(range_: float) -> tuple[Array, Array]:
    """Return the laws of how often, of 50 selections, the candidate wins whose odds change by e^range."""
    counts = np.arange(SELECTIONS + 1)
    low, high = (1 / (1 + math.exp(-move)) for move in (-range_ / 2, range_ / 2))
    return binom.pmf(counts, SELECTIONS, low), binom.pmf(counts, SELECTIONS, high)


def _pair_curve(range_: float, fpr: float) -> float:
    """Return the largest true-positive rate of tests of that pair: the likelihood ratio rises with the count."""
    before, after = _pair(range_)
    return float(np.interp(fpr, np.append(0.0, np.cumsum(before[::-1])), np.append(0.0, np.cumsum(after[::-1]))))


def selections_epsilon(range_: float) -> float:
    """Return epsilon at 1e-5 of that pair, exactly."""
    before, after = _pair(range_)
    return falling_root(lambda e: float(np.maximum(after - math.exp(e) * before, 0.0).sum()), DELTA, 1.0)


def zcdp(runs: int, seed: int) -> Tightness:
    """Return the share of rho = 1/2 that the variational bound certifies for Gaussian noise."""
    stream = SimulatedNoise(seed).stream(0)
    ratios0, ratios1 = (stream.gaussian(np.full(runs, value), 1.0) - 0.5 for value in (0.0, 1.0))
    began = time.perf_counter()
    found = zcdp_bound(ratios0, ratios1).rho
    return Tightness(found / 0.5, time.perf_counter() - began)


def descent(runs: int, seed: int) -> Tightness:
    """Return the share of theory's mu for the descent of DP-Fed-Sparse-BNSL, replayed; time includes all runs."""
    subject = Descent(GreedyDescent((1e4, 1e4), 1.0, 0.1, 1.0, MULTIPLIER), UPDATES, 4)
    return _mu_share(subject, PrivateTable(np.zeros((4, 2)), bounds=50.0), subject.event(), runs, seed)


def party(runs: int, seed: int) -> Tightness:
    """Return the same for the party's half, from charge to finish, asked by a curious coordinator."""
    from privfcd.accounting import Budget, compose, gaussian_event, selection_event

    rounds = 2
    subject = FedSparseBNSL(
        rounds=rounds,
        updates=UPDATES // rounds,
        clip=1.0,
        step=1.0,
        smoothness=(1e4, 1e4),
        noise_multiplier=MULTIPLIER,
        center=False,
    )
    table = PrivateTable(np.zeros((500, 2)), bounds=50.0, budget=Budget(rho=10.0))
    event = compose([(selection_event(1.0, MULTIPLIER), UPDATES), (gaussian_event(1.0, MULTIPLIER), UPDATES)])
    return _mu_share(subject, table, event, runs, seed)


def _mu_share(subject: Any, table: PrivateTable, event: Any, runs: int, seed: int) -> Tightness:
    began = time.perf_counter()
    scores = replay_scores(subject, [table], runs, seed=seed)
    mu = gaussian_mu(event)
    assert mu is not None
    return Tightness(mu_bound(*scores).value / mu, time.perf_counter() - began)


@dataclass(frozen=True)
class Aim:
    """What is measured, and what share of the truth is asked for."""

    name: str
    measure: Callable[[int, int], Tightness]
    least: float
    slow: bool = False


AIMS = (
    Aim("Laplace, epsilon = 1", laplace, 0.99),
    Aim("Gaussian (1, 1e-5), the curve alone", gaussian, 0.97),
    Aim("Gaussian (1, 1e-5), audit()", gaussian_audit, 0.95),
    Aim("Gaussian (1, 1e-5), one point", gaussian_point, 0.65),
    Aim("50 selections, true pair", selections, 0.95),
    Aim("zCDP, rho = 1/2", zcdp, 0.94),
    Aim("DP-PGCD, replayed", descent, 0.95, slow=True),
    Aim("DP-Fed-Sparse-BNSL, a party's half", party, 0.95, slow=True),
)

RIGHT = {
    "Gaussian": Gaussian(SIGMA),
    "Laplace": Laplace(1.0),
    "selection": GumbelMax(2.0),
    "covariance": AnalyticGaussian(1.0),
    "Gaussian at a point": Gaussian(SIGMA),
}


def alarms(job: tuple[str, int, int, float]) -> int:
    """Return how many of so many audits of a right mechanism raise an alarm."""
    name, audits_of_it, seed, alpha = job
    claim = Claim(epsilon=1.0, delta=DELTA) if name.endswith("point") else None
    runs = ALARM_RUNS // 10 if name == "covariance" else ALARM_RUNS
    return sum(
        audit(RIGHT[name], claim, runs=runs, noise=SimulatedNoise(seed + one), alpha=alpha).refuted
        for one in range(audits_of_it)
    )


@click.command()
@click.option("--quick", is_flag=True, help="3 audits of each, a tenth of the runs.")
@click.option("--runs", type=click.IntRange(min=1000), default=10**6, show_default=True, help="Of each table.")
@click.option("--slow-runs", type=click.IntRange(min=100), default=6_000, show_default=True, help="Of DP-PGCD.")
@click.option("--repeats", type=click.IntRange(min=1), default=20, show_default=True, help="Audits; the median counts.")
@click.option("--slow-repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Audits of DP-PGCD.")
@click.option("--seed", type=click.IntRange(min=0), default=1000, show_default=True)
@click.option("--false-alarms", type=click.IntRange(min=0), default=0, help="Also so many audits of right mechanisms.")
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True)
def audits(
    quick: bool, runs: int, slow_runs: int, repeats: int, slow_repeats: int, seed: int, false_alarms: int, jobs: int
) -> None:
    """How tight the audits are, and with --false-alarms how often they are wrong.

    Exit code 1 if an aim is missed; with --quick nothing is aimed at.
    """
    if quick:
        runs, slow_runs, repeats, slow_repeats = runs // 10, 300, 3, 1
    print(
        f"{repeats} audits of {runs:,} runs of each table ({slow_repeats} of {slow_runs:,} for DP-PGCD), 95 % confidence"
    )
    print(f"{'what':38} {'median':>7} {'least':>7} {'aim':>6} {'seconds':>8}")
    fine = True
    for aim in AIMS:
        count, size = (slow_repeats, slow_runs) if aim.slow else (repeats, runs)
        found = [aim.measure(size, seed + one) for one in range(count)]
        share = median(one.share for one in found)
        fine &= share >= aim.least
        seconds = median(one.seconds for one in found)
        print(f"{aim.name:38} {share:7.3f} {min(one.share for one in found):7.3f} {aim.least:6.2f} {seconds:8.2f}")
    print(
        "shares of epsilon, of rho for zCDP and of mu for DP-PGCD; seconds of the audit, drawing included where replayed"
    )
    if false_alarms:
        fine &= _false_alarms(false_alarms, seed, jobs)
    if not (fine or quick):
        raise click.exceptions.Exit(1)


def _false_alarms(number: int, seed: int, jobs: int) -> bool:
    """Count alarms about right mechanisms at 1e-6 and at 1 %, and return whether they are as few as they should be."""
    fine = True
    for alpha in (1e-6, 0.01):
        work = [(name, -(-number // len(RIGHT)), seed, alpha) for name in RIGHT]
        raised = sum(run_parallel(alarms, work, jobs))
        audited = sum(job[1] for job in work)
        likely = float(binom.sf(raised - 1, audited, alpha))
        fine &= likely > 1e-3
        print(
            f"alpha = {alpha:g}: {raised} alarms in {audited:,} audits of right mechanisms (as many by chance: {likely:.2g})"
        )
    return fine
