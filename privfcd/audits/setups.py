"""How to audit one mechanism: its pair of neighbours, how outputs are drawn, and how they are scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.audits.scores import Score
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import NoiseStream

Pair = tuple[Any, Any]
Draw = Callable[[Any, int, NoiseStream], Any]

_DISTANCE_SLACK = 1 + 1e-9


@dataclass(frozen=True)
class Setup:
    """How to audit one mechanism.

    Attributes
    ----------
    pair : tuple
        The values of two neighbouring tables, world 0 and world 1.
    draw : function of (value, runs, stream)
        Returns outputs: an array with the runs along the first axis, or a list.
    exact : list of Score
        Scores that need no learning.
    learn : bool
        Whether scores learnt from the pilot are tried as well.
    gaussian : bool
        Whether the mechanism declares its noise to be Gaussian, so that an (epsilon, delta) claim fixes a whole
        curve.
    score_name : str
    """

    pair: Pair
    draw: Draw
    exact: list[Score]
    learn: bool
    gaussian: bool
    score_name: str


def arrays(pair: Pair) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the pair as two finite arrays of one shape."""
    first, second = (_array(value) for value in pair)
    if first.shape != second.shape:
        raise InvalidParameter(f"pair must be two values of one shape, got {first.shape} and {second.shape}")
    return first, second


def _array(value: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise checks.refuse("pair", value, "finite")
    return array


def check_distance(distance: float, sensitivity: float, norm: str) -> None:
    """Raise InvalidParameter where a pair is further apart than neighbours can be."""
    if distance > sensitivity * _DISTANCE_SLACK:
        raise InvalidParameter(
            f"pair must be within the sensitivity {sensitivity!r} in {norm} norm, got values {distance!r} apart"
        )
