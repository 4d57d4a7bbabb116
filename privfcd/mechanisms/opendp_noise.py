"""OpenDP's samplers as a source of noise: independent of ours, and slower.

Gaussian and Laplace noise are exactly sampled discrete laws on the finest grid that doubles have, where the discrete and
the continuous law agree far below any delta; selections use exact-arithmetic Gumbel noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.noise import Array, NoiseStream, checked_scale, finite

_MOST_UNITS = 2.0**56
"""Above, 64-bit numbers have too little room for noise."""


@dataclass(frozen=True)
class OpenDPNoise:
    """Secure noise by OpenDP: about 50 µs a number and up to milliseconds a selection."""

    secure = True

    @property
    def label(self) -> str:
        """What a report says of it."""
        return "secure (operating system's random numbers, exact samplers of OpenDP)"

    def stream(self, *key: int) -> NoiseStream:
        """Return a stream; the key makes no difference."""
        return _OpenDPStream()


class _OpenDPStream:
    secure = True

    def gaussian(self, value: ArrayLike | Exact, scale: float | Array) -> Array:
        return _elementwise("gaussian", value, scale)

    def laplace(self, value: ArrayLike | Exact, scale: float | Array) -> Array:
        return _elementwise("laplace", value, scale)

    def select(self, scores: Array, scale: float) -> int:
        if scale == 0:
            return int(np.argmax(scores))
        return int(_opendp_measurement("selection", float(scale))(scores.tolist()))

    def select_many(self, scores: Array, scale: float, size: int) -> NDArray[np.int64]:
        return np.array([self.select(scores, scale) for _ in range(size)], dtype=np.int64)

    def permute_and_flip(self, scores: Array, scale: float) -> int:
        if scale == 0:
            return int(np.argmax(scores))
        return int(_opendp_measurement("permute and flip", float(scale))(scores.tolist()))


def _elementwise(kind: str, value: ArrayLike | Exact, scale: float | Array) -> Array:
    if isinstance(value, Exact):
        return _whole(kind, value, scale)
    offset = finite("value", value)
    scales = np.broadcast_to(checked_scale(scale, offset.shape), offset.shape)
    noisy = np.array(offset)
    for one in np.unique(scales[scales > 0]):
        mask = scales == one
        noisy[mask] = _opendp_measurement(kind, float(one))(offset[mask].tolist())
    largest = np.finfo(np.float64).max
    return np.clip(noisy, -largest, largest)


def _whole(kind: str, value: Exact, scale: float | Array) -> Array:
    """Return an exact answer with discrete noise on its whole numbers, which has no doubles to round."""
    scales = value.in_units(scale)
    if scales.size and scales.max() > _MOST_UNITS:
        raise checks.refuse(
            "scale in units of a sum", float(scales.max()), f"at most {_MOST_UNITS:g} with OpenDP's noise"
        )
    noisy = value.numbers.astype(object)
    for one in np.unique(scales[scales > 0]):
        mask = scales == one
        noisy[mask] += np.array(_opendp_measurement(kind, float(one), "i64")([0] * int(mask.sum())), dtype=object)
    return np.asarray(replace(value, numbers=noisy))


@lru_cache(maxsize=4096)
def _opendp_measurement(kind: str, scale: float, numbers: str = "f64") -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    vector = dp.vector_domain(dp.atom_domain(T=float, nan=False) if numbers == "f64" else dp.atom_domain(T=numbers))
    match kind:
        case "gaussian":
            return dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=scale)
        case "laplace":
            return dp.m.make_laplace(vector, dp.l1_distance(T=float), scale=scale)
        case "permute and flip":
            return dp.m.make_noisy_max(vector, dp.linf_distance(T=float), dp.max_divergence(), scale=scale)
    return dp.m.make_noisy_max(vector, dp.linf_distance(T=float), dp.zero_concentrated_divergence(), scale=scale)
