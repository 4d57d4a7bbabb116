"""One run of one learner on one synthetic instance of the paper, and what it came to."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

PARTIES, ROWS = 8, 5000

METHODS = {
    "Fed-Sparse-BNSL": "FedSparseBNSL",
    "DP-Fed-Sparse-BNSL": "FedSparseBNSL",
    "Mangold": "FedSparseBNSL",
    "Fed-BNSL": "FedBNSL",
    "DP-Fed-BNSL": "FedBNSL",
    "Fed-BNSL-FW": "FedBNSL",
    "NOTEARS": "NOTEARS",
    "local NOTEARS": "NOTEARS",
    "order search": "EqualVarianceSearch",
    "DP order search": "EqualVarianceSearch",
}
"""Estimators of `privfcd` by the names that tables and figures use."""


@dataclass(frozen=True)
class Experiment:
    """What is run.

    Attributes
    ----------
    method : str
        One of `METHODS`.
    d, seed : int
        The instance; noise is simulated from its seed.
    epsilon : float, optional
        Budget of every party, with delta = 1/n²; None for a run without privacy.
    label : str
        Name of the line or row that the run belongs to; the method's by default.
    parties, rows : int
        P and n_p.
    heterogeneous, standardize : bool
        Parties' own weights (B.1.2); every party's columns divided by their own standard deviations (C.1).
    parameters : tuple of pairs
        Of the estimator, where they differ from its defaults.
    rounds : tuple of int
        After which rounds the accuracy is kept.
    room : float
        The budget as a multiple of epsilon: for noise whose proven price is higher than what it was published for.
    """

    method: str
    d: int
    seed: int
    epsilon: float | None = None
    label: str = ""
    parties: int = PARTIES
    rows: int = ROWS
    heterogeneous: bool = False
    standardize: bool = False
    parameters: tuple[tuple[str, Any], ...] = ()
    rounds: tuple[int, ...] = ()
    room: float = 1.0

    @property
    def name(self) -> str:
        """The label, or the method."""
        return self.label or self.method


@dataclass(frozen=True)
class Outcome:
    """What a run came to; `rounds` holds (round, SHD, TPR, FDR)."""

    label: str
    d: int
    seed: int
    asked: float
    shd: float
    tpr: float
    fdr: float
    edges: float
    megabytes: float
    epsilon: float
    seconds: float
    rounds: tuple[tuple[int, int, float, float], ...] = field(default=())

    def row(self) -> dict[str, Any]:
        """Return the numbers of the run, without its rounds."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rounds"}


def run_experiment(experiment: Experiment) -> Outcome:
    """Run one experiment."""
    import privfcd
    from privfcd.datasets.simulate import linear_gaussian

    weights, parts = linear_gaussian(
        experiment.d,
        parties=experiment.parties,
        rows=experiment.rows,
        seed=experiment.seed,
        heterogeneous=experiment.heterogeneous,
    )
    if experiment.standardize:
        parts = [part / part.std(axis=0) for part in parts]
    tables = _tables(experiment, parts)
    estimator = getattr(privfcd, METHODS[experiment.method])
    parameters = {"center": False, **dict(experiment.parameters)}  # the paper's data have means of 0
    kept: list[tuple[int, int, float, float]] = []
    began = time.perf_counter()
    if experiment.method == "local NOTEARS":
        models = [estimator(**parameters).fit([table]) for table in tables]
    else:
        model = estimator(**parameters)
        listens = experiment.rounds and "on_round" in inspect.signature(model.fit).parameters
        hook = {"on_round": _recorder(experiment, weights, kept)} if listens else {}
        models = [model.fit(tables, **hook)]
    seconds = time.perf_counter() - began
    found = [privfcd.metrics.compare(weights, model.adjacency_matrix_) for model in models]
    return Outcome(
        label=experiment.name,
        d=experiment.d,
        seed=experiment.seed,
        asked=math.inf if experiment.epsilon is None else experiment.epsilon,
        shd=float(np.mean([metrics.shd for metrics in found])),
        tpr=float(np.mean([metrics.tpr for metrics in found])),
        fdr=float(np.mean([metrics.fdr for metrics in found])),
        edges=float(np.mean([(model.adjacency_matrix_ != 0).sum() for model in models])),
        megabytes=sum(model.bytes_exchanged_ for model in models) / 1e6,
        epsilon=max(model.privacy_spent_[0] for model in models),
        seconds=seconds,
        rounds=tuple(kept),
    )


def _tables(experiment: Experiment, parts: list[NDArray[np.float64]]) -> list[Any]:
    from privfcd import Budget, PrivateTable, SimulatedNoise

    budget = (
        None if experiment.epsilon is None else Budget(experiment.epsilon * experiment.room, 1 / experiment.rows**2)
    )
    return [
        PrivateTable(part, name=f"party-{index}", budget=budget, noise=SimulatedNoise(experiment.seed))
        for index, part in enumerate(parts)
    ]


def _recorder(
    experiment: Experiment, truth: NDArray[np.float64], kept: list[tuple[int, int, float, float]]
) -> Callable[[Any], None]:
    from privfcd.graphs import compare, project_to_dag

    def record(progress: Any) -> None:
        if progress.number in experiment.rounds:
            found = compare(truth, project_to_dag(progress.weights, progress.threshold).weights)
            kept.append((progress.number, found.shd, found.tpr, found.fdr))

    return record
