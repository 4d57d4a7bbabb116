"""PERI and I-PERI in the setting of the notes on I-PERI: table, exact CPDAGs, and what the authors do not show: epsilon.

Erdős-Rényi DAGs with p expected edges, 4 parties of 1000 rows, one of them without intervention and each other with one
target, at a shielded collider where there is one. Rows are made in topological order.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from benchmarks.common import spread
from benchmarks.paper.output import Sink, study_options, write_csv
from benchmarks.progress import with_progress
from privfcd.algorithms.peri import IPERI, PERI
from privfcd.algorithms.peri.local_graph import learnt_cpdag
from privfcd.cli.output import console, print_json
from privfcd.datasets.interventions import InterventionSimulation, unknown_interventions
from privfcd.graphs import Pdag, compare_pdags, dag_to_cpdag, party_cpdags, phi_cpdag
from privfcd.moments import Moments

PARTIES, ROWS, PRIVATE_ROWS, DELTA = 4, 1000, 10_000, 1e-5
SIZES, QUICK_SIZES = (3, 4, 8, 10, 20), (3, 4, 8)
ORACLE_SIZES, ORACLE_ROWS = (3, 4, 6, 8, 10), 10**6
PRIVATE_SIZE = 8
VALUE_BOUND = 10.0
"""Public bound on the values, for noise on each regret."""
FILTER = 0.85
"""The notes' filter: least mean F1 of the parties' CPDAGs against the exact ones."""

NOTES = {
    "PERI": {3: 3.16, 4: 4.43, 8: 8.40, 10: 11.75, 20: 30.0},
    "I-PERI": {3: 1.53, 4: 2.87, 8: 4.44, 10: 9.85, 20: 27.8},
}
PROGRAM = {3: 1.74, 4: 4.01, 8: 12.2, 10: 15.5, 20: 38.8}
"""SHD of the authors' program, run without the filter."""

METHODS: dict[str, Callable[[], Any]] = {
    "PERI": PERI,
    "I-PERI, program": lambda: IPERI(refine=False, orientation="authors", worst="node"),
    "I-PERI": lambda: IPERI(refine=False, orientation="regret"),
    "ours, unrefined": lambda: IPERI(refine=False),
    "ours": IPERI,
}
PAPER = {"PERI": "PERI", "I-PERI, program": "I-PERI", "I-PERI": "I-PERI", "ours": "I-PERI"}


PANELS = (
    ("shd_authors", "SHD to the DAG (entries)"),
    ("phi_f1", "F1 of the Phi-CPDAG"),
    ("party_f1", "F1 of party CPDAGs"),
)


@dataclass(frozen=True)
class Job:
    """One instance: of the table, of exact CPDAGs, or at an epsilon (inf: no privacy)."""

    section: str
    p: int
    seed: int
    epsilon: float = math.inf


@dataclass(frozen=True)
class Run:
    """One method on one instance.

    Attributes
    ----------
    shd_authors, shd : int
        To the true DAG: differing entries of the matrices, as the authors count (a reversal is 2, an undirected edge 1), and
        differing pairs.
    phi_f1 : float
        F1 over entries against the true Phi-CPDAG, the graph of the class of unknown targets.
    party_f1 : float
        Mean F1 of the parties' CPDAGs against their exact ones.
    common, phi, unsound : bool, bool, int
        Whether the common CPDAG and the Phi-CPDAG are exactly right, and how many edges have the wrong direction.
    spent : float
        Epsilon by the reports.
    """

    section: str
    method: str
    p: int
    seed: int
    epsilon: float
    shd_authors: int
    shd: int
    f1: float
    phi_f1: float
    party_f1: float
    common: bool
    phi: bool
    unsound: int
    spent: float
    messages: int
    kilobytes: float
    seconds: float


@click.command()
@click.option("--epsilon", "epsilons", type=float, multiple=True, help="Of each party; may be given several times.")
@study_options("2-11")
def iperi(
    epsilons: tuple[float, ...],
    quick: bool,
    seeds: list[int],
    jobs: int | None,
    csv_file: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """SHD of PERI, I-PERI and ours against the notes' table; with exact CPDAGs; and against epsilon.

    The constants were chosen on seeds from 1000 on.
    """
    if any(not value > 0 for value in epsilons):
        raise click.BadParameter("must be above 0", param_hint="--epsilon")
    sink = Sink(csv_file, plot, as_json)
    sink.check()
    plan = planned(seeds, epsilons or ((3.0,) if quick else (0.5, 1.0, 3.0, 10.0)), quick)
    runs = [run for found in with_progress(run_job, plan, jobs, "runs") for run in found]
    if sink.csv_file is not None:
        write_csv(sink.csv_file, [asdict(run) for run in runs])
    if sink.plot is not None:
        draw(sink.plot, [run for run in runs if run.section == "epsilon"])
    if sink.as_json:
        print_json({"runs": [_jsonable(run) for run in runs]})
    else:
        show(runs)


def planned(seeds: Sequence[int], epsilons: Iterable[float], quick: bool) -> list[Job]:
    """Return the jobs, long ones first."""
    plan = [Job("epsilon", PRIVATE_SIZE, seed, epsilon) for epsilon in (math.inf, *epsilons) for seed in seeds]
    plan += [Job("table", p, seed) for p in (QUICK_SIZES if quick else SIZES)[::-1] for seed in seeds]
    plan += [Job("exact", p, seed) for p in (QUICK_SIZES if quick else ORACLE_SIZES)[::-1] for seed in seeds]
    return plan


def run_job(job: Job) -> list[Run]:
    """Run every method of one job."""
    rows = PRIVATE_ROWS if job.section == "epsilon" else ROWS
    made = unknown_interventions(job.p, PARTIES, rows, job.seed)
    if job.section == "exact":
        return _exact(job, made)
    return _private(job, made) if job.section == "epsilon" else _table(job, made)


def _table(job: Job, made: InterventionSimulation) -> list[Run]:
    """Run the methods on the parties' exact moments, as open tables would give them."""
    parts = [_moments(table) for table in made.tables]
    return [_measure(job, name, make, made, parts) for name, make in METHODS.items()]


def _exact(job: Job, made: InterventionSimulation) -> list[Run]:
    """Run the methods with exact CPDAGs and population moments."""
    graphs = list(party_cpdags(made.dag, made.targets))
    parts = [population_moments(made.weights, targets) for targets in made.targets]
    return [_measure(job, name, make, made, parts, graphs) for name, make in METHODS.items() if name != "PERI"]


def _private(job: Job, made: InterventionSimulation) -> list[Run]:
    """Run ours on released moments, on those of each party alone, and with noise on each regret."""
    from privfcd.accounting import Budget
    from privfcd.data.private import PrivateTable
    from privfcd.mechanisms import SimulatedNoise

    def tables() -> list[PrivateTable]:
        budget = Budget(job.epsilon, DELTA) if math.isfinite(job.epsilon) else None
        return [
            PrivateTable(table, name=f"party-{k}", budget=budget, noise=SimulatedNoise(job.seed))
            for k, table in enumerate(made.tables)
        ]

    models = {"ours": IPERI()}
    if math.isfinite(job.epsilon):
        models["ours, one covariance"] = IPERI(release="covariance")
        models["ours, noise on each regret"] = IPERI(privacy="regret", value_bound=VALUE_BOUND)
    found = []
    for name, model in models.items():
        began = time.perf_counter()
        model.fit(tables())
        seconds = time.perf_counter() - began
        parts = [_moments(table) for table in made.tables] if math.isinf(job.epsilon) else model.released_moments_ or ()
        found.append(_run(job, name, model, made, seconds, _own_graphs(model, parts)))
    return found


def _measure(
    job: Job,
    name: str,
    make: Callable[[], Any],
    made: InterventionSimulation,
    parts: list[Moments],
    graphs: list[Pdag] | None = None,
) -> Run:
    began = time.perf_counter()
    model = make().fit(parts, graphs=graphs)
    seconds = time.perf_counter() - began
    return _run(job, name, model, made, seconds, _own_graphs(model, parts) if graphs is None else graphs)


def _own_graphs(model: Any, parts: Sequence[Moments]) -> list[Pdag]:
    """Return the graphs that the parties learnt from their moments; none where they paid for each regret."""
    return [learnt_cpdag(part, model._settings()) for part in parts]


def _run(
    job: Job, name: str, model: Any, made: InterventionSimulation, seconds: float, graphs: Sequence[Pdag]
) -> Run:
    estimate = getattr(model, "phi_cpdag_", model.cpdag_)
    truth = phi_cpdag(made.dag, made.targets, "unknown")
    against = compare_pdags(made.dag, estimate)
    exact = party_cpdags(made.dag, made.targets)
    own = [compare_pdags(one, other).f1 for one, other in zip(exact, graphs, strict=bool(graphs))]
    return Run(
        section=job.section,
        method=name,
        p=job.p,
        seed=job.seed,
        epsilon=job.epsilon,
        shd_authors=against.shd_entries,
        shd=against.shd,
        f1=against.f1,
        phi_f1=compare_pdags(truth, estimate).f1,
        party_f1=fmean(own) if own else math.nan,
        common=model.cpdag_ == dag_to_cpdag(made.dag),
        phi=estimate == truth,
        unsound=against.reversed,
        spent=model.privacy_spent_[0],
        messages=model.messages_,
        kilobytes=model.bytes_exchanged_ / 1e3,
        seconds=seconds,
    )


def _moments(table: np.ndarray) -> Moments:
    rows = table - table.mean(axis=0)
    matrix = rows.T @ rows / len(rows)
    return Moments((matrix + matrix.T) / 2, len(rows), tuple(f"x{j}" for j in range(rows.shape[1])))


def population_moments(weights: np.ndarray, targets: Iterable[int], rows: int = ORACLE_ROWS) -> Moments:
    """Return the moments of infinitely many rows of a party with these targets, as those of `rows`."""
    own = weights.copy()
    own[:, list(targets)] = 0.0
    inverse = np.linalg.inv(np.eye(len(own)) - own)
    matrix = inverse.T @ inverse
    return Moments((matrix + matrix.T) / 2, rows, tuple(f"x{j}" for j in range(len(own))))


def groups(runs: Iterable[Run], *fields: str) -> dict[tuple[Any, ...], list[Run]]:
    """Return the runs by some of their fields, in order of appearance."""
    found: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        found.setdefault(tuple(getattr(run, field) for field in fields), []).append(run)
    return found


def show(runs: Sequence[Run]) -> None:
    """Print the three tables."""
    by_size = sorted(runs, key=lambda run: run.p)
    _show_table([run for run in by_size if run.section == "table"])
    _show_exact([run for run in by_size if run.section == "exact"])
    _show_private([run for run in runs if run.section == "epsilon"])


def _show_table(runs: Sequence[Run]) -> None:
    from rich.table import Table

    table = Table(
        title="SHD to the true DAG as the authors count (entries of the matrix); filter: mean F1 of party CPDAGs >= 0.85",
        title_justify="left",
    )
    for heading in ("p", "method"):
        table.add_column(heading)
    for heading in ("filter", "SHD", "notes", "all: SHD", "program", "by pairs", "F1", "messages", "seconds"):
        table.add_column(heading, justify="right")
    for (p, method), group in groups(runs, "p", "method").items():
        kept = [run.shd_authors for run in group if run.party_f1 >= FILTER]
        notes = NOTES[PAPER[method]].get(p) if method in PAPER else None
        table.add_row(
            str(p),
            method,
            f"{len(kept)} of {len(group)}",
            spread(kept) if kept else "-",
            "-" if notes is None else f"{notes:g}",
            spread(run.shd_authors for run in group),
            f"{PROGRAM[p]:g}" if method.startswith("I-PERI") or method == "ours" else "-",
            spread(run.shd for run in group),
            spread(run.f1 for run in group),
            spread((run.messages for run in group), 0),
            spread(run.seconds for run in group),
        )
    console().print(table)


def _show_exact(runs: Sequence[Run]) -> None:
    from rich.table import Table

    table = Table(title="With exact CPDAGs of the parties", title_justify="left")
    for heading in ("p", "method"):
        table.add_column(heading)
    for heading in ("graphs", "common CPDAG right", "Phi-CPDAG right", "wrong directions", "SHD"):
        table.add_column(heading, justify="right")
    for (p, method), group in groups(runs, "p", "method").items():
        table.add_row(
            str(p),
            method,
            str(len(group)),
            f"{100 * fmean(run.common for run in group):.0f} %",
            f"{100 * fmean(run.phi for run in group):.0f} %",
            str(sum(run.unsound for run in group)),
            spread(run.shd_authors for run in group),
        )
    console().print(table)


def _show_private(runs: Sequence[Run]) -> None:
    from rich.table import Table

    table = Table(
        title=f"p = {PRIVATE_SIZE}, {PRIVATE_ROWS} rows a party, delta = {DELTA:g} for each party", title_justify="left"
    )
    for heading in ("method", "epsilon"):
        table.add_column(heading)
    for heading in ("runs", "spent", "SHD (entries)", "SHD (pairs)", "F1 of Phi-CPDAG", "F1 of party CPDAGs"):
        table.add_column(heading, justify="right")
    for (method, epsilon), group in groups(runs, "method", "epsilon").items():
        table.add_row(
            method,
            f"{epsilon:g}",
            str(len(group)),
            f"{max(run.spent for run in group):.3g}",
            *(spread(getattr(run, field) for run in group) for field in ("shd_authors", "shd", "phi_f1", "party_f1")),
        )
    console().print(table)


def draw(path: Path, runs: Sequence[Run]) -> None:
    """Draw SHD and F1 against epsilon, with bands of one standard deviation."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    for axis, (field, name) in zip(figure.subplots(1, 3), PANELS, strict=True):
        for (method,), group in groups(runs, "method").items():
            points = {
                key[0]: [getattr(run, field) for run in at] for key, at in sorted(groups(group, "epsilon").items())
            }
            if math.inf in points:
                axis.axhline(
                    fmean(points.pop(math.inf)), linestyle="--", color="black", linewidth=1, label="no privacy"
                )
            means = np.array([np.mean(values) for values in points.values()])  # NaN where a value has no meaning
            sds = np.array([np.std(values, ddof=1) if len(values) > 1 else 0.0 for values in points.values()])
            (drawn,) = axis.plot(list(points), means, marker="o", markersize=3, label=method)
            axis.fill_between(list(points), means - sds, means + sds, color=drawn.get_color(), alpha=0.15)
        axis.set_xscale("log")
        axis.set_xlabel("epsilon of each party")
        axis.set_ylabel(name)
        axis.legend(fontsize=8)
    figure.suptitle(f"p = {PRIVATE_SIZE}, {PARTIES} parties of {PRIVATE_ROWS} rows, delta = {DELTA:g}")
    figure.savefig(path, dpi=120)


def _jsonable(run: Run) -> dict[str, Any]:
    values = asdict(run)
    return values | {key: str(values[key]) for key in ("epsilon", "spent", "party_f1") if not math.isfinite(values[key])}
