"""Transcripts of runs at the boundary where noise is added, and what the other table would have made of them.

Whatever a party learns from its rows passes through a noise stream: exact value and scale go in, the noisy answer comes
out, and all else follows from the answers. A `Recorder` keeps value, scale and answer of each draw. A `Replay` gives the
same answers to the same algorithm on the neighbouring table and compares what the two tables put in: the logarithm of
the likelihood ratio of the whole transcript is

    sum over draws of  log p(answer | value', scale') - log p(answer | value, scale),

Gaussian, Laplace and softmax terms, exact for adaptive algorithms. It is a function of the answers alone, whichever of
the two tables ran, and the most powerful score there is (Neyman and Pearson 1933).

What does not pass through noise shows too: if the neighbour could not have made this transcript (other draws are asked
for), or if the same answers lead to another result, the score is `CERTAIN`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd.errors import PrivfcdError
from privfcd.mechanisms import NoiseSource, NoiseStream
from privfcd.mechanisms.noise import Array
from privfcd.mechanisms.orders import secret_order

CERTAIN = 1e6
"""Score of a run that only one of the tables can have made."""


class Diverged(PrivfcdError):
    """The other table does not ask for the draws of this transcript."""


@dataclass(frozen=True, slots=True)
class Step:
    """One draw: what went in and what came out."""

    kind: str
    key: tuple[int, ...]
    value: Any
    scale: Any
    answer: Any


class Recorder:
    """A noise source that keeps what is drawn from it.

    Parameters
    ----------
    source : NoiseSource
        Where the noise comes from.

    Attributes
    ----------
    steps : list of Step
        Since it was last cleared.
    """

    def __init__(self, source: NoiseSource) -> None:
        self.source = source
        self.secure = source.secure
        self.label = source.label
        self.steps: list[Step] = []

    def stream(self, *key: int) -> NoiseStream:
        """See `NoiseSource.stream`."""
        return _Recording(self, self.source.stream(*key), key)

    def order(self, size: int, *key: int) -> NDArray[np.int64]:
        """Return, and keep, the order of rows that the source makes of this `key`, see `secret_order`."""
        answer = secret_order(self.source, size, key)
        self.steps.append(Step("order", key, size, 1.0, answer))
        return answer


class _Recording:
    def __init__(self, recorder: Recorder, inner: NoiseStream, key: tuple[int, ...]) -> None:
        self._recorder, self._inner, self._key = recorder, inner, key
        self.secure = inner.secure

    def _note(self, kind: str, value: Any, scale: Any, answer: Any) -> Any:
        # values may be views of working state that goes on changing
        kept = value.copy() if isinstance(value, np.ndarray) else value
        self._recorder.steps.append(Step(kind, self._key, kept, scale, answer))
        return answer

    def gaussian(self, value: ArrayLike, scale: float | Array) -> Array:
        return self._note("gaussian", value, scale, self._inner.gaussian(value, scale))

    def laplace(self, value: ArrayLike, scale: float | Array) -> Array:
        return self._note("laplace", value, scale, self._inner.laplace(value, scale))

    def select(self, scores: Array, scale: float) -> int:
        return int(self._note("select", scores, scale, self._inner.select(scores, scale)))

    def select_many(self, scores: Array, scale: float, size: int) -> NDArray[np.int64]:
        return self._note("select_many", scores, scale, self._inner.select_many(scores, scale, size))

    def permute_and_flip(self, scores: Array, scale: float) -> int:
        return int(self._note("permute_and_flip", scores, scale, self._inner.permute_and_flip(scores, scale)))


class Replay:
    """A noise source that gives recorded answers, and adds up how much likelier its own table makes them.

    Parameters
    ----------
    recorder : Recorder
        Whose label and kind it shows.

    Attributes
    ----------
    log_ratio : float
        Of the transcript so far, the replaying table over the recorded one.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.secure, self.label = recorder.secure, recorder.label
        self.load(())

    def load(self, steps: Iterable[Step]) -> None:
        """Start on another transcript."""
        self._steps = tuple(steps)
        self._next = 0
        self.log_ratio = 0.0

    @property
    def finished(self) -> bool:
        """Whether all recorded draws were asked for."""
        return self._next == len(self._steps)

    def stream(self, *key: int) -> NoiseStream:
        """See `NoiseSource.stream`."""
        return _Replaying(self, key)

    def order(self, size: int, *key: int) -> NDArray[np.int64]:
        """Return the recorded table's order: neighbours are compared place by place."""
        return self.answer("order", key, size, 1.0, size)

    def answer(self, kind: str, key: tuple[int, ...], value: Any, scale: Any, size: int | None = None) -> Any:
        """Return the next recorded answer, and score it."""
        step = self._steps[self._next] if self._next < len(self._steps) else None
        if step is None or step.kind != kind or step.key != key or np.shape(step.value) != np.shape(value):
            raise Diverged(f"draw {self._next} of the transcript is not a {kind} of this shape under the key {key}")
        if size is not None and len(step.answer) != size:
            raise Diverged(f"draw {self._next} of the transcript has {len(step.answer)} picks, not {size}")
        self._next += 1
        self.log_ratio += _LAWS[kind](step, value, scale)
        return step.answer


class _Replaying:
    def __init__(self, replay: Replay, key: tuple[int, ...]) -> None:
        self._replay, self._key = replay, key
        self.secure = replay.secure

    def gaussian(self, value: ArrayLike, scale: float | Array) -> Array:
        return self._replay.answer("gaussian", self._key, value, scale)

    def laplace(self, value: ArrayLike, scale: float | Array) -> Array:
        return self._replay.answer("laplace", self._key, value, scale)

    def select(self, scores: Array, scale: float) -> int:
        return int(self._replay.answer("select", self._key, scores, scale))

    def select_many(self, scores: Array, scale: float, size: int) -> NDArray[np.int64]:
        return self._replay.answer("select_many", self._key, scores, scale, size)

    def permute_and_flip(self, scores: Array, scale: float) -> int:
        return int(self._replay.answer("permute_and_flip", self._key, scores, scale))


def _additive(step: Step, value: Any, scale: Any, power: int) -> float:
    if isinstance(scale, float) and isinstance(step.scale, float) and np.ndim(value) == 0 and scale == step.scale > 0:
        ours, theirs = (abs(float(step.answer) - float(v)) / scale for v in (value, step.value))
        return (theirs**power - ours**power) / power
    answer, mine = np.asarray(step.answer, dtype=float), np.asarray(value, dtype=float)
    scales = [np.broadcast_to(np.asarray(s, dtype=float), mine.shape) for s in (scale, step.scale)]
    total = 0.0
    exact = (scales[0] == 0) | (scales[1] == 0)
    if exact.any():  # no noise in one of them: only equal values can give this answer
        if not (np.array_equal(scales[0], scales[1]) and (mine == np.asarray(step.value))[exact].all()):
            return -CERTAIN
        if exact.all():
            return 0.0
    ours, theirs = scales[0][~exact], scales[1][~exact]
    near = np.abs(answer - mine)[~exact] / ours
    far = np.abs(answer - np.asarray(step.value, dtype=float))[~exact] / theirs
    total += float(np.sum(far**power - near**power)) / power
    if not np.array_equal(ours, theirs):
        total += float(np.sum(np.log(theirs / ours)))
    return total


def _gaussian(step: Step, value: Any, scale: Any) -> float:
    return _additive(step, value, scale, 2)


def _laplace(step: Step, value: Any, scale: Any) -> float:
    return _additive(step, value, scale, 1)


def _select(step: Step, value: Any, scale: Any) -> float:
    picks = np.asarray(step.answer)
    if scale == 0 or step.scale == 0:
        same = scale == step.scale and int(np.argmax(value)) == int(np.argmax(step.value))
        return 0.0 if same else -CERTAIN
    return float(np.sum(_log_softmax(value, scale)[picks] - _log_softmax(step.value, step.scale)[picks]))


def _log_softmax(scores: Array, scale: float) -> Array:
    shifted = (scores - scores.max()) / scale
    return np.asarray(shifted - math.log(float(np.exp(shifted).sum())))


def _permute_and_flip(step: Step, value: Any, scale: Any) -> float:
    if scale == 0 or step.scale == 0:
        return _select(step, value, scale)
    pick = int(step.answer)
    return math.log(permute_and_flip_law(value, scale)[pick] / permute_and_flip_law(step.value, step.scale)[pick])


def permute_and_flip_law(scores: Array, scale: float) -> Array:
    """Return the probability of each candidate: a candidate whose coin shows heads wins among all heads at random.

    With q_i = exp((s_i - max) / b) it is q_i times the mean of 1 / (1 + heads of the others), that is q_i times the
    integral over t in [0, 1] of the product over j != i of (1 - q_j + q_j t), by Gauss quadrature, exact for polynomials.
    """
    chances = np.exp((np.asarray(scores) - np.max(scores)) / scale)
    nodes, weights = np.polynomial.legendre.leggauss(len(chances) // 2 + 1)
    factors = 1 - chances[:, None] * (1 - (nodes + 1) / 2)
    with np.errstate(divide="ignore"):
        logs = np.log(factors)
    others = np.exp(logs.sum(axis=0) - logs)
    return np.asarray(chances * (others @ (weights / 2)))


def _order(step: Step, value: Any, scale: Any) -> float:
    return 0.0  # as likely on both tables


_LAWS = {
    "order": _order,
    "gaussian": _gaussian,
    "laplace": _laplace,
    "select": _select,
    "select_many": _select,
    "permute_and_flip": _permute_and_flip,
}


def fingerprint(released: Any) -> bytes:
    """Return a digest of what was released: numbers bit by bit, whatever they are packed in."""
    digest = hashlib.blake2b(digest_size=16)
    _digest(digest, released)
    return digest.digest()


def _digest(digest: Any, value: Any) -> None:
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        digest.update(f"a{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        digest.update(type(value).__name__.encode())
        for field in dataclasses.fields(value):
            _digest(digest, getattr(value, field.name))
    elif isinstance(value, Mapping):
        digest.update(b"m%d" % len(value))
        for name in value:
            _digest(digest, name)
            _digest(digest, value[name])
    elif isinstance(value, list | tuple):
        digest.update(b"l%d" % len(value))
        for one in value:
            _digest(digest, one)
    else:
        digest.update(repr(value).encode() + b";")
