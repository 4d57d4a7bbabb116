"""Figures 1, 5 and 6: accuracy over the rounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click

from benchmarks.paper.experiments import PARTIES, Experiment, Outcome
from benchmarks.paper.output import Sink, finish, grouped, print_paired, print_table, run_all, study_options
from benchmarks.paper.pictures import PANELS, draw_lines, lines_over_rounds

ROUNDS = (1, 2, 3, 5, 8, 12, 17, 23, 30, 40, 50, 60, 70, 80, 90, 100)

FED_BNSL_HETEROGENEOUS = (("rho1", 100.0), ("l1", 0.1))
"""The paper's B.3.2."""


@dataclass(frozen=True)
class Study:
    """A figure over rounds: its experiments for one seed, what is said of it, and pairs to compare."""

    title: str
    pairs: tuple[tuple[str, str], ...]

    def finish(self, outcomes: list[Outcome], sink: Sink) -> None:
        """Print and draw."""
        groups = grouped(outcomes, lambda outcome: (outcome.label, outcome.d))
        still = {label: runs for (label, _), runs in groups.items() if not runs[0].rounds}
        flat = [
            (label, {field: fmean(getattr(run, field) for run in runs) for field, _ in PANELS})
            for label, runs in still.items()
        ]

        def draw(path: Path) -> None:
            draw_lines(path, lines_over_rounds(outcomes), "round", self.title, flat=flat)

        def show() -> None:
            print_table(self.title, ("method", "d"), groups)
            print_paired(outcomes, self.pairs, lambda outcome: outcome.d)

        finish(outcomes, sink, draw, show)


@click.command()
@study_options("2-11")
def figure1(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Convergence of Fed-Sparse-BNSL and Fed-BNSL, with centralised NOTEARS: homogeneous and heterogeneous data."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    experiments = []
    for mixed in (False,) if quick else (False, True):
        suffix = ", heterogeneous" if mixed else ""
        for seed in seeds:
            for method in ("Fed-Sparse-BNSL", "Fed-BNSL", "NOTEARS"):
                parameters = FED_BNSL_HETEROGENEOUS if mixed and method == "Fed-BNSL" else ()
                rounds = () if method == "NOTEARS" else ROUNDS
                experiments.append(
                    Experiment(
                        method,
                        20,
                        seed,
                        label=method + suffix,
                        parties=5 if mixed else PARTIES,
                        heterogeneous=mixed,
                        parameters=parameters,
                        rounds=rounds,
                    )
                )
    outcomes = run_all(experiments, jobs)
    pairs = (("Fed-Sparse-BNSL", "Fed-BNSL"), ("Fed-Sparse-BNSL, heterogeneous", "Fed-BNSL, heterogeneous"))
    Study("Figure 1: convergence, d = 20, 8 parties of 5000 rows (heterogeneous: 5)", pairs).finish(outcomes, sink)


@click.command()
@study_options("2-11")
def figure5(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """What standardising the columns does to Fed-BNSL, Fed-BNSL-FW and Fed-Sparse-BNSL (C.1)."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    methods = ("Fed-Sparse-BNSL", "Fed-BNSL") if quick else ("Fed-Sparse-BNSL", "Fed-BNSL", "Fed-BNSL-FW")
    experiments = [
        Experiment(
            method,
            20,
            seed,
            label=method + (", standardised" if standard else ""),
            standardize=standard,
            parameters=(("local_step", "frank-wolfe"),) if method == "Fed-BNSL-FW" else (),
            rounds=ROUNDS,
        )
        for method in methods
        for standard in (False, True)
        for seed in seeds
    ]
    outcomes = run_all(experiments, jobs)
    pairs = tuple((f"{method}, standardised", method) for method in methods)
    Study("Figure 5: raw and standardised columns, d = 20, 8 parties of 5000 rows", pairs).finish(outcomes, sink)


@click.command()
@study_options("2-11")
def figure6(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Fed-Sparse-BNSL against NOTEARS of each party alone: heterogeneous data, 20 parties of 50 rows (C.2)."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    experiments = [
        Experiment(
            method, 20, seed, parties=20, rows=50, heterogeneous=True, rounds=ROUNDS if method.startswith("Fed") else ()
        )
        for method in ("Fed-Sparse-BNSL", "local NOTEARS")
        for seed in (seeds[:3] if quick else seeds)
    ]
    outcomes = run_all(experiments, jobs)
    title = "Figure 6: federated and local, d = 20, 20 parties of 50 rows, heterogeneous"
    Study(title, (("Fed-Sparse-BNSL", "local NOTEARS"),)).finish(outcomes, sink)
