"""Benchmarks of this library against others, as ratios within one run: times of one machine mean little elsewhere."""

from __future__ import annotations

import click

from benchmarks import bench_descent, bench_fedacd, bench_iperi, bench_learning, bench_startup
from benchmarks.bench_noise import main


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


@bench.command()
@click.option("--quick", is_flag=True, help="Up to p = 10, one instance a size, where aims say nothing.")
def iperi(quick: bool) -> None:
    """PERI and I-PERI against p, from 5 to 100. Exit code 1 if an aim is missed."""
    if not bench_iperi.main(quick):
        raise click.exceptions.Exit(1)


@bench.command()
@click.option("--quick", is_flag=True, help="One instance, one repetition.")
def fedacd(quick: bool) -> None:
    """FedACD: a Fisher's z skeleton against causal-learn's, and whole runs. Exit code 1 if an aim is missed."""
    if not bench_fedacd.main(quick):
        raise click.exceptions.Exit(1)


@bench.command()
@click.option("--quick", is_flag=True, help="Three starts of each instead of eleven.")
def startup(quick: bool) -> None:
    """Time to import, to --help and to a first graph; what is loaded; sizes on disk. Exit code 1 if an aim is missed."""
    if not bench_startup.main(quick):
        raise click.exceptions.Exit(1)
