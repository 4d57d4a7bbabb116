"""Vectors whose coordinates have sensitivities of their own, with noise in proportion: one noise multiplier for all.

Theorem. Let one record move coordinate j of an answer by at most c_j. In units of c (coordinate j divided by c_j) it moves
every coordinate by at most 1, hence the whole by at most sqrt(d) in l2 and d in l1 norm, or by less where a bound on the
joint movement is known. Noise of scale s c_j on coordinate j is noise of scale s in these units: mu-Gaussian-DP with
mu = joint / s, and (joint / s)-DP for Laplace noise.

Proof. Dividing by public constants c_j and multiplying back are one-to-one; in between it is the Gaussian (Laplace)
mechanism (see `gaussian`, `laplace`).

With one scale for all, a coordinate of small sensitivity would be drowned in the noise that the largest one needs.
Coordinates with c_j = 0 cannot move and get no noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.accounting import gaussian_event, laplace_event
from privfcd.errors import InvalidParameter
from privfcd.mechanisms.noise import Array, NoiseStream, finite


@dataclass(frozen=True)
class _Vector:
    scale: float
    sensitivities: tuple[float, ...]
    joint: float | None = None
    norm: ClassVar[str] = "coordinates"  # no query's norm: an l2 bound says nothing about the coordinates in units of c
    kind: ClassVar[str] = "numbers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.scale("scale", self.scale))
        if isinstance(self.sensitivities, str) or np.ndim(self.sensitivities) != 1 or not len(self.sensitivities):
            raise checks.refuse("sensitivities", self.sensitivities, "one number for each coordinate")
        values = tuple(checks.non_negative("a coordinate's sensitivity", value, "up") for value in self.sensitivities)
        object.__setattr__(self, "sensitivities", values)
        for value in values:
            if value and self.scale and not 0 < self.scale * value < math.inf:
                raise InvalidParameter(
                    f"scale times each sensitivity must be a double above 0, got {self.scale!r} times {value!r}"
                )
        if self.joint is not None:
            object.__setattr__(self, "joint", checks.non_negative("joint", self.joint, "up"))

    @property
    def scales(self) -> Array:
        """Scale of the noise on each coordinate, shape (d,); rounded up."""
        products = np.array(self.sensitivities) * self.scale
        return np.where(products > 0, np.nextafter(products, np.inf), 0.0)

    def _moving(self) -> int:
        return sum(value > 0 for value in self.sensitivities)

    def _checked(self, value: ArrayLike) -> Array:
        array = finite("value", value)
        if array.ndim == 0 or array.shape[-1] != len(self.sensitivities):
            raise InvalidParameter(
                f"value must have {len(self.sensitivities)} coordinates along its last axis, got shape {array.shape}"
            )
        return array


@dataclass(frozen=True)
class GaussianVector(_Vector):
    """Gaussian noise in proportion to each coordinate's sensitivity.

    Parameters
    ----------
    scale : float
        Noise multiplier: coordinate j gets noise of standard deviation scale * sensitivities[j]. 0 adds nothing and is
        charged as non-private.
    sensitivities : tuple of float
        How far one record can move each coordinate, in the answer's units; public.
    joint : float, optional
        A proven bound on the l2 norm of the movement in units of the sensitivities; sqrt(d) by default.
    """

    @property
    def reach(self) -> float:
        """The l2 norm of the movement in units of the sensitivities that is charged for."""
        largest = math.sqrt(self._moving()) * (1 + 2.0**-50)
        return largest if self.joint is None else min(self.joint, largest)

    def event(self, sensitivity: float = 1.0) -> DpEvent:
        """Return the cost of one release; `sensitivity` multiplies all that is declared about the coordinates."""
        return gaussian_event(checks.non_negative("sensitivity", sensitivity, "up") * self.reach, self.scale)

    def release(self, value: ArrayLike, stream: NoiseStream) -> Array:
        """Return `value`, shape (..., d), with noise; every vector along the last axis is a release of its own."""
        array = self._checked(value)
        return stream.gaussian(array, np.broadcast_to(self.scales, array.shape))


@dataclass(frozen=True)
class LaplaceVector(_Vector):
    """Laplace noise in proportion to each coordinate's sensitivity.

    Parameters
    ----------
    scale : float
        Coordinate j gets noise of scale b = scale * sensitivities[j]. 0 adds nothing and is charged as non-private.
    sensitivities : tuple of float
        How far one record can move each coordinate, in the answer's units; public.
    joint : float, optional
        A proven bound on the l1 norm of the movement in units of the sensitivities; d by default.
    """

    @property
    def reach(self) -> float:
        """The l1 norm of the movement in units of the sensitivities that is charged for."""
        largest = float(self._moving())
        return largest if self.joint is None else min(self.joint, largest)

    def event(self, sensitivity: float = 1.0) -> DpEvent:
        """Return the cost of one release; `sensitivity` multiplies all that is declared about the coordinates."""
        return laplace_event(checks.non_negative("sensitivity", sensitivity, "up") * self.reach, self.scale)

    def release(self, value: ArrayLike, stream: NoiseStream) -> Array:
        """Return `value`, shape (..., d), with noise; every vector along the last axis is a release of its own."""
        array = self._checked(value)
        return stream.laplace(array, np.broadcast_to(self.scales, array.shape))
