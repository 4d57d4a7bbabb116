"""For each mechanism: two neighbours that are hardest to hide, how to draw many outputs, and how to score them.

The pairs attain the sensitivity and, where the mechanism has one, the scores are its exact log-likelihood ratio (or a
function that grows with it), so that what an audit finds can come close to what is claimed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtri

from privfcd import checks
from privfcd.audits.scores import Array, Outputs, Score, projection
from privfcd.audits.selections import flip_setup, noisy_max_setup, top_setup
from privfcd.audits.setups import Pair, Setup, arrays, check_distance
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import (
    AnalyticGaussian,
    GaussianVector,
    GumbelMax,
    Laplace,
    LaplaceNoisyMax,
    LaplaceVector,
    NoiseStream,
    PermuteAndFlip,
    TopM,
)
from privfcd.mechanisms import Gaussian as GaussianMechanism

CANDIDATES = 8
_PACKED_SIZE = 32


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
    if isinstance(mechanism, TopM):
        return top_setup(mechanism, sensitivity, runs, alpha, pair, monotone)
    if isinstance(mechanism, PermuteAndFlip):
        return flip_setup(mechanism, sensitivity, pair, monotone)
    if isinstance(mechanism, LaplaceNoisyMax):
        return noisy_max_setup(mechanism, sensitivity, runs, alpha, pair, monotone)
    if isinstance(mechanism, GaussianVector | LaplaceVector):
        return _vector(mechanism, sensitivity, pair)
    if isinstance(mechanism, AnalyticGaussian):
        return _covariance(mechanism, sensitivity, pair)
    return _black_box(mechanism, pair, batched)


def _additive(mechanism: GaussianMechanism | Laplace, sensitivity: float, pair: Pair | None, gaussian: bool) -> Setup:
    first, second = arrays(pair if pair is not None else (0.0, sensitivity))
    gap = second - first
    check_distance(float(np.linalg.norm(gap.ravel(), 2 if gaussian else 1)), sensitivity, "l2" if gaussian else "l1")

    return Setup(
        pair=(first, second),
        draw=lambda value, runs, stream: mechanism.release(np.broadcast_to(value, (runs, *value.shape)), stream),
        exact=[projection(gap) if gaussian else _laplace_ratio(first, second, np.ones_like(gap))],
        learn=False,
        gaussian=gaussian,
        score_name="exact log-likelihood ratio",
    )


def _vector(mechanism: GaussianVector | LaplaceVector, sensitivity: float, pair: Pair | None) -> Setup:
    gaussian = isinstance(mechanism, GaussianVector)
    units = np.array(mechanism.sensitivities)
    safe = np.where(units > 0, units, 1.0)
    if pair is None:
        moving = max(int(np.count_nonzero(units)), 1)
        share = mechanism.reach / (math.sqrt(moving) if gaussian else moving)
        pair = (np.zeros(len(units)), sensitivity * share * units)
    first, second = arrays(pair)
    gap = (second - first) / safe
    reach = sensitivity * mechanism.reach
    check_distance(float(np.abs(gap).max()), sensitivity, "linf (in units of the sensitivities)")
    check_distance(float(np.linalg.norm(gap, 2 if gaussian else 1)), reach, "joint")
    return Setup(
        pair=(first, second),
        draw=lambda value, runs, stream: mechanism.release(np.broadcast_to(value, (runs, *value.shape)), stream),
        exact=[projection(gap / safe) if gaussian else _laplace_ratio(first, second, safe)],
        learn=False,
        gaussian=gaussian,
        score_name="exact log-likelihood ratio",
    )


def _laplace_ratio(first: Array, second: Array, units: Array) -> Score:
    gap = second - first

    def score(outputs: Outputs) -> Array:
        # |x - first| - |x - second| without cancellation: the plateaus beyond the two centres are exactly flat
        offset = np.clip((outputs - (first + second) / 2) * np.sign(gap), -np.abs(gap) / 2, np.abs(gap) / 2)
        return np.asarray((offset / units).reshape(len(outputs), -1).sum(axis=1))

    return score


def _selection(
    mechanism: GumbelMax, sensitivity: float, runs: int, alpha: float, pair: Pair | None, monotone: bool
) -> Setup:
    scale = mechanism.scale or 1.0
    if pair is None:
        pair = selection_pair(scale, sensitivity, runs, alpha, monotone=monotone)
    first, second = arrays(pair)
    if first.ndim != 1:
        raise checks.refuse("pair", pair, "two rows of scores")
    check_distance(float(np.abs(second - first).max()), sensitivity, "linf")
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
    first, second = arrays(pair)
    gap = second - first
    check_distance(float(np.linalg.norm(gap)), sensitivity, "Frobenius")
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
