"""One private release of second moments, and what can be learnt from it: against epsilon, at its limits, and its speed."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import click

from benchmarks.moments_grid import show_grid
from benchmarks.moments_limits import accuracy, budgeted_tables, limit_settings, show_limits
from benchmarks.moments_speed import show_speed
from benchmarks.paper.experiments import METHODS, PARTIES, ROWS, Outcome
from benchmarks.paper.output import Sink, finish, grouped, print_table, study_options
from benchmarks.paper.pictures import draw_lines, lines_over
from benchmarks.progress import with_progress

EPSILONS = {20: (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0), 200: (1.0, 2.0, 3.0, 5.0, 10.0)}
QUICK_EPSILONS = {20: (0.5, 5.0)}
COORDINATE_EPSILONS = {20: (0.5, 1.0, 2.0, 5.0, 10.0), 200: (10.0,)}
"""Where DP-Fed-Sparse-BNSL is run with noise in every coordinate update, as the paper has it."""
LEARNERS = {20: ("order search", "Fed-Sparse-BNSL", "Fed-BNSL", "NOTEARS"), 200: ("order search",)}
"""Learners on the same released moments; at d = 200 only the one that takes seconds."""
FIELDS = ("shd", "tpr", "fdr")
MANY = 100
"""From this d on only the first five seeds are run."""


@dataclass(frozen=True)
class Job:
    """One instance at one epsilon (None: no privacy), for all learners on its moments, or for the coordinates' method."""

    d: int
    seed: int
    epsilon: float | None
    coordinates: bool = False
    draw: int = 0

    @property
    def noise_seed(self) -> int:
        """The seed of the simulated noise: the instance's, or another one for each further draw."""
        return self.seed if self.draw == 0 else 1000 * self.seed + self.draw


@click.command()
@click.option("--limits", is_flag=True, help="Instead: where the method's assumptions or its budget end.")
@click.option("--grid", is_flag=True, help="Instead: the law of the noise on columns of all kinds, by cell.")
@click.option("--draw", type=click.IntRange(0, 999), default=0, show_default=True, help="Which draw of the noise.")
@click.option("--speed", is_flag=True, help="Instead: time of the search against d, and its exponent.")
@study_options("2-11")
def moments(
    limits: bool,
    grid: bool,
    draw: int,
    speed: bool,
    quick: bool,
    seeds: list[int],
    jobs: int | None,
    csv_file: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """SHD against epsilon for every method, with one release of moments that all learners share.

    8 parties of 5000 rows, delta = 1/n² for every party, d = 20 and 200 (the first five seeds). The constants were
    chosen on seeds 1, 100, 400 and from 1000 on.
    """
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    if limits:
        show_limits(limit_settings(seeds, quick), jobs, sink)
    elif grid:
        show_grid(10 if quick else 200, 2 if quick else 10, seeds[0], sink)
    elif speed:
        show_speed((20, 50, 100) if quick else (20, 50, 100, 200, 500, 1000), seeds[0], sink)
    else:
        show_epsilons([replace(job, draw=draw) for job in plan_epsilons(seeds, quick)], jobs, sink)


def plan_epsilons(seeds: Sequence[int], quick: bool) -> list[Job]:
    """Return the main table's jobs."""
    plan: list[Job] = []
    for d, epsilons in (QUICK_EPSILONS if quick else EPSILONS).items():
        chosen = seeds if d < MANY else seeds[:5]
        plan += [Job(d, seed, epsilon) for epsilon in (None, *epsilons) for seed in chosen]
        coordinates = (5.0,) if quick else COORDINATE_EPSILONS[d]
        plan += [Job(d, seed, epsilon, coordinates=True) for epsilon in coordinates for seed in chosen]
    return plan


def run_job(job: Job) -> list[Outcome]:
    """Run one job; each learner on the moments gets the release's bytes and its own and the release's seconds."""
    import privfcd
    from privfcd.algorithms.release import release_moments
    from privfcd.datasets.simulate import linear_gaussian

    weights, parts = linear_gaussian(job.d, parties=PARTIES, rows=ROWS, seed=job.seed)
    tables = budgeted_tables(parts, job.epsilon, job.noise_seed)
    began = time.perf_counter()
    if job.coordinates:
        model = privfcd.FedSparseBNSL(release="coordinates", center=False).fit(tables)
        found = [("DP-Fed-Sparse-BNSL", model, model.bytes_exchanged_, 0.0, time.perf_counter() - began)]
    else:
        release = release_moments(tables, center=False)
        moments, paid = release.moments, time.perf_counter() - began
        epsilon = max(report.epsilon for report in release.privacy_report)
        found = []
        for name in LEARNERS[job.d]:
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                model = getattr(privfcd, METHODS[name])().fit(moments)
            label = name if name == "order search" else f"{name}, moments"
            found.append((label, model, release.bytes_exchanged, epsilon, paid + time.perf_counter() - started))
    return [
        Outcome(
            label=label,
            d=job.d,
            seed=job.seed,
            asked=math.inf if job.epsilon is None else job.epsilon,
            **accuracy(weights, model),
            edges=float((model.adjacency_matrix_ != 0).sum()),
            megabytes=sent / 1e6,
            epsilon=max(spent, (model.privacy_spent_ or (0.0,))[0]),
            seconds=seconds,
        )
        for label, model, sent, spent, seconds in found
    ]


def show_epsilons(plan: Sequence[Job], jobs: int | None, sink: Sink) -> None:
    """Run the main table, and print, draw and write it."""
    # long runs first, so that none is left alone at the end
    ordered = sorted(plan, key=lambda job: (-job.d, not job.coordinates))
    outcomes = [outcome for found in with_progress(run_job, ordered, jobs, "runs") for outcome in found]
    outcomes.sort(key=lambda outcome: (outcome.d, outcome.label, outcome.asked))
    title = "one release of moments for all but DP-Fed-Sparse-BNSL; 8 parties of 5000 rows"

    def draw(path: Path) -> None:
        for d in dict.fromkeys(outcome.d for outcome in outcomes):
            some = [outcome for outcome in outcomes if outcome.d == d]
            open_runs = [o for o in some if math.isinf(o.asked) and o.label == "order search"]
            flat = [("order search, no privacy", {f: fmean(getattr(o, f) for o in open_runs) for f in FIELDS})]
            marks = [("paper's best without privacy", 10.0, {20: 2.2, 200: 27.4}[d])]
            lines = lines_over([o for o in some if math.isfinite(o.asked)], lambda outcome: outcome.asked)
            target = path if d == 20 else path.with_stem(f"{path.stem}-{d}")
            draw_lines(target, lines, "epsilon", f"d = {d}: {title}", log=True, flat=flat, marks=marks)

    def show() -> None:
        groups = grouped(outcomes, lambda outcome: (outcome.label, outcome.d, outcome.asked))
        paper = {("order search", 20, math.inf): "2.20 ± 1.81", ("order search", 200, math.inf): "27.40 ± 14.52"}
        print_table(title, ("method", "d", "epsilon"), groups, paper)

    finish(outcomes, sink, draw, show)
