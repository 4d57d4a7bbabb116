"""Noise for rehearsals: made as secure noise is and as slowly, but the same each time: a plan prints the same again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms import NoiseSource, SecureNoise

if TYPE_CHECKING:
    from privfcd.mechanisms.noise import NoiseStream


class RepeatableNoise:
    """The secure samplers on seeded bytes. It protects nothing, and is for synthetic rows only.

    Parameters
    ----------
    seed : int
        At least 0; one for each party, or one for all whose sum has one noise.
    """

    secure = False
    label = "of a rehearsal, on seeded bytes: NO protection"

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._stream: NoiseStream | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RepeatableNoise) and other.seed == self.seed

    def __hash__(self) -> int:
        return hash(self.seed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.seed,)

    def stream(self, *key: int) -> NoiseStream:
        """Return the one sampler of this source, as secure noise has one for a process."""
        if self._stream is None:
            from privfcd.mechanisms.samplers import SecureSampler

            self._stream = SecureSampler(_source=np.random.default_rng(self.seed).bytes)
        return self._stream

    def order(self, size: int, *key: int) -> NDArray[np.int64]:
        """Return the permutation of this `key`."""
        return np.random.default_rng((self.seed, *key)).permutation(size)


def rehearsed(noise: NoiseSource, party: int) -> NoiseSource:
    """Return the noise of the party's stand-in: repeatable for secure noise, and else its own."""
    return RepeatableNoise(party) if isinstance(noise, SecureNoise) else noise
