"""Progress bars on stderr: on a terminal only, and never with --quiet or --json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from privfcd.cli.output import console

if TYPE_CHECKING:
    import networkx as nx

    from privfcd.algorithms.rounds import RoundRecord


@contextmanager
def progress(label: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while the block runs, and yield what says how far it is, as (done, total).

    Until it is called, the bar only shows that something runs, and for how long.

    Parameters
    ----------
    label : str
        What is done.
    quiet : bool
        No bar; there is none either where stderr is no terminal.
    """
    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def round_progress(
    quiet: bool, target: nx.DiGraph[str] | None, *, draws: bool = True
) -> Iterator[Callable[[RoundRecord], None] | None]:
    """Show a bar with the round, edges, SHD and, where rounds draw from a reservation, how much is still to be drawn."""
    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[status]}"),
    )
    with Progress(*columns, console=screen) as bar:
        task = bar.add_task("", total=None, status="")

        def on_round(record: RoundRecord) -> None:
            parts = [f"{record.edges} edges", *_shd_text(record, target)]
            if draws:
                parts.append(f"{1 - record.number / record.rounds:.0%} of the run's budget left to draw")
            bar.update(task, completed=record.number, total=record.rounds, status=", ".join(parts))

        yield on_round


def _shd_text(record: RoundRecord, target: nx.DiGraph[str] | None) -> list[str]:
    if target is None or len(target) != len(record.weights):
        return []
    import numpy as np

    from privfcd.graphs import compare, to_networkx

    estimate = to_networkx(np.where(np.abs(record.weights) > record.threshold, record.weights, 0.0), record.columns)
    return [f"SHD {compare(target, estimate).shd}"] if set(target) == set(estimate) else []
