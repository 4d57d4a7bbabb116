"""What studies share: seeds, worker processes, means with their spread."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev
from typing import Any, TypeVar

import click

from privfcd.algorithms.local import processors
from privfcd.parallel import worker_pool

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class SeedList(click.ParamType[list[int]]):
    """Seeds such as "2-11" or "1,100,400"."""

    name = "seeds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the seeds as a list."""
        if isinstance(value, list):
            return value
        try:
            seeds: list[int] = []
            for part in str(value).split(","):
                first, _, last = part.partition("-")
                seeds.extend(range(int(first), int(last or first) + 1))
        except ValueError:
            self.fail(f"{value!r} is not a list of seeds such as 2-11 or 1,100,400", param, ctx)
        if not seeds:
            self.fail("at least one seed is needed", param, ctx)
        return seeds


def run_parallel(work: Callable[[Item], Outcome], items: Sequence[Item], jobs: int) -> list[Outcome]:
    """Return `work(item)` for each item, in order, in `jobs` processes of one thread each."""
    if jobs == 1:
        return [work(item) for item in items]
    with worker_pool(min(jobs, len(items))) as pool:
        return list(pool.map(work, items))


def spread(values: Iterable[float], digits: int = 2) -> str:
    """Return "mean ± sd"; of values that are not all known (NaN) those that are and how many, or "-"."""
    given = list(values)
    known = [value for value in given if not math.isnan(value)]
    if not known:
        return "-"
    deviation = stdev(known) if len(known) > 1 else 0.0
    counted = "" if len(known) == len(given) else f" ({len(known)} of {len(given)})"
    return f"{fmean(known):.{digits}f} ± {deviation:.{digits}f}{counted}"


def cores() -> int:
    """Return how many processors this process may use."""
    return processors()
