"""Standard normal and standard Laplace numbers, drawn exactly, many at a time.

A draw is a sign and a magnitude X with density proportional to f(x) = exp(-phi(x)) on [0, inf): phi(x) = x²/2
for the normal law, phi(x) = x for the Laplace law. Floats cannot hold X. They hold its first bits: the number
z that is returned says that X is uniform on [|z|, |z| + 2^-p), and whoever needs more bits draws more
(`Lazy`).

Method: rejection from a staircase. [0, top) is cut into cells of width h = 2^-c; cell j is proposed with
probability W_j / 2^32 for an integer W_j >= A f(j h), X is uniform in the cell, and it is kept with
probability A f(X) / W_j, which is at most 1 since f decreases. What is beyond `top` is one more outcome, of
weight W_top:

- Laplace: X = top + E with E exponential, kept with probability A exp(-top) / (h W_top) (the law has no
  memory);
- normal: X = top + E / top, kept with probability A exp(-top²/2 - Y²/2) / (h top W_top), Y = E / top. The
  proposal's density is top exp(-top Y), and top²/2 + top Y + Y²/2 = X²/2.

What is left of 2^32 is an outcome that is always thrown away.

Theorem. A kept X has density proportional to f on the whole of [0, inf).

Proof. Within cell j the density of
"proposed and kept at x" is W_j/2^32 · 1/h · A f(x)/W_j = A f(x) / (h 2^32). Beyond top it is W_top/2^32 ·
exp(-(x - top)) · A exp(-top)/(h W_top), respectively W_top/2^32 · top exp(-top y) · A exp(-top²/2 - y²/2)/(h
top W_top): both equal A f(x) / (h 2^32) again. The constant is the same everywhere.

That is the law only if each step is exact, and it is:

- The outcome is drawn by an alias table whose integers add up to 2^32 (Walker 1977), from 32 bits.
- X within the cell is given by 42 bits; later bits are independent of everything decided so far.
- "Kept" compares a uniform V, of which 21 bits are drawn first, with r(x) = A f(x) / W_j. (a) If V's interval
  is below an integer bound Q_j / 2^21 <= r at the cell's right end, it is kept, whatever X is: 99 in 100
  draws. (b) Otherwise r is computed in floating point to a relative error below 2^-43 (`_exp_minus`:
  additions, multiplications and a table only, each correctly rounded by IEEE 754), with the width of X's
  interval included, and V's interval is compared with both ends. (c) If that does not decide, about once in
  2^21 draws, it is decided by `lazy.accept`, in integers, with as many further bits as it takes; if bits of X
  were drawn for that, they are kept with the number.
- W_j, A and Q_j are integers that were computed from integer enclosures of exp (`lazy.exp_bounds`), rounded
  to the safe side.

Draws are made before, and without, the value that they will be added to, so that their time says nothing
about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privfcd.mechanisms import lazy
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.lazy import Lazy

Floats = NDArray[np.float64]

COLUMN_BITS = 11
LEVEL_BITS = 21
PART_BITS = 42
COIN_BITS = 21

_TOTAL = 1 << (COLUMN_BITS + LEVEL_BITS)
_LEVEL = np.uint32((1 << LEVEL_BITS) - 1)
_COIN = np.uint64((1 << COIN_BITS) - 1)
_PART = np.uint64((1 << PART_BITS) - 1)
_SIGN = np.uint64(1 << 63)
_MARGIN = 2.0**-43
_CHUNK = 16384


class Draws(NamedTuple):
    """Draws with their signs; where `z` is NaN the number is in `special` under its position."""

    z: Floats
    special: dict[int, tuple[int, Lazy]]


class _Tables(NamedTuple):
    scale: int  # A
    weights: list[int]  # of the cells, of what is beyond them, and of what is thrown away
    levels: NDArray[np.uint32]  # below its level a column means its first outcome
    outcomes: NDArray[np.int64]  # two for each column
    sure: NDArray[np.uint64]  # Q
    ratios: Floats  # A / W, 0 beyond the cells


@dataclass(frozen=True)
class StandardLaw:
    """A symmetric law on the real line, drawn by cells.

    Parameters
    ----------
    gaussian : bool
        Standard normal; otherwise the Laplace law of scale 1.
    cell_bits : int
        Cells have width 2^-cell_bits; at least 6 (the proof in `grid` counts on 48 binary places).
    top_bits : int
        Cells cover magnitudes below 2^top_bits; at most 2046 cells, phi at their end at most 127.
    """

    gaussian: bool
    cell_bits: int
    top_bits: int

    @property
    def places(self) -> int:
        """Binary places of the numbers that are returned."""
        return self.cell_bits + PART_BITS

    @property
    def cells(self) -> int:
        """Number of cells."""
        return 1 << (self.cell_bits + self.top_bits)

    def gamma(self, x: Fraction) -> Fraction:
        """phi: minus the logarithm of the density."""
        return x * x / 2 if self.gaussian else x

    @cached_property
    def tables(self) -> _Tables:
        """Integers of the staircase; made when first needed."""
        bits = 128
        edges = [Fraction(j, 1 << self.cell_bits) for j in range(self.cells + 1)]
        bounds = [lazy.exp_bounds(self.gamma(edge), bits) for edge in edges]
        heights = [high for _, high in bounds[:-1]]
        # what is beyond the top, as a multiple of f's unit: exp(-top) / h, or exp(-top²/2) / (h top)
        beyond = -(-(bounds[-1][1] << self.cell_bits) >> (self.top_bits if self.gaussian else 0))
        scale = ((_TOTAL - self.cells - 1) << bits) // (sum(heights) + beyond)
        weights = [-(-scale * height >> bits) for height in heights]
        sure = [
            min((scale * low << COIN_BITS) // (weight << bits), 1 << COIN_BITS)
            for (low, _), weight in zip(bounds[1:], weights, strict=True)
        ]
        weights.append(-(-scale * beyond >> bits))
        weights.append(_TOTAL - sum(weights))
        levels, outcomes = _alias(weights, self.cells + 1)
        return _Tables(
            scale,
            weights,
            levels,
            outcomes,
            np.array([*sure, 0, 0], dtype=np.uint64),
            np.array([scale / w for w in weights[:-2]] + [0.0, 0.0]),
        )

    def number(self, z: float) -> Lazy:
        """Return what the number `z` of a draw says of its magnitude."""
        return Lazy(int(abs(z) * 2.0**self.places), self.places)

    def draw(self, entropy: Entropy, size: int) -> Draws:
        """Return `size` independent draws."""
        z = np.empty(size)
        special: dict[int, tuple[int, Lazy]] = {}
        filled = 0
        while filled < size:
            missing = size - filled
            got = self._propose(entropy, min(_CHUNK, missing + missing // 32 + 16))
            kept = min(len(got.z), missing)
            z[filled : filled + kept] = got.z[:kept]
            for position, number in got.special.items():
                if position < kept:
                    special[filled + position] = number
            filled += kept
        return Draws(z, special)

    def _propose(self, entropy: Entropy, size: int) -> Draws:
        """Propose `size` times and return what was kept."""
        tables = self.tables
        first = entropy.uint32(size)
        second = entropy.uint64(size)
        column = (first >> np.uint32(LEVEL_BITS)).astype(np.intp)
        other = (first & _LEVEL) >= tables.levels.take(column)
        column += column
        column += other
        cell = tables.outcomes.take(column)
        coin = (second >> np.uint64(PART_BITS)) & _COIN
        kept = coin < tables.sure.take(cell)
        whole = (second & _PART).view(np.int64)
        whole |= cell << PART_BITS
        z = whole.astype(np.float64)
        z *= 2.0**-self.places
        bits = z.view(np.uint64)
        bits |= second & _SIGN
        unsure = np.flatnonzero(~kept)
        numbers = self._settle(entropy, unsure, cell, coin, z, kept) if unsure.size else {}
        special = {
            int(np.count_nonzero(kept[:i])): (-1 if second[i] & _SIGN else 1, number) for i, number in numbers.items()
        }
        return Draws(z[kept], special)

    def _settle(
        self,
        entropy: Entropy,
        unsure: NDArray[np.intp],
        cell: NDArray[np.int64],
        coin: NDArray[np.uint64],
        z: Floats,
        kept: NDArray[np.bool_],
    ) -> dict[int, Lazy]:
        """Decide the draws `unsure`: set `kept`, return the numbers that z cannot hold (and make it NaN)."""
        numbers: dict[int, Lazy] = {}
        tables = self.tables
        cells, coins, x = cell[unsure], coin[unsure].astype(np.float64), np.abs(z[unsure])
        inside = cells < self.cells
        x[~inside] = 0.0
        ratio = tables.ratios[cells] * _exp_minus(x * x * 0.5 if self.gaussian else x) * 2.0**COIN_BITS
        keep = inside & (coins + 1.0 <= ratio * (1.0 - _MARGIN))
        throw = (cells > self.cells) | (inside & (coins >= ratio * (1.0 + _MARGIN)))
        kept[unsure] = keep
        for i in unsure[~(keep | throw)].tolist():
            toss = Lazy(int(coin[i]), COIN_BITS)
            outcome = int(cell[i])
            if outcome == self.cells:
                kept[i], number = self._beyond(entropy, toss)
            else:
                factor = Fraction(tables.scale, tables.weights[outcome])
                kept[i], number = lazy.accept(entropy, toss, self.number(float(z[i])), factor, self.gamma)
            if kept[i] and (number.places > self.places or outcome == self.cells):
                numbers[i] = number
                z[i] = np.nan
        return numbers

    def _beyond(self, entropy: Entropy, toss: Lazy) -> tuple[bool, Lazy]:
        """Propose one magnitude beyond the top, and say whether it is kept."""
        tables = self.tables
        top = 1 << self.top_bits
        factor = Fraction(tables.scale << self.cell_bits, tables.weights[self.cells])
        excess = lazy.exponential(entropy)
        if self.gaussian:
            excess = Lazy(excess.whole, excess.places + self.top_bits)
            kept, excess = lazy.accept(
                entropy, toss, excess, factor / top, lambda y: Fraction(top * top, 2) + y * y / 2
            )
        else:
            kept = lazy.below(entropy, toss, factor, Fraction(top))
        return kept, Lazy(excess.whole + (top << excess.places), excess.places)


def _alias(weights: list[int], nothing: int) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return levels and outcome pairs of an alias table with 2^11 columns of 2^21 units each.

    Column i means outcome i on its first `levels[i]` units and another one on the rest; column and unit are
    uniform, and the units of every outcome add up to its weight, exactly.
    """
    columns, room = 1 << COLUMN_BITS, 1 << LEVEL_BITS
    left = weights + [0] * (columns - len(weights))
    levels = np.zeros(columns, dtype=np.uint32)
    outcomes = np.full(2 * columns, nothing, dtype=np.int64)
    outcomes[0 : 2 * len(weights) : 2] = np.arange(len(weights))
    small = [i for i, w in enumerate(left) if w < room]
    large = [i for i, w in enumerate(left) if w >= room]
    while small:
        i, j = small.pop(), large[-1]
        levels[i] = left[i]
        outcomes[2 * i + 1] = j
        left[j] -= room - left[i]
        if left[j] < room:
            small.append(large.pop())
    levels[large] = room
    return levels, outcomes


@lru_cache(maxsize=1)
def _powers() -> tuple[Floats, Floats]:
    """exp(-k) for k = 0..127 and exp(-j/64) for j = 0..63, within one unit in the last place."""
    whole = [float(Fraction(lazy.exp_bounds(Fraction(k), 320)[0], 1 << 320)) for k in range(128)]
    part = [float(Fraction(lazy.exp_bounds(Fraction(j, 64), 128)[0], 1 << 128)) for j in range(64)]
    return np.array(whole), np.array(part)


def _exp_minus(gamma: Floats) -> Floats:
    """exp(-gamma) for 0 <= gamma < 128, with a relative error below 2^-48, from correctly rounded operations
    only.

    exp(-gamma) = exp(-k) exp(-j/64) exp(-r) with 0 <= r < 1/64, k, j and r exact. The last factor is its
    Taylor polynomial of degree 6, short by less than r^7/5040 < 2^-54; Horner's rule on values below 1 errs
    by less than 2^-51, the two tables by 2^-52 each and the two products by 2^-53 each.
    """
    whole, part = _powers()
    k = np.floor(gamma)
    rest = gamma - k
    j = np.floor(rest * 64.0)
    r = rest - j * 0.015625
    series = np.full_like(r, 1.0 / 720.0)
    for coefficient in (-1.0 / 120.0, 1.0 / 24.0, -1.0 / 6.0, 0.5, -1.0, 1.0):
        series = series * r + coefficient
    product: Floats = whole[k.astype(np.intp)] * part[j.astype(np.intp)] * series
    return product


NORMAL = StandardLaw(gaussian=True, cell_bits=7, top_bits=3)
LAPLACE = StandardLaw(gaussian=False, cell_bits=6, top_bits=4)
