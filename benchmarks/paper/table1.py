"""Table 1: communication and accuracy at d = 20 and d = 200, and the private methods at epsilon = 10."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.paper.experiments import PARTIES, ROWS, Experiment
from benchmarks.paper.output import Sink, finish, grouped, print_table, run_all, study_options
from benchmarks.paper.pictures import draw_lines, lines_over

EPSILON = 10.0

PAPER = {
    ("Fed-Sparse-BNSL", 20): "2.20 ± 1.81 (1.99 MB)",
    ("Fed-BNSL", 20): "2.90 ± 4.48 (5.12 MB)",
    ("Fed-Sparse-BNSL", 200): "27.4 ± 14.5 (13.7 MB)",
    ("Fed-BNSL", 200): "50.7 ± 12.9 (512 MB)",
    ("DP-Fed-Sparse-BNSL", 20): "near non-private",
    ("DP-Fed-Sparse-BNSL", 200): "about 70",
    ("DP-Fed-BNSL", 200): "about 140",
}


@click.command()
@click.option("--large-seeds", type=int, default=5, show_default=True, help="How many of the seeds at d = 200.")
@study_options("2-11")
def table1(
    large_seeds: int,
    quick: bool,
    seeds: list[int],
    jobs: int | None,
    csv_file: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Table 1, and the private methods at epsilon = 10 with everything paid for; --quick: only d = 20.

    d variables, d edges, 8 parties of 5000 rows, threshold 0.3. Settings were tuned on seeds 1, 100 and 400 and on seeds
    from 1000 on, never on those that are reported by default.
    """
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    methods = (("Fed-Sparse-BNSL", None), ("Fed-BNSL", None), ("DP-Fed-Sparse-BNSL", EPSILON), ("DP-Fed-BNSL", EPSILON))
    experiments = [
        Experiment(method, d, seed, epsilon)
        for d in ((20,) if quick else (20, 200))
        for method, epsilon in methods
        for seed in (seeds if d < 100 else seeds[:large_seeds])
    ]
    outcomes = run_all(experiments, jobs)
    title = f"Table 1: {PARTIES} parties of {ROWS} rows, private methods at epsilon = {EPSILON:g}"

    def draw(path: Path) -> None:
        draw_lines(path, lines_over(outcomes, lambda outcome: outcome.d), "d", title)

    def show() -> None:
        print_table(title, ("method", "d"), grouped(outcomes, lambda outcome: (outcome.label, outcome.d)), PAPER)

    finish(outcomes, sink, draw, show)
