"""Exact answers: whole numbers times public units, to which noise is added before anything is rounded.

A sum of n terms, each a whole number of units, may need more digits than a double has. Rounded first, it would move with
one record by up to an ulp of the whole sum more than it should, which grows with n. So noise is added to the whole numbers.

**Theorem.** Let S be an array of whole numbers, u the public unit of an entry, s the scale of the noise that is asked for
on it. `Exact.noisy` returns a function of S + t Z, t >= s / u, Z exactly normal (or Laplace), that is the same for every S.
So the release is post-processing of the continuous mechanism on S, whose sensitivity is that of whole numbers: no rounding
of a sum has to be allowed for, however many terms it has.

*Proof.* t is s / u in floating point, raised by more than these operations can have lost. A noise source rounds a value
plus noise of scale t to a grid of spacing G(t), a power of two, by a rule R that is the same for every value (see `grid`).
Let M = 2^53 or the largest G(t) of the array, whatever is more: a multiple of every G(t). S = M H + L with whole numbers
H, L and -M/2 <= L < M/2. If M = 2^53, L is a double. Rounding to multiples of G(t) commutes with adding one of them:
M H + R(L + t Z) is S + t Z rounded to the grid. A double addition rounds it to 53 digits, and the product with u once more:
both look at nothing but that number.

Where G(t) > 2^53 the noise is above 2^73 units, at least 2^31 times what one record moves if that is at most 2^42. Then L
is rounded to 53 digits, which moves an entry by at most G(t) 2^-54 <= t 2^-74, and the distance of two neighbours of D
entries by at most t 2^-73 sqrt(D). Noise that is larger by 2^-10 makes up for that while t 2^-63 sqrt(D) is at most the
sensitivity. Above t = 2^80 sums are taken as 0: noise of this size hides them whatever they are. For t <= 2^80 and a
sensitivity of 2^30 the condition is D <= 2^26. Numbers below 2^52 are exact anyway. ∎
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from privfcd.mechanisms import grid
from privfcd.mechanisms.noise import Array, checked_scale

_PART = 53
_ROUNDED = 1 + 2.0**-50
_HUGE, _LOST = 2.0**73, 2.0**80
_ROOM = 2**62


@dataclass(frozen=True, eq=False)
class Exact:
    """An exact answer: `numbers` times `unit`. Answers on parts of a table add up to the answer on all of it.

    Attributes
    ----------
    numbers : ndarray of int64, or of Python's integers where these could be too small
    unit : float or ndarray of float
        What 1 stands for, above 0; one for all entries, or one each. Public.
    terms : int
        How many records were added up.
    known : ndarray of float, optional
        Entries that no record moves, NaN elsewhere.
    """

    numbers: NDArray[Any]
    unit: float | Array
    terms: int
    known: Array | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self.numbers.shape

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the answer in doubles, each within an ulp or two."""
        values = self._settled(self.numbers.astype(np.float64) * self.unit)
        return values if dtype is None else values.astype(dtype)

    def __getitem__(self, index: Any) -> Exact:
        """Return some of the entries."""
        unit = self.unit if np.ndim(self.unit) == 0 else np.asarray(self.unit)[index]
        known = None if self.known is None else self.known[index]
        return Exact(self.numbers[index], unit, self.terms, known)

    def __add__(self, other: Exact) -> Exact:
        """Return the answer on the records of both, which answer one question in the same units."""
        return replace(self, numbers=added(self.numbers, other.numbers), terms=self.terms + other.terms)

    def in_units(self, scale: float | Array) -> Array:
        """Return the scale of noise in units, rounded up, one for each entry; 0 where nothing moves."""
        return np.asarray(np.broadcast_to(checked_scale(scale, self.shape), self.shape) / self.unit * _ROUNDED)

    def noisy(self, add: Callable[[Array, Array], Array], scale: float | Array) -> Array:
        """Return the answer with noise of a source that rounds to the grid of `grid`.

        Parameters
        ----------
        add : function
            Returns doubles with noise of the scales that it is given, 0 for none.
        scale : float or ndarray
            In the answer's units, at least 0; where it is 0 the nearest double is given.
        """
        scales = self.in_units(scale)
        if not scales.any():
            return np.asarray(self)
        scales = np.where(scales > _HUGE, scales * (1 + 2.0**-10), scales)
        numbers = np.where(scales > _LOST, 0, self.numbers)
        power = max(_PART, grid.exponent(float(scales.max())))
        if power > 60:
            numbers = numbers.astype(object)
        high = (numbers + 2 ** (power - 1)) // 2**power
        low = (numbers - high * 2**power).astype(np.float64)
        return self._settled((high.astype(np.float64) * 2.0**power + add(low, scales)) * self.unit)

    def _settled(self, values: Array) -> Array:
        return values if self.known is None else np.where(np.isnan(self.known), values, self.known)


def added(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of two arrays of whole numbers, as Python's integers where int64 could be too small."""
    if max(_largest(first), _largest(second)) >= _ROOM:
        first = first.astype(object)
    return np.asarray(first + second)


def _largest(numbers: NDArray[Any]) -> int:
    return max((abs(int(numbers.max())), abs(int(numbers.min())))) if numbers.size else 0
