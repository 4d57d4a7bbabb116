"""The Gaussian mechanism.

Theorem (Dong, Roth and Su 2022, Theorem 2.7). Adding N(0, scale² I) to an answer of l2 sensitivity D is mu-Gaussian-DP
with mu = D / scale, exactly; hence rho-zCDP with rho = mu²/2 (Bun and Steinke 2016, Prop. 1.6), and (epsilon,
delta)-DP for exactly the pairs of Balle and Wang 2018, Theorem 8.

Proof. Two neighbours' answers differ by a vector v with |v| <= D. Along v the outputs are N(0, scale²) and
N(|v|, scale²), and across v they have the same law; testing the one against the other is testing N(0, 1) against
N(|v| / scale, 1), which is hardest to hide at |v| = D.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dp_accounting import DpEvent
from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.accounting import gaussian_event
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.noise import Array, NoiseStream


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise of one scale on every coordinate.

    Parameters
    ----------
    scale : float
        Standard deviation, in the answer's units; at least 0. 0 adds nothing and is charged as non-private.
    """

    scale: float
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", checks.scale("scale", self.scale))

    def event(self, sensitivity: float) -> DpEvent:
        """Return the cost of one release of an answer of this l2 `sensitivity`."""
        return gaussian_event(sensitivity, self.scale)

    def release(self, value: ArrayLike | Exact, stream: NoiseStream) -> Array:
        """Return `value` with noise."""
        return stream.gaussian(value, self.scale)
