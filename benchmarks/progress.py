"""A progress bar for studies that run many jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from benchmarks.common import cores
from privfcd.parallel import worker_pool

Item = TypeVar("Item")
Result = TypeVar("Result")


def with_progress(work: Callable[[Item], Result], items: Sequence[Item], jobs: int | None, unit: str) -> list[Result]:
    """Return `work(item)` for each item, in order, in `jobs` processes, with a progress bar on a terminal's stderr."""
    from rich.console import Console
    from rich.progress import track

    count = min(cores() if jobs is None else jobs, len(items))
    screen = Console(stderr=True)
    shown: dict[str, Any] = {
        "description": unit,
        "total": len(items),
        "console": screen,
        "disable": not screen.is_terminal,
    }
    if count == 1:
        return [work(item) for item in track(items, **shown)]
    with worker_pool(count) as pool:
        return list(track(pool.map(work, items), **shown))
