"""Batches of runs in worker processes, with word of how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from privfcd import checks
from privfcd.parallel import worker_pool

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")
Progress = Callable[[int, int], None]
"""Called with the number of runs that are done, and of all runs."""


def in_batches(
    work: Callable[[Job], Outcome],
    jobs: Sequence[Job],
    sizes: Sequence[int],
    workers: int = 1,
    on_progress: Progress | None = None,
) -> list[Outcome]:
    """Return `work(job)` for each job, in order.

    Parameters
    ----------
    work : function
        Importable by name where there are several workers.
    jobs : sequence
        Each must carry a random stream of its own; outcomes do not depend on the number of workers.
    sizes : sequence of int
        Runs in each job.
    workers : int
        Processes; 1 for this one.
    on_progress : function of (done, total), optional
        Called after each job.
    """
    workers = min(checks.count("workers", workers), max(len(jobs), 1))
    total, done = sum(sizes), 0
    outcomes: list[Outcome] = []
    pool: ProcessPoolExecutor | None = None
    results: Iterator[Outcome] = map(work, jobs)
    if workers > 1:
        pool = worker_pool(workers)
        results = pool.map(work, jobs)
    try:
        for outcome, size in zip(results, sizes, strict=True):
            outcomes.append(outcome)
            done += size
            if on_progress is not None:
                on_progress(done, total)
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)
    return outcomes
