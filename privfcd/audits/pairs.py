"""For each mechanism: two neighbours that are hardest to hide, how to draw many outputs, and how to score them.

The pairs attain the sensitivity and, where the mechanism has one, the scores are its exact log-likelihood ratio (or a
function that grows with it), so that what an audit finds can come close to what is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from privfcd import checks
from privfcd.audits.scores import Array, Outputs, Score, projection
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import AnalyticGaussian, GumbelMax, Laplace, NoiseStream
from privfcd.mechanisms import Gaussian as GaussianMechanism

Pair = tuple[Any, Any]
Draw = Callable[[Any, int, NoiseStream], Any]

CANDIDATES = 8
_PACKED_SIZE = 32
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


def setup(
    mechanism: Any, sensitivity: float, runs: int, alpha: float, pair: Pair | None, monotone: bool, batched: bool
) -> Setup:
    """Return how to audit `mechanism`; parameters as for `privfcd.audits.audit`."""
    if pair is not None and (not isinstance(pair, tuple | list) or len(pair) != 2):
        raise checks.refuse("pair", pair, "two neighbouring values")
    if isinstance(mechanism, GaussianMechanism):
        return _additive(mechanism, sensitivity, pair, gaussian=True)
    if isinstance(mechanism, Laplace):
        return _additive(mechanism, sensitivity, pair, gaussian=False)
    if isinstance(mechanism, GumbelMax):
        return _selection(mechanism, sensitivity, runs, alpha, pair, monotone)
    if isinstance(mechanism, AnalyticGaussian):
        return _covariance(mechanism, sensitivity, pair)
    return _black_box(mechanism, pair, batched)


def _additive(mechanism: GaussianMechanism | Laplace, sensitivity: float, pair: Pair | None, gaussian: bool) -> Setup:
    first, second = _arrays(pair if pair is not None else (0.0, sensitivity))
    gap = second - first
    _check_distance(float(np.linalg.norm(gap.ravel(), 2 if gaussian else 1)), sensitivity, "l2" if gaussian else "l1")

    def laplace_ratio(outputs: Outputs) -> Array:
        # |x - first| - |x - second| without cancellation: the plateaus beyond the two centres are exactly flat
        offset = np.clip((outputs - (first + second) / 2) * np.sign(gap), -np.abs(gap) / 2, np.abs(gap) / 2)
        return np.asarray(offset.reshape(len(outputs), -1).sum(axis=1))

    return Setup(
        pair=(first, second),
        draw=lambda value, runs, stream: mechanism.release(np.broadcast_to(value, (runs, *value.shape)), stream),
        exact=[projection(gap) if gaussian else laplace_ratio],
        learn=False,
        gaussian=gaussian,
        score_name="exact log-likelihood ratio",
    )


def _selection(
    mechanism: GumbelMax, sensitivity: float, runs: int, alpha: float, pair: Pair | None, monotone: bool
) -> Setup:
    scale = mechanism.scale or 1.0
    if pair is None:
        pair = selection_pair(scale, sensitivity, runs, alpha, monotone=monotone)
    first, second = _arrays(pair)
    if first.ndim != 1:
        raise checks.refuse("pair", pair, "two rows of scores")
    _check_distance(float(np.abs(second - first).max()), sensitivity, "linf")
    ratio = (second - first) / scale
    return Setup(
        pair=(first, second),
        draw=lambda scores, runs, stream: mechanism.release_many(scores, runs, stream),
        exact=[lambda picks: ratio[picks]],
        learn=True,
        gaussian=False,
        score_name="exact log-likelihood ratio, or frequencies learnt from the pilot",
    )


def selection_pair(
    scale: float,
    sensitivity: float,
    runs: int = 10**6,
    alpha: float = 0.05,
    *,
    monotone: bool = False,
    candidates: int = CANDIDATES,
) -> tuple[Array, Array]:
    """Return the scores of two neighbours on which one selection leaks nearly all of its eta.

    The first candidate's score rises by the sensitivity while all others fall by it (stay, if `monotone`). The loss
    of the first candidate is eta - log(1 + p (e^eta - 1)), p its probability before the rise: nearly eta where p is
    small, but a small p is seen rarely. The p that is chosen maximises what `runs` runs are expected to certify.
    """
    eta = sensitivity / scale * (1 if monotone else 2)
    share = np.geomspace(1e-7, 0.5, 400)
    # p e^eta / (1 - p + p e^eta), without overflow
    raised = share / (share + (1 - share) * math.exp(-eta))
    uncertainty = np.sqrt((1 / share + 1 / raised) / max(runs, 1))
    p = float(share[np.argmax(np.log(raised / share) + ndtri(alpha) * uncertainty)])
    first = np.zeros(candidates)
    first[0] = scale * (math.log(p / (1 - p)) + math.log(candidates - 1))
    move = np.full(candidates, 0.0 if monotone else -sensitivity)
    move[0] = sensitivity
    return first, first + move


def _covariance(mechanism: AnalyticGaussian, sensitivity: float, pair: Pair | None) -> Setup:
    if pair is None:
        # The outer products of two orthogonal vectors, at an angle that puts half of the change off the diagonal.
        angle = math.pi / 8
        x, y = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
        pair = (np.outer(y, y) * sensitivity / math.sqrt(2), np.outer(x, x) * sensitivity / math.sqrt(2))
    first, second = _arrays(pair)
    gap = second - first
    _check_distance(float(np.linalg.norm(gap)), sensitivity, "Frobenius")
    d = len(first)
    copies = max(1, _PACKED_SIZE // d)

    def draw(value: Array, runs: int, stream: NoiseStream) -> Outputs:
        # One release of a block-diagonal matrix is `copies` releases at once: entries have independent noise.
        packed = np.kron(np.eye(copies), value)
        blocks = np.empty((-(-runs // copies), copies, d, d))
        which = np.arange(copies)
        for row in blocks:
            row[:] = mechanism.release(packed, stream).matrix.reshape(copies, d, copies, d)[which, :, which]
        return blocks.reshape(-1, d, d)[:runs]

    return Setup(
        pair=(first, second),
        draw=draw,
        exact=[projection(gap)],
        learn=True,
        gaussian=True,
        score_name=f"exact log-likelihood ratio or a learnt discriminant, {copies} blocks in each matrix",
    )


def _black_box(mechanism: Any, pair: Pair | None, batched: bool) -> Setup:
    if pair is None:
        raise InvalidParameter(
            f"pair must be given for {mechanism!r}: the answers of two neighbouring tables, or the tables themselves"
        )
    release = getattr(mechanism, "release", mechanism)
    many = getattr(mechanism, "release_many", release if batched else None)
    if not callable(release):
        raise checks.refuse("mechanism", mechanism, "a function of (value, stream), or an object with such a `release`")

    def draw(value: Any, runs: int, stream: NoiseStream) -> Any:
        if many is None:
            return [release(value, stream) for _ in range(runs)]
        outputs = many(value, runs, stream)
        if len(outputs) != runs:
            raise InvalidParameter(f"mechanism must return one output for each of {runs} runs, got {len(outputs)}")
        return outputs

    return Setup(
        pair=(pair[0], pair[1]),
        draw=draw,
        exact=[],
        learn=True,
        gaussian=False,
        score_name="likelihood ratio learnt from the pilot",
    )


def _arrays(pair: Pair) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = (_array(value) for value in pair)
    if first.shape != second.shape:
        raise InvalidParameter(f"pair must be two values of one shape, got {first.shape} and {second.shape}")
    return first, second


def _array(value: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise checks.refuse("pair", value, "finite")
    return array


def _check_distance(distance: float, sensitivity: float, norm: str) -> None:
    if distance > sensitivity * _DISTANCE_SLACK:
        raise InvalidParameter(
            f"pair must be within the sensitivity {sensitivity!r} in {norm} norm, got values {distance!r} apart"
        )
