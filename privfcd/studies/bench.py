"""Benchmarks of this library against others, as ratios within one run: times of one machine mean little elsewhere."""

from __future__ import annotations

import click

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
