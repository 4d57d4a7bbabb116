"""The learners against a plain port of NOTEARS-ADMM, and their time against d and n.

All start from the parties' rows. Times are core-seconds, those of worker processes included, so that neither other work on
the machine nor the number of threads counts.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import spread
from benchmarks.notears_admm_port import notears_admm
from privfcd.datasets.simulate import linear_gaussian
from privfcd.graphs import compare, project_to_dag

PARTIES, ROWS, THRESHOLD = 8, 5000, 0.3
L1 = PARTIES / 16
"""Of the port: Fed-BNSL's default, with which both find better graphs, faster, than with the paper's 0.01."""

FLOORS = {20: 3.0, 200: 5.0}
"""How many times as fast as the port a learner must be, for each d."""
AIM, AIM_SECONDS = 15.0, 20.0
"""At d = 200: the ratio, and the core-seconds of 100 rounds."""

Tables = list[NDArray[np.float64]]
Learner = Callable[[Tables, int], tuple[NDArray[np.float64], float]]


@dataclass(frozen=True)
class Measured:
    """One method on the instances of one size: core-seconds, SHD and megabytes of each."""

    method: str
    d: int
    seconds: tuple[float, ...]
    shd: tuple[int, ...]
    megabytes: tuple[float, ...]


def core_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of `work`, in this process and in its children that have ended."""

    def spent() -> float:
        children = os.times()
        return time.process_time() + children.children_user + children.children_system

    before = spent()
    work()
    return spent() - before


def port(tables: Tables, rounds: int) -> tuple[NDArray[np.float64], float]:
    """Learn with the port: the DAG's weights, and megabytes by the paper's rule for dense matrices."""
    result = notears_admm([rows.T @ rows / len(rows) for rows in tables], rounds, L1)
    size = len(result.weights)
    return project_to_dag(result.weights, THRESHOLD).weights, 2 * rounds * len(tables) * size * size * 8 / 1e6


def learner(name: str) -> Learner:
    """Return the estimator of this name as a function of rows and rounds, on open tables."""

    def learn(tables: Tables, rounds: int) -> tuple[NDArray[np.float64], float]:
        import privfcd

        parties = [privfcd.PrivateTable(rows, name=f"party-{index}") for index, rows in enumerate(tables)]
        model = getattr(privfcd, name)(rounds=rounds, threshold=THRESHOLD, center=False).fit(parties)
        return model.adjacency_matrix_, model.bytes_exchanged_ / 1e6

    return learn


LEARNERS: dict[str, Learner] = {"Fed-Sparse-BNSL": learner("FedSparseBNSL"), "Fed-BNSL": learner("FedBNSL")}


def measure(method: str, learn: Learner, d: int, seeds: Sequence[int], rounds: int, rows: int = ROWS) -> Measured:
    """Run one method on the instances with these seeds."""
    seconds, shd, megabytes = [], [], []
    for seed in seeds:
        truth, tables = linear_gaussian(d, parties=PARTIES, rows=rows, seed=seed)
        outcome: list[tuple[NDArray[np.float64], float]] = []
        seconds.append(core_seconds(lambda tables=tables, outcome=outcome: outcome.append(learn(tables, rounds))))  # type: ignore[misc]
        weights, sent = outcome[0]
        shd.append(compare(truth, weights).shd)
        megabytes.append(sent)
    return Measured(method, d, tuple(seconds), tuple(shd), tuple(megabytes))


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of log seconds over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def against_the_port(d: int, seeds: Sequence[int], rounds: int) -> bool:
    """Compare at one size, print, and return whether the floor holds (and the aim is named where it does)."""
    yardstick = measure("plain port", port, d, seeds, rounds)
    fine = True
    print(f"\nd = {d}, {PARTIES} parties of {ROWS} rows, {rounds} rounds, seeds {list(seeds)}")
    print(f"{'':16} {'core-seconds':>16} {'times as fast':>14} {'SHD':>14} {'MB':>8}")
    _print_row(yardstick, 1.0)
    for name, learn in LEARNERS.items():
        own = measure(name, learn, d, seeds, rounds)
        ratio = fmean(yardstick.seconds) / fmean(own.seconds)
        _print_row(own, ratio)
        fine &= _verdict(f"{name}: at least {FLOORS[d]:g} times as fast as the port", ratio >= FLOORS[d])
        if d == 200:
            quick_enough = ratio >= AIM and fmean(own.seconds) * 100 / rounds < AIM_SECONDS
            _verdict(f"{name}: aim of {AIM:g} times, and {AIM_SECONDS:g} s for 100 rounds", quick_enough)
    return fine


def growth(label: str, sizes: Sequence[int], setup: Callable[[int], tuple[int, int]], rounds: int) -> None:
    """Print the core-seconds of each learner for each size; `setup` gives d and the rows of a party."""
    print(f"\ncore-seconds for {rounds} rounds against {label}, and the fitted exponent")
    print(f"{'':16} " + " ".join(f"{size:>8}" for size in sizes) + f" {'exponent':>9}")
    for name, learn in LEARNERS.items():
        seconds = []
        for size in sizes:
            d, rows = setup(size)
            seconds.append(measure(name, learn, d, [2], rounds, rows).seconds[0])
        cells = " ".join(f"{value:>8.2f}" for value in seconds)
        print(f"{name:16} {cells} {exponent(sizes, seconds):>9.2f}")
        sys.stdout.flush()


def main(quick: bool = False) -> bool:
    """Measure and print; return whether every floor holds."""
    # the first use of a library's parts is not to be measured
    for learn in (port, *LEARNERS.values()):
        measure("", learn, 5, [1], 2)
    fine = against_the_port(20, [2] if quick else [2, 3, 4, 5, 6], 100)
    fine &= against_the_port(200, [2], 5 if quick else 100)
    rounds = 5 if quick else 20
    growth("d", (20, 50, 100, 200) if quick else (20, 50, 100, 200, 500), lambda d: (d, ROWS), rounds)
    growth("rows a party, d = 50", (500, 2000, 8000) if quick else (500, 2000, 8000, 32000), lambda n: (50, n), rounds)
    return fine


def _print_row(row: Measured, ratio: float) -> None:
    print(
        f"{row.method:16} {spread(row.seconds):>16} {ratio:>14.1f} {spread(row.shd):>14} {fmean(row.megabytes):>8.2f}"
    )


def _verdict(text: str, holds: bool) -> bool:
    print(f"  {text}: {'yes' if holds else 'NO'}")
    sys.stdout.flush()
    return holds
