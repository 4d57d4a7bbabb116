"""Gaussian noise that several parties add to whole numbers, each its share: what only the sum of their answers needs.

Party p has an answer S_p (real numbers) and sends K_p = R(S_p + N_p), N_p exactly N(0, s²) and R the rounding to a public
grid of spacing g, independent of all else. Whoever sees the sum of all K_p, and knows S_p and N_p of everybody but h
parties, sees T = K_1 + ... + K_h. The answers' sum is S = S_1 + ... + S_h.

**Lemma.** For each entry there is a law L, which depends on S alone through S + N(0, h s²) (it is post-processing of the
Gaussian mechanism with standard deviation sqrt(h) s), such that for every value k of T

    (1 - a) L(k) <= P(T = k) <= (1 + a) L(k),    a = (1 + 2 sum_{m >= 1} exp(-2 pi² r² m² / h))^(h - 1) - 1,    r = s / g.

For h = 1 it is exact. Nothing is asked of S_1, ..., S_h: they need not be whole, and no sensitivity grows by rounding.

*Proof.* Take g = 1. Write Y_p = S_p + N_p = K_p + U_p, U_p in [-1/2, 1/2). Then T = Y - (U_1 + ... + U_h), Y = sum of the
Y_p, which is S + N(0, h s²). Given Y = y, the vector (Y_1, ..., Y_{h-1}) is Gaussian of covariance C = s² (I - J / h), J all
ones, whatever its mean. (U_1, ..., U_{h-1}) is this vector modulo 1; its density on the torus is the sum of the Gaussian
density over shifts by whole vectors, and by Poisson's summation formula it is

    1 + sum_{m in Z^{h-1}, m != 0} exp(-2 pi² m'Cm) cos(2 pi m'(u - mean)).

The eigenvalues of C are s², and s² / h once, so that m'Cm >= s² |m|² / h, and the sum is at most a in size: the density of
(U_1, ..., U_{h-1}) given Y = y is within 1 - a and 1 + a, whatever y and S_1, ..., S_h are. U_h follows from y and the
others: it is y less their sum, modulo 1. Let L draw Y, then U_1, ..., U_{h-1} independent and uniform, then U_h in the same
way. That is a kernel which looks at y only. Two laws whose densities given y are within these factors have sums T whose
probabilities are. ∎ (The digits below the grid are as good as uniform, and independent of the sum of all numbers.)

**What is charged.** D entries, and any number of releases, have factors that multiply: together within exp(±A), A <= sum
of D times -log(1 - a). The exact samplers' grid has r in [2^20, 2^21), so that a < h exp(-2^44 / h): at h <= 2^16 and up
to 2^60 entries in all, A < exp(-2^28 + 64). A mechanism within exp(±A) of one that is mu0-Gaussian-DP satisfies, for every
epsilon, delta(epsilon) <= delta_mu0(epsilon) + 2 A (1 + e^epsilon). The derivative of delta_mu(epsilon) by mu is the
normal density phi at epsilon / mu - mu / 2. Noise that is larger by the factor `MORE` = 1 + 2^-40 has mu0 <= mu (1 -
2^-41), and makes up for A wherever mu 2^-41 phi(epsilon / mu - mu / 2) >= 4 A (1 + e^epsilon). For mu in [1e-300, 1000]
and |epsilon| <= 1000 mu the left side is above exp(-2 10^6), the right one below exp(-10^8). That covers every delta above
exp(-10^5). So the event of the Gaussian mechanism is charged as it is, for noise that is larger by `MORE`: each (epsilon,
delta) that a ledger, a report or a calibration states is in that range.

What the lemma needs is that the h parties use one grid, and noise of at least s each. More noise of theirs, and noise of
others, is post-processing. Towards everybody but one party its own noise is left: the Gaussian mechanism at s, exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from dp_accounting import DpEvent
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import gaussian_event
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import grid
from privfcd.mechanisms.exact import Exact
from privfcd.mechanisms.noise import Array, NoiseStream

MORE = 1 + 2.0**-40
"""By which noise is larger than the event says: more than the lemma's factors and the rounding of scales can take away."""

MOST_PARTIES = 2**16

_ROOM = 53
_STEPS = 31


def rounding_gap(ratio: float, honest: int) -> float:
    """Return the lemma's a for noise of `ratio` grid steps at each of `honest` parties.

    Parameters
    ----------
    ratio : float
        r = s / g, above 0.
    honest : int
        h.
    """
    tail = math.fsum(math.exp(-2 * (math.pi * ratio * m) ** 2 / honest) for m in range(1, 200))
    return math.expm1((honest - 1) * math.log1p(2 * tail))


@dataclass(frozen=True)
class NoiseShare:
    """One party's share of the noise of a sum: a mechanism whose answer is whole numbers for the sum, and not for release.

    Parameters
    ----------
    multiplier : float
        Noise multiplier of the sum, above 0: what is charged.
    unit_sensitivity : float
        How far one record moves the whole numbers of the answer, in l2 (Frobenius) norm.
    honest : int
        h: how many parties certainly add their share.
    symmetric : bool
        Whether the answer is a symmetric matrix, whose upper triangle is sent: off the diagonal the variance is half.
    """

    multiplier: float
    unit_sensitivity: float
    honest: int
    symmetric: bool = False
    norm: ClassVar[str] = "l2"

    def __post_init__(self) -> None:
        checks.positive("multiplier", self.multiplier)
        checks.positive("unit_sensitivity", self.unit_sensitivity)
        checks.count("honest", self.honest, most=MOST_PARTIES)

    @property
    def size(self) -> float:
        """Standard deviation of this share in whole numbers, on the diagonal of a matrix; rounded up."""
        return self.multiplier * self.unit_sensitivity / math.sqrt(self.honest) * MORE

    def event(self, sensitivity: float) -> DpEvent:
        """Return the cost of the sum, whatever `sensitivity` is in other units than those of the noise."""
        return gaussian_event(1.0, self.multiplier)

    def alone(self) -> DpEvent:
        """Return the cost where all other parties collude: the multiplier of this share alone."""
        return alone_event(gaussian_event(1.0, self.multiplier), self.honest)

    def release(self, value: Any, stream: NoiseStream) -> WholeAnswer:
        """Return an exact answer with this share of the noise: for the sum, not to be seen by itself."""
        if not isinstance(value, Exact) or value.known is not None:
            raise InvalidParameter("a sum of several parties needs an exact answer in which every entry may move")
        numbers, sizes = value.numbers.ravel(), np.full(value.numbers.size, self.size)
        if self.symmetric:
            rows, columns = np.triu_indices(len(value.numbers))
            numbers = value.numbers[rows, columns]
            sizes = np.where(rows == columns, self.size, self.size / math.sqrt(2) * (1 + 2.0**-50))
        whole, power = whole_noisy(numbers, stream, sizes)
        return WholeAnswer(whole, power)


@dataclass(frozen=True, eq=False)
class WholeAnswer:
    """Whole numbers of 2^power of the answer's own, with one party's share of the noise.

    Attributes
    ----------
    numbers : ndarray of Python's integers
    power : int
    """

    numbers: NDArray[Any]
    power: int


def alone_event(event: DpEvent, honest: int) -> DpEvent:
    """Return a Gaussian event with the noise that one of `honest` shares has alone."""
    multiplier: float = event.noise_multiplier
    return gaussian_event(1.0, multiplier / math.sqrt(honest) * (1 - 2.0**-50))


def largest(multiplier: float, honest: int, rows: int) -> float:
    """Return a bound on whole numbers of `NoiseShare`, with noise, for answers on up to 2 `rows` records.

    One record adds to no entry more than the sensitivity, for it may take the place of one that adds nothing. In grid steps,
    of which noise has at least 2^20 / sqrt(2), that is at most 2^22 sqrt(h) / multiplier; noise stays below 2^36, 2^15
    standard deviations.
    """
    return 2 * rows * math.sqrt(honest) * 2.0**22 / multiplier + 2.0**36


def whole_noisy(numbers: NDArray[Any], stream: NoiseStream, sizes: Array) -> tuple[NDArray[Any], int]:
    """Return whole numbers plus Gaussian noise, in whole numbers of a public grid.

    Parameters
    ----------
    numbers : ndarray of whole numbers
    stream : NoiseStream
        A secure one rounds number plus noise as in the lemma.
    sizes : ndarray
        Standard deviations, above 0.

    Returns
    -------
    ndarray of Python's integers
    power : int
        1 of them stands for 2^power.
    """
    if not (sizes > 0).all() or sizes.max() > 2.0**73:
        raise InvalidParameter(
            "noise must be above 0, and at most 2^73 units, in every entry of a sum of several parties"
        )
    powers = np.frexp(sizes)[1] - 1 - grid.GRID_BITS
    fine, coarse = int(powers.min()), int(powers.max())
    # multiples of 2^top pass the rounding unchanged: only what is left below them is added to the noise, in doubles
    top = max(min(coarse + _STEPS, _ROOM), coarse, 0)
    exact = numbers.astype(object)
    high = (exact + 2**top // 2) // 2**top
    low = (exact - high * 2**top).astype(np.float64)
    noisy = np.rint(np.ldexp(stream.gaussian(low, sizes), -fine))  # whole already where the stream is a secure one
    return high * 2 ** max(top - fine, 0) + np.array([int(value) for value in noisy], dtype=object), fine
