"""How a study runs and ends: a table on the terminal with the paper's figures beside ours, every run in a CSV file."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

from benchmarks.common import SeedList, cores, run_parallel, spread
from benchmarks.paper.experiments import Experiment, Outcome, run_experiment
from privfcd.cli.output import check_writable, console, print_json
from privfcd.markup import csv_cell

Function = TypeVar("Function", bound=Callable[..., Any])


WIDTH = 170


def study_options(seeds: str) -> Callable[[Function], Function]:
    """Return the decorator that adds the options which all studies of the paper have."""

    def decorate(function: Function) -> Function:
        for option in (
            click.option("--json", "as_json", is_flag=True, help="Print every run as JSON."),
            click.option("--plot", type=click.Path(path_type=Path), help="Write the picture to this file."),
            click.option("--csv", "csv_file", type=click.Path(path_type=Path), help="Write every run to this file."),
            click.option("--jobs", type=int, default=None, help="Worker processes; one for each core by default."),
            click.option("--seeds", type=SeedList(), default=seeds, show_default=True),
            click.option("--quick", is_flag=True, help="Fewer settings."),
        ):
            function = option(function)
        return function

    return decorate


@dataclass(frozen=True)
class Sink:
    """Where a study's results go."""

    csv_file: Path | None
    plot: Path | None
    as_json: bool

    def check(self) -> None:
        """Refuse files that cannot be written, before anything is computed."""
        for path in (self.csv_file, self.plot):
            if path is not None:
                check_writable(path)


def run_all(experiments: Sequence[Experiment], jobs: int | None) -> list[Outcome]:
    """Return the outcomes in order, the longest jobs started first."""
    order = sorted(range(len(experiments)), key=lambda index: -experiments[index].d)
    found = run_parallel(run_experiment, [experiments[index] for index in order], cores() if jobs is None else jobs)
    outcomes = dict(zip(order, found, strict=True))
    return [outcomes[index] for index in range(len(experiments))]


def grouped(outcomes: Iterable[Outcome], key: Callable[[Outcome], Any]) -> dict[Any, list[Outcome]]:
    """Return the outcomes by key, in order of appearance."""
    groups: dict[Any, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(key(outcome), []).append(outcome)
    return groups


def wide_console() -> Console:
    """Return a terminal wide enough for a table of runs."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, width=max(WIDTH, console().width))


def print_table(
    title: str,
    headings: Sequence[str],
    groups: Mapping[Any, Sequence[Outcome]],
    paper: Mapping[Any, str] | None = None,
) -> None:
    """Print one row for each group, its key under `headings`, and the paper's SHD where it states one."""
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading)
    for heading in ("runs", "SHD", "TPR", "FDR", "edges", "MB", "seconds", "paper's SHD"):
        table.add_column(heading, justify="right")
    for key, group in groups.items():
        names = key if isinstance(key, tuple) else (key,)
        table.add_row(
            *(f"{name:g}" if isinstance(name, float) else str(name) for name in names),
            str(len(group)),
            *(spread(getattr(outcome, field) for outcome in group) for field in ("shd", "tpr", "fdr")),
            spread((outcome.edges for outcome in group), 1),
            spread(outcome.megabytes for outcome in group),
            spread((outcome.seconds for outcome in group), 1),
            (paper or {}).get(key, "-"),
        )
    wide_console().print(table)


def print_paired(outcomes: Sequence[Outcome], pairs: Iterable[tuple[str, str]], key: Callable[[Outcome], Any]) -> None:
    """Print the mean difference of SHD, seed by seed, with its standard error."""
    by_run = {(outcome.label, key(outcome), outcome.seed): outcome.shd for outcome in outcomes}
    for one, other in pairs:
        for value in dict.fromkeys(key(outcome) for outcome in outcomes):
            gaps = [
                by_run[one, value, seed] - by_run[other, value, seed]
                for (label, at, seed) in by_run
                if label == one and at == value and (other, value, seed) in by_run
            ]
            if len(gaps) > 1:
                error = stdev(gaps) / math.sqrt(len(gaps))
                console().print(
                    f"SHD of {one} minus {other} at {value}: {fmean(gaps):+.2f} ± {error:.2f} (s.e., {len(gaps)} seeds)"
                )


def finish(outcomes: Sequence[Outcome], sink: Sink, draw: Callable[[Path], None], show: Callable[[], None]) -> None:
    """Print, and write what was asked for."""
    if sink.csv_file is not None:
        write_csv(sink.csv_file, [outcome.row() for outcome in outcomes])
    if sink.plot is not None:
        draw(sink.plot)
    if sink.as_json:
        print_json({"runs": [outcome.row() for outcome in outcomes]})
    else:
        show()


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write dictionaries with the same keys."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({key: csv_cell(cell) for key, cell in row.items()} for row in rows)
