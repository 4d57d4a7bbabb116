"""The two-table audit of one mechanism: run it many times on two neighbouring values and try to tell them apart.

The answer is a lower bound on the privacy loss, next to what is claimed. Half of the question is how hard one
looks: the values are the hardest pair that is known for the mechanism (see `pairs`), and the report says how much
of the claim the audit was able to find.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from dp_accounting import DpEvent

from privfcd import checks
from privfcd.audits.claims import Claim
from privfcd.audits.estimators import (
    PILOT,
    Attack,
    Objective,
    Rates,
    choose_attack,
    curve_margin,
    curve_objective,
    epsilon_from_rates,
    epsilon_objective,
    mu_from_rates,
    mu_objective,
    mu_upper_from_rates,
    pure_epsilon_from_rates,
    roc,
)
from privfcd.audits.pairs import setup
from privfcd.audits.report import AuditReport, Witness
from privfcd.audits.scores import Array, Outputs, Score, as_outputs, has_to_be_printed, learn_scores
from privfcd.audits.setups import Pair, Setup
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoiseSource, NoiseStream, SimulatedNoise

_FIRST_CHUNK = 256
_CHUNK_BYTES = 2**21
_LEAST_RUNS = 50


def audit(
    mechanism: Any,
    claim: Claim | DpEvent | None = None,
    runs: int = 10**6,
    sensitivity: float = 1.0,
    confidence: float = 0.95,
    pair: Pair | None = None,
    noise: NoiseSource | None = None,
    alpha: float | None = None,
    *,
    monotone: bool = False,
    batched: bool = False,
) -> AuditReport:
    """Audit one release of a mechanism against a claim.

    Parameters
    ----------
    mechanism : Gaussian, Laplace, GumbelMax, AnalyticGaussian, or any mechanism or function
        A mechanism of one's own is a function f(value, stream) -> output, or an object with such a `release`; its
        output may be a number, an array of fixed shape, or anything else, which is compared by its printed form.
        One with `release_many(value, runs, stream)`, or a function with `batched`, is asked for many outputs at
        once (runs along the first axis), each of which must be independent.
    claim : Claim or dp_accounting.DpEvent, optional
        By default what `mechanism.event(sensitivity)` says.
    runs : int
        How often each of the two tables is run, at least 50 (on average: a fair coin picks the table of each run that
        is evaluated).
    sensitivity : float
        How far apart neighbouring values can be, in the mechanism's norm; above 0.
    confidence : float
        With which everything that the report states holds at once.
    pair : (value, value), optional
        Two neighbouring values. By default the hardest pair known; required for a mechanism of one's own.
    noise : NoiseSource, optional
        `SimulatedNoise(0)` by default. The audit is of the mechanism with this source and no other.
    alpha : float, optional
        1 - confidence, where that is easier to write.
    monotone : bool
        For `GumbelMax`: neighbours move all scores in the same direction.
    batched : bool
        `mechanism` is a function f(value, runs, stream) that returns that many outputs.

    Returns
    -------
    AuditReport
        `"violated"`: the claim is refuted at `confidence`. `"consistent"`: it is not, and the audit found at least
        half of what is claimed. `"inconclusive"`: it found less, so that a large fault could have gone unseen. None
        of these means that the mechanism is private.

    Notes
    -----
    Against a curve (Gaussian, selection, Laplace, compositions) there is one curve test and one bound on epsilon, and
    the error probability is divided between them (and `mu_upper` where there is one). An (epsilon, delta) claim about
    a mechanism that declares Gaussian noise is held against the curve of the Gaussian that just satisfies it: whoever
    leaves that curve has too little noise or noise that is not Gaussian.

    A million runs take about 0.2 s for scalar noise and for a selection, 10 s for a covariance, and a million calls
    for a function of one's own.
    """
    began = time.perf_counter()
    runs = checks.count("runs", runs, least=_LEAST_RUNS)
    sensitivity = checks.positive("sensitivity", sensitivity)
    alpha = 1 - checks.fraction("confidence", confidence) if alpha is None else checks.fraction("alpha", alpha)
    claim = _claim(mechanism, claim, sensitivity, monotone)
    source = SimulatedNoise(0) if noise is None else noise
    plan = setup(mechanism, sensitivity, runs, alpha, pair, monotone, batched)
    tests = claim_tests(claim, plan.gaussian)
    gaussian = tests[0].curve if tests[0].curve is not None and tests[0].curve.mu is not None else None
    level = alpha / (len(tests) + (gaussian is not None))  # mu_upper is a statement of its own

    streams = (source.stream(0), source.stream(1))
    pilot = math.ceil(PILOT * runs)
    rest, *outputs = _Runs(plan, streams).pilot(pilot)
    scores, pilots = _pilot_scores(plan, *outputs)
    attacks = [choose_attack(pilots, test.objective, level) for test in tests]
    found = _evaluate(rest, scores, attacks, _coin(source, runs - pilot))

    outcomes = [float(test.statistic(rates, level)) for test, rates in zip(tests, found, strict=True)]
    refuted = [outcome > test.limit for test, outcome in zip(tests, outcomes, strict=True)]
    decisive = refuted.index(True) if any(refuted) else 0
    return AuditReport(
        subject=_name(mechanism),
        claim=claim,
        bound=outcomes[-1],
        delta=claim.report_delta,
        mu_bound=float(mu_from_rates(found[0], level)) if gaussian else None,
        mu_upper=float(mu_upper_from_rates(found[0], level)) if gaussian else None,
        mu_claim=gaussian.mu if gaussian else None,
        confidence=1 - alpha,
        runs=runs,
        method="; ".join(test.name for test in tests) + f"; score: {plan.score_name}; pilot {PILOT:.0%}",
        refuted=any(refuted),
        witness=witness_of(plan.pair, attacks[decisive], found[decisive], tests[decisive], level),
        roc=roc(*pilots[attacks[0].score]),
        curve=tests[0].curve or claim,
        seconds=time.perf_counter() - began,
        noise=source.label,
    )


@dataclass(frozen=True)
class ClaimTest:
    """One statement that an audit makes: what the pilot maximises, what is certified, and what the claim allows."""

    name: str
    objective: Objective
    statistic: Objective
    limit: float
    curve: Claim | None = None


def claim_tests(claim: Claim, gaussian: bool) -> list[ClaimTest]:
    """Return what is tested of a claim; `gaussian` says that the mechanism declares its noise to be Gaussian."""
    delta = claim.report_delta
    # A loss that is certified to equal the claim does not refute it; rounding must not either.
    limit = claim.report_epsilon * (1 + 1e-12)
    if delta == 0:
        point = ClaimTest(
            "pure epsilon by the conditional binomial bound", epsilon_objective(0.0), pure_epsilon_from_rates, limit
        )
    else:
        point = ClaimTest(
            f"epsilon at delta = {delta:.3g} by Clopper-Pearson",
            epsilon_objective(delta),
            lambda rates, level: epsilon_from_rates(rates, delta, level),
            limit,
        )
    curve = claim.as_gaussian() if gaussian else claim
    if curve.epsilon is not None:
        return [point]
    whose = (
        "claimed trade-off curve"
        if curve is claim
        else f"curve of the Gaussian that the claim allows, mu = {curve.mu:.6g}"
    )
    test = ClaimTest(
        f"{whose} by Clopper-Pearson",
        mu_objective if curve.mu is not None else curve_objective(curve.curve),
        lambda rates, level: curve_margin(rates, curve.curve, level),
        1e-12,
        curve,
    )
    return [test, point]


def _claim(mechanism: Any, claim: Claim | DpEvent | None, sensitivity: float, monotone: bool) -> Claim:
    if isinstance(claim, Claim):
        return claim
    if isinstance(claim, DpEvent):
        return Claim.from_event(claim)
    if claim is not None:
        raise checks.refuse("claim", claim, "a Claim or a dp_accounting.DpEvent")
    if not hasattr(mechanism, "event"):
        raise InvalidParameter(f"claim must be given for {_name(mechanism)}, which has no `event` that states one")
    event = mechanism.event(sensitivity, monotone=True) if monotone else mechanism.event(sensitivity)
    return Claim.from_event(event)


@dataclass(frozen=True)
class _Runs:
    """Runs of both tables, drawn and turned into outputs a chunk at a time."""

    plan: Setup
    streams: tuple[NoiseStream, NoiseStream]
    printed: bool = False

    def chunks(self, world: int, runs: int) -> Iterator[Outputs]:
        """Yield outputs of `runs` runs; the first, small chunk tells how many fit into the next ones."""
        chunk = min(runs, _FIRST_CHUNK)
        while runs:
            values = self.plan.draw(self.plan.pair[world], chunk, self.streams[world])
            outputs = as_outputs(values, self.printed)
            yield outputs
            runs -= chunk
            chunk = min(runs, max(1, _CHUNK_BYTES * len(outputs) // max(outputs.nbytes, 1)))

    def pilot(self, runs: int) -> tuple[_Runs, Outputs, Outputs]:
        """Return the outputs of the first runs of each table, and the runs to go on with."""
        first = [
            self.plan.draw(value, runs, stream) for value, stream in zip(self.plan.pair, self.streams, strict=True)
        ]
        printed = any(has_to_be_printed(values) for values in first)
        return replace(self, printed=printed), as_outputs(first[0], printed), as_outputs(first[1], printed)


def _pilot_scores(plan: Setup, outputs0: Outputs, outputs1: Outputs) -> tuple[list[Score], list[tuple[Array, Array]]]:
    """Return the scores, and each score of the pilot runs that may choose among them."""
    scores = list(plan.exact)
    if plan.learn:
        half = len(outputs0) // 2
        scores += learn_scores(outputs0[:half], outputs1[:half])
        outputs0, outputs1 = outputs0[half:], outputs1[half:]
    return scores, [(score(outputs0), score(outputs1)) for score in scores]


def _evaluate(runs: _Runs, scores: Sequence[Score], attacks: Sequence[Attack], numbers: tuple[int, int]) -> list[Rates]:
    """Return each attack's rates on fresh runs, `numbers` of each table."""
    fired = np.zeros((2, len(attacks)), dtype=np.int64)
    for world, number in enumerate(numbers):
        for outputs in runs.chunks(world, number):
            scored = {index: scores[index](outputs) for index in {attack.score for attack in attacks}}
            fired[world] += [attack.fires(scored[attack.score]) for attack in attacks]
    return [attack.count((int(a), int(b)), numbers) for attack, (a, b) in zip(attacks, fired.T, strict=True)]


def _coin(source: NoiseSource, runs: int) -> tuple[int, int]:
    """Return how often each table is run when a fair coin picks the table of 2 `runs` runs."""
    entropy = source.stream(2).gaussian(np.zeros(4), 1.0).view(np.uint32)
    second = int(np.random.default_rng(entropy.tolist()).binomial(2 * runs, 0.5))
    return 2 * runs - second, second


def witness_of(pair: Pair, attack: Attack, rates: Rates, test: ClaimTest, level: float) -> Witness:
    """Return the attack behind a test, with its rates on the runs that did not choose it."""
    tpr, fpr = rates.corner(level)
    return Witness(
        pair=pair,
        attack=str(attack),
        test=test.name,
        hits=int(np.asarray(rates.hits)),
        trials=int(np.asarray(rates.trials)),
        false_hits=int(np.asarray(rates.false_hits)),
        false_trials=int(np.asarray(rates.false_trials)),
        true_positive_rate_at_least=float(tpr),
        false_positive_rate_at_most=float(fpr),
    )


def _name(mechanism: Any) -> str:
    name = getattr(mechanism, "__name__", None)
    return name if isinstance(name, str) else repr(mechanism)
