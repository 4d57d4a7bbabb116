"""The private descent's speed and memory: a run of many selections and updates against the run without privacy.

Times are of this process's processor, so that other programs on the machine count little; figures that compare are
ratios within one run.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privfcd.accounting import Budget
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.data.fused import kernels
from privfcd.data.private import PrivateTable
from privfcd.data.row_sums import clipped_sums
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import GumbelMax, NoiseSource, SecureNoise, SimulatedNoise
from privfcd.mechanisms.tables import selection_table

PLAIN, FAST, MEMORY = 3.0, 2.0, 1.5
"""How many times the run without privacy a private one may take in NumPy and compiled, and its peak the tables' size."""

EPSILON = 10.0


@dataclass(frozen=True)
class Size:
    """A federation and a run: d variables, parties, rows each, rounds T, private updates K a round and party."""

    d: int
    parties: int
    rows: int
    rounds: int
    updates: int

    @property
    def pairs(self) -> int:
        """Selections, each with its update, of all parties together."""
        return self.parties * self.rounds * self.updates


FULL = Size(200, 8, 5000, 100, 100)
QUICK = Size(30, 2, 500, 5, 20)


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Return the processor seconds of one call, the least of several."""
    work()
    times = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def selections(d: int, source: NoiseSource, calls: int) -> tuple[float, float]:
    """Return the seconds of a column's change and a selection in two stages, and of a selection among all at once."""
    scores = np.abs(np.random.default_rng(0).normal(size=(d, d)))
    off = ~np.eye(d, dtype=bool)
    table = selection_table(GumbelMax(0.3), off, source.stream(1))
    table.replace(scores)

    def staged() -> None:
        for call in range(calls):
            table.replace_column(call % d, scores[call % d])
            table.select()

    stream, flat = source.stream(2), scores[off]
    few = max(1, calls // 20)
    return seconds(staged, 3) / calls, seconds(lambda: [stream.select(flat, 0.3) for _ in range(few)], 3) / few


def updates(d: int, n: int, fast: bool, calls: int) -> float:
    """Return the seconds of the clipped gradient of one variable."""
    rng = np.random.default_rng(0)
    rows, slopes, limits = rng.normal(size=(n, d)), rng.normal(size=(1, n)), np.full(d, 2.0)
    way, offset = kernels(fast), np.zeros(d)
    return seconds(lambda: [clipped_sums(rows, offset, slopes, limits, way) for _ in range(calls)], 3) / calls


def run(size: Size, private: bool, fast: bool | None, rounds: int) -> tuple[float, FedSparseBNSL]:
    """Fit once; return the processor seconds and the model."""
    budget = Budget(EPSILON, 1 / size.rows**2) if private else None
    _, parts = linear_gaussian(size.d, parties=size.parties, rows=size.rows, seed=1)
    tables = [
        PrivateTable(parts.pop(), name=f"party-{index}", budget=budget, bounds=100.0, noise=SimulatedNoise(1))
        for index in range(size.parties)
    ]
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    model = FedSparseBNSL(rounds=rounds, updates=size.updates if private else None, fast=fast, workers=1, center=False)
    began = time.process_time()
    model.fit(tables)
    return time.process_time() - began, model


def peak(size: Size, fast: bool | None) -> float:
    """Return the peak memory of two private rounds, tables included, as a multiple of the tables' size."""
    tracemalloc.start()
    try:
        run(size, True, fast, 2)
        return tracemalloc.get_traced_memory()[1] / (size.parties * size.rows * size.d * 8)
    finally:
        tracemalloc.stop()


def main(quick: bool = False) -> bool:
    """Measure and print; return whether every aim holds."""
    size = QUICK if quick else FULL
    d, n, calls = size.d, size.rows, 50 if quick else 1000
    ways: list[bool] = [False]
    try:
        kernels(True)
        ways.append(True)
    except InvalidParameter as missing:
        print(f"compiled loops are left out: {missing}")
    print(f"one selection among d (d - 1) coordinates after a column changed, d = {d}")
    for name, source in (("simulated", SimulatedNoise(0)), ("secure", SecureNoise())):
        staged, flat = selections(d, source, calls)
        print(f"  {name:9} in two stages {staged * 1e6:8.1f} us, among all at once {flat * 1e6:8.1f} us")
    print(f"one update of a column, {n} records clipped in {d} entries each")
    for fast in ways:
        took = updates(d, n, fast, 5 if quick else 50)
        print(f"  {'compiled' if fast else 'NumPy':9} {took * 1e3:8.3f} ms")

    print(
        f"\n{size.pairs:,} selections and updates at d = {d}, {size.parties} parties of {n} rows, {size.rounds} rounds"
    )
    open_seconds, _ = run(size, False, None, size.rounds)
    print(f"  without privacy {open_seconds:8.1f} s")
    fine = []
    for fast in ways:
        run(QUICK, True, fast, 1)  # compiled, or loaded, before it is measured
        took, _ = run(size, True, fast, size.rounds)
        way, aim = ("compiled", FAST) if fast else ("NumPy", PLAIN)
        print(f"  private, {way:9}{took:6.1f} s, {took / open_seconds:.1f} times as long")
        fine.append(_verdict(f"private run in {way} at most {aim:g} times as long", took <= aim * open_seconds))
    share = peak(size, ways[-1])
    print(f"  peak memory {share:.2f} times the tables")
    fine.append(_verdict(f"peak memory at most {MEMORY} times the tables", share <= MEMORY))
    return all(fine)


def _verdict(text: str, holds: bool) -> bool:
    print(f"  {text}: {'yes' if holds else 'NO'}")
    sys.stdout.flush()
    return holds
