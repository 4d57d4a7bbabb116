"""The audit of a whole algorithm: many runs with one canary, or one run with many.

Two tables that differ in one record are run again and again, each time from the beginning: setup releases, charges,
rounds. The canary is the record that is hardest to hide, the background is zero, and the rows of the tables that are
given are never read: only their public side is used.

- `"replay"`, white box: the score of a run is the exact log-likelihood ratio of everything that was drawn from the noise
  source, found by replaying the answers on the other table (see `transcripts`). It sees what the privacy proof has to
  cover: every noisy answer inside the party, not only what is sent.
- `"black-box"`: the score is learnt from what the subject returns.

For one run with many canaries, which suits releases of many numbers, see `one_release.audit_one_run`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, UnsupportedEventError
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.accounting import BoundedRangeDpEvent, ZCDPAccountant, epsilon_of, gdp_to_epsilon, leaves
from privfcd.accounting.registry import ACCOUNTANTS
from privfcd.audits.canaries import Template, checked_canary, worst_canary
from privfcd.audits.claims import Claim
from privfcd.audits.estimators import (
    PILOT,
    choose_attack,
    mu_from_rates,
    mu_objective,
    roc,
)
from privfcd.audits.mechanisms import claim_tests, witness_of
from privfcd.audits.parallel import Progress, in_batches
from privfcd.audits.replays import Task, black_box_batch, dry_run, replay_batch
from privfcd.audits.report import AuditReport, jsonable
from privfcd.audits.scores import as_outputs, has_to_be_printed, learn_scores
from privfcd.audits.subjects import subject_of
from privfcd.audits.zcdp_bound import zcdp_bound
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoiseSource

Array = NDArray[np.float64]
Scores = tuple[Array, Array]

_LEAST_RUNS = 50
_BATCH = 100


@dataclass(frozen=True)
class AlgorithmReport(AuditReport):
    """What an audit of a whole algorithm found, beside what the accountants say.

    Attributes
    ----------
    accountants : dict of str to float
        Epsilon at `delta` of what was charged, by each accountant that can price it, and `"gdp"`: of the Gaussian
        mechanism with the same mu, which is what no accountant can be below where selections leak as much as they may.
    rho_bound : float or None
        Certified lower bound on rho of zCDP; None without likelihood ratios.
    rho_charged : float
        What was charged, in zCDP; inf where it has no rho.
    """

    accountants: dict[str, float] = field(kw_only=True)
    rho_bound: float | None = field(kw_only=True)
    rho_charged: float = field(kw_only=True)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values."""
        extra = {
            "accountants": {name: jsonable(value) for name, value in self.accountants.items()},
            "rho_at_least": jsonable(self.rho_bound),
            "rho_charged": jsonable(self.rho_charged),
        }
        return super().as_dict() | extra

    def __str__(self) -> str:
        lines = super().__str__().split("\n")
        stated = ", ".join(f"{name} {value:.4g}" for name, value in self.accountants.items())
        added = [f"  accountants epsilon at delta = {self.delta:.3g} of what was charged: {stated}"]
        if self.rho_bound is not None:
            added.append(f"  zCDP        rho >= {self.rho_bound:.4g} of {self.rho_charged:.4g} charged")
        return "\n".join([*lines[:3], *added, *lines[3:]])


def audit_algorithm(
    subject: Any,
    tables: Sequence[PrivateTable],
    *,
    canary: tuple[ArrayLike, ArrayLike] | None = None,
    background: Sequence[ArrayLike] | None = None,
    party: int = 0,
    method: str = "replay",
    coordinator: str = "curious",
    runs: int = 2000,
    claim: Claim | DpEvent | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    alpha: float | None = None,
    noise: NoiseSource | None = None,
    seed: int = 0,
    workers: int = 1,
    on_progress: Progress | None = None,
) -> AlgorithmReport:
    """Audit a whole algorithm against what it charges.

    Parameters
    ----------
    subject : Estimator, function or Subject
        An estimator that is fitted to the tables; or a function of a list of tables that returns what it releases
        (importable by name where there are several workers); or a `Subject`.
    tables : sequence of PrivateTable
        One for each party. Only what is public of them is used: shape, names, bounds, budget, relation. Their rows are
        not read and their ledgers not charged.
    canary : (record, record), optional
        What the first row is in table 0 and in table 1. By default the worst known for products of columns (see
        `canaries`). Where records are added or removed, table 0 has zeros instead.
    background : sequence of array, optional
        All parties' rows; zeros by default.
    party : int
        Which party has the canary.
    method : `"replay"` or `"black-box"`
        See the module.
    coordinator : `"curious"` or `"honest"`
        For DP-Fed-Sparse-BNSL: whether the audited party is asked by a coordinator that chooses what it sends so as to
        learn more, or the whole federation runs.
    runs : int
        Of each table, at least 50.
    claim : Claim or dp_accounting.DpEvent, optional
        By default what the party's ledger was charged in one run.
    delta : float, optional
        Where epsilon is stated; by default the budget's, or 1e-6.
    confidence, alpha : float
        Of all bounds together; alpha = 1 - confidence where that is easier to write.
    noise : NoiseSource, optional
        Simulated noise by default, with streams from `seed`.
    seed : int
        At least 0; also of the simulated noise of every run.
    workers : int
        Processes. The answer does not depend on their number.
    on_progress : function of (done, total), optional
        Called with runs.

    Returns
    -------
    AlgorithmReport
        `mu_bound` stands beside the mu of the Gaussian mechanism that leaks as much as was charged, if all charges are
        Gaussian or selections; it is model-based.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted, or the subject or its tables cannot be audited in this way.
    """
    began = time.perf_counter()
    runs = checks.count("runs", runs, least=_LEAST_RUNS)
    alpha = 1 - checks.fraction("confidence", confidence) if alpha is None else checks.fraction("alpha", alpha)
    if method not in ("replay", "black-box"):
        raise checks.refuse("method", method, '"replay" or "black-box"; for one run see audit_one_run')
    checks.count("seed", seed, least=0)
    task = make_task(subject, tables, canary, background, party, coordinator, noise)
    charged = dry_run(task, seed)
    delta = _delta(delta, task.templates[party])
    claim = _claim(claim, charged, delta)
    pilot = math.ceil(PILOT * runs)
    if method == "replay":
        scores = _replayed(task, runs, seed, workers, on_progress)
        pilots, rests = [_part(scores, slice(pilot))], [_part(scores, slice(pilot, None))]
    else:
        jobs, sizes = _jobs(task, runs, seed)
        released = in_batches(black_box_batch, jobs, sizes, workers, on_progress)
        half = len(released) // 2
        pilots, rests = _learnt([list(chain.from_iterable(part)) for part in (released[:half], released[half:])], pilot)
    return _judged(task, claim, charged, delta, alpha, runs, pilots, rests, method, time.perf_counter() - began)


def replay_scores(
    subject: Any,
    tables: Sequence[PrivateTable],
    runs: int,
    *,
    seed: int = 0,
    canary: tuple[ArrayLike, ArrayLike] | None = None,
    coordinator: str = "curious",
    workers: int = 1,
    on_progress: Progress | None = None,
) -> Scores:
    """Return the log-likelihood ratios, table 1 over table 0, of runs on table 0 and on table 1.

    For bounds of one's own, such as `mu_bound` or `zcdp_bound`.

    Parameters
    ----------
    subject, tables, runs
        As of `audit_algorithm`.
    seed, canary, coordinator, workers, on_progress
        As of `audit_algorithm`.
    """
    task = make_task(subject, tables, canary, None, 0, coordinator, None)
    return _replayed(task, checks.count("runs", runs), checks.count("seed", seed, least=0), workers, on_progress)


def make_task(
    subject: Any,
    tables: Sequence[PrivateTable],
    canary: tuple[ArrayLike, ArrayLike] | None,
    background: Sequence[ArrayLike] | None,
    party: int,
    coordinator: str,
    noise: NoiseSource | None,
) -> Task:
    """Return the pair of worlds that an audit compares; see `audit_algorithm`."""
    if isinstance(tables, PrivateTable) or not isinstance(tables, Sequence) or not tables:
        raise checks.refuse("tables", type(tables).__name__, "a non-empty list of PrivateTable")
    templates = tuple(Template.of(table) for table in tables)
    party = checks.count("party", party, least=0)
    if party >= len(templates):
        raise checks.refuse("party", party, f"below the number of tables, {len(templates)}")
    if background is not None and len(background) != len(templates):
        raise InvalidParameter(f"background must have rows for each of {len(templates)} parties, got {len(background)}")
    d = len(templates[party].columns)
    pair = worst_canary(templates[party].bounds, d) if canary is None else checked_canary(canary, d)
    rows = [None if background is None else np.array(background[index], dtype=float) for index in range(len(templates))]
    others = tuple(
        np.zeros((one.rows, len(one.columns))) if given is None else given
        for one, given in zip(templates, rows, strict=True)
    )
    worlds = templates[party].worlds(pair, rows[party])
    return Task(subject_of(subject, coordinator), templates, party, worlds, others, noise)


def gaussian_mu(event: DpEvent) -> float | None:
    """Return mu of the Gaussian mechanism that leaks what Gaussian noise and selections of this event may leak.

    sqrt(sum 1/z² + sum eta²/4): exact for Gaussian noise; for selections with small eta it is their central limit.
    None where there are other releases.
    """
    squares = []
    for leaf, count in leaves(event):
        if isinstance(leaf, GaussianDpEvent) and leaf.noise_multiplier > 0:
            squares.append(count / leaf.noise_multiplier**2)
        elif isinstance(leaf, BoundedRangeDpEvent):
            squares.append(count * leaf.eta**2 / 4)
        else:
            return None
    return math.sqrt(math.fsum(squares))


def accountants_epsilons(event: DpEvent, delta: float) -> dict[str, float]:
    """Return epsilon at `delta` by every accountant that can price the event, and by `gaussian_mu`."""
    answer = {}
    for name in ACCOUNTANTS:
        if name == "pure" and delta:
            continue
        try:
            answer[name] = epsilon_of(event, delta, name)
        except UnsupportedEventError:
            continue
    mu = gaussian_mu(event)
    if mu is not None and delta:
        answer["gdp"] = gdp_to_epsilon(mu, delta)
    return answer


def _jobs(task: Task, runs: int, seed: int) -> tuple[list[tuple[Task, int, list[int]]], list[int]]:
    """Return batches of runs of table 0, then of table 1, with a seed for every run."""
    jobs, sizes = [], []
    for world in (0, 1):
        seeds = np.random.SeedSequence(seed, spawn_key=(world,)).generate_state(runs, np.uint64)
        for start in range(0, runs, _BATCH):
            batch = [int(one) for one in seeds[start : start + _BATCH]]
            jobs.append((task, world, batch))
            sizes.append(len(batch))
    return jobs, sizes


def _replayed(task: Task, runs: int, seed: int, workers: int, on_progress: Progress | None) -> Scores:
    jobs, sizes = _jobs(task, runs, seed)
    ratios = in_batches(replay_batch, jobs, sizes, workers, on_progress)
    half = len(ratios) // 2
    return np.concatenate(ratios[:half]), np.concatenate(ratios[half:])


def _part(scores: Scores, part: slice) -> Scores:
    return scores[0][part], scores[1][part]


def _learnt(released: list[list[Any]], pilot: int) -> tuple[list[Scores], list[Scores]]:
    """Learn scores from the first half of the pilot; the second half chooses among them."""
    printed = any(has_to_be_printed(values) or len({np.shape(one) for one in values}) > 1 for values in released)
    outputs = [as_outputs(values, printed) for values in released]
    half = pilot // 2
    scores = learn_scores(outputs[0][:half], outputs[1][:half])
    parts = (slice(half, pilot), slice(pilot, None))
    pilots, rests = ([(score(outputs[0][part]), score(outputs[1][part])) for score in scores] for part in parts)
    return pilots, rests


def _judged(
    task: Task,
    claim: Claim,
    charged: DpEvent,
    delta: float,
    alpha: float,
    runs: int,
    pilots: list[Scores],
    rests: list[Scores],
    method: str,
    seconds: float,
) -> AlgorithmReport:
    tests = claim_tests(claim, gaussian=False)
    mu = claim.mu if claim.mu is not None else gaussian_mu(charged)
    replayed = method == "replay"
    level = alpha / (len(tests) + (mu is not None) + replayed)
    attacks = [choose_attack(pilots, test.objective, level) for test in tests]
    found = [attack.rates(*rests[attack.score]) for attack in attacks]
    outcomes = [float(test.statistic(rates, level)) for test, rates in zip(tests, found, strict=True)]
    refuted = [outcome > test.limit for test, outcome in zip(tests, outcomes, strict=True)]
    mu_found = None
    if mu is not None:
        attack = choose_attack(pilots, mu_objective, level)
        mu_found = float(mu_from_rates(attack.rates(*rests[attack.score]), level))
    rho_found = None
    if replayed:
        ratios0, ratios1 = (np.concatenate(pair) for pair in zip(pilots[0], rests[0], strict=True))
        rho_found = zcdp_bound(ratios0, ratios1, confidence=1 - level).rho
    decisive = refuted.index(True) if any(refuted) else 0
    score = "exact log-likelihood ratio of the replayed transcript" if replayed else "learnt from the pilot"
    names = "; ".join(test.name for test in tests)
    return AlgorithmReport(
        subject=task.subject.name,
        claim=claim,
        bound=outcomes[-1],
        delta=claim.report_delta,
        mu_bound=mu_found,
        mu_upper=None,
        mu_claim=mu,
        confidence=1 - alpha,
        runs=runs,
        method=f"{names}; many runs, {method}; score: {score}; pilot {PILOT:.0%}",
        refuted=any(refuted),
        witness=witness_of(task.worlds, attacks[decisive], found[decisive], tests[decisive], level),
        roc=roc(*pilots[attacks[0].score]),
        curve=tests[0].curve or claim,
        seconds=seconds,
        noise=task.noise_label,
        accountants=accountants_epsilons(charged, delta),
        rho_bound=rho_found,
        rho_charged=_rho(charged),
    )


def _rho(event: DpEvent) -> float:
    try:
        return float(ZCDPAccountant().compose(event).rho)
    except UnsupportedEventError:
        return math.inf


def _delta(delta: float | None, template: Template) -> float:
    if delta is not None:
        return checks.delta("delta", delta)
    budget = template.budget
    if budget is not None and budget.delta:
        return float(budget.delta)
    return 1e-6


def _claim(claim: Claim | DpEvent | None, charged: DpEvent, delta: float) -> Claim:
    if isinstance(claim, Claim):
        return claim
    if claim is not None and not isinstance(claim, DpEvent):
        raise checks.refuse("claim", claim, "a Claim or a dp_accounting.DpEvent")
    return Claim.from_event(charged if claim is None else claim, delta)
