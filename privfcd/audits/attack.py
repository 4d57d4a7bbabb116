"""The covariance attack: what a coordinator learns about one party's rows from its first messages.

Honest parties run a method on simulated tables, what passes is recorded, and the attacker works on the record alone: it
inverts Fed-BNSL's local step (see `reconstruction`), tests who was a member (see `membership`), and compares two runs
that differ in one record. Nothing here needs more than what a coordinator holds by right; for the membership test it
also knows the population's second moments.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import Budget
from privfcd.algorithms.fed_bnsl import FedBNSL, FedBNSLCoordinator, FedBNSLParty
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse.coordinator import FedSparseCoordinator
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.algorithms.recorded import RecordedFederation
from privfcd.algorithms.release import release_moments
from privfcd.algorithms.rounds import RoundRecord
from privfcd.audits.membership import MembershipReport, membership_test
from privfcd.audits.parallel import Progress
from privfcd.audits.reconstruction import (
    Exchange,
    added_record,
    exchanges_with,
    off_diagonal_correlation,
    reconstruct,
    relative_error,
)
from privfcd.audits.report import jsonable
from privfcd.data import PrivateTable
from privfcd.datasets.simulate import linear_gaussian
from privfcd.mechanisms import SimulatedNoise

Array = NDArray[np.float64]

METHODS = {
    "fed-bnsl": "dense B in double precision",
    "fed-bnsl-float32": "dense B in single precision",
    "fed-bnsl-fw": "sparse B by Frank-Wolfe steps",
    "fed-sparse-bnsl": "sparse B",
    "dp-fed-sparse-bnsl": "sparse B by noisy updates",
    "dp-fed-bnsl": "dense B of noisy second moments",
}
"""The methods that can be attacked, and what a party sends in each."""

_BOUND = 4.0
"""Private tables declare bounds of so many of the population's standard deviations, which are public here."""

_ROW_NORM = 2.0
"""DP-Fed-BNSL shortens rows to this many times the population's root mean square norm, public too."""


@dataclass(frozen=True)
class AttackReport:
    """What the attack on one method found.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    sent : str
        What a party's first message was.
    d, rows : int
        Columns and rows of the attacked party's table.
    epsilon, delta : float
        Each party's budget for its whole run, of which the first message spends a part; inf and 0 without privacy.
    entries : int
        How many numbers the first message had.
    relative_error : float
        Of the reconstructed second moments, in Frobenius norm; 1 is what a matrix of zeros has.
    off_diagonal_correlation : float
        Between reconstructed and true entries off the diagonal.
    membership : MembershipReport
        Of the party's rows against as many others.
    record_error : float
        Of the record by which two runs differ, relative to its norm, up to its sign.
    record_rank : float
        Share of as many outsiders that lie less in the direction of what was found than that record does: 1 picks it out
        of all of them, chance is a uniform number.
    seconds : float
    truth, found : ndarray of shape (d, d)
        The party's second moments, and their reconstruction.
    """

    method: str
    sent: str
    d: int
    rows: int
    epsilon: float
    delta: float
    entries: int
    relative_error: float
    off_diagonal_correlation: float
    membership: MembershipReport = field(repr=False)
    record_error: float
    record_rank: float
    seconds: float = field(compare=False)
    truth: Array = field(repr=False, compare=False)
    found: Array = field(repr=False, compare=False)

    @property
    def private(self) -> bool:
        """Whether the method claims any privacy."""
        return math.isfinite(self.epsilon)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-able values, without the matrices."""
        names = ("method", "sent", "d", "rows", "epsilon", "delta", "entries", "relative_error",
                 "off_diagonal_correlation", "record_error", "record_rank", "seconds")  # fmt: skip
        return {
            **{name: jsonable(getattr(self, name)) for name in names},
            "membership_auc": self.membership.auc,
            "membership_auc_sd": self.membership.auc_sd,
            "membership_auc_of_exact_moments": self.membership.expected_auc,
        }


def attack_covariance(
    d: int = 20,
    rows: int = 5000,
    methods: Sequence[str] | None = None,
    *,
    epsilon: float = 10.0,
    delta: float | None = None,
    parties: int = 2,
    rho2: float = 1.0,
    seed: int = 1,
    on_progress: Progress | None = None,
) -> list[AttackReport]:
    """Attack the first messages of federations of simulated tables.

    Parameters
    ----------
    d : int
        Columns, at least 2.
    rows : int
        Rows of each party, at least d + 1 (of tables of a party; see `reconstruction` for fewer rows than columns).
    methods : sequence of str, optional
        Of `METHODS`; all by default.
    epsilon, delta : float
        Budget of each party in the private methods; delta is 1 / rows² by default.
    parties : int
        How many take part. The first is attacked.
    rho2 : float
        Penalty of disagreement, public.
    seed : int
        Of the tables (see `simulate.linear_gaussian`) and of the simulated noise.
    on_progress : function of (done, total), optional
        Called after each method.

    Returns
    -------
    list of AttackReport
        One for each method.

    Raises
    ------
    InvalidParameter
        What is wrong; nothing was run.
    """
    chosen = list(METHODS) if methods is None else list(methods)
    for method in chosen:
        if method not in METHODS:
            raise checks.refuse("methods", method, "of " + ", ".join(METHODS))
    world = _world(
        checks.count("d", d, least=2),
        checks.count("rows", rows, least=d + 1),
        checks.count("parties", parties),
        checks.count("seed", seed, least=0),
    )
    rho2 = checks.moderate("rho2", rho2)
    budget = Budget(checks.positive("epsilon", epsilon), 1 / rows**2 if delta is None else delta)
    answers = []
    for method in chosen:
        answers.append(_attack(world, method, budget, rho2, seed))
        if on_progress is not None:
            on_progress(len(answers), len(chosen))
    return answers


@dataclass(frozen=True, eq=False)
class _World:
    """What is attacked: the parties' tables, as many rows of nobody, and what the attacker knows of the population."""

    tables: list[Array]
    outsiders: Array
    population: Array

    def without_last(self) -> list[Array]:
        """Return the tables as they would be without the first party's last record."""
        return [self.tables[0][:-1], *self.tables[1:]]


def _world(d: int, rows: int, parties: int, seed: int) -> _World:
    weights, tables = linear_gaussian(d, parties=parties + 1, rows=rows, seed=seed)
    spread = np.linalg.inv(np.eye(d) - weights)
    return _World(tables[:-1], tables[-1], spread.T @ spread)


def _attack(world: _World, method: str, budget: Budget, rho2: float, seed: int) -> AttackReport:
    began = time.perf_counter()
    private = method.startswith("dp-")
    run = _sparse_message if "sparse" in method else _dense_message
    table, record = world.tables[0], world.tables[0][-1]
    rows, d = table.shape
    spent = budget if private else None
    # A second run has noise of its own.
    seen, other = (
        run(tables, world, method, spent, rho2, number)
        for tables, number in ((world.tables, 2 * seed), (world.without_last(), 2 * seed + 1))
    )
    truth = table.T @ table / rows
    found, without = reconstruct([seen], rho2)[0], reconstruct([other], rho2)[0]
    revealed = added_record(without, rows - 1, found, rows)
    size = float(np.linalg.norm(record))
    error = min(float(np.linalg.norm(revealed - record)), float(np.linalg.norm(revealed + record))) / size
    return AttackReport(
        method=method,
        sent=METHODS[method],
        d=d,
        rows=rows,
        epsilon=float(budget.epsilon or 0.0) if private else math.inf,
        delta=float(budget.delta or 0.0) if private else 0.0,
        entries=int(np.count_nonzero(seen.local)),
        relative_error=relative_error(found, truth),
        off_diagonal_correlation=off_diagonal_correlation(found, truth),
        membership=membership_test(found, world.population, table, world.outsiders, rows),
        record_error=error,
        record_rank=_rank(revealed, record, world.outsiders),
        seconds=time.perf_counter() - began,
        truth=truth,
        found=found,
    )


def _rank(direction: Array, record: Array, others: Array) -> float:
    """Return the share of `others` at a larger angle to `direction` than `record` is."""
    cosines = np.abs(others @ direction) / np.linalg.norm(others, axis=1)
    return float(np.mean(cosines < abs(float(record @ direction)) / np.linalg.norm(record)))


def _tables(parts: Sequence[Array], world: _World, budget: Budget | None, seed: int) -> list[PrivateTable]:
    noise = SimulatedNoise(seed)
    bounds = None if budget is None else (_BOUND * np.sqrt(np.diag(world.population))).tolist()
    return [
        PrivateTable(part, name=f"party-{i}", budget=budget, noise=noise, bounds=bounds) for i, part in enumerate(parts)
    ]


class _FirstRoundOver(Exception):
    """Ends a recorded run once the attacker has what it needs."""


def _stop(record: RoundRecord) -> None:
    raise _FirstRoundOver


def _dense_message(
    parts: Sequence[Array], world: _World, method: str, budget: Budget | None, rho2: float, seed: int
) -> Exchange:
    """Return the first round of Fed-BNSL; what parties send in it does not depend on each other."""
    tables = _tables(parts[:1], world, budget, seed)
    if budget is None:
        release = release_moments(tables, method="exact", send=False, center=False)
    else:
        norm = _ROW_NORM * math.sqrt(float(np.trace(world.population)))
        release = release_moments(tables, method="covariance", send=False, row_norm=norm, center=False)
    model = FedBNSL(rho2=rho2, local_step="frank-wolfe" if method.endswith("fw") else "closed-form")
    federation = RecordedFederation.local([FedBNSLParty(tables[0].name, release.parts[0])])
    coordinator = FedBNSLCoordinator(model._settings(), tables[0].columns)
    with contextlib.suppress(_FirstRoundOver):
        coordinator.run(federation, _stop)
    exchange = exchanges_with(federation.transcript, 0)[0]
    if not method.endswith("float32"):
        return exchange
    return replace(exchange, local=exchange.local.astype(np.float32).astype(np.float64))


def _sparse_message(
    parts: Sequence[Array], world: _World, method: str, budget: Budget | None, rho2: float, seed: int
) -> Exchange:
    """Return the first round of Fed-Sparse-BNSL, of a run that was planned in full."""
    tables = _tables(parts, world, budget, seed)
    learner = FedSparseBNSL(rho2=rho2, center=False)
    settings = learner.settings_for(learner.facts_of(tables))
    federation = RecordedFederation.local([FedSparseParty(table, index) for index, table in enumerate(tables)])
    coordinator = FedSparseCoordinator(settings, tables[0].columns)
    with contextlib.suppress(_FirstRoundOver):
        coordinator.run(federation, coordinator.offer(federation), _stop)
    return exchanges_with(federation.transcript, 0)[0]
