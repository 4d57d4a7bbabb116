"""Edge stability of a run whose every round had noise of its own: counted over the rounds that were late.

A private run of Fed-Sparse-BNSL releases noisy coordinate updates, round by round, and cannot be repeated without rows. But
the noise of its rounds is independent, and the consensus after each is what the noise so far has made of it. Counted is the
share of the last half of the rounds whose consensus, made a graph as the result is, has the edge.

What the frequency means. The rounds form a chain that was drawn once: each starts from the one before, so that they are
not independent, and what the noise of the early rounds decided for good, or a coordinate that no selection ever
reached, does not show. It is a share over time within one run, not a probability over runs, and no expectation of it is
claimed; how often edges of a given frequency are right is measured by `python -m benchmarks stability`.

A round whose weight has the other sign than the result does not count for the edge.

The refit. After the rounds, weights above half of the threshold are refitted from a release of their own, and limits for
each of them, at least the threshold, decide (see `privfcd.algorithms.fed_sparse.run_noise`). For an edge that was refitted
the frequency is therefore the share of the late rounds in which it would have entered the refit, times the probability
that its refitted weight with fresh noise of the refit is beyond the limit with the same sign: at most the share of
entering, and half of it where the noise is loud. Every other edge has its share among the graphs of the late rounds,
and the two columns of a refitted edge are adjacent as often as one of the two directions is found. The refit's noise is
Gaussian; its standard deviation is the planned one, carried through the last step, or more where the steps did not settle
(see `privfcd.algorithms.fed_sparse.refit`). The weights' quantiles of a refitted edge are those of this noise.

Noise alone. For a refitted edge: the chance 2 Phi(-limit / sd) that this noise around 0 is beyond the limit, in either
direction. It is exact for Gaussian noise of this standard deviation and the limit as it is. That noise chooses which edges
are refitted is not in it. Runs on simulated rows, as long as the model's own each, have all of it: see
`privfcd.algorithms.stability.simulated_runs`. Without a refit and without such runs `noise_alone` is None.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr, ndtri

from privfcd.algorithms.stability.late_rounds import Array, LateRounds
from privfcd.algorithms.stability.result import EdgeStability
from privfcd.algorithms.stability.tally import HIGH, Tally

COUNTED = (
    "Stability: in what share of the last {rounds} rounds, each with its own noise, the edge was there. Rounds depend on "
    "each other, so this is no probability."
)
REFITTED = (
    " For an edge of the final refit it is the share of these rounds in which the edge would have entered the refit, times "
    "the chance that its weight, with the refit's noise drawn afresh, still counts and has the same sign. The interval is "
    "where the weight lies with the refit's noise drawn afresh, if the edge is chosen at all."
)
REFIT_ALONE = (
    " From noise alone: the chance that the refit's noise makes the edge out of a weight of 0, if the edge is chosen at "
    "all. That noise chooses it is not in this."
)
ALONE = (
    " From noise alone: {runs} runs with the same plan and budget on simulated columns with the second moments of the run, "
    "without dependence."
)


def from_rounds(late: LateRounds, columns: tuple[str, ...], alone: Tally | None = None) -> EdgeStability:
    """Return the stability that the late rounds of a run show, with what `alone` counted on noise alone."""
    frequency, adjacency = late.frequency.copy(), late.adjacency.copy()
    low, high = late.low.copy(), late.high.copy()
    method = COUNTED.format(rounds=late.rounds)
    by_refit: Array | None = None
    if late.refitted is not None and late.refit_sd is not None and late.refit_limits is not None:
        places = np.nonzero(late.refitted)
        weights, sds = late.refitted[places], np.maximum(late.refit_sd[places], np.finfo(float).tiny)
        cuts = late.refit_limits[places]
        frequency[places] = late.candidates[places] * ndtr((np.abs(weights) - cuts) / sds)
        by_refit = np.zeros(frequency.shape)
        by_refit[places] = 2 * ndtr(-cuts / sds)
        reach = ndtri(HIGH) * sds
        low[places], high[places] = weights - reach, weights + reach
        together = np.minimum(frequency + frequency.T, 1.0)
        adjacency[places] = together[places]
        adjacency.T[places] = together[places]
        method += REFITTED
        if alone is None:
            method += REFIT_ALONE
    both = None if by_refit is None else by_refit + by_refit.T
    if alone is not None:
        method += ALONE.format(runs=alone.runs)
    return EdgeStability(
        columns=columns,
        frequency=frequency,
        adjacency=adjacency,
        weight_low=low,
        weight_high=high,
        noise_alone=by_refit if alone is None else alone.frequency,
        noise_alone_edges=None if alone is None else alone.edges,
        draws=late.rounds,
        method=method + " It speaks of the noise only: chance in the records and the method's assumptions come on top.",
        noise_alone_adjacency=both if alone is None else alone.adjacency,
        noise_alone_weight=None if alone is None else alone.largest(),
        kind="rounds",
    )
