"""The final refit: a few Newton steps on the support that was found, from gradients that are paid for as one vector.

The descent spends its budget on finding the support, one coordinate at a time; on a support of few entries one release
of all of them is far more exact. Weights above `REFIT_PRUNE` of the threshold, without cycles, are refitted by least
squares (or the run's loss), and the threshold then decides on weights without the bias of the l1 penalty.

A Newton step for variable j needs the second moments of its parents. They are post-processing of what is there: those
that the weights imply with equal error variances, (I - W)^-T (I - W)^-1, scaled so that the variances are the released ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import REFIT_PRUNE, REFIT_STEPS, lifted
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import Federation, SparseMatrix
from privfcd.algorithms.rounds import expect, still_there
from privfcd.graphs.dag import project_to_dag

Array = NDArray[np.float64]

RIDGE = 0.02
"""Share of the diagonal that is added to the implied second moments, which are not exact."""


@dataclass(frozen=True, eq=False)
class Refitted:
    """Weights after the refit, and what its noise may have moved them by.

    Attributes
    ----------
    weights : ndarray of shape (d, d)
        Acyclic.
    planned_sd : ndarray of shape (d, d)
        Standard deviation of the last step's planned noise in each weight, 0 off the support.
    noise_sd : ndarray of shape (d, d)
        The same, or more where the steps have not settled; see `_seen_noise`.
    """

    weights: Array
    planned_sd: Array
    noise_sd: Array


def refit(
    federation: Federation, settings: Settings, weights: Array, moments: Array, rows: Array, noise: Array | None = None
) -> Refitted | None:
    """Return the weights after the refit, or None where noise makes it useless.

    Useless is planned noise whose standard deviation is above the threshold in half of the weights or more. Where the
    first step has it, nothing is asked of the parties; where the last step has it, the weights are not used.

    Parameters
    ----------
    federation : Federation
        Its parties answer `messages.Refit`.
    settings : Settings
        Of the run.
    weights : ndarray of shape (d, d)
        W.
    moments : ndarray of shape (d,)
        Second moments of the columns, released or declared.
    rows : ndarray of shape (parties,)
        Public numbers of rows, by which gradients are weighted.
    noise : ndarray of shape (parties,), optional
        `RunNoise.refit_parts`; None or empty for exact gradients.
    """
    weights = project_to_dag(weights, REFIT_PRUNE * settings.threshold).weights
    names = tuple(federation.names)
    parts = np.zeros(len(rows)) if noise is None or not len(noise) else noise
    scale = settings.loss.curvature
    units = np.sqrt(scale * lifted(moments) + settings.rho2)  # clips are in proportion to these
    planned_sd, noise_sd = np.zeros(weights.shape), np.zeros(weights.shape)
    grown = math.sqrt(np.count_nonzero(weights))

    def pooled() -> float:
        return grown * float(np.linalg.norm(rows / rows.sum() * parts))

    planned = pooled()
    if planned and _useless(_spread(weights, scale * implied_moments(weights, moments), planned * units), settings):
        return None
    for number in range(1, REFIT_STEPS + 1):
        places = np.nonzero(weights)
        if not len(places[0]):
            break
        ask, size = messages.Refit(number, SparseMatrix.of(weights)), len(places[0])
        answers = expect(federation, ask, messages.SupportSlope, size)
        here = still_there(federation, names)
        rows, parts, names = rows[here], parts[here], tuple(federation.names)
        gradient = np.zeros(weights.shape)
        for share, answer in zip(rows / rows.sum(), answers, strict=True):
            gradient[places] += share * answer.values
        implied = scale * implied_moments(weights, moments)
        if number == REFIT_STEPS:
            planned_sd = _spread(weights, implied, pooled() * units)
            noise_sd = _spread(weights, implied, max(pooled(), _seen_noise(weights, gradient, units)) * units)
        weights = _newton_step(weights, gradient, implied)
    return None if _useless(planned_sd, settings) else Refitted(weights, planned_sd, noise_sd)


def implied_moments(weights: Array, moments: Array) -> Array:
    """Return second moments with the correlations that acyclic `weights` imply and the diagonal `moments`."""
    total = np.linalg.inv(np.eye(len(weights)) - weights)
    product = total.T @ total
    factors = np.sqrt(lifted(moments) / np.diag(product))
    return np.asarray(product * np.outer(factors, factors))


def _useless(noise_sd: Array, settings: Settings) -> bool:
    """Say whether the noise of half of the weights or more has a standard deviation above the threshold."""
    known = noise_sd[noise_sd > 0]
    return bool(len(known)) and float(np.median(known)) > settings.threshold


def _seen_noise(weights: Array, gradient: Array, units: Array) -> float:
    """Return the noise's standard deviation in units of the clips as the last gradient shows it.

    Before the last step the weights are off by about the noise of the step before it, so that the last gradient is the
    difference of two independent draws: its root mean square in these units estimates sqrt(2) times the standard deviation,
    from as many numbers as there are weights. What the steps have not settled by then is in it, and makes it larger.
    """
    places = np.nonzero(weights)
    return float(np.sqrt(np.mean((gradient[places] / units[places[0]]) ** 2) / 2))


def _spread(weights: Array, moments: Array, gradient_sd: Array) -> Array:
    """Return the noise in the weights after a step: it turns noise e in the gradient into (M + ridge)^-1 e."""
    found = np.zeros(weights.shape)
    for j in np.flatnonzero(weights.any(axis=0)).tolist():
        parents = np.flatnonzero(weights[:, j])
        own = moments[np.ix_(parents, parents)]
        back = np.linalg.inv(own + RIDGE * np.diag(np.diag(own))) * gradient_sd[parents]
        found[parents, j] = np.sqrt((back**2).sum(axis=1))
    return found


def _newton_step(weights: Array, gradient: Array, moments: Array) -> Array:
    after = weights.copy()
    for j in np.flatnonzero(weights.any(axis=0)).tolist():
        parents = np.flatnonzero(weights[:, j])
        own = moments[np.ix_(parents, parents)]
        after[parents, j] -= np.linalg.solve(own + RIDGE * np.diag(np.diag(own)), gradient[parents, j])
    return after
