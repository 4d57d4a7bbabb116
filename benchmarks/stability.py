"""What the frequency of an edge under fresh noise is worth: how often edges of each frequency are right."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.moments_limits import budgeted_tables
from benchmarks.paper.experiments import PARTIES, ROWS
from benchmarks.paper.output import Sink, study_options, wide_console, write_csv
from benchmarks.progress import with_progress
from privfcd.algorithms.stability.redraws import fresh, has_weights
from privfcd.algorithms.stability.tally import Tally
from privfcd.cli.output import print_json
from privfcd.moments import Moments

Array = NDArray[np.float64]

BANDS = (0.0, 0.5, 0.8, 0.95, 1.0)


@dataclass(frozen=True)
class Setting:
    """One learner at one budget.

    Attributes
    ----------
    learner : str
        An estimator of privfcd.
    epsilon : float
        Of each of the 8 parties.
    d : int
    draws : int
        Reruns; none for a run that releases coordinates, whose rounds are counted.
    release : str or None
        The estimator's parameter, where it is set.
    most_seeds : int
        How many of the seeds are run.
    noise_runs : int
        For a release of coordinates: runs on noise alone.
    """

    learner: str
    epsilon: float
    d: int = 20
    draws: int = 30
    release: str | None = None
    most_seeds: int = 1000
    noise_runs: int = 0

    @property
    def label(self) -> str:
        """The learner, and what is released."""
        return self.learner + ("" if self.release is None else f", {self.release}")

    def made(self) -> Any:
        """Return the estimator."""
        import privfcd

        options = {} if self.release is None else {"release": self.release}
        return getattr(privfcd, self.learner)(center=False, **options)


SETTINGS = (
    Setting("EqualVarianceSearch", 0.1),
    Setting("EqualVarianceSearch", 0.25),
    Setting("GES", 0.25),
    Setting("GES", 1.0),
    Setting("PC", 0.25),
    Setting("PC", 1.0),
    Setting("FedSparseBNSL", 0.25, draws=15, release="preconditioned"),
    Setting("FedSparseBNSL", 5.0, release="coordinates", noise_runs=1),
    Setting("FedSparseBNSL", 10.0, release="coordinates", noise_runs=1),
    Setting("EqualVarianceSearch", 2.0, d=200, draws=10, most_seeds=2),
)
COMPARED = (
    Setting("EqualVarianceSearch", 0.1, draws=20),
    Setting("GES", 0.25, draws=20),
    Setting("PC", 0.25, draws=20),
)
QUICK = (Setting("GES", 0.25, draws=20), Setting("PC", 0.25, draws=20))


def twice(moments: Moments, generator: np.random.Generator) -> Moments:
    """S + N + N*, told the variance of both: what is used."""
    return moments.redrawn(generator)


def once(moments: Moments, generator: np.random.Generator) -> Moments:
    """S + N + N*, told the variance of N* alone."""
    return replace(moments, matrix=moments.matrix + moments.noise_draw(generator))


def half(moments: Moments, generator: np.random.Generator) -> Moments:
    """S + N + N*, N* of half the variance, told the variance of both."""
    matrix = moments.matrix + moments.noise_draw(generator) / math.sqrt(2)
    return replace(moments, matrix=matrix, noise=tuple(term.scaled(math.sqrt(1.5)) for term in moments.noise))


def posterior(moments: Moments, generator: np.random.Generator) -> Moments:
    """S + N - N*, told of no noise: the moments' posterior under a flat prior."""
    return replace(moments, matrix=moments.matrix - moments.noise_draw(generator), noise=()).repaired()


CONSTRUCTIONS: Mapping[str, Callable[[Moments, np.random.Generator], Moments]] = {
    "fresh noise, told of both (used)": twice,
    "fresh noise, told of one": once,
    "half of the fresh variance, told of both": half,
    "posterior, told of none": posterior,
}


NOT_TESTED = "not tested"


@dataclass(frozen=True)
class Edge:
    """An edge of a private graph: its frequency, whether it is in the graphs without noise and of the truth, and whether any
    test could judge it.
    """

    frequency: float
    noise_free: bool
    true: bool
    covered: bool | None = None
    tested: bool = True


@dataclass(frozen=True)
class Case:
    """What one run came to under one construction."""

    label: str
    d: int
    epsilon: float
    seed: int
    construction: str
    edges: tuple[Edge, ...] = field(repr=False)
    missed: int
    alone_edges: float | None
    alone_weight: float | None
    alone_most: float | None
    draws: int
    seconds: float


@dataclass(frozen=True)
class Job:
    """A setting on one instance."""

    setting: Setting
    seed: int
    constructions: bool = False


def run_job(job: Job) -> list[Case]:
    """Run the learner with and without noise, then the stability of its edges."""
    from privfcd import simulate
    from privfcd.algorithms import edge_stability

    setting = job.setting
    simulation = simulate.linear_gaussian(setting.d, parties=PARTIES, rows=ROWS, seed=job.seed)
    truth = simulation.weights != 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        free = setting.made().fit(budgeted_tables(simulation.tables, None, job.seed))
        model = setting.made().fit(budgeted_tables(simulation.tables, setting.epsilon, job.seed))
        began = time.process_time()
        if job.constructions:
            shares = {name: _reruns(model, redraw, setting.draws) for name, redraw in CONSTRUCTIONS.items()}
            found = None
        else:
            found = edge_stability(model, draws=setting.draws, noise_runs=setting.noise_runs)
            shares = {"": (found.frequency, found.adjacency, found.weight_low, found.weight_high)}
        seconds = time.process_time() - began
    cases = []
    for name, (frequency, adjacency, low, high) in shares.items():
        edges, missed = judged(model, free.adjacency_matrix_, truth, frequency, adjacency, low, high)
        alone = None if found is None or found.noise_alone_adjacency is None else found.noise_alone_adjacency
        cases.append(
            Case(
                label=setting.label,
                d=setting.d,
                epsilon=setting.epsilon,
                seed=job.seed,
                construction=name,
                edges=tuple(edges),
                missed=missed,
                alone_edges=None if found is None else found.noise_alone_edges,
                alone_weight=None if found is None else found.noise_alone_weight,
                alone_most=None if alone is None else float(alone.max()),
                draws=setting.draws if found is None else found.draws,
                seconds=seconds / len(shares),
            )
        )
    return cases


def _reruns(
    model: Any, redraw: Callable[[Moments, np.random.Generator], Moments], draws: int
) -> tuple[Array, Array, Array, Array]:
    """Return frequencies, adjacencies and quantiles over fits to what `redraw` makes of the released moments."""
    tally = Tally(len(model.feature_names_in_))
    for draw in range(draws):
        parts = [redraw(part, np.random.default_rng([draw, p])) for p, part in enumerate(model.released_moments_)]
        again: Any = fresh(model)
        tally.add(again.fit(parts).adjacency_matrix_)
    low, high = tally.quantiles()
    return tally.frequency, tally.adjacency, low, high


def judged(
    model: Any,
    free: NDArray[Any],
    truth: NDArray[np.bool_],
    frequency: Array,
    adjacency: Array,
    low: Array,
    high: Array,
) -> tuple[list[Edge], int]:
    """Return the edges of a private graph with what they are worth, and how many edges without noise it lacks.

    A directed edge is in a graph that has it in this direction (for a class of graphs, the class of the noise-free run),
    an undirected one in a graph where the two are adjacent.
    """
    found, without = model.adjacency_matrix_ != 0, np.asarray(free) != 0
    directed_free = without & ~without.T
    weighted = has_weights(model)
    untested = {frozenset(pair) for pair in getattr(model, "untested_", ())}
    names = model.feature_names_in_
    edges = []
    for i, j in np.argwhere(found).tolist():
        tested = frozenset((names[i], names[j])) not in untested
        if not found[j, i]:
            covered = None
            if weighted and directed_free[i, j]:
                covered = bool(low[i, j] <= free[i, j] <= high[i, j])
            edges.append(Edge(float(frequency[i, j]), bool(directed_free[i, j]), bool(truth[i, j]), covered, tested))
        elif i < j:
            near = (bool(without[i, j] or without[j, i]), bool(truth[i, j] or truth[j, i]))
            edges.append(Edge(float(adjacency[i, j]), *near, tested=tested))
    lost = directed_free & ~(found & ~found.T)
    return edges, int(lost.sum())


def plan(seeds: Sequence[int], quick: bool, constructions: bool) -> list[Job]:
    """Return the jobs, the longest first."""
    settings: Iterable[Setting] = QUICK if quick else SETTINGS
    if constructions:
        settings = COMPARED[1:] if quick else COMPARED
    jobs = [Job(one, seed, constructions) for one in settings for seed in seeds[: one.most_seeds]]
    return sorted(jobs, key=lambda job: (-job.setting.d, job.setting.release != "coordinates"))


@click.command()
@click.option("--constructions", is_flag=True, help="Instead: other ways to redraw; with seeds from 1000 on.")
@study_options("2-11")
def stability(
    constructions: bool,
    quick: bool,
    seeds: list[int],
    jobs: int | None,
    csv_file: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Of edges with a given frequency under fresh noise, the share that is in the graph without noise, and in the truth.

    8 parties of 5000 rows, delta = 1/n² for every party, d = 20 and once 200. The way to redraw was chosen on seeds 1000
    to 1005.
    """
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    cases = [
        case for found in with_progress(run_job, plan(seeds, quick, constructions), jobs, "runs") for case in found
    ]
    cases.sort(key=lambda case: (case.d, case.label, case.epsilon, case.construction, case.seed))
    rows = band_rows(cases)
    if csv_file is not None:
        write_csv(csv_file, rows)
    if plot is not None:
        draw_bands(plot, rows)
    if as_json:
        print_json({"bands": rows, "runs": run_rows(cases)})
        return
    _print("Edges of the private graphs by their frequency; of those in a band, the share that is right", rows)
    _print("Each setting: noise alone, intervals of the weights, time", run_rows(cases))


def _groups(cases: Iterable[Case]) -> dict[tuple[Any, ...], list[Case]]:
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.label, case.d, case.epsilon, case.construction), []).append(case)
    return groups


def band_rows(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Return for each setting and band of frequency how many edges there are, and the shares that are right.

    Edges that no test could judge, which `untested_` of a model names, are in no band and have a row of their own. The last
    rows are of all settings together, where there are several.
    """
    groups = _groups(cases)
    everything = [case for group in groups.values() for case in group]
    if len(groups) > 1 and not everything[0].construction:
        groups["all", None, None, ""] = everything
    rows = []
    for (label, d, epsilon, construction), group in groups.items():
        edges = [edge for case in group for edge in case.edges]
        bands = {f"{low:g} to {high:g}": _inside(edges, low, high) for low, high in pairwise(BANDS)}
        silent = [edge for edge in edges if not edge.tested]
        for band, inside in {**bands, **({NOT_TESTED: silent} if silent else {})}.items():
            rows.append(
                {
                    "learner": label,
                    "d": d,
                    "epsilon": epsilon,
                    **({"construction": construction} if construction else {}),
                    "frequency": band,
                    "edges": len(inside),
                    "without noise": fmean(edge.noise_free for edge in inside) if inside else None,
                    "true": fmean(edge.true for edge in inside) if inside else None,
                }
            )
    return rows


def _inside(edges: Iterable[Edge], low: float, high: float) -> list[Edge]:
    """Return the tested edges of one band; the last one holds its upper end."""
    return [e for e in edges if e.tested and (low <= e.frequency < high or (high == 1.0 == e.frequency))]


def run_rows(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Return for each setting what noise alone makes, how often intervals hold the weight without noise, and the time."""
    rows = []
    for (label, d, epsilon, construction), group in _groups(cases).items():
        covered = [edge.covered for case in group for edge in case.edges if edge.covered is not None]
        rows.append(
            {
                "learner": label,
                "d": d,
                "epsilon": epsilon,
                **({"construction": construction} if construction else {}),
                "runs": len(group),
                "edges a run": fmean(len(case.edges) for case in group),
                "missed a run": fmean(case.missed for case in group),
                "edges of noise alone": _mean(case.alone_edges for case in group),
                "likeliest of them": _mean(case.alone_most for case in group),
                "95 % of its weights": _mean(case.alone_weight for case in group),
                "weights in interval": fmean(covered) if covered else None,
                "draws": group[0].draws,
                "processor seconds": fmean(case.seconds for case in group),
            }
        )
    return rows


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _print(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name, value in rows[0].items():
        table.add_column(name, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*map(_text, row.values()))
    wide_console().print(table)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def draw_bands(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw the share that is in the graph without noise against the band of frequency, a line for each setting."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = [row for row in rows if row["frequency"] != NOT_TESTED]
    names = list(dict.fromkeys(row["frequency"] for row in rows))
    groups: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row["without noise"] is not None and row["d"] is not None:
            label = f"{row['learner']}, d = {row['d']}, epsilon = {row['epsilon']:g}"
            if "construction" in row:
                label += f": {row['construction']}"
            groups.setdefault(label, []).append((names.index(row["frequency"]), row["without noise"]))
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for label, points in groups.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=label)
    axes.set_xticks(range(len(names)), names)
    axes.set_xlabel("frequency under fresh noise")
    axes.set_ylabel("share that is in the graph without noise")
    axes.set_ylim(0, 1.02)
    axes.legend(fontsize="small")
    figure.savefig(path, bbox_inches="tight")
    pyplot.close(figure)
