"""The exponential mechanism by the Gumbel-max trick.

Theorem (McSherry and Talwar 2007; Durfee and Rogers 2019, Lemma 4.2). Selecting i with probability proportional to
exp(score_i / b), where one record moves every score by at most D, has privacy loss in an interval of width
eta = 2 D / b; eta = D / b if one record moves all scores in the same direction. It is therefore eta-DP, and
eta²/8-zCDP (Cesar and Rogers 2021; Rogers and Steinke 2021).

Proof. With neighbours' scores s and s', the loss at i is (s_i - s'_i)/b + log(Z'/Z), and the second term is the same
for all i; so losses differ by at most max_i (s_i - s'_i)/b - min_i (s_i - s'_i)/b, which is at most 2 D / b, and D / b
where all the s_i - s'_i have one sign. Adding Gumbel noise of scale b to every score and taking the largest selects
with these probabilities.

The scale must be one number for all candidates. With a scale of its own for each, the largest noisy score no longer has
these probabilities and the loss is not bounded by any constant: sensitivities (0.5, 0.05) with scales (1, 0.1) turn
the second candidate's probability from 0.0163 into 0.0010 where a loss of 1 would be claimed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.accounting import BoundedRangeDpEvent, EpsilonDeltaDpEvent, selection_event
from privfcd.errors import InvalidParameter
from privfcd.mechanisms.noise import Array, NoiseStream, finite, held_by_doubles, plain


@dataclass(frozen=True)
class GumbelMax:
    """Select the largest of the scores under Gumbel noise of one scale.

    Parameters
    ----------
    scale : float
        b in P(i) ∝ exp(score_i / b): one number of at least 0, the same for all candidates; an array is refused. The
        noise has standard deviation pi/sqrt(6) b. 0 takes the largest score and is charged as non-private.
    """

    scale: float
    norm: ClassVar[str] = "linf"
    kind: ClassVar[str] = "scores"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", one_scale(self.scale))

    def event(self, sensitivity: float, *, monotone: bool = False) -> DpEvent:
        """Return the cost of one selection.

        Parameters
        ----------
        sensitivity : float
            How far one record can move any score.
        monotone : bool
            Whether one record moves all scores in the same direction.
        """
        return selection_event(sensitivity, self.scale, monotone=monotone)

    def release(self, scores: ArrayLike, stream: NoiseStream) -> int:
        """Return the index of the selected candidate."""
        return stream.select(checked_scores(scores), self.scale)

    def release_many(self, scores: ArrayLike, runs: int, stream: NoiseStream) -> NDArray[np.int64]:
        """Return `runs` independent selections, each of which costs one event: for audits and experiments."""
        return stream.select_many(checked_scores(scores), self.scale, checks.count("runs", runs))


def one_scale(scale: float) -> float:
    """Return `scale` as a float, or raise InvalidParameter unless it is one number of at least 0."""
    if np.ndim(scale):
        raise InvalidParameter(
            f"scale must be one number for all candidates, got an array of shape {np.shape(scale)}: noise whose scale "
            "differs by candidate has no privacy guarantee"
        )
    return checks.scale("scale", scale)


def pure_selection_event(sensitivity: float, scale: float, *, monotone: bool = False, extra: float = 0.0) -> DpEvent:
    """Return the event of a selection of which only its pure epsilon is known: 2 D / b (D / b if monotone) + `extra`."""
    event = selection_event(sensitivity, scale, monotone=monotone)
    if not isinstance(event, BoundedRangeDpEvent):
        return event
    return EpsilonDeltaDpEvent(math.nextafter(event.eta + extra, math.inf) if extra else event.eta, 0.0)


def checked_scores(scores: ArrayLike) -> Array:
    """Return `scores` as one row of at least one finite number, as doubles that select like them.

    Integers of 64 bits and more are measured from the largest one, exactly, and cut off at 2^53 below it, so that doubles
    hold them: max(score, largest - 2^53) shifted by one number. The shift changes no selection. The cut keeps what one
    record can do: where it moves every score by at most D, it moves each such maximum by at most D, and in the same
    direction where the scores move in one direction. So the event that was charged holds; rounding to doubles would move
    scores further than D. All such integers are treated alike, small ones too: neighbours must not be told apart.
    """
    array = plain("scores", scores)
    if array.ndim != 1 or not array.size:
        raise InvalidParameter(f"scores must be one row of at least one candidate, got shape {array.shape}")
    if array.dtype.kind == "f" or array.dtype.itemsize < 8:
        return finite("scores", array)
    if held_by_doubles(array):
        doubles = array.astype(np.float64)
        return np.maximum(doubles - doubles.max(), -(2.0**53))  # exact, but for differences that are cut off
    whole = [int(score) for score in array]
    largest = max(whole)
    return np.array([-float(min(largest - score, 2**53)) for score in whole])
