"""The loss of one record and variable, all that greedy coordinate descent has to know of it.

The loss of weights B is the mean over records of the sum over variables of value(x_j, (xB)_j). It decomposes over
parties and variables, and its derivative by B_ij is the mean over records of x_i slope(x_j, (xB)_j). From a loss the
solver takes

- the value, to report it;
- the slope, whose products with x_i are clipped record by record, so that the sensitivity holds for any loss;
- the curvature, which bounds how fast slopes rise: M_i = curvature E[x_i²] + rho is the smoothness of coordinate (i, j);
- a bound on |slope|, if there is one: with |x_i| <= b_i no clip need be above bound * b_i.

What a slope says of a record depends on that record only: a loss is a function of numbers, applied one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]


class Loss(Protocol):
    """A convex loss of a value and its prediction, number by number."""

    @property
    def name(self) -> str:
        """What it is, in words."""

    @property
    def curvature(self) -> float:
        """The largest second derivative by the prediction; above 0 and finite."""

    @property
    def bound(self) -> float:
        """The largest |slope|; inf where there is none."""

    def value(self, target: Array, prediction: Array) -> Array:
        """Return the loss of each number."""

    def slope(self, target: Array, prediction: Array) -> Array:
        """Return the derivative of each loss by its prediction."""


@dataclass(frozen=True)
class SquaredLoss:
    """(x - prediction)² / 2: linear Gaussian networks."""

    name: ClassVar[str] = "squared"
    curvature: ClassVar[float] = 1.0
    bound: ClassVar[float] = math.inf

    def value(self, target: Array, prediction: Array) -> Array:
        """See `Loss.value`."""
        return np.asarray((prediction - target) ** 2 / 2)

    def slope(self, target: Array, prediction: Array) -> Array:
        """See `Loss.slope`."""
        return np.asarray(prediction - target)


@dataclass(frozen=True)
class HuberLoss:
    """Squared for residuals up to `width`, linear beyond: outliers pull no harder than that (Huber 1964).

    Parameters
    ----------
    width : float
        In the columns' units; above 0. Public.
    """

    width: float
    name: ClassVar[str] = "Huber"
    curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        checks.moderate("width", self.width)

    @property
    def bound(self) -> float:
        """See `Loss.bound`."""
        return self.width

    def value(self, target: Array, prediction: Array) -> Array:
        """See `Loss.value`."""
        size = np.abs(prediction - target)
        return np.where(size <= self.width, size**2 / 2, self.width * (size - self.width / 2))

    def slope(self, target: Array, prediction: Array) -> Array:
        """See `Loss.slope`."""
        return np.minimum(np.maximum(prediction - target, -self.width), self.width)


SQUARED = SquaredLoss()


def checked_loss(loss: object) -> Loss:
    """Return `loss` if it has all that a `Loss` needs; `"squared"` and `{"huber": width}` name two, as files write them."""
    if isinstance(loss, str) and loss == "squared":
        return SQUARED
    if isinstance(loss, Mapping) and set(loss) == {"huber"}:
        return HuberLoss(checks.moderate("loss.huber", loss["huber"]))
    parts = ("name", "curvature", "bound", "value", "slope")
    if isinstance(loss, type) or not all(hasattr(loss, part) for part in parts):
        raise checks.refuse("loss", loss, '"squared", {"huber": width}, or a loss, such as algorithms.HuberLoss(width)')
    checks.moderate("curvature of the loss", getattr(loss, "curvature"))  # noqa: B009
    if not getattr(loss, "bound") > 0:  # noqa: B009
        raise InvalidParameter("bound of the loss must be above 0, inf where slopes are unbounded")
    return loss  # type: ignore[return-value]
