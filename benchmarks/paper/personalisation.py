"""Figure 2: parties' own weights on a graph that they learnt together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import cores, run_parallel
from benchmarks.paper.output import Sink, study_options, wide_console, write_csv
from privfcd.cli.output import console, print_json

PARTIES, ROWS, D = 20, 50, 20

COLUMNS = ("consensus", "personalised", "local_notears")


@dataclass(frozen=True)
class Errors:
    """One party's normalised mean squared errors (B.2.2)."""

    seed: int
    party: int
    consensus: float
    personalised: float
    local_notears: float


def normalised_error(estimate: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return ‖estimate - truth‖² / ‖truth‖², Frobenius."""
    return float(((estimate - truth) ** 2).sum() / (truth**2).sum())


def run_seed(seed: int) -> list[Errors]:
    """Return the errors of every party on one instance."""
    from privfcd import NOTEARS, FedSparseBNSL, PrivateTable
    from privfcd.algorithms.personalisation import personalise
    from privfcd.datasets.simulate import linear_gaussian

    simulated = linear_gaussian(D, parties=PARTIES, rows=ROWS, seed=seed, heterogeneous=True)
    tables = [PrivateTable(rows, name=f"party-{index}") for index, rows in enumerate(simulated.tables)]
    model = FedSparseBNSL(center=False).fit(tables)
    own = personalise(model, tables, center=False)
    answers = []
    for index, (table, truth) in enumerate(zip(tables, simulated.party_weights, strict=True)):
        local = NOTEARS(center=False).fit([table])
        answers.append(
            Errors(
                seed,
                index,
                normalised_error(model.adjacency_matrix_, truth),
                normalised_error(own[index].weights, truth),
                normalised_error(local.adjacency_matrix_, truth),
            )
        )
    return answers


@click.command()
@study_options("2-11")
def figure2(
    quick: bool, seeds: list[int], jobs: int | None, csv_file: Path | None, plot: Path | None, as_json: bool
) -> None:
    """Parties' own weights: the consensus, a refit by each party, NOTEARS alone; 20 parties of 50 rows."""
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    chosen = seeds[:3] if quick else seeds
    found = run_parallel(run_seed, chosen, cores() if jobs is None else jobs)
    errors = [error for group in found for error in group]
    rows: list[dict[str, Any]] = [error.__dict__ for error in errors]
    if sink.csv_file is not None:
        write_csv(sink.csv_file, rows)
    if sink.plot is not None:
        _draw(sink.plot, errors)
    if as_json:
        print_json({"runs": rows})
        return
    from rich.table import Table

    title = f"Figure 2: normalised MSE of parties' weights, {len(errors)} parties, seeds {chosen}"
    table = Table(title=title, title_justify="left")
    for heading in ("weights", "median", "mean"):
        table.add_column(heading, justify="left" if heading == "weights" else "right")
    for name in COLUMNS:
        values = [getattr(error, name) for error in errors]
        table.add_row(name.replace("_", " "), f"{median(values):.3f}", f"{fmean(values):.3f}")
    wide_console().print(table)
    for other in ("consensus", "local_notears"):
        gaps = [fmean(getattr(error, other) - error.personalised for error in group) for group in found]
        scatter = stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
        console().print(
            f"{other.replace('_', ' ')} minus personalised: {fmean(gaps):+.3f} ± {scatter:.3f} (s.e., {len(gaps)} seeds)"
        )


def _draw(path: Path, errors: list[Errors]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4), layout="constrained")
    axis = figure.subplots()
    parties = sorted({error.party for error in errors})
    colours = ("tab:gray", "tab:blue", "tab:orange")
    for place, (name, colour) in enumerate(zip(COLUMNS, colours, strict=True)):
        values = [[getattr(error, name) for error in errors if error.party == party] for party in parties]
        positions = [party * 4 + place for party in parties]
        boxes = axis.boxplot(values, positions=positions, widths=0.8, showfliers=False, patch_artist=True)
        for box in boxes["boxes"]:
            box.set_facecolor(colour)
        axis.plot([], [], color=colour, linewidth=8, label=name.replace("_", " "))
    axis.set_xticks([party * 4 + 1 for party in parties], [str(party + 1) for party in parties])
    axis.set_xlabel("party")
    axis.set_ylabel("normalised MSE")
    axis.legend()
    figure.suptitle("Figure 2: parties' own weights")
    figure.savefig(path, dpi=120)
