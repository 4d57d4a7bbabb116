"""The runs of the FedACD study: data, parties, masks and budgets, and what came out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fedacd_votes import voted_skeleton
from privfcd.accounting import Budget
from privfcd.algorithms.fedacd import FedACD
from privfcd.data.private import PrivateTable
from privfcd.datasets.networks import NETWORKS, load_network
from privfcd.datasets.non_iid import non_iid
from privfcd.graphs import compare, compare_pdags, dag_to_cpdag
from privfcd.mechanisms import SimulatedNoise

ROWS, DELTA = 5000, 1e-5
PARTIES = (3, 5, 10, 15, 20)
RATES = tuple(step / 10 for step in range(10))
EPSILONS = (1.0, 2.0, 5.0, 10.0)
MANY = 10
"""Parties of all sections but the first."""

SIZES = {"20/40": (20, 40), "30/60": (30, 60)}
KINDS: dict[str, dict[str, Any]] = {
    "alike": {"alike": True},
    "own weights": {},
    "own mechanisms": {"mechanisms": ("linear", "sine", "tanh")},
}
PRIVATE = "20/40 one model"
"""The data of the private continuous runs: linear Gaussian, as fits one model for all."""
SUMS = "chain of sums"
"""Four columns: a coin, and the column before with another coin."""
WAYS = ("moments", "trusted sum", "noisy votes")


@dataclass(frozen=True)
class Job:
    """One run: `way` is "open", or one of WAYS, at `epsilon`; by the paper's rules, or those of another `variant`."""

    data: str
    parties: int
    rate: float
    seed: int
    way: str = "open"
    epsilon: float = math.inf
    variant: str = "paper"


@dataclass(frozen=True)
class Run:
    """What a job came to. F1 is on directed edges; noisy votes make a skeleton only, their SHD and F1 are NaN.

    `arrows` is the F1 of arrows, and `class_shd` the SHD, against the class of the true graph, in which only those edges are
    directed that data can direct.
    """

    job: Job
    shd: float
    f1: float
    skeleton: float
    edges: int
    masked: int
    turned: int
    seconds: float
    arrows: float = math.nan
    class_shd: float = math.nan

    def row(self) -> dict[str, Any]:
        """Return a flat dictionary."""
        own = asdict(self)
        return {**own.pop("job"), **own}


def plan_networks(seeds: Sequence[int], quick: bool) -> list[Job]:
    """Return runs on the three networks, with masks and with plain votes, and on all rows at once."""
    names = ("child",) if quick else NETWORKS
    parties = (5, 20) if quick else PARTIES
    plan = [Job(name, 1, 0.0, seed) for name in names for seed in seeds]
    return plan + [
        Job(name, many, rate, seed) for name in names for many in parties for rate in (0.6, 0.0) for seed in seeds
    ]


def plan_different(seeds: Sequence[int], quick: bool) -> list[Job]:
    """Return runs on parties that share nothing but a graph."""
    sizes = ("20/40",) if quick else tuple(SIZES)
    return [
        Job(f"{size} {kind}", many, rate, seed)
        for size in sizes
        for kind in KINDS
        for many in ((MANY,) if quick else (5, MANY, 20))
        for rate in (0.6, 0.0)
        for seed in seeds
    ]


def plan_rates(seeds: Sequence[int], quick: bool) -> list[Job]:
    """Return runs with every share of masks."""
    names = ("child",) if quick else (*NETWORKS, *(f"20/40 {kind}" for kind in KINDS))
    rates = (0.0, 0.3, 0.6, 0.9) if quick else RATES
    return [Job(name, MANY, rate, seed) for name in names for rate in rates for seed in seeds]


def plan_directions(seeds: Sequence[int], quick: bool) -> list[Job]:
    """Return runs by the paper's rules, whose result is a DAG, and by ours, which leave open what data cannot tell."""
    names = (SUMS, "child") if quick else (SUMS, *NETWORKS, PRIVATE, "20/40 own mechanisms")
    return [
        Job(name, many, 0.6 if many > 1 else 0.0, seed, variant=variant)
        for name in names
        for many in ((1, 3) if quick else (1, 2, 3, MANY))
        for variant in ("paper", "stable")
        for seed in seeds
    ]


def plan_private(seeds: Sequence[int], quick: bool) -> list[Job]:
    """Return private runs on continuous and on discrete data, with the runs without privacy beside them."""
    names = (PRIVATE, "child") if quick else (PRIVATE, *NETWORKS)
    plan = []
    for name in names:
        ways = WAYS[:2] if name == PRIVATE else WAYS
        plan += [Job(name, 1, 0.0, seed) for seed in seeds]
        plan += [
            Job(name, MANY, 0.6, seed, way, epsilon)
            for way in ways
            for epsilon in ((5.0,) if quick else EPSILONS)
            for seed in seeds
        ]
    return plan


def data_of(
    job: Job,
) -> tuple[NDArray[np.float64], list[NDArray[np.float64]], tuple[str, ...], tuple[int, ...] | None]:
    """Return the true graph, the parties' rows, the columns' names and levels."""
    if job.data in NETWORKS:
        network = load_network(job.data)
        rows = network.sample(ROWS, job.seed)
        truth = network.adjacency.astype(np.float64)
        return truth, np.array_split(rows, job.parties), network.columns, network.levels
    if job.data == SUMS:
        rows = np.random.default_rng(job.seed).integers(0, 2, (3000, 4)).cumsum(axis=1).astype(np.float64)
        return np.eye(4, k=1), np.array_split(rows, job.parties), tuple("abcd"), (2, 3, 4, 5)
    size, _, kind = job.data.partition(" ")
    d, edges = SIZES[size]
    options: dict[str, Any] = {"alike": True, "noise_sd": (1.0, 1.0)} if job.data == PRIVATE else KINDS[kind]
    sizes = [len(part) for part in np.array_split(np.arange(ROWS), job.parties)]
    weights, parts = non_iid(d, job.parties, sizes, job.seed, edges=edges, **options)
    return weights, parts, tuple(f"x{j:02d}" for j in range(d)), None


def run(job: Job) -> Run:
    """Do one run."""
    truth, parts, columns, levels = data_of(job)
    budget = None if job.way == "open" else Budget(job.epsilon, DELTA)
    tables = [
        PrivateTable(part, columns, name=f"party-{k}", budget=budget, noise=SimulatedNoise(job.seed))
        for k, part in enumerate(parts)
    ]
    began = time.process_time()
    if job.way == "noisy votes":
        assert levels is not None
        edges = int((truth != 0).sum())
        found = voted_skeleton(tables, levels, (3 * edges, edges), job.epsilon, DELTA)
        seconds = time.process_time() - began
        return Run(job, math.nan, math.nan, skeleton_f1(truth, found), int(found.sum()) // 2, 0, 0, seconds)
    trusted = job.way == "trusted sum"
    # the means of the continuous data are 0
    model = FedACD(
        levels=levels,
        mask_rate=job.rate,
        variant=job.variant,
        sum="trusted" if trusted else "per-party",
        center=None if levels is not None else budget is None,
    ).fit(tables)
    seconds = time.process_time() - began
    figures = compare(truth, model.adjacency_matrix_)
    classes = compare_pdags(dag_to_cpdag(truth), model.adjacency_matrix_ != 0)
    return Run(
        job,
        shd=float(figures.shd),
        f1=figures.f1,
        skeleton=skeleton_f1(truth, model.skeleton_),
        edges=figures.edges,
        masked=sum(record.masked for record in model.layers_),
        turned=len(model.votes_.turned),
        seconds=seconds,
        arrows=classes.directed_f1,
        class_shd=float(classes.shd),
    )


def skeleton_f1(truth: NDArray[Any], skeleton: NDArray[np.bool_]) -> float:
    """Return 2 hits / (true edges + edges) over unordered pairs."""
    real = (truth != 0) | (truth.T != 0)
    total = int(real.sum() + skeleton.sum())
    return 2 * int((real & skeleton).sum()) / total if total else 1.0
