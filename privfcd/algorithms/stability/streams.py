"""Random streams of edge stability: functions of the seed, and apart from all other uses of the same seed."""

from __future__ import annotations

import numpy as np

OWN = 0x65646765
"""Numpy fills seeds up with zeros, so that `default_rng([7, 0, 0])` is `default_rng(7)`: data or noise that were simulated
with the same seed would come back as "fresh" noise. Keys that begin with this number are nobody else's."""


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the generator of `key`, numbers of at least 0."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(OWN, *key)))
