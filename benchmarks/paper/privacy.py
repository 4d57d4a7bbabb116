"""Figures 3, 4, 7 and 8: accuracy under a privacy budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from benchmarks.paper.experiments import ROWS, Experiment, Outcome
from benchmarks.paper.output import Sink, finish, grouped, print_paired, print_table, run_all, study_options
from benchmarks.paper.pictures import PANELS, draw_lines, lines_over

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0)
QUICK_EPSILONS = (1.0, 10.0)


@click.command()
@study_options("2-11")
def figure3(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Privacy and utility: DP-Fed-Sparse-BNSL over epsilon, delta = 1/n², against no privacy."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    epsilons = QUICK_EPSILONS if quick else EPSILONS
    experiments = [Experiment("Fed-Sparse-BNSL", 20, seed) for seed in seeds]
    experiments += [Experiment("DP-Fed-Sparse-BNSL", 20, seed, epsilon) for epsilon in epsilons for seed in seeds]
    outcomes = run_all(experiments, jobs)
    _finish_over_epsilon(outcomes, "Figure 3: privacy and utility, d = 20, 8 parties of 5000 rows", sink, ())


@click.command()
@study_options("2-11")
def figure4(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Dimension: DP-Fed-Sparse-BNSL and DP-Fed-BNSL at epsilon = 10, d from 20 to 200 (five seeds from d = 100 on)."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    experiments = [
        Experiment(method, d, seed, 10.0)
        for method in ("DP-Fed-Sparse-BNSL", "DP-Fed-BNSL")
        for d in ((20, 50) if quick else (20, 50, 100, 200))
        for seed in (seeds if d < 100 else seeds[:5])
    ]
    outcomes = run_all(experiments, jobs)
    title = "Figure 4: dimension at epsilon = 10, 8 parties of 5000 rows"
    paper = {("DP-Fed-Sparse-BNSL", 200): "about 70", ("DP-Fed-BNSL", 200): "about 140"}
    marks = [("paper, DP-Fed-Sparse-BNSL", 200.0, 70.0), ("paper, DP-Fed-BNSL", 200.0, 140.0)]

    def draw(path: Path) -> None:
        draw_lines(path, lines_over(outcomes, lambda outcome: outcome.d), "d", title, marks=marks)

    def show() -> None:
        print_table(title, ("method", "d"), grouped(outcomes, lambda outcome: (outcome.label, outcome.d)), paper)

    finish(outcomes, sink, draw, show)


@click.command()
@study_options("2-11")
def figure7(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Share of the budget for the second moments M, at epsilon = 5; the baseline is given exact M (C.3).

    Only the baseline is not private: its M come from the rows. Shares are of the run's zCDP.
    """
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    shares = (0.1, 0.3) if quick else (0.1, 0.2, 0.3, 0.4, 0.5)
    experiments = [
        Experiment("DP-Fed-Sparse-BNSL", 20, seed, 5.0, label=f"share {share:g}", parameters=_share(share))
        for share in shares
        for seed in seeds
    ]
    experiments += [
        Experiment("DP-Fed-Sparse-BNSL", 20, seed, 5.0, label="exact M", parameters=_exact_moments(20, seed))
        for seed in seeds
    ]
    outcomes = run_all(experiments, jobs)
    title = "Figure 7: share of the budget for M, epsilon = 5, d = 20, 8 parties of 5000 rows"
    groups = grouped(outcomes, lambda outcome: outcome.label)
    baseline = groups["exact M"]
    flat = [("exact M", {field: fmean(getattr(outcome, field) for outcome in baseline) for field, _ in PANELS})]

    def draw(path: Path) -> None:
        paid = [outcome for outcome in outcomes if outcome.label != "exact M"]
        lines = lines_over(paid, lambda outcome: float(outcome.label.split()[-1]), "DP-Fed-Sparse-BNSL, M paid for")
        draw_lines(path, lines, "share for M", title, flat=flat)

    def show() -> None:
        print_table(title, ("M",), groups)
        print_paired(outcomes, [(f"share {share:g}", "exact M") for share in shares], lambda outcome: outcome.d)

    finish(outcomes, sink, draw, show)


@click.command()
@study_options("2-11")
def figure8(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Our DP-PGCD against the variant of Mangold et al. (2023), over epsilon (C.4)."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    lines: list[tuple[str, tuple[tuple[str, Any], ...]]] = [
        ("DP-Fed-Sparse-BNSL", ()),
        ("Mangold 2023, as published", (("mechanisms", "mangold-published"),)),
        ("Mangold 2023, as proven", (("mechanisms", "mangold-proven"),)),
    ]
    experiments = [Experiment("Fed-Sparse-BNSL", 20, seed) for seed in seeds]
    experiments += [
        _variant(label, parameters, seed, epsilon)
        for label, parameters in lines
        for epsilon in (QUICK_EPSILONS if quick else EPSILONS)
        for seed in seeds
    ]
    outcomes = run_all(experiments, jobs)
    pairs = [("DP-Fed-Sparse-BNSL", label) for label, parameters in lines if parameters]
    _finish_over_epsilon(outcomes, "Figure 8: DP-PGCD of two kinds, d = 20, 8 parties of 5000 rows", sink, pairs)


def _variant(label: str, parameters: tuple[tuple[str, Any], ...], seed: int, epsilon: float) -> Experiment:
    """Return one run; the noise as published costs more than it claims, which takes a budget with room."""
    if "mangold-published" not in dict(parameters).values():
        method = "Mangold" if parameters else label
        return Experiment(method, 20, seed, epsilon, label=label, parameters=parameters)
    claim = (("epsilon", epsilon), ("delta", 1 / ROWS**2))
    return Experiment("Mangold", 20, seed, epsilon, label=label, parameters=(*parameters, *claim), room=3.0)


def _finish_over_epsilon(outcomes: Sequence[Outcome], title: str, sink: Sink, pairs: Sequence[tuple[str, str]]) -> None:
    private = [outcome for outcome in outcomes if math.isfinite(outcome.asked)]
    open_runs = [outcome for outcome in outcomes if not math.isfinite(outcome.asked)]
    flat = [("no privacy", {field: fmean(getattr(outcome, field) for outcome in open_runs) for field, _ in PANELS})]

    def draw(path: Path) -> None:
        draw_lines(path, lines_over(private, lambda outcome: outcome.asked), "epsilon", title, log=True, flat=flat)

    def show() -> None:
        groups = grouped(outcomes, lambda outcome: (outcome.label, outcome.asked))
        print_table(title, ("method", "epsilon"), groups, {("Fed-Sparse-BNSL", math.inf): "2.20 ± 1.81"})
        print_paired(private, pairs, lambda outcome: outcome.asked)

    finish(outcomes, sink, draw, show)


def _share(share: float) -> tuple[tuple[str, Any], ...]:
    return (("smoothness_share", share),)


def _exact_moments(d: int, seed: int) -> tuple[tuple[str, Any], ...]:
    import numpy as np

    from privfcd.datasets.simulate import linear_gaussian

    _, parts = linear_gaussian(d, parties=8, rows=5000, seed=seed)
    moments = np.mean([(part**2).mean(axis=0) for part in parts], axis=0)
    return (("smoothness", tuple(moments.tolist())),)
