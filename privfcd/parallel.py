"""Work in several processes of one thread each."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def worker_pool(
    jobs: int, initializer: Callable[..., None] | None = None, arguments: Iterable[Any] = ()
) -> ProcessPoolExecutor:
    """Return `jobs` fresh processes, each kept to one thread; what they are given must be picklable."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(jobs, mp_context=context, initializer=initializer, initargs=tuple(arguments))
