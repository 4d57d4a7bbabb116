"""The best m candidates, by peeling with the exponential mechanism.

Theorem (Durfee and Rogers 2019, Lemma 4.3). Select one candidate with probability proportional to exp(score / b), take
it out, and go on until there are m. This has the law of adding Gumbel noise of scale b to every score once and reading
off the m largest, in order. It costs m selections: the composition of m releases whose privacy loss lies in a range of
width eta = 2 D / b (D / b if one record moves all scores in the same direction).

Proof. Given what was taken out before, a round is the exponential mechanism on the remaining scores (see `exponential`),
whose sensitivity is no larger; so the sequence is an adaptive composition of m of them. For the law: Gumbel noise makes
i the largest with the probability of round one, and given that, the order of the rest is independent of it (the
memoryless property of the exponentials exp(-(score + noise) / b)), so that the second largest is the largest among the
rest with fresh noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.accounting import compose, selection_event
from privfcd.errors import InvalidParameter
from privfcd.mechanisms.exponential import checked_scores, one_scale
from privfcd.mechanisms.noise import Array, NoiseStream


@dataclass(frozen=True)
class TopM:
    """Select m distinct candidates, the best first, under Gumbel noise of one scale.

    Parameters
    ----------
    scale : float
        b, one number of at least 0 for all candidates and rounds; 0 takes the m largest scores and is charged as
        non-private.
    m : int
        How many; at least 1. A release refuses fewer candidates than that.
    """

    scale: float
    m: int
    norm: ClassVar[str] = "linf"
    kind: ClassVar[str] = "scores"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", one_scale(self.scale))
        object.__setattr__(self, "m", checks.count("m", self.m))

    def event(self, sensitivity: float, *, monotone: bool = False) -> DpEvent:
        """Return the cost of one release: m selections, composed.

        Parameters
        ----------
        sensitivity : float
            How far one record can move any score.
        monotone : bool
            Whether one record moves all scores in the same direction.
        """
        return compose([(selection_event(sensitivity, self.scale, monotone=monotone), self.m)])

    def release(self, scores: ArrayLike, stream: NoiseStream) -> NDArray[np.int64]:
        """Return the indices of the selected candidates, shape (m,), in the order of their selection."""
        array = self._checked(scores)
        left = np.arange(len(array))
        picks = np.empty(self.m, dtype=np.int64)
        for place in range(self.m):
            position = stream.select(array, self.scale)
            picks[place] = left[position]
            if place + 1 < self.m:
                array, left = np.delete(array, position), np.delete(left, position)
        return picks

    def release_many(self, scores: ArrayLike, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return `runs` independent releases, shape (runs, m), each of which costs one event: for audits."""
        picks = np.empty((checks.count("runs", runs), self.m), dtype=np.int64)
        array = self._checked(scores)
        self._peel(array, np.arange(len(array)), picks, stream)
        return picks

    def _peel(self, scores: Array, left: NDArray[np.int64], picks: NDArray[np.int64], stream: NoiseStream) -> None:
        """Fill `picks` (a view); runs that took the same candidate go on together, with independent noise."""
        positions = stream.select_many(scores, self.scale, len(picks))
        picks[:, 0] = left[positions]
        if picks.shape[1] == 1:
            return
        for position in np.unique(positions):
            same = np.flatnonzero(positions == position)
            rest = np.empty((len(same), picks.shape[1] - 1), dtype=np.int64)
            self._peel(np.delete(scores, position), np.delete(left, position), rest, stream)
            picks[same, 1:] = rest

    def _checked(self, scores: ArrayLike) -> Array:
        array = checked_scores(scores)
        if len(array) < self.m:
            raise InvalidParameter(f"scores must hold at least m = {self.m} candidates, got {len(array)}")
        return array
