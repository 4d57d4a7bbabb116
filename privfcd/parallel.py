"""Work in several processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def one_thread_each() -> None:
    """Keep linear algebra to one thread, here if it is not loaded yet and in the processes that are started next."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def worker_pool(
    jobs: int, initializer: Callable[..., None] | None = None, arguments: Iterable[Any] = ()
) -> ProcessPoolExecutor:
    """Return `jobs` fresh processes, each kept to one thread; what they are given must be picklable."""
    one_thread_each()
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=initializer, initargs=tuple(arguments))
