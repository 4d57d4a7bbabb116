"""Time of the order search against the number of variables."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from benchmarks.paper.experiments import ROWS
from benchmarks.paper.output import Sink, write_csv
from benchmarks.progress import with_progress
from privfcd.cli.output import console, print_json


@dataclass(frozen=True)
class Timing:
    """Processor seconds of the search on exact moments of d variables, and the SHD that it came to."""

    d: int
    seconds: float
    shd: int


def time_search(d: int, seed: int, repeats: int) -> Timing:
    """Time the search alone: median of `repeats`."""
    from privfcd.algorithms.equal_variance import order_search
    from privfcd.datasets.simulate import linear_gaussian
    from privfcd.graphs import compare
    from privfcd.moments import Moments

    rows = max(2 * ROWS, 10 * d)
    weights, (table,) = linear_gaussian(d, parties=1, rows=rows, seed=seed)
    matrix = table.T @ table / rows
    given = Moments((matrix + matrix.T) / 2, rows, tuple(f"x{j}" for j in range(d)))
    times = []
    for _ in range(repeats):
        began = time.process_time()
        result = order_search(given)
        times.append(time.process_time() - began)
    return Timing(d, median(times), compare(weights, result.weights).shd)


def exponent(timings: Sequence[Timing], least: int = 200) -> float:
    """Return the slope of log seconds over log d, for d of at least `least` where there are two such."""
    some = [timing for timing in timings if timing.d >= least]
    some = some if len(some) > 1 else list(timings)
    slope, _ = np.polyfit(np.log([t.d for t in some]), np.log([t.seconds for t in some]), 1)
    return float(slope)


def show_speed(sizes: Sequence[int], seed: int, sink: Sink) -> None:
    """Time the search, and print and write the times."""
    timings = list(with_progress(lambda d: time_search(d, seed, 1 if d > 500 else 3), sizes, 1, "sizes"))
    slope = exponent(timings)
    if sink.csv_file is not None:
        write_csv(sink.csv_file, [asdict(timing) for timing in timings])
    if sink.as_json:
        print_json({"timings": [asdict(timing) for timing in timings], "exponent": slope})
        return
    from rich.table import Table

    table = Table(title=f"Search on exact moments; seconds grow as d to the {slope:.2f}", title_justify="left")
    for heading in ("d", "processor seconds", "SHD"):
        table.add_column(heading, justify="right")
    for timing in timings:
        table.add_row(str(timing.d), f"{timing.seconds:.3f}", str(timing.shd))
    console().print(table)
