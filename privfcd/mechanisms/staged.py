"""The exponential mechanism on a table of candidates, in two stages: first a column, then a candidate in it.

Where a step changes the scores of one column only, what a selection needs of the other columns can be kept, and a
selection among c columns of r candidates takes O(c + r) instead of O(c r). The law is the same:

    P(i, j) = exp(s_ij / b) / Z = (Z_j / Z) (exp(s_ij / b) / Z_j),     Z_j = sum_i exp(s_ij / b).

`SoftTable` draws both factors with floating-point exponentials, for simulated noise. `ExactTable` draws the pair with
exactly these probabilities on the given doubles. It is the rejection of `selection` with the proposal in two stages:

1. With m_j the largest score of column j and F = 62 - (bits of r), every candidate has an integer W_ij >= 2^F exp((s_ij
   - m_j) / b), and the column their exact sum V_j < 2^63. A step that changes one column recomputes that column's alone.
2. With m the largest m_j and G = 62 - (bits of c), every column has an integer I_j >= 2^G exp((m_j - m) / b), and an
   integer U_j >= 2^-62 V_j I_j. (The product of the two integers as doubles errs by less than 3 · 2^-53 of itself; it is
   lifted by 2^-50 of itself, cut to an integer, and 1 is added.)
3. Column j is drawn with probability U_j / sum U, candidate i in it with probability W_ij / V_j, both exactly.
4. (i, j) is kept with probability a_ij = 2^(F + G - 62) V_j / (W_ij U_j) · exp((s_ij - m) / b), else back to 3.

Theorem. The kept (i, j) has the law of the exponential mechanism on the given doubles, exactly.
Proof. a_ij is the product of 2^F exp((s_ij - m_j) / b) / W_ij and 2^-62 V_j 2^G exp((m_j - m) / b) / U_j, both at most 1,
so it is a probability. One round keeps (i, j) with probability (U_j / sum U) (W_ij / V_j) a_ij = 2^(F + G - 62) / (sum U)
· exp((s_ij - m) / b); rounds are independent.

Step 4 compares a uniform of 53 bits with a lower bound of a_ij, and decides with integers (`lazy.below`) where that does
not settle it, for about one candidate in 500. For W_ij > 2 and I_j > 2 (not cut off) the lower bound is (1 - 1/W) (1 -
1/I) (1 - 1/U) (2^(-1/1024) (1 - 10^-6))² (1 - 10^-9), see `selection`. Time depends on the number of columns and rows
only, but for step 4, as there.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd.errors import InvalidParameter
from privfcd.mechanisms import lazy
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.lazy import Lazy
from privfcd.mechanisms.selection import CERTAIN, integer_weights, weight_bits

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Weights = NDArray[np.uint64]

_COIN_BITS = 53
_LIFT = 1.0 + 2.0**-50
_CERTAIN = CERTAIN * CERTAIN * (1 - 1e-9)


class SelectionTable(Protocol):
    """Scores in columns, shape (columns, rows), of which one column at a time changes, and selections among them."""

    def replace(self, scores: Array) -> None:
        """Take new scores for all columns; those of excluded candidates are ignored."""

    def replace_column(self, column: int, scores: Array) -> None:
        """Take new scores for one column."""

    def select(self) -> tuple[int, int]:
        """Return one selection: the column and the place in it."""


class _Peaks:
    """The scores, and the largest of each column."""

    def __init__(self, candidates: Mask) -> None:
        if candidates.ndim != 2 or not candidates.any(axis=1).all():
            raise InvalidParameter("candidates must be a table with at least one candidate in every column")
        self._excluded = [np.flatnonzero(row) for row in ~candidates]
        self._scores = np.where(candidates, 0.0, -np.inf)
        self._peaks = np.zeros(len(candidates))

    def replace(self, scores: Array) -> None:
        for column, values in enumerate(scores):
            self.replace_column(column, values)

    def replace_column(self, column: int, scores: Array) -> None:
        own = self._scores[column]
        own[:] = scores
        own.put(self._excluded[column], -np.inf)
        peak = float(own.max())
        if not math.isfinite(peak):
            raise InvalidParameter(f"scores must be finite, got {peak!r} among those of column {column}")
        self._peaks[column] = peak
        self._keep(column, own, peak)

    def _keep(self, column: int, scores: Array, peak: float) -> None:
        """Compute what selections need of the column."""


class MaxTable(_Peaks):
    """The largest score without noise; the first of equal ones, column by column."""

    def select(self) -> tuple[int, int]:
        """See `SelectionTable.select`."""
        column = int(self._peaks.argmax())
        return column, int(self._scores[column].argmax())


class SoftTable(_Peaks):
    """The exponential mechanism with floating-point exponentials.

    Parameters
    ----------
    generator : numpy.random.Generator
        Two uniform numbers a selection.
    candidates : ndarray of bool, shape (columns, rows)
        Which may be selected.
    scale : float
        b, above 0.
    """

    def __init__(self, generator: np.random.Generator, candidates: Mask, scale: float) -> None:
        super().__init__(candidates)
        self._generator, self._scale = generator, scale
        self._weights = np.zeros(candidates.shape)
        self._sums = np.zeros(len(candidates))

    def _keep(self, column: int, scores: Array, peak: float) -> None:
        with np.errstate(over="ignore"):
            weights = np.exp((scores - peak) / self._scale)
        self._weights[column] = weights
        self._sums[column] = weights.sum()

    def select(self) -> tuple[int, int]:
        """See `SelectionTable.select`."""
        first, second = self._generator.random(2).tolist()
        with np.errstate(over="ignore"):
            columns = self._sums * np.exp((self._peaks - self._peaks.max()) / self._scale)
        column = _place(columns, first)
        return column, _place(self._weights[column], second)


class ExactTable(_Peaks):
    """The exponential mechanism on the given doubles, exactly; see the module's text.

    Parameters
    ----------
    entropy : Entropy
        Uniform bits.
    candidates : ndarray of bool, shape (columns, rows)
        Which may be selected.
    scale : float
        b, above 0.
    """

    def __init__(self, entropy: Entropy, candidates: Mask, scale: float) -> None:
        super().__init__(candidates)
        self._entropy, self._scale = entropy, scale
        columns, rows = candidates.shape
        self._weights = np.zeros(candidates.shape, dtype=np.uint64)
        self._sums = np.zeros(columns, dtype=np.uint64)
        self._constant = 1 << (weight_bits(rows) + weight_bits(columns) - 62)

    def _keep(self, column: int, scores: Array, peak: float) -> None:
        self._weights[column] = integer_weights(scores, self._scale, peak)
        self._sums[column] = self._weights[column].sum()

    def select(self) -> tuple[int, int]:
        """See `SelectionTable.select`."""
        peak = float(self._peaks.max())
        factors, shares = self._proposals(peak)
        bounds = np.cumsum(shares)
        total = int(bounds[-1])
        while True:
            column = int(bounds.searchsorted(np.uint64(self._entropy.below(total)), side="right"))
            inside = np.uint64(self._entropy.below(int(self._sums[column])))
            row = int(np.cumsum(self._weights[column]).searchsorted(inside, side="right"))
            if self._kept(column, row, int(factors[column]), int(shares[column]), peak):
                return column, row

    def _proposals(self, peak: float) -> tuple[Weights, Weights]:
        """Return I_j and U_j."""
        factors = integer_weights(self._peaks, self._scale, peak)
        products = self._sums.astype(np.float64) * factors.astype(np.float64)
        return factors, (products * (2.0**-62 * _LIFT)).astype(np.uint64) + np.uint64(1)

    @staticmethod
    def _sure(weight: int, factor: int, share: int) -> float:
        """Return a lower bound of a_ij."""
        if weight <= 2 or factor <= 2:
            return 0.0
        return (1.0 - 1.0 / weight) * (1.0 - 1.0 / factor) * (1.0 - 1.0 / share) * _CERTAIN

    def _kept(self, column: int, row: int, factor: int, share: int, peak: float) -> bool:
        """Step 4 for one candidate."""
        coin = self._entropy.word() >> (64 - _COIN_BITS)
        weight, score = int(self._weights[column, row]), float(self._scores[column, row])
        if (coin + 1) * 2.0**-_COIN_BITS <= self._sure(weight, factor, share):
            return True
        if score == -math.inf:
            return False
        ratio = Fraction(self._constant * int(self._sums[column]), weight * share)
        gamma = (Fraction(peak) - Fraction(score)) / Fraction(self._scale)
        return lazy.below(self._entropy, Lazy(coin, _COIN_BITS), ratio, gamma)


def _place(weights: Array, uniform: float) -> int:
    """Return a place with probability in proportion to its weight."""
    sums = np.cumsum(weights)
    return int(sums.searchsorted(min(uniform * sums[-1], np.nextafter(sums[-1], 0.0)), side="right"))
