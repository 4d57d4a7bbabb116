"""The Sachs graph from three party processes on Flower, and the same from one process: the same bits."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from privfcd.accounting import Budget
from privfcd.algorithms import NOTEARS, FedSparseBNSL
from privfcd.cli.demonstration import PARTIES, SPLIT_SEED, TARGET
from privfcd.data.private import PrivateTable
from privfcd.data.tables import split_rows
from privfcd.datasets.sachs import sachs
from privfcd.errors import InvalidParameter
from privfcd.graphs import compare
from privfcd.ledger.tools import init_ledger, verify
from privfcd.mechanisms import SimulatedNoise
from privfcd.runs.flower import be_quiet
from privfcd.runs.flower.grid import FlowerTransport
from privfcd.runs.flower.trial import Trial
from privfcd.runs.study_run import StudyRun, run_study
from privfcd.runs.wire.study_file import read_study

DELTA = 1e-7
LEARNERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "fed-sparse": (FedSparseBNSL, {"center": True, "rounds": 5, "updates": 60}),
    "notears": (NOTEARS, {"center": True}),
}
"""Names in study files, estimators, and parameters: few rounds, for a question takes a second or more between machines."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """One method, on Flower and in one process."""

    method: str
    run: StudyRun
    local: Any
    shd: int
    target_edges: int
    start: float

    @property
    def same(self) -> bool:
        """Whether both learnt the same weights, bit for bit."""
        ours, theirs = self.local.adjacency_matrix_, self.run.model.adjacency_matrix_
        return bool(np.array_equal(ours, theirs)) and ours.tobytes() == theirs.tobytes()


def compare_engines(folder: Path, method: str, epsilon: float, seed: int, rows: int | None = None) -> Comparison:
    """Run one method on a SuperLink and three parties with TLS on 127.0.0.1, and in this process.

    Parameters
    ----------
    folder : path
        Empty; tables, ledgers, keys and logs go there.
    method : str
        Of `LEARNERS`.
    epsilon : float
        Of each party.
    seed : int
        Of the simulated noise, the same for both.
    rows : int, optional
        How many of the 7466 rows are used; all by default.
    """
    data = sachs()
    learner, parameters = LEARNERS[method]
    parts = split_rows(np.log1p(data.rows[:rows]), parties=len(PARTIES), seed=SPLIT_SEED)
    study_path = folder / "study.toml"
    study_path.write_text(_toml(method, data.columns, epsilon, parameters))
    study = read_study(study_path)
    began = time.perf_counter()
    with Trial(folder, PARTIES) as trial:
        for name, part in zip(PARTIES, parts, strict=True):
            table = folder / f"{name}.csv"
            header = ",".join(data.columns)
            np.savetxt(table, part, delimiter=",", header=header, comments="", fmt="%.17g")
            init_ledger(folder / f"{name}.sqlite", name, Budget(epsilon, DELTA))
            more = ("--simulated-noise", str(seed), "--linger", "30")
            trial.serve(name, study_path, table, folder / f"{name}.sqlite", *more)
        with FlowerTransport(trial.superlink, secret=trial.secret) as transport:
            absent = transport.find(study, study.parties, 120.0)
            start = time.perf_counter() - began
            run = run_study(study, transport, checkpoint=folder / "checkpoint.sqlite", absent=dict(absent))
    for name in PARTIES:
        assert verify(folder / f"{name}.sqlite").ok
    tables = [
        PrivateTable(
            part, data.columns, name=name, budget=Budget(epsilon, DELTA), noise=SimulatedNoise(seed)
        )
        for name, part in zip(PARTIES, parts, strict=True)
    ]  # fmt: skip
    local = learner(**parameters, epsilon=epsilon, delta=DELTA).fit(tables)
    target = data.targets[TARGET]
    shd = compare(target, run.model.causal_graph_).shd
    return Comparison(method, run, local, shd, target.number_of_edges(), start)


@click.command()
@click.option("--epsilon", type=float, default=5.0, show_default=True, help="Budget of each party, at delta = 1e-7.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of the simulated noise, the same for both engines."
)
@click.option("--method", "methods", type=click.Choice(list(LEARNERS)), multiple=True, help="Both by default.")
@click.option("--quick", is_flag=True, help="Only Fed-Sparse-BNSL.")
def flower(epsilon: float, seed: int, methods: tuple[str, ...], quick: bool) -> None:
    """A SuperLink and three parties with TLS and node keys on 127.0.0.1 learn the Sachs graph; compared with one process.

    The noise is simulated with one seed, so that the results can be compared bit for bit. Needs the extra `flower`.
    """
    from rich.table import Table

    from privfcd.cli.output import console, say

    try:
        be_quiet()
    except InvalidParameter as error:
        raise click.ClickException(str(error)) from None
    chosen = methods or (("fed-sparse",) if quick else tuple(LEARNERS))
    table = Table(title=f"Sachs, three parties on Flower, epsilon = {epsilon:g} each", title_justify="left")
    headings = ("method", "bit for bit", "edges", "SHD", "questions", "s a question", "bytes (paper)", "bytes (wire)")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "method" else "right")
    failed = False
    for method in chosen:
        with tempfile.TemporaryDirectory(prefix="privfcd-flower-") as folder:
            found = compare_engines(Path(folder), method, epsilon, seed)
        failed = failed or not found.same
        run = found.run
        table.add_row(
            method,
            "the same" if found.same else "DIFFERENT",
            str(run.model.causal_graph_.number_of_edges()),
            f"{found.shd} of {found.target_edges}",
            str(run.questions),
            f"{run.seconds_a_question:.2f}",
            f"{run.paper_bytes:,}",
            f"{run.wire_bytes:,}",
        )
        say(f"{method}: start {found.start:.1f} s, run {run.seconds:.1f} s", stderr=True)
    console().print(table)
    if failed:
        raise click.exceptions.Exit(1)


def _toml(method: str, columns: tuple[str, ...], epsilon: float, parameters: dict[str, Any]) -> str:
    def value(item: Any) -> str:
        return str(item).lower() if isinstance(item, bool) else repr(item)

    def listed(names: tuple[str, ...]) -> str:
        return "[" + ", ".join(f'"{name}"' for name in names) + "]"

    lines = ["schema = 1", 'name = "sachs"', f'method = "{method}"', f"parties = {listed(PARTIES)}"]
    lines += [f"columns = {listed(tuple(columns))}", "", "[budget]", f"epsilon = {epsilon!r}", f"delta = {DELTA!r}", ""]
    lines += ["[parameters]", *(f"{name} = {value(item)}" for name, item in parameters.items())]
    return "\n".join(lines) + "\n"
