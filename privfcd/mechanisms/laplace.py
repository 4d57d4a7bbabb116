"""The Laplace mechanism.

Theorem (Dwork, McSherry, Nissim and Smith 2006). Adding independent Laplace noise of scale b to the coordinates of an
answer of l1 sensitivity D is (D / b)-DP; it is also rho-zCDP with rho = e + exp(-e) - 1, e = D / b.

Proof. The density at z given answer v is proportional to exp(-|z - v|_1 / b), and | |z - v|_1 - |z - w|_1 | <=
|v - w|_1 <= D. For zCDP see `privfcd.accounting.conversions.laplace_rho`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dp_accounting import DpEvent
from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.accounting import laplace_event
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.noise import Array, NoiseStream


@dataclass(frozen=True)
class Laplace:
    """Laplace noise of one scale on every coordinate.

    Parameters
    ----------
    scale : float
        b, in the answer's units (the standard deviation is sqrt(2) b); at least 0. 0 adds nothing and is charged as
        non-private.
    """

    scale: float
    norm: ClassVar[str] = "l1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.scale("scale", self.scale))

    def event(self, sensitivity: float) -> DpEvent:
        """Return the cost of one release of an answer of this l1 `sensitivity`."""
        return laplace_event(sensitivity, self.scale)

    def release(self, value: ArrayLike | Exact, stream: NoiseStream) -> Array:
        """Return `value` with noise."""
        return stream.laplace(value, self.scale)
