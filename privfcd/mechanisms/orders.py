"""Secret orders of rows: uniformly random permutations from the operating system's random numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.noise import NoiseSource

Indices = NDArray[np.int64]

_ENTROPY = Entropy()


def secret_order(source: NoiseSource, size: int, key: tuple[int, ...]) -> Indices:
    """Return a uniformly random permutation of `size` places.

    Parameters
    ----------
    source : NoiseSource
        One that has a method `order(size, *key)` says the order itself, as `SimulatedNoise` does, so that experiments can be
        repeated; for all others it comes from the operating system.
    size : int
        At least 0.
    key : tuple of int
        Of the release.
    """
    own = getattr(source, "order", None)
    if not callable(own):
        return random_order(size)
    order = np.asarray(own(size, *key), dtype=np.int64)
    if not np.array_equal(np.sort(order), np.arange(size)):  # a record that comes twice would move more than is claimed
        return random_order(size)
    return order


def random_order(size: int, entropy: Entropy = _ENTROPY) -> Indices:
    """Return a permutation by sorting independent 64-bit words, drawn again where two are equal: exactly uniform.

    Given that all words differ, every order of them is as likely as any other.
    """
    while True:
        words = entropy.uint64(size)
        order = np.argsort(words, kind="stable")
        ranked = words[order]
        if not (ranked[1:] == ranked[:-1]).any():
            return order.astype(np.int64)
