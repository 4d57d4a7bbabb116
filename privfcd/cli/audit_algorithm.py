"""privfcd audit algorithm: a whole private method, from the first charge to the last answer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.commands import Command, option
from privfcd.cli.config import config_option
from privfcd.cli.options import json_option, quiet_option
from privfcd.cli.pictures import check_files, plot_option
from privfcd.cli.progress import progress
from privfcd.cli.verdict import end_with

if TYPE_CHECKING:
    from privfcd.accounting import Budget
    from privfcd.data import PrivateTable
    from privfcd.moments import Moments

METHODS = ("dp-pgcd", "dp-fed-sparse-bnsl", "dp-fed-bnsl", "covariance", "preconditioned")
RELEASES = ("covariance", "preconditioned")

MOST_PARTIES, MOST_RUNS, MOST_CELLS = 1000, 10**7, 5 * 10**7
"""More would exhaust a machine before it said anything."""

SMOOTHNESS = 1e4
"""Of dp-pgcd: large beside the canary's products, so that its steps do not hide what the next answers betray."""


def most_workers() -> int:
    """Return how many processes are allowed: those beyond the processors only take memory."""
    return max(8, os.cpu_count() or 1)


def covariance(tables: list[PrivateTable]) -> Moments:
    """Release the covariance of the tables' rows in one go."""
    from privfcd.algorithms.release import release_moments

    return release_moments(tables, method="covariance", center=False).moments


def preconditioned(tables: list[PrivateTable]) -> Moments:
    """Release the covariance of the tables' rows in rounds."""
    from privfcd.algorithms.release import release_moments

    return release_moments(tables, method="preconditioned", center=False).moments


@click.command(cls=Command)
@option("--method", type=click.Choice(METHODS), default=METHODS[0], show_default=True, help="What is audited.")
@option("--epsilon", type=float, default=5.0, show_default=True, help="Budget of each party.")
@option("--delta", type=float, default=None, show_default="1/rows²", help="Their delta.")
@option("--d", type=int, default=2, show_default=True, help="Columns.")
@option("--rows", type=int, default=100, show_default=True, help="Rows of each party.")
@option("--parties", type=int, default=1, show_default=True, help="How many; the first has the canary.")
@option("--bounds", type=float, default=50.0, show_default=True, help="Declared bound on |x| of all columns.")
@option("--rounds", type=int, default=2, show_default=True, help="Rounds of the methods that have some.")
@option("--updates", type=int, default=5, show_default=True, help="Of dp-pgcd and dp-fed-sparse-bnsl, a round.")
@option("--clip", type=float, default=None, help="C of the same; 1, and chosen by the run, by default.")
@option(
    "--attack", type=click.Choice(["replay", "black-box", "one-run"]), default="replay", show_default=True,
    help="Many runs with one canary, seen from inside or from outside; or one run with many canaries.",
)  # fmt: skip
@option(
    "--coordinator", type=click.Choice(["curious", "honest"]), default="curious", show_default=True,
    help="Whether dp-fed-sparse-bnsl is asked so as to learn more.",
)  # fmt: skip
@option("--runs", type=int, default=2000, show_default=True, help="Runs of each table.")
@option("--confidence", type=float, default=0.95, show_default=True, help="Of the lower bound.")
@option("--workers", type=int, default=1, show_default=True, help="Processes; they do not change the answer.")
@option("--seed", type=int, default=0, show_default=True, help="Of the runs and their simulated noise.")
@plot_option
@json_option
@config_option
@quiet_option
def algorithm(
    method: str,
    epsilon: float,
    delta: float | None,
    d: int,
    rows: int,
    parties: int,
    bounds: float,
    rounds: int,
    updates: int,
    clip: float | None,
    attack: str,
    coordinator: str,
    runs: int,
    confidence: float,
    workers: int,
    seed: int,
    plot: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """A whole method: does it leak more than was charged?

    It is run from the beginning on two tables that differ in the record that is hardest to hide. The measured bound stands
    beside every accountant's epsilon for what was charged. dp-pgcd is the private descent inside dp-fed-sparse-bnsl, on its
    own: fast, and at its sharpest. "one-run" is for the two releases of moments.

    \b
    Examples:
      privfcd audit algorithm
      privfcd audit algorithm --method dp-fed-sparse-bnsl --runs 500 --workers 2
      privfcd audit algorithm --method covariance --attack one-run --d 20 --rows 1000
    """
    from privfcd import checks

    one_run = attack == "one-run"
    if one_run and method not in RELEASES:
        raise click.UsageError(f"--attack one-run is for --method {' and '.join(RELEASES)}, got {method}")
    if one_run and plot is not None:
        raise click.UsageError("--plot draws rates over many runs: leave it out with --attack one-run")
    if one_run and parties != 1:
        raise click.UsageError(f"--attack one-run takes --parties 1, got {parties}")
    checks.count("d", d, least=2)
    checks.count("rows", rows, least=d)
    checks.count("parties", parties)
    limits = (("parties", parties, MOST_PARTIES), ("runs", runs, MOST_RUNS), ("workers", workers, most_workers()))
    for name, value, most in limits:
        if value > most:
            raise checks.refuse(name, value, f"at most {most:,}")
    if d * rows * parties > MOST_CELLS:
        raise checks.refuse("rows", rows, f"such that the parties' tables have at most {MOST_CELLS:,} cells in all")
    check_files(plot)
    from privfcd.accounting import Budget
    from privfcd.audits import audit_algorithm, audit_one_run

    stated = 1 / rows**2 if delta is None else delta
    budget = Budget(epsilon, stated)
    if method == "dp-pgcd":  # prices itself: the session that it opens is the only thing that is run
        subject: Any = _descent(epsilon, stated, d, rows, rounds * updates, clip)
        tables = _tables(d, rows, parties, bounds, None)
    else:
        subject = _subject(method, rounds, updates, clip)
        tables = _tables(d, rows, parties, bounds, budget)
    with progress("audit", quiet=as_json or quiet) as done:
        if one_run:
            end: Any = audit_one_run(subject, tables[0], confidence=confidence, seed=seed)
        else:
            end = audit_algorithm(
                subject, tables, method=attack, coordinator=coordinator, runs=runs, delta=stated, confidence=confidence,
                seed=seed, workers=workers, on_progress=done,
            )  # fmt: skip
    if plot is not None:
        from privfcd.reports import draw_audit

        draw_audit(end, plot)
    end_with(end, as_json, audited=method, d=d, rows=rows, parties=parties)


def _tables(d: int, rows: int, parties: int, bounds: float, budget: Budget | None) -> list[PrivateTable]:
    import numpy as np

    from privfcd.data import PrivateTable

    return [
        PrivateTable(np.zeros((rows, d)), name=f"party-{index}", budget=budget, bounds=bounds)
        for index in range(1, parties + 1)
    ]


def _descent(epsilon: float, delta: float, d: int, rows: int, updates: int, clip: float | None) -> Any:
    """Return the descent with the noise that so many selections and updates may have."""
    from privfcd.accounting import calibrate
    from privfcd.algorithms.fed_sparse.greedy import GreedyDescent
    from privfcd.audits.subjects import Descent

    plan = calibrate(epsilon, delta, selections=updates, gaussians=updates)
    assert plan.selection_scale is not None
    query = GreedyDescent((SMOOTHNESS,) * d, 1.0 if clip is None else clip, 0.1, 1.0, plan.selection_scale)
    return Descent(query, updates, rows)


def _subject(method: str, rounds: int, updates: int, clip: float | None) -> Any:
    from privfcd.algorithms import FedSparseBNSL
    from privfcd.algorithms.fed_bnsl import FedBNSL

    match method:
        case "dp-fed-sparse-bnsl":
            return FedSparseBNSL(rounds=rounds, updates=updates, clip=clip, center=False)
        case "dp-fed-bnsl":
            return FedBNSL(rounds=rounds, center=False)
    return covariance if method == "covariance" else preconditioned
