"""Report noisy max with Laplace noise.

Mechanism (Dwork and Roth 2014, Section 3.3). Add Laplace noise of scale b to every score, and return the index of the
largest.

Theorem. With scores of sensitivity D it is epsilon-DP with epsilon = 2 D / b, and D / b where one record moves all scores
in the same direction. (Claim 3.9 of the book is for such scores, counts; the charge D / b for others is a common fault.)

Proof. Given the noise of all others, i wins where score_i + Z_i is above a threshold, the largest of the others. One
record moves threshold minus score_i by at most 2 D (D if all scores move the same way), and P(Z_i >= t) changes by a
factor of at most exp(2 D / b) when t moves by 2 D. Average over the others' noise.

Rounding. A secure stream rounds score + noise to a grid of at most 2^-20 b, so a threshold that moves by x in the reals
moves by at most x + 2^-20 b. To keep doubles fine enough for that, the largest score is taken off first and what is left
is cut off at -2^20 b: thresholds still move by at most 2 D (minima of functions that do), and rounding these differences
adds less than 2^-31 b. Noise so large that doubles are coarser than the grid there (2^32 scales) has probability
exp(-2^32). For all of this 2^-19 is added to epsilon.

Against `GumbelMax`: the same pure epsilon, but no bounded range is known, so that compositions cost more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.mechanisms.exponential import checked_scores, one_scale, pure_selection_event
from privfcd.mechanisms.noise import Array, NoiseStream

ROUNDING = 2.0**-19
"""Added to epsilon for the grid on which noisy scores are compared."""

_FARTHEST = 2.0**20
_LEAST_SCALE = 1e-300
_CHUNK = 2**20


@dataclass(frozen=True)
class LaplaceNoisyMax:
    """Select the largest of the scores under Laplace noise of one scale.

    Parameters
    ----------
    scale : float
        b, one number of at least 0 for all candidates; 0 takes the largest score and is charged as non-private.
    """

    scale: float
    norm: ClassVar[str] = "linf"
    kind: ClassVar[str] = "scores"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", one_scale(self.scale))
        if 0 < self.scale < _LEAST_SCALE:
            raise checks.refuse("scale", self.scale, f"0 or at least {_LEAST_SCALE} (doubles are too coarse below)")

    def event(self, sensitivity: float, *, monotone: bool = False) -> DpEvent:
        """Return the cost of one selection: its pure epsilon; parameters as for `GumbelMax.event`."""
        return pure_selection_event(sensitivity, self.scale, monotone=monotone, extra=ROUNDING)

    def release(self, scores: ArrayLike, stream: NoiseStream) -> int:
        """Return the index of the selected candidate."""
        return int(np.argmax(stream.laplace(self._gaps(scores), self.scale)))

    def release_many(self, scores: ArrayLike, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return `runs` independent selections, each of which costs one event: for audits and experiments."""
        gaps = self._gaps(scores)
        runs = checks.count("runs", runs)
        size = max(1, _CHUNK // len(gaps))
        parts = [
            stream.laplace(np.tile(gaps, (min(size, runs - start), 1)), self.scale).argmax(axis=1)
            for start in range(0, runs, size)
        ]
        return np.concatenate(parts).astype(np.int64)

    def _gaps(self, scores: ArrayLike) -> Array:
        array = checked_scores(scores)
        with np.errstate(over="ignore"):
            gaps = array - array.max()
        if self.scale == 0:
            return np.where(gaps == 0, 0.0, -1.0)
        lowest = -min(_FARTHEST * self.scale, np.finfo(np.float64).max)
        return np.asarray(np.maximum(gaps, lowest))
