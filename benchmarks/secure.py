"""Secure sums beside per-party noise and a trusted place: graphs, bytes, CPU; and over Flower with parties killed."""

from __future__ import annotations

import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np

from benchmarks.common import SeedList, run_parallel, spread
from privfcd.accounting import Budget
from privfcd.algorithms import EqualVarianceSearch
from privfcd.algorithms.release import messages, release_moments
from privfcd.algorithms.secure.masks import write_identity
from privfcd.data.private import PrivateTable
from privfcd.datasets.simulate import linear_gaussian
from privfcd.graphs import compare
from privfcd.ledger.tools import init_ledger, open_ledger, verify
from privfcd.runs.method import Method
from privfcd.runs.study_run import StudyRun, run_study
from privfcd.runs.wire.envelope import ENVELOPES, Request
from privfcd.runs.wire.study_file import Study, study_from

PARTIES, ROWS, DELTA = 8, 5000, 4e-8
SUMS = ("per-party", "trusted", "secure")
CELLS = ((20, 0.1), (200, 1.0), (200, 0.5))
STEPS = {
    "keys": messages.AskKeys,
    "shares": messages.AskShares,
    "masked": messages.AskMasked,
    "confirm": messages.AskConfirmed,
    "unmask": messages.AskUnmask,
}


def tables(d: int, epsilon: float, seed: int) -> tuple[list[PrivateTable], Any]:
    """Return eight parties' tables of the paper's data, and the true weights."""
    simulated = linear_gaussian(d, parties=PARTIES, rows=ROWS, seed=seed)
    budget = Budget(epsilon, DELTA)
    made = [PrivateTable(rows, name=f"p{i}", budget=budget) for i, rows in enumerate(simulated.tables)]
    return made, simulated.weights


def learnt(job: tuple[int, float, str, int, int]) -> int:
    """Return the structural Hamming distance of one run: columns, epsilon, kind of sum, seed of the data, draw of noise."""
    d, epsilon, kind, seed, _ = job
    warnings.simplefilter("ignore")
    made, weights = tables(d, epsilon, seed)
    return compare(weights, EqualVarianceSearch(sum=kind, center=False).fit(made).adjacency_matrix_).shd


def costs(d: int, kind: str, seed: int) -> tuple[float, float, int]:
    """Return CPU seconds of a release of one covariance, of all parties and the coordinator; bytes; and releases."""
    warnings.simplefilter("ignore")
    made, _ = tables(d, 1.0, seed)
    began = time.process_time()
    found = release_moments(made, method="covariance", row_norm=float(np.sqrt(20.0 * d)), center=False, sum=kind)
    return time.process_time() - began, float(found.bytes_exchanged), len(found.privacy_report[0].parts)


@dataclass
class Killing:
    """A transport that kills a party's process just before a question of one step is sent."""

    inner: Any
    codec: Any
    kill: Callable[[], None]
    step: type | None

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """See `Transport.exchange`."""
        request = ENVELOPES.decode(next(iter(requests.values())))
        if self.step is not None and isinstance(request, Request):
            if isinstance(self.codec.decode(request.payload), self.step):
                self.kill()
                self.step = None
        found: Mapping[str, bytes] = self.inner.exchange(requests, timeout)
        return found


def over_flower(folder: Path, parties: int, dropouts: int, step: str | None, d: int = 10, rows: int = 300) -> StudyRun:
    """Run a study of secure sums with party processes on Flower; with a step, one is killed just before it.

    Parameters
    ----------
    folder : path
        Empty.
    parties, dropouts : int
        P and s; one may collude.
    step : str or None
        Of `STEPS`.
    d, rows : int
        Of each party's table.
    """
    from privfcd.runs.flower.grid import FlowerTransport
    from privfcd.runs.flower.trial import Trial

    names = [f"h{index}" for index in range(parties)]
    simulated = linear_gaussian(d, parties=parties, rows=rows, seed=1)
    identities = {name: f"ed25519:{write_identity(folder / f'{name}.identity').hex()}" for name in names}
    study, path = _study(folder, names, d, dropouts, identities)
    with Trial(folder, names) as trial:
        for name, part in zip(names, simulated.tables, strict=True):
            header = ",".join(study.columns)
            np.savetxt(folder / f"{name}.csv", part, delimiter=",", header=header, comments="", fmt="%.17g")
            init_ledger(folder / f"{name}.sqlite", name, Budget(4.0, 1e-6))
            more = ("--identity", str(folder / f"{name}.identity"), "--linger", "2")
            trial.serve(name, path, folder / f"{name}.csv", folder / f"{name}.sqlite", *more)
        with FlowerTransport(trial.superlink, secret=trial.secret) as transport:
            absent = transport.find(study, study.parties, 240.0)
            victim = trial.processes[names[1]]
            killing = Killing(transport, Method(study).codec, victim.kill, None if step is None else STEPS[step])
            run = run_study(study, killing, absent=dict(absent), timeout=75.0, tries=1)
    for name in names:
        assert verify(folder / f"{name}.sqlite").ok
        entries = open_ledger(folder / f"{name}.sqlite", name).entries()
        assert len([each for each in entries if each.kind == "reserve"]) == 1
    return run


def _study(
    folder: Path, names: Sequence[str], d: int, dropouts: int, identities: Mapping[str, str]
) -> tuple[Study, Path]:
    columns = [f"x{j}" for j in range(d)]
    lines = ["schema = 1", 'name = "sums"', 'method = "equal-variance"', f"parties = {list(names)!r}"]
    lines += [f"columns = {columns!r}", "min_parties = 2", 'sum = "secure"', f"dropouts = {dropouts}"]
    lines += ["[budget]", "epsilon = 4.0", "delta = 1e-6", "[identities]"]
    lines += [f'{name} = "{key}"' for name, key in identities.items()]
    path = folder / "study.toml"
    path.write_text("\n".join(lines).replace("'", '"') + "\n")
    return study_from(tomllib.loads(path.read_text())), path


@click.command()
@click.option("--seeds", type=SeedList(), default="2-11", show_default=True, help="Of the data at 20 columns.")
@click.option("--large-seeds", type=SeedList(), default="2-6", show_default=True, help="Of the data at 200 columns.")
@click.option("--jobs", type=int, default=1, show_default=True, help="Processes.")
@click.option("--draws", type=int, default=1, show_default=True, help="Draws of noise for each seed.")
@click.option("--quick", is_flag=True, help="20 columns only.")
@click.option("--flower", "federations", type=int, multiple=True, metavar="PARTIES",
              help="Instead: parties on Flower on this machine; repeatable.")  # fmt: skip
@click.option("--kill", "steps", type=click.Choice(list(STEPS)), multiple=True,
              help="With --flower: one party is killed just before this step; repeatable.")  # fmt: skip
def secure(
    seeds: list[int],
    large_seeds: list[int],
    jobs: int,
    draws: int,
    quick: bool,
    federations: tuple[int, ...],
    steps: tuple[str, ...],
) -> None:
    """One noise for eight hospitals by secure sums: graphs, bytes and CPU beside per-party noise and a trusted place.

    The paper's data, 8 parties of 5000 rows, order search with means of 0 (center=False), one colluder, no
    dropouts; delta = 4e-8.
    """
    from rich.table import Table

    from privfcd.cli.output import console

    if federations:
        _flower(federations, steps)
        return
    shown = Table(title="SHD, mean ± sd over seeds (secure: t = 1, s = 0)", title_justify="left")
    for heading in ("columns", "epsilon", "seeds", *SUMS):
        shown.add_column(heading, justify="right")
    for d, epsilon in CELLS[:1] if quick else CELLS:
        chosen = seeds if d < 100 else large_seeds
        cells = []
        for kind in SUMS:
            found = run_parallel(
                learnt, [(d, epsilon, kind, seed, draw) for seed in chosen for draw in range(draws)], jobs
            )
            cells.append(spread([float(each) for each in found], 1))
        shown.add_row(str(d), f"{epsilon:g}", f"{chosen[0]}-{chosen[-1]}", *cells)
        console().print(f"{d} columns, epsilon {epsilon:g}: {', '.join(cells)}")
    console().print(shown)
    _costs((20,) if quick else (20, 200))


def _costs(sizes: Sequence[int]) -> None:
    from rich.table import Table

    from privfcd.cli.output import console

    shown = Table(title="One covariance of 8 parties of 5000 rows: CPU of all, and bytes", title_justify="left")
    for heading in ("columns", "sum", "CPU s", "bytes a party", "beyond 8 a number"):
        shown.add_column(heading, justify="right")
    for d in sizes:
        for kind in ("per-party", "secure"):
            runs = [costs(d, kind, seed) for seed in range(2, 5)]
            sent = runs[0][1] / PARTIES
            beyond = sent - 8 * (d * (d + 1) // 2)
            shown.add_row(str(d), kind, f"{fmean(each[0] for each in runs):.2f}", f"{sent:,.0f}", f"{beyond:,.0f}")
    console().print(shown)


def _flower(federations: Sequence[int], steps: Sequence[str]) -> None:
    from rich.table import Table

    from privfcd.cli.output import console, say

    shown = Table(title="Secure sums over Flower on 127.0.0.1 (10 columns, 300 rows each, t = 1)", title_justify="left")
    for heading in ("parties", "s", "killed before", "sum of", "questions", "seconds", "wire bytes a party"):
        shown.add_column(heading, justify="right")
    for parties in federations:
        dropouts = 1 if steps else 0
        for step in steps or (None,):
            with tempfile.TemporaryDirectory(prefix="privfcd-secure-") as folder:
                run = over_flower(Path(folder), parties, dropouts, step)
            about = run.model.rule_["release"]["secure sum"]
            told = (str(parties), str(dropouts), step or "none", str(len(about["parties"])), str(run.questions))
            shown.add_row(*told, f"{run.seconds:.1f}", f"{run.wire_bytes / parties:,.0f}")
            say(f"{parties} parties, {step or 'nobody'} killed: {run.seconds:.1f} s", stderr=True)
    console().print(shown)
