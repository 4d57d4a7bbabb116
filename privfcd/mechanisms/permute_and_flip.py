"""Permute-and-flip: the selection with the least expected error among pure ones of its kind.

Mechanism (McKenna and Sheldon 2020). Go through the candidates in random order; take candidate i with probability
exp((score_i - max) / b), else go on. A candidate with the largest score is always taken, so it ends.

Theorem (McKenna and Sheldon 2020, Theorem 1). With scores of sensitivity D it is epsilon-DP with epsilon = 2 D / b, and
D / b where one record moves all scores in the same direction.

Proof. Put q_i = exp((score_i - max) / b). The first head in a random order is the head with the earliest of independent
uniform arrival times, so P(r) = q_r ∫_0^1 prod_{i != r} (1 - q_i t) dt.

- Let score_r rise by x. While r is below the maximum only q_r changes, by exp(x / b). Where r is the maximum, the other
  q_i fall to q_i exp(-x / b), and with u = t exp(-x / b) the integral becomes exp(x / b) ∫_0^exp(-x/b) prod (1 - q_i u)
  du. So P(r) rises, by a factor of at most exp(x / b).
- Let another score_i rise. Below the maximum only q_i changes, and P(r) falls. Where i is the maximum and rises by x,
  P(r) becomes q_r ∫_0^exp(-x/b) (1 - u exp(x/b)) prod_{j != i, r} (1 - q_j u) du, which falls with x.

So P(r) grows most where score_r rises by D and all others fall by D. A shift of all scores changes nothing, so this is a
rise of score_r by 2 D, or D where all scores move in the same direction; the factor is at most exp(2 D / b).

It is not a bounded-range mechanism: its loss can be anywhere in [-epsilon, epsilon], so it is charged by its pure epsilon
and by nothing sharper. It is the same law as the largest of the scores with exponential noise (Ding, Kifer, et al. 2021).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.mechanisms.exponential import checked_scores, one_scale, pure_selection_event
from privfcd.mechanisms.noise import NoiseStream


@dataclass(frozen=True)
class PermuteAndFlip:
    """Select the largest of the scores by permute-and-flip.

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

    def event(self, sensitivity: float, *, monotone: bool = False) -> DpEvent:
        """Return the cost of one selection: its pure epsilon; parameters as for `GumbelMax.event`."""
        return pure_selection_event(sensitivity, self.scale, monotone=monotone)

    def release(self, scores: ArrayLike, stream: NoiseStream) -> int:
        """Return the index of the selected candidate."""
        return stream.permute_and_flip(checked_scores(scores), self.scale)

    def release_many(self, scores: ArrayLike, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return `runs` independent selections, each of which costs one event: for audits and experiments."""
        array = checked_scores(scores)
        return np.array(
            [stream.permute_and_flip(array, self.scale) for _ in range(checks.count("runs", runs))], dtype=np.int64
        )
