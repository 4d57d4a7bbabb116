"""Benchmarks of this library against others, as ratios within one run: times of one machine mean little elsewhere."""

from __future__ import annotations

import click

from privfcd.studies import bench_descent, bench_learning
from privfcd.studies.bench_noise import main


@click.group()
def bench() -> None:
    """Measure speed, as ratios within one run."""


@bench.command()
@click.option("--quick", is_flag=True, help="A tenth of the values, fewer repetitions, no demonstration.")
def noise(quick: bool) -> None:
    """Secure noise against OpenDP, NumPy and simulated noise. Exit code 1 if an aim is missed."""
    if not main(quick):
        raise click.exceptions.Exit(1)


@bench.command()
@click.option("--quick", is_flag=True, help="A small federation, where aims say nothing: whether it runs.")
def descent(quick: bool) -> None:
    """The private descent against the run without privacy: time and memory. Exit code 1 if an aim is missed."""
    if not bench_descent.main(quick) and not quick:
        raise click.exceptions.Exit(1)


@bench.command()
@click.option("--quick", is_flag=True, help="A few rounds instead of 100, one instance a size, d up to 200.")
def learning(quick: bool) -> None:
    """Fed-Sparse-BNSL and Fed-BNSL against a plain port, and against d and n. Exit code 1 if an aim is missed."""
    if not bench_learning.main(quick):
        raise click.exceptions.Exit(1)
