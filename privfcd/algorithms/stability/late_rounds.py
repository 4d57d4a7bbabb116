"""What the noise of a run's late rounds says of its edges: made from the rounds' released weights, no more is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.stability.tally import Tally
from privfcd.graphs.dag import project_to_dag

Array = NDArray[np.float64]

LATE = 0.5
"""The share of the rounds that counts, rounded up: the last half, after the descent has found most of its way."""


@dataclass(frozen=True, eq=False, repr=False)
class LateRounds:
    """Noisy weights of the last half of the rounds, each made a graph as the result is.

    Attributes
    ----------
    rounds : int
        How many there were.
    frequency, adjacency : ndarray of shape (d, d)
        Share of these rounds whose graph has i -> j, or joins i and j.
    candidates : ndarray of shape (d, d)
        Share of these rounds in which i -> j would have entered the final refit; as `frequency` without one.
    low, high : ndarray of shape (d, d)
        5 % and 95 % quantiles of the weights in these graphs, 0 where a graph lacks the edge.
    threshold : float
        Of the graphs.
    refitted : ndarray of shape (d, d) or None
        Weights after the refit, before the threshold; None without a refit.
    refit_sd : ndarray of shape (d, d) or None
        Standard deviation of the noise of the refit in each of them.
    second_moments : ndarray of shape (d,)
        Of the columns: released by the run, or declared; above 0.
    parameters : mapping of str to object
        The estimator's parameters whose defaults depend on the budget, as the run had them.
    """

    rounds: int
    frequency: Array
    adjacency: Array
    candidates: Array
    low: Array
    high: Array
    threshold: float
    refitted: Array | None
    refit_sd: Array | None
    second_moments: Array
    parameters: Mapping[str, Any]


def late_rounds(
    weights: Sequence[Array],
    threshold: float,
    candidate_threshold: float,
    refitted: tuple[Array, Array] | None,
    second_moments: Array,
    parameters: Mapping[str, Any],
) -> LateRounds:
    """Return what the last half of the rounds says.

    Parameters
    ----------
    weights : sequence of ndarray of shape (d, d)
        The consensus after each round, all of them: post-processing of what was released.
    threshold : float
        Of the result's graph.
    candidate_threshold : float
        Above which weights enter the refit.
    refitted : tuple of ndarray of shape (d, d), optional
        Weights after the refit, and the standard deviation of its noise in each.
    second_moments, parameters
        See `LateRounds`.
    """
    late = weights[len(weights) - math.ceil(LATE * len(weights)) :]
    graphs, candidates = Tally(len(late[0])), np.zeros(late[0].shape)
    for each in late:
        graphs.add(project_to_dag(each, threshold).weights)
        if refitted is not None:
            candidates += project_to_dag(each, candidate_threshold).weights != 0
    low, high = graphs.quantiles()
    return LateRounds(
        rounds=len(late),
        frequency=graphs.frequency,
        adjacency=graphs.adjacency,
        candidates=graphs.frequency if refitted is None else candidates / len(late),
        low=low,
        high=high,
        threshold=threshold,
        refitted=None if refitted is None else refitted[0],
        refit_sd=None if refitted is None else refitted[1],
        second_moments=second_moments,
        parameters=parameters,
    )
