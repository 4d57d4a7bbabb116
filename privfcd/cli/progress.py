"""A progress bar on stderr, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from privfcd.cli.output import console


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
