"""The sparse vector technique, right and in four broken variants (Lyu, Su and Li 2017, Figure 1); epsilon = 1.

A noisy threshold is compared with queries of sensitivity 1 until `cutoff` of them are above it. Threshold noise has scale
1 / e1, query noise 2 c / e2 with e1 + e2 = epsilon. Variant 3 also prints the noisy answer that was above; variant 4
scales the query noise without 2 c; variant 5 adds none to the queries; variant 6 has too little of it and no cutoff.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.faults.case import Case, by_audit
from privfcd.audits import Claim
from privfcd.mechanisms import NoiseStream

Array = NDArray[np.float64]

_FARTHEST = 4


@dataclass(frozen=True)
class SparseVector:
    """Runs of one variant.

    Parameters
    ----------
    threshold_scale, query_scale : float
    cutoff : int or None
        After how many answers above the threshold it ends; None for never.
    prints_value : bool
        Whether the noisy answer above the threshold is printed, rounded down.
    """

    threshold_scale: float
    query_scale: float
    cutoff: int | None
    prints_value: bool = False

    def release_many(self, queries: Array, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return `runs` answers: a row of 0 (below) and 1 (above), or the place and the printed value as one number."""
        answers = np.broadcast_to(np.asarray(queries, dtype=float), (runs, len(queries)))
        if self.query_scale:
            answers = stream.laplace(answers, self.query_scale)
        above = answers >= stream.laplace(np.zeros((runs, 1)), self.threshold_scale)
        if self.cutoff is not None:
            above = above & (np.cumsum(above, axis=1) <= self.cutoff)
        if not self.prints_value:
            return above.astype(np.int64)
        first = np.argmax(above, axis=1)
        value = np.clip(np.floor(answers[np.arange(runs), first]), -_FARTHEST, _FARTHEST - 1) + _FARTHEST
        return np.where(above.any(axis=1), first * 2 * _FARTHEST + value, -1).astype(np.int64)

    def release(self, queries: Array, stream: NoiseStream) -> Any:
        """Return one answer."""
        return self.release_many(queries, 1, stream)[0]


PURE = Claim(epsilon=1.0)
RIGHT = SparseVector(2.0, 4.0, 1)
_HALVES = (np.zeros(8), np.array([1.0] * 4 + [-1.0] * 4))
_LAST = (np.array([0.0] * 4 + [1.0]), np.array([1.0] * 4 + [0.0]))

CASES = [
    Case("sparse vector, variant 3", SparseVector(2.0, 2.0, 1, True), RIGHT, by_audit(PURE, _LAST), 30_000, 30_000),
    Case("sparse vector, variant 4", SparseVector(4.0, 4 / 3, 4), RIGHT, by_audit(PURE, _HALVES), 10_000, 30_000),
    Case("sparse vector, variant 5", SparseVector(2.0, 0.0, None), RIGHT, by_audit(PURE, _HALVES), 400, 1_000),
    Case("sparse vector, variant 6", SparseVector(2.0, 2.0, None), RIGHT, by_audit(PURE, _HALVES), 6_000, 10_000),
]
