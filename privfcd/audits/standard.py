"""One instance of every query that the algorithms use, for the sensitivity search."""

from __future__ import annotations

from privfcd import checks
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent, GreedyScores
from privfcd.data.box_moments import BoxMoments
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.quantile import QuantileScores
from privfcd.data.queries import ClippedGradient, ClippedMean, ColumnSquares, Query, SecondMoments


def standard_queries(columns: int) -> list[Query]:
    """Return every query of `privfcd.data` for tables of so many columns, with constants of moderate size."""
    d = checks.count("columns", columns, least=2)
    weights = tuple(tuple(0.3 if j == i + 1 else 0.0 for j in range(d)) for i in range(d))
    pull = tuple(tuple(0.01 * (i - j) for j in range(d)) for i in range(d))
    descent = GreedyDescent(
        smoothness=tuple(1.0 + index for index in range(d)), clip=1.0, l1=0.05, ridge=1.0, noise_multiplier=1.0
    )
    return [
        ClippedMean(tuple(1.0 + index for index in range(d))),
        ColumnSquares(tuple(1.0 + index for index in range(d))),
        SecondMoments(1.5),
        BoxMoments(tuple(1.0 + 0.1 * index for index in range(d))),
        QuantileScores(0, 0.25, tuple(-0.9 + 0.1 * index for index in range(19))),
        OctaveHistogram(d),
        ClippedGradient(weights, tuple(0.3 + 0.1 * index for index in range(d))),
        GreedyScores(descent, weights, pull),
    ]
