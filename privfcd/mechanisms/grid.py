"""Rounding of value + scale * Z to a grid, as if the sum had been computed with infinitely many digits.

The grid. Its spacing is g = 2^(floor(log2 scale) - 20), a millionth of the scale, and 2^-1074 (the spacing of
the smallest doubles) where that would be less. It depends on the scale only, never on the value. The released
number is

    R(y) = the double nearest to g * floor(y / g + 1/2),   y = value + scale * Z, Z exactly normal or Laplace.

Below 2^53 grid steps the nearest double is the grid point itself; beyond (a value that exceeds the scale by
more than 2^32) the doubles are coarser than the grid, and the release is one of them; beyond the largest
double it is the largest one. Zero is always the positive zero.

Theorem. R is one function of the real number y, the same for every value. So the release is post-processing
of the continuous mechanism: mu-Gaussian-DP (pure DP for Laplace) holds exactly as for real numbers, the
sensitivity does not grow, and the digits of the output say nothing that y does not say. (Floating-point noise
lacks this: Mironov 2012, "On significance of the least significant bits for differential privacy". The idea
of rounding an exact sample is Karney's 2016.)

Proof that the code computes R(y). A draw says that |Z| is uniform on [|z|, |z| + w), w = 2^-48 or 2^-49.
Powers of two scale exactly, so value / g = n + f with an integer n and |f| <= 1/2, without error (the
subtraction is exact; a value so small that value / g underflows errs by less than 2^-1000); and scale / g = s
< 2^21 without error. Hence y / g = n + f + s Z. In floating point t = f + s z errs from f + s Z by less than
2^-26: with |z| < 16, at most s w <= 2^-27 for the missing bits, 2^-29 for the product and 2^-28 for the sum.
So where t is further than 2^-25 from all half-integers, floor(y/g + 1/2) = n + k with k the integer nearest
to t. n and k are doubles, so that IEEE addition gives the double nearest to n + k, and multiplying by g
changes nothing (all multiples of g >= 2^-1074 that have 53 bits are doubles) unless it overflows. Where n
itself overflows, half the distance from the value to the next double is more than 2^900 g: the release is the
value. In all other cases, once in 2^25 draws, `exactly` decides with integers, and draws more bits of Z for
as long as the two ends of its interval do not round to the same grid point.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms.cells import Draws, StandardLaw
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.lazy import Lazy

Floats = NDArray[np.float64]

GRID_BITS = 20
"""A scale in [1, 2) has the grid 2^-20."""

_LEAST = -1074
_LARGEST = sys.float_info.max
_SURE = 0.5 - 2.0**-25


def exponent(scale: float, bits: int = GRID_BITS) -> int:
    """Return log2 of the grid's spacing for a finite `scale` above 0 (`bits` at most 20)."""
    return max(math.frexp(scale)[1] - 1 - bits, _LEAST)


def spacing(scale: float) -> float:
    """Return the spacing of the grid on which noise of this scale is released; 0 (no grid) for scale 0."""
    return math.ldexp(1.0, exponent(scale)) if scale else 0.0


def exactly(entropy: Entropy, value: float, scale: float, sign: int, number: Lazy, bits: int = GRID_BITS) -> float:
    """Return R(value + scale * sign * number) by exact arithmetic; scale above 0."""
    unit = Fraction(2) ** exponent(scale, bits)
    offset = Fraction(value) / unit + Fraction(1, 2)
    slope = sign * Fraction(scale) / unit
    while True:
        point = math.floor(offset + slope * number.low)
        if point == math.floor(offset + slope * number.high):
            break
        number = number.more(entropy)
    try:
        return float(point * unit)
    except OverflowError:
        return math.copysign(_LARGEST, point)


def add(
    entropy: Entropy,
    law: StandardLaw,
    value: Floats,
    scale: float | Floats,
    draws: Draws,
    bits: int = GRID_BITS,
) -> Floats:
    """Return R(value + scale * Z), Z given by `draws`, for one row of values.

    Parameters
    ----------
    value : ndarray (n,)
        Finite numbers.
    scale : float or ndarray (n,)
        Finite and above 0.
    draws : Draws
        n of them, used here and nowhere else.
    """
    power: int | NDArray[np.intc]
    if isinstance(scale, float):
        power = exponent(scale, bits)
        slope: float | Floats = math.ldexp(scale, -power)
    else:
        power = np.maximum(np.frexp(scale)[1] - 1 - bits, _LEAST)
        slope = np.ldexp(scale, -power)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        whole = np.ldexp(value, -power)
        near = np.rint(whole)
        t = whole - near
        t += draws.z * slope
        step = np.rint(t)
        t -= step
        unsure = ~(np.abs(t) < _SURE)
        near += step
        noisy = np.ldexp(near, power)
        noisy += 0.0
        unsure |= ~np.isfinite(noisy)
    if unsure.any():
        _repair(entropy, law, value, scale, draws, bits, whole, noisy, np.flatnonzero(unsure).tolist())
    return noisy


def _repair(
    entropy: Entropy,
    law: StandardLaw,
    value: Floats,
    scale: float | Floats,
    draws: Draws,
    bits: int,
    whole: Floats,
    noisy: Floats,
    positions: Iterable[int],
) -> None:
    """Set noisy[i] for the positions where floating point does not decide."""
    for i in positions:
        z = float(draws.z[i])
        if math.isinf(whole[i]) and not math.isnan(z):
            noisy[i] = value[i]
            continue
        sign, number = draws.special[i] if math.isnan(z) else (int(math.copysign(1, z)), law.number(z))
        one = scale if isinstance(scale, float) else float(scale[i])
        noisy[i] = exactly(entropy, float(value[i]), one, sign, number, bits)


def add_one(
    entropy: Entropy,
    law: StandardLaw,
    value: float,
    scale: float,
    z: float,
    special: tuple[int, Lazy] | None,
) -> float:
    """Return R(value + scale * Z) for one finite value and a scale above 0, as `add` does."""
    if special is not None:
        return exactly(entropy, value, scale, *special)
    power = exponent(scale)
    try:
        whole = math.ldexp(value, -power)
    except OverflowError:
        return value
    near = round(whole)
    t = (whole - near) + math.ldexp(scale, -power) * z
    step = round(t)
    if abs(t - step) < _SURE:
        try:
            return math.ldexp(float(near + step), power)
        except OverflowError:
            return math.copysign(_LARGEST, near + step)
    return exactly(entropy, value, scale, int(math.copysign(1, z)), law.number(z))
