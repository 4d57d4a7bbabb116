"""FedACD: SHD and F1 by networks, parties and masks, where masking helps and where it does not, and F1 against epsilon."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import click
import numpy as np

from benchmarks.common import spread
from benchmarks.fedacd_runs import (
    DELTA,
    MANY,
    ROWS,
    Job,
    Run,
    plan_different,
    plan_directions,
    plan_networks,
    plan_private,
    plan_rates,
    run,
)
from benchmarks.paper.output import Sink, study_options, write_csv
from benchmarks.progress import with_progress
from privfcd.cli.output import print_json

SECTIONS: dict[str, Callable[[Sequence[int], bool], list[Job]]] = {
    "networks": plan_networks,
    "different": plan_different,
    "rates": plan_rates,
    "directions": plan_directions,
    "private": plan_private,
}
TITLES = {
    "networks": f"{ROWS} rows of each network, split evenly; r is the share of masked removals",
    "different": f"parties that share a graph only: {ROWS} rows in all, variables/edges",
    "rates": f"share of masks, {MANY} parties, {ROWS} rows in all",
    "directions": f"rules of the paper and ours, {ROWS} rows in all; arrows and class SHD are against the true class",
    "private": f"private, {MANY} parties, {ROWS} rows in all, delta = {DELTA:g} for every party, everything paid",
}


@click.command()
@click.option("--section", "sections", multiple=True, type=click.Choice(list(SECTIONS)), help="Only this; repeatable.")
@click.option(
    "--check",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Instead: compare with the authors' program on its data, which may not be bundled: a folder that holds, at any "
    "depth, fedacd.json, Child_5000samples.txt, Child_graph.txt, and the REGED_node8 files.",
)
@study_options("0-9")
def fedacd(
    sections: tuple[str, ...],
    check: Path | None,
    quick: bool,
    seeds: list[int],
    jobs: int | None,
    csv_file: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """SHD and F1 of FedACD on Child, Insurance, Alarm and non-IID data, with masks and without; private F1 against epsilon.

    Constants were chosen on seeds from 1000 on.
    """
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    if check is not None:
        if not check_against_authors(check, sink):
            raise click.exceptions.Exit(1)
        return
    plans = {name: SECTIONS[name](seeds, quick) for name in sections or SECTIONS}
    ordered = sorted({job for plan in plans.values() for job in plan}, key=_longest_first)
    found = dict(zip(ordered, with_progress(run, ordered, jobs, "runs"), strict=True))
    runs = {name: [found[job] for job in plan] for name, plan in plans.items()}
    rows = [{"section": name, **each.row()} for name, some in runs.items() for each in some]
    if csv_file is not None:
        write_csv(csv_file, rows)
    if plot is not None:
        draw(plot, runs)
    if as_json:
        print_json({"runs": rows})
        return
    for name, some in runs.items():
        print_runs(TITLES[name], some)
        print_masking(some)


def _longest_first(job: Job) -> tuple[Any, ...]:
    return (-("alarm" in job.data), -("insurance" in job.data), -job.parties, str(job))


def print_runs(title: str, runs: Iterable[Run]) -> None:
    """Print a line for each setting: mean ± sd over seeds."""
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for each in runs:
        job = each.job
        groups.setdefault((job.data, job.way, job.epsilon, job.parties, job.rate, job.variant), []).append(each)
    lines = ["data way epsilon parties r rules runs SHD F1".split()]
    lines[0] += ["skeleton F1", "arrows F1", "class SHD", "edges", "turned", "s"]
    for key, group in groups.items():
        scored = not math.isnan(group[0].f1)
        lines.append(
            [
                *(f"{part:g}" if isinstance(part, float) else str(part) for part in key),
                str(len(group)),
                spread((each.shd for each in group), 1) if scored else "-",
                spread((each.f1 for each in group), 3) if scored else "-",
                spread((each.skeleton for each in group), 3),
                spread((each.arrows for each in group), 3) if scored else "-",
                spread((each.class_shd for each in group), 1) if scored else "-",
                spread((each.edges for each in group), 1),
                f"{fmean(each.turned for each in group):.1f}",
                f"{fmean(each.seconds for each in group):.2f}",
            ]
        )
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    click.echo(f"\n{title}")
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line[:2], widths, strict=False)]
        cells += [cell.rjust(width) for cell, width in zip(line[2:], widths[2:], strict=True)]
        click.echo("  ".join(cells))


def print_masking(runs: Iterable[Run]) -> None:
    """Print what masks add to F1, seed by seed, against plain votes on the same rows."""
    by_run = {
        each.job: each.f1
        for each in runs
        if (each.job.way, each.job.variant) == ("open", "paper") and each.job.parties > 1
    }
    gaps: dict[tuple[str, int, float], list[float]] = {}
    for job, f1 in by_run.items():
        plain = Job(job.data, job.parties, 0.0, job.seed)
        if job.rate and plain in by_run:
            gaps.setdefault((job.data, job.parties, job.rate), []).append(f1 - by_run[plain])
    for (data, parties, rate), values in gaps.items():
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        wins, losses = sum(value > 0 for value in values), sum(value < 0 for value in values)
        click.echo(
            f"{data}, {parties} parties: masks of r = {rate:g} add {fmean(values):+.3f} ± {error:.3f} (s.e.) to F1; better "
            f"on {wins}, worse on {losses} of {len(values)} seeds"
        )


def draw(path: Path, runs: dict[str, list[Run]]) -> None:
    """Draw F1 against the share of masks and skeleton F1 against epsilon, as far as they were run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _lines(left, runs.get("rates", []), lambda each: (each.job.data, each.job.rate, each.f1))
    left.set(xlabel="share r of masked removals", ylabel="F1, directed edges")
    private = [each for each in runs.get("private", []) if each.job.way != "open"]
    _lines(right, private, lambda each: (f"{each.job.data}, {each.job.way}", each.job.epsilon, each.skeleton))
    right.set(xlabel="epsilon", ylabel="skeleton F1", xscale="log")
    figure.savefig(path, dpi=120)


def _lines(axis: Any, runs: Sequence[Run], point: Callable[[Run], tuple[str, float, float]]) -> None:
    lines: dict[str, dict[float, list[float]]] = {}
    for each in runs:
        label, x, y = point(each)
        lines.setdefault(label, {}).setdefault(x, []).append(y)
    for label, points in lines.items():
        axis.plot(list(points), [fmean(values) for values in points.values()], marker="o", markersize=3, label=label)
    if lines:
        axis.legend(fontsize=7)


def check_against_authors(folder: Path, sink: Sink) -> bool:
    """Compare with the authors' program on its own splits; return whether all skeletons and the mean F1 hold."""
    rows: list[dict[str, Any]] = []
    data: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, stem, samples in (("child", "Child", "5000"), ("reged8", "REGED_node8", "1000")):
        data[name] = (
            np.loadtxt(_found(folder, f"{stem}_{samples}samples.txt")),
            np.loadtxt(_found(folder, f"{stem}_graph.txt")),
        )
    for case in json.loads(_found(folder, "fedacd.json").read_text())["cases"]:
        rows.append(compare_case(case, *data[case["dataset"]]))
    same = sum(row["reference skeleton is theirs"] for row in rows)
    theirs, ours = fmean(row["their F1"] for row in rows), fmean(row["F1"] for row in rows)
    if sink.csv_file is not None:
        write_csv(sink.csv_file, rows)
    if sink.as_json:
        print_json({"cases": rows})
    else:
        for row in rows:
            click.echo(", ".join(f"{key} {value}" for key, value in row.items()))
        click.echo(f"equal skeletons with variant='reference': {same} of {len(rows)}")
        click.echo(f"mean directed F1: {ours:.3f}, the authors' program {theirs:.3f}")
    return same == len(rows) and ours >= theirs


def compare_case(case: dict[str, Any], samples: np.ndarray, graph: np.ndarray) -> dict[str, Any]:
    """Run one of the authors' cases: contiguous blocks of equally many rows, the remainder dropped."""
    from privfcd.algorithms.fedacd import FedACD
    from privfcd.data.private import PrivateTable
    from privfcd.graphs import compare

    each = len(samples) // case["clients"]
    columns = [f"x{j:02d}" for j in range(samples.shape[1])]
    levels = [int(top) + 1 for top in samples.max(axis=0)] if case["dataset"] == "child" else None
    found = {}
    for variant in ("reference", "paper"):
        parts = [samples[k * each : (k + 1) * each] for k in range(case["clients"])]
        tables = [PrivateTable(part, columns) for part in parts]
        found[variant] = FedACD(levels=levels, mask_rate=case["mask_rate"], variant=variant).fit(tables)
    ours = compare(graph, found["paper"].adjacency_matrix_)
    return {
        "data": case["dataset"],
        "parties": case["clients"],
        "r": case["mask_rate"],
        "reference skeleton is theirs": bool(
            np.array_equal(found["reference"].skeleton_, np.array(case["skeleton"], dtype=bool))
        ),
        "their SHD": case["shd"],
        "SHD": ours.shd,
        "their F1": round(case["f1"], 3),
        "F1": round(ours.f1, 3),
    }


def _found(folder: Path, name: str) -> Path:
    path = next(iter(sorted(folder.rglob(name))), None)
    if path is None:
        raise click.UsageError(f"{name} is not in {str(folder)!r}")
    return path
