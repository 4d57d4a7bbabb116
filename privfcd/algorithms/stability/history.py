"""Edge stability of a run whose every round had noise of its own: counted over the rounds that were late.

A private run of Fed-Sparse-BNSL releases noisy coordinate updates, round by round, and cannot be repeated without rows. But
the noise of its rounds is independent, and the consensus after each is what the noise so far has made of it. Counted is the
share of the last half of the rounds whose consensus, made a graph as the result is, has the edge.

What the frequency means. The rounds form a chain that was drawn once: each starts from the one before, so that they are
not independent, and what the noise of the early rounds decided for good, or a coordinate that no selection ever
reached, does not show. It is a share over time within one run, not a probability over runs, and no expectation of it is
claimed; how often edges of a given frequency are right is measured by `python -m privfcd.studies stability`.

The refit. After the rounds, weights above half of the threshold are refitted from a release of their own, and the
threshold decides on these. For an edge that was refitted the frequency is therefore the share of the late rounds in which
it would have entered the refit, times the probability that its refitted weight with fresh noise of the refit
passes the threshold. Every other edge has its share among the graphs of the late rounds, and the two columns of a refitted
edge are adjacent as often as one of the two directions is found. The refit's noise is
Gaussian, with one standard deviation for all entries in units of their clips, which is estimated from the last step's
gradient (see `privfcd.algorithms.fed_sparse.refit`). The weights' quantiles of a refitted edge are those of this noise.

Noise alone takes runs on simulated rows, as long as the model's own each: see `privfcd.algorithms.stability.simulated_runs`.
Without them `noise_alone` is None.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from privfcd.algorithms.stability.late_rounds import LateRounds
from privfcd.algorithms.stability.result import EdgeStability
from privfcd.algorithms.stability.tally import HIGH, Tally

COUNTED = (
    "Counted over the last {rounds} rounds of the run, each with noise of its own: the frequency of an edge is the share of "
    "them whose weights make the edge. The rounds follow from one another, so it is no probability over runs."
)
REFITTED = (
    " For an edge of the final refit it is the share in which the edge would have entered the refit, times the "
    "probability that its weight, with the refit's noise drawn afresh, passes the threshold; the interval of its weight is "
    "that of the refit's noise alone."
)


ALONE = (
    " Noise alone: {runs} runs with the same plan and budget on simulated columns with the second moments of the run, "
    "without dependence."
)


def from_rounds(late: LateRounds, columns: tuple[str, ...], alone: Tally | None = None) -> EdgeStability:
    """Return the stability that the late rounds of a run show, with what `alone` counted on noise alone."""
    frequency, adjacency = late.frequency.copy(), late.adjacency.copy()
    low, high = late.low.copy(), late.high.copy()
    method = COUNTED.format(rounds=late.rounds)
    if late.refitted is not None and late.refit_sd is not None:
        places = np.nonzero(late.refitted)
        weights, sds = late.refitted[places], np.maximum(late.refit_sd[places], np.finfo(float).tiny)
        passing = ndtr((np.abs(weights) - late.threshold) / sds) + ndtr((-np.abs(weights) - late.threshold) / sds)
        frequency[places] = late.candidates[places] * passing
        reach = ndtri(HIGH) * sds
        low[places], high[places] = weights - reach, weights + reach
        together = np.minimum(frequency + frequency.T, 1.0)
        adjacency[places] = together[places]
        adjacency.T[places] = together[places]
        method += REFITTED
    if alone is not None:
        method += ALONE.format(runs=alone.runs)
    return EdgeStability(
        columns=columns,
        frequency=frequency,
        adjacency=adjacency,
        weight_low=low,
        weight_high=high,
        noise_alone=None if alone is None else alone.frequency,
        noise_alone_edges=None if alone is None else alone.edges,
        draws=late.rounds,
        method=method + " It speaks of the noise only: chance in the records and the method's assumptions come on top.",
        noise_alone_adjacency=None if alone is None else alone.adjacency,
        noise_alone_weight=None if alone is None else alone.largest(),
    )
