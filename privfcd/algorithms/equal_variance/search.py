"""Order search: a DAG from second moments under equal error variances, at any level of noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privfcd import checks
from privfcd.algorithms.equal_variance.law import Array, Law
from privfcd.algorithms.equal_variance.likelihood import Likelihood, Point
from privfcd.algorithms.equal_variance.moves import Placement, Scale, improve, place
from privfcd.algorithms.equal_variance.parents import thinned
from privfcd.algorithms.equal_variance.polish import ancestors, polished
from privfcd.algorithms.equal_variance.topdown import top_down
from privfcd.moments import Moments

CAUTIONS = (1.0, 0.0, 2.0)
_TRIES, _WORK, _STEPS = 300, 4e6, 60
"""Graphs that are fitted by likelihood: at most so many, and so many over d³; steps of the last fits."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """A DAG along an order.

    Attributes
    ----------
    order : ndarray of int, shape (d,)
        Variables, causes first.
    weights : ndarray of shape (d, d)
        Entry [i, j] is the weight of i -> j: after the last refit, all above the threshold. Acyclic along `order`.
    structure : ndarray of shape (d, d)
        Weights of all parents that are significant at `level`, before the threshold: what whitening wants.
    variances : ndarray of shape (d,)
        Residual variances given the parents in `structure`; noise can make them negative.
    noise : ndarray of shape (d,)
        Standard deviations of the noise in `variances`.
    cost : float
        Minus the logarithm of the penalised likelihood, up to a constant.
    rule : dict
        The constants, and from which public quantities they came.
    """

    order: NDArray[np.int64]
    weights: Array
    structure: Array
    variances: Array
    noise: Array
    cost: float
    rule: dict[str, Any]


def search_tau(d: int) -> float:
    """Return the standard deviations that make a parent in the search: sqrt(2 ln((d - 1) / 2)), at least 1.

    In a graph with as many edges as variables, the odds of an edge between two of them are 2 / (d - 1). A statistic t
    outweighs these odds where exp(t² / 2) does. A false parent costs the search little and a missed one much: what it
    explains would stay in the residual, and spoil the order.
    """
    return math.sqrt(max(1.0, 2 * math.log(max(d - 1, 2) / 2)))


def final_tau(d: int, level: float) -> float:
    """Return the standard deviations that keep a parent: a two-sided test at `level`, divided by d candidates."""
    return float(-ndtri(level / (2 * d)))


def order_search(
    moments: Moments,
    *,
    threshold: float = 0.3,
    tau: float | None = None,
    level: float = 0.05,
    cautions: Sequence[float] = CAUTIONS,
    local: bool = True,
    polish: bool = True,
) -> SearchResult:
    """Learn a DAG from second moments, exact or noisy, under equal error variances.

    1. For each caution, a top-down order (`top_down`), and parents among predecessors.
    2. Local search from each over orders, by the penalised likelihood; the best is kept.
    3. Where noise is most of the error and d is small (at most about 100), edges are added, dropped and turned by the
       likelihood of all moments at once (`polished`).
    4. A last refit without weights that are not significant at `level`, or at most `threshold`.

    Parameters
    ----------
    moments : Moments
        Their noise need not leave them positive semidefinite.
    threshold : float
        At least 0, in the units of the weights.
    tau : float, optional
        Standard deviations away from 0 that make a parent in the search; `search_tau` otherwise.
    level : float
        In (0, 1): parents that stay differ from 0 at this level, divided by d for their number.
    cautions : sequence of float
        How many standard deviations of its noise are added to a residual variance in a top-down pass.
    local : bool
        Whether orders are improved by local search.
    polish : bool
        Whether step 3 is taken.

    Returns
    -------
    SearchResult
        Weights, order and score.

    Raises
    ------
    InvalidParameter
        A parameter is outside what is accepted.
    """
    checks.instance("moments", moments, Moments, "Moments: of release_moments or table_moments, or Moments(matrix, rows)")
    d = len(moments.columns)
    threshold = checks.non_negative("threshold", threshold)
    limit = search_tau(d) if tau is None else checks.positive("tau", tau)
    last = final_tau(d, checks.fraction("level", level))
    passes = tuple(checks.non_negative("cautions", value) for value in cautions)
    if not passes:
        raise checks.refuse("cautions", cautions, "at least one number")
    law = Law.of(moments)
    if not law.spreads:
        passes = passes[:1]  # without noise all cautions give one order
    found: list[Placement] = []
    scale: Scale | None = None
    seen: set[bytes] = set()
    for caution in passes:
        placement = place(law, top_down(law, limit, caution), limit, scale)
        if scale is None:
            scale = Scale.of(law, placement.fits)
        if placement.fits.chosen.tobytes() in seen:
            continue
        seen.add(placement.fits.chosen.tobytes())
        found.append(improve(law, placement, scale, limit) if local else placement)
    best = min(found, key=lambda placement: placement.cost)
    assert scale is not None
    tries = min(_TRIES, int(_WORK / d**3)) if polish and law.spreads and scale.rows < moments.rows / 2 else 0
    if tries:
        order, weights, structure = _polished(law, best, scale, limit, last, threshold, tries)
    else:
        nodes = np.arange(d)
        stands = thinned(law, nodes, best.fits.chosen, last)
        order, structure = best.order, stands.weights
        weights = thinned(law, nodes, stands.chosen, last, threshold).weights
    variances, noise = law.residual_variances(structure)
    rule = {
        "tau": limit,
        "final tau": last,
        "threshold": threshold,
        "cautions": list(passes),
        "common variance": scale.variance,
        "effective rows": scale.rows,
        "rows": moments.rows,
        "polished": tries > 0,
    }
    return SearchResult(order, weights, structure, variances, noise, best.cost, rule)


def _polished(
    law: Law, found: Placement, scale: Scale, tau: float, last: float, threshold: float, tries: int
) -> tuple[NDArray[np.int64], Array, Array]:
    """Return the order, the weights above the threshold and all significant weights after `polished`."""
    start = Point(thinned(law, np.arange(len(found.order)), found.fits.chosen, last).weights, scale.variance, math.inf)
    likelihood = Likelihood(law, start.weights, scale.variance)
    point = polished(likelihood, start, tau, tries)
    while True:
        place, sds = likelihood.deviations(point)
        z = np.abs(point.weights[place]) / np.maximum(sds, np.finfo(float).tiny)
        if not z.size or z.min() >= last:
            break
        support = point.weights != 0
        support[place[0][z.argmin()], place[1][z.argmin()]] = False
        point = likelihood.fitted(point, support, _STEPS)
    strong = np.abs(point.weights) > threshold
    weights = likelihood.fitted(point, strong, _STEPS).weights
    weights[np.abs(weights) <= threshold] = 0.0
    order = np.argsort(ancestors(point.weights != 0).sum(axis=0), kind="stable")
    return order, weights, point.weights
