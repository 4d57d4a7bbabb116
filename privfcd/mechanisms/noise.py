"""Where noise comes from: the operating system's randomness, or a seeded generator for experiments.

A `NoiseSource` is a frozen recipe that can be copied to other processes; `stream` makes the live source of samples.
A stream adds noise to values rather than returning noise, because a secure one has to decide the last bits of the
sum: noise in floating point that is added afterwards betrays the value (Mironov 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.mechanisms.staged import Mask, SelectionTable, SoftTable

Array = NDArray[np.float64]

_ORDER = 2**32 - 1
"""Last part of the keys of orders, which no stream's key has there."""


class NoiseStream(Protocol):
    """A live source of samples. Values and scores must be finite; scales one finite number of at least 0.

    A value may be an exact answer (see `exact`), which a secure stream does not round before noise is added.
    """

    secure: bool

    def gaussian(self, value: ArrayLike, scale: float | Array) -> Array:
        """Return `value` plus independent Gaussian noise of standard deviation `scale`, in the shape of `value`."""

    def laplace(self, value: ArrayLike, scale: float | Array) -> Array:
        """Return `value` plus independent Laplace noise of scale `scale`, in the shape of `value`."""

    def select(self, scores: Array, scale: float) -> int:
        """Return index i with probability proportional to exp(scores[i] / scale); the first maximum at scale 0."""

    def select_many(self, scores: Array, scale: float, size: int) -> NDArray[np.int64]:
        """Return `size` independent selections."""

    def permute_and_flip(self, scores: Array, scale: float) -> int:
        """Return one selection by permute-and-flip (see `permute_and_flip`); the first maximum at scale 0."""


class NoiseSource(Protocol):
    """A recipe for streams of samples.

    One for experiments may have a method `order(size, *key)` that returns a permutation, see `secret_order`; of all others
    secret orders of rows come from the operating system.
    """

    @property
    def secure(self) -> bool:
        """Whether results that were made with it may leave the owner's hands."""

    @property
    def label(self) -> str:
        """What a report says of it."""

    def stream(self, *key: int) -> NoiseStream:
        """Return the stream of this `key`, such as (party, round, message)."""


@dataclass(frozen=True)
class SimulatedNoise:
    """Seeded noise for experiments and audits: reproducible, and no protection at all.

    Streams of different keys are independent, and the same seed and key give the same stream in every process.

    Parameters
    ----------
    seed : int
        At least 0.
    """

    seed: int
    secure = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", checks.count("seed", self.seed, least=0))

    @property
    def label(self) -> str:
        """What a report says of it."""
        return f"simulated (seed {self.seed}): reproducible, NO protection"

    def stream(self, *key: int) -> NoiseStream:
        """Return the stream of this `key`, whole numbers below 2³²."""
        for part in key:
            if isinstance(part, bool) or not isinstance(part, int | np.integer) or not 0 <= part < 2**32:
                raise checks.refuse("key", key, "whole numbers in [0, 2**32)")
        return _SimulatedStream(np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=key)))

    def order(self, size: int, *key: int) -> NDArray[np.int64]:
        """Return the permutation of this `key`, independent of the key's stream."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(*key, _ORDER))).permutation(size)


class _SimulatedStream:
    secure = False

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator

    def gaussian(self, value: ArrayLike, scale: float | Array) -> Array:
        offset = finite("value", value)
        return _within_doubles(self._generator.normal(offset, checked_scale(scale, offset.shape)))

    def laplace(self, value: ArrayLike, scale: float | Array) -> Array:
        offset = finite("value", value)
        return _within_doubles(self._generator.laplace(offset, checked_scale(scale, offset.shape)))

    def select(self, scores: Array, scale: float) -> int:
        if scale == 0:
            return int(np.argmax(scores))
        return int(np.argmax(_exponents(scores, scale) + self._generator.gumbel(size=len(scores))))

    def select_many(self, scores: Array, scale: float, size: int) -> NDArray[np.int64]:
        if scale == 0:
            return np.full(size, np.argmax(scores), dtype=np.int64)
        weights = np.exp(_exponents(scores, scale))
        cumulative = np.cumsum(weights)
        return np.searchsorted(cumulative, self._generator.random(size) * cumulative[-1], side="right").astype(np.int64)

    def table(self, candidates: Mask, scale: float) -> SelectionTable:
        return SoftTable(self._generator, candidates, scale)

    def permute_and_flip(self, scores: Array, scale: float) -> int:
        if scale == 0:
            return int(np.argmax(scores))
        heads = np.flatnonzero(np.log(self._generator.random(len(scores))) * scale <= scores - scores.max())
        return int(heads[self._generator.integers(len(heads))])


@dataclass(frozen=True)
class SecureNoise:
    """Noise from the operating system's random numbers: no seed, exact samplers, no low-order bits that leak.

    Gaussian and Laplace noise follow the continuous law exactly, and the sum is rounded to a grid that depends on the
    scale alone; rounding is post-processing. Selections follow the exponential mechanism on the given scores exactly, in
    a time that depends on the number of candidates only. See `samplers`. All streams of a process share one sampler, which
    starts afresh after a fork.
    """

    secure = True

    @property
    def label(self) -> str:
        """What a report says of it."""
        return "secure (operating system's random numbers, exact samplers)"

    def stream(self, *key: int) -> NoiseStream:
        """Return the process's sampler; the key makes no difference."""
        return _secure_stream()


@lru_cache(maxsize=1)
def _secure_stream() -> NoiseStream:
    from privfcd.mechanisms.samplers import SecureSampler

    return SecureSampler()


def plain(name: str, value: ArrayLike) -> NDArray[Any]:
    """Return `value` as an array of real numbers of its own type, Python's integers beyond 64 bits among them.

    Refused are masked arrays with something masked (what stands under a mask would be read as data), and numbers of more
    digits than a double has, which would be rounded.
    """
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.getmaskarray(value).any():
            raise InvalidParameter(f"{name} must have no masked entries: fill them or leave them out")
        value = value.data
    array = np.asarray(value)
    if array.dtype.kind == "f" and not isinstance(value, np.ndarray | float):
        # NumPy makes doubles of a list with integers beyond 64 bits, or of small and large ones
        given = np.asarray(value, dtype=object).ravel()
        if any(isinstance(one, int) and abs(one) > 2**53 for one in given):
            array = np.asarray(value, dtype=object)
    if array.dtype.kind == "O" and all(isinstance(one, int) and not isinstance(one, bool) for one in array.ravel()):
        return array
    if array.dtype.kind not in "fiu" or array.dtype.itemsize > 8:
        raise InvalidParameter(f"{name} must be numbers that doubles can hold, got an array of type {array.dtype}")
    return array


def held_by_doubles(array: NDArray[Any]) -> bool:
    """Return whether all integers in an array from `plain` lie within ±2^53, where doubles hold every one."""
    if array.dtype.kind == "f" or array.dtype.itemsize < 8 or not array.size:
        return True
    return bool(array.max() <= 2**53 and array.min() >= -(2**53))


def finite(name: str, value: ArrayLike) -> Array:
    """Return `value` as a float array, refused where it is not finite: NaN has no sensitivity."""
    array = plain(name, value)
    if not held_by_doubles(array):
        raise InvalidParameter(
            f"{name} must be within ±2^53 where it is integer: doubles cannot hold larger ones exactly"
        )
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise InvalidParameter(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]!r} among its entries")
    return array


def checked_scale(scale: float | Array, shape: tuple[int, ...]) -> float | Array:
    """Return a scale, or one for each entry of a value of this `shape`; each finite and at least 0."""
    if np.ndim(scale) == 0:
        return checks.scale("scale", scale)
    scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), np.broadcast_shapes(np.shape(scale), shape))
    if scales.shape != shape or not (np.isfinite(scales) & (scales >= 0)).all():
        raise InvalidParameter(f"scale must be finite, at least 0, and one number or of the value's shape {shape}")
    return scales


def _within_doubles(noisy: ArrayLike) -> Array:
    """Return sums beyond the doubles as the largest double: post-processing."""
    largest = np.finfo(np.float64).max
    return np.asarray(np.clip(noisy, -largest, largest), dtype=np.float64)


def _exponents(scores: Array, scale: float) -> Array:
    """Return (scores - max) / scale, at most 0; -inf where that overflows."""
    with np.errstate(over="ignore"):
        return np.asarray((scores - scores.max()) / scale)
