"""FedACD's speed: a skeleton by Fisher's z against causal-learn, and whole runs on Child and Alarm.

Times are core-seconds; of several repetitions the least, since other work on the machine only adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from statistics import fmean
from typing import TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.constraint import FisherZ, stable_skeleton
from privfcd.algorithms.fedacd import FedACD
from privfcd.data.private import PrivateTable
from privfcd.datasets.networks import load_network
from privfcd.datasets.simulate import linear_gaussian
from privfcd.moments import Moments

Value = TypeVar("Value")

VARIABLES, ROWS, EDGES, ALPHA = 37, 5000, 46, 0.01
RATIO = 30.0
"""How many times as fast as causal-learn a skeleton must be."""
WHOLE = {"child": 1.5, "alarm": 10.0}
"""Seconds of a run on 5000 rows at 20 parties."""
PARTIES = 20


def least(work: Callable[[], Value], repetitions: int) -> tuple[float, Value]:
    """Return the least core-seconds of several runs, and what the last returned."""
    seconds = []
    for _ in range(repetitions):
        began = time.process_time()
        value = work()
        seconds.append(time.process_time() - began)
    return min(seconds), value


def own_skeleton(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the skeleton from rows, moments included."""
    centred = rows - rows.mean(axis=0)
    columns = tuple(f"x{j}" for j in range(rows.shape[1]))
    moments = Moments(centred.T @ centred / len(rows), len(rows), columns)
    return stable_skeleton(FisherZ(moments), ALPHA, None).adjacent


def causal_learn_skeleton(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the skeleton by causal-learn's stable search, tests included, orientation not."""
    tests = import_module("causallearn.utils.cit")
    search = import_module("causallearn.utils.PCUtils.SkeletonDiscovery")
    found = search.skeleton_discovery(rows, ALPHA, tests.CIT(rows, "fisherz"), True, show_progress=False)
    return np.asarray(found.G.graph != 0)


def against_causal_learn(seeds: list[int]) -> bool:
    """Compare, print, and return whether the ratio holds with the same skeletons; True where it is not installed."""
    if find_spec("causallearn") is None:
        click.echo("causal-learn is not installed: no comparison")
        return True
    click.echo(f"skeleton of {VARIABLES} variables, {ROWS} rows, {EDGES} edges, alpha = {ALPHA:g}, sets of any size")
    click.echo(f"{'seed':>5} {'own, s':>8} {'causal-learn, s':>16} {'times as fast':>14} {'same skeleton':>14}")
    ratios, same = [], True
    for seed in seeds:
        _, (rows,) = linear_gaussian(VARIABLES, parties=1, rows=ROWS, seed=seed, edges=EDGES)
        fast, ours = least(lambda rows=rows: own_skeleton(rows), 10)  # type: ignore[misc]
        slow, theirs = least(lambda rows=rows: causal_learn_skeleton(rows), 2)  # type: ignore[misc]
        equal = bool(np.array_equal(ours, theirs))
        ratios.append(slow / fast)
        same &= equal
        click.echo(f"{seed:>5} {fast:>8.4f} {slow:>16.3f} {slow / fast:>14.1f} {'yes' if equal else 'NO':>14}")
    holds = same and min(ratios) >= RATIO
    click.echo(
        f"  at least {RATIO:g} times as fast, mean {fmean(ratios):.1f}, same skeletons: {'yes' if holds else 'NO'}"
    )
    return holds


def whole_run(name: str, seed: int, repetitions: int) -> bool:
    """Time one network's run, print, and return whether it is quick enough."""
    network = load_network(name)
    parts = np.array_split(network.sample(ROWS, seed), PARTIES)

    def work() -> FedACD:
        tables = [PrivateTable(part, network.columns, name=f"party-{k}") for k, part in enumerate(parts)]
        return FedACD(levels=network.levels).fit(tables)

    seconds, model = least(work, repetitions)
    holds = seconds < WHOLE[name]
    click.echo(
        f"{name}, {PARTIES} parties, {ROWS} rows, seed {seed}: {seconds:.2f} s, "
        f"{int(model.skeleton_.sum()) // 2} edges; under {WHOLE[name]:g} s: {'yes' if holds else 'NO'}"
    )
    return holds


def main(quick: bool = False) -> bool:
    """Measure and print; return whether every aim holds."""
    own_skeleton(np.random.default_rng(0).normal(size=(100, 5)))  # first use is not to be measured
    fine = against_causal_learn([1] if quick else [1, 2, 3, 4, 5])
    for name in WHOLE:
        fine &= whole_run(name, 1, 1 if quick else 3)
    return fine
