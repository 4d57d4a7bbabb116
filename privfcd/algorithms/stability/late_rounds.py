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
        Share of these rounds whose graph has i -> j, or joins i and j. A weight of the other sign than the result's is
        not i -> j.
    candidates : ndarray of shape (d, d)
        Share of these rounds in which i -> j would have entered the final refit, with the sign that it has after it; as
        `frequency` without one.
    low, high : ndarray of shape (d, d)
        5 % and 95 % quantiles of the weights in these graphs, 0 where a graph lacks the edge.
    refitted : ndarray of shape (d, d) or None
        Weights after the refit, before the threshold; None without a refit.
    refit_sd : ndarray of shape (d, d) or None
        Standard deviation of the noise of the refit in each of them.
    refit_limits : ndarray of shape (d, d) or None
        Sizes beyond which they stay.
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
    refitted: Array | None
    refit_sd: Array | None
    refit_limits: Array | None
    second_moments: Array
    parameters: Mapping[str, Any]


def late_rounds(
    weights: Sequence[Array],
    limits: Array | float,
    candidate_threshold: float,
    refitted: tuple[Array, Array, Array] | None,
    second_moments: Array,
    parameters: Mapping[str, Any],
) -> LateRounds:
    """Return what the last half of the rounds says.

    Parameters
    ----------
    weights : sequence of ndarray of shape (d, d)
        The consensus after each round, all of them: post-processing of what was released.
    limits : float or ndarray of shape (d, d)
        Sizes beyond which weights of the rounds stay in the graph.
    candidate_threshold : float
        Above which weights enter the refit.
    refitted : tuple of ndarray of shape (d, d), optional
        Weights after the refit, the standard deviation of its noise in each, and the sizes beyond which they stay.
    second_moments, parameters
        See `LateRounds`.
    """
    late = weights[len(weights) - math.ceil(LATE * len(weights)) :]
    result = late[-1] if refitted is None else refitted[0]
    graphs, found, candidates = Tally(len(late[0])), np.zeros(result.shape), np.zeros(result.shape)
    for each in late:
        graph = project_to_dag(np.where(np.abs(each) > limits, each, 0.0), 0.0).weights
        graphs.add(graph)
        found += (graph != 0) & (graph * result >= 0)
        if refitted is not None:
            entering = project_to_dag(each, candidate_threshold).weights
            candidates += (entering != 0) & (entering * result >= 0)
    low, high = graphs.quantiles()
    frequency = found / len(late)
    return LateRounds(
        rounds=len(late),
        frequency=frequency,
        adjacency=graphs.adjacency,
        candidates=frequency if refitted is None else candidates / len(late),
        low=low,
        high=high,
        refitted=None if refitted is None else refitted[0],
        refit_sd=None if refitted is None else refitted[1],
        refit_limits=None if refitted is None else refitted[2],
        second_moments=second_moments,
        parameters=parameters,
    )
