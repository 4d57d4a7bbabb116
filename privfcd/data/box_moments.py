"""Second moments of columns that are clipped to a box, and the exact Frobenius sensitivity that the box leaves.

Let |x_j| <= B_j, w_j = B_j² and W = sum w. What is the largest ‖xx' - yy'‖ over two points of the box?

With a = x + y and b = x - y it is ‖xx' - yy'‖² = (|a|²|b|² + (a·b)²) / 2, and the box says |a_j| + |b_j| <= 2 B_j. For
fixed b this is a convex function of a, so a is extreme in each coordinate, |a_j| = 2 B_j - |b_j|; and (a·b)² is largest
where all products have one sign. So |b_j| = 2 B_j t_j with t_j in [0, 1], and with m1 = sum w t, m2 = sum w t²

    ‖xx' - yy'‖² = 8 G,    G = W m2 + m1² - 4 m1 m2 + 2 m2².

- G is at most W²/4, so that sqrt(2) W always bounds the sensitivity: for fixed m1 it is convex in m2, which lies in
  [m1²/W, m1]; at the upper end G = m1 (W - m1), at the lower one G = 2 m1² (1 - m1/W)² <= W²/8. It is the bound of
  clipping rows to the norm of the box's corners: a box is never worse than the ball around it.
- By the same convexity the maximum is at all t equal (value W²/8: a corner against the origin), or where sum w t² is
  largest for given sum w t: at a vertex of that polytope, all t in {0, 1} but for at most one, t_k.
- With the others adding up to m, dG/dt_k = 2 w_k [4 w u³ + (W - 2 w) u + (W - w)/2 - m], u = t_k - 1/2, w = w_k. Where
  w_k <= W/2 the bracket increases, so that G has no maximum inside: t_k is 0 or 1 too, and G = m (W - m) for a subset
  sum m (the signs of two corners). Only for a column with more than half of W the roots inside count.

So for up to 12 columns the sensitivity is computed exactly by going through the subsets; for more, sqrt(2) W is taken,
which is exact where the squared bounds split into two equal halves. One added or removed record moves X'X by
‖xx'‖ = |x|² <= W.

Against `SecondMoments`, which shortens rows to a norm c: the box clips each column as declared and never touches the
others; the ball needs no bounds by column, and c can be far below the corners' norm where columns are rarely large
together, which is the more accurate choice then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.data.integer_sums import MOST, block_rows, column_powers, in_box, sum_of_products
from privfcd.data.pairs import blocks
from privfcd.data.queries import Array, IntegerQuery, Kind, Norm, centred, check_offset
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Exact

_MOST_COLUMNS = 12
_ROUNDING = 1 + 1e-12


def box_sensitivity(bounds: tuple[float, ...]) -> float:
    """Return the largest Frobenius distance of xx' and yy' for |x_j|, |y_j| <= bounds[j], each in [1e-50, 1e50].

    Exact but for rounding (upwards) for up to 12 columns, else an upper bound: sqrt(2) times the sum of the squares.

    Parameters
    ----------
    bounds : tuple of float
        One for each column.
    """
    squares = [checks.moderate("bound", bound) ** 2 for bound in bounds]
    total = math.fsum(squares)
    if len(squares) > _MOST_COLUMNS:
        return math.sqrt(2) * total * _ROUNDING
    return total * _unit_sensitivity(tuple(square / total for square in squares)) * _ROUNDING


@lru_cache(maxsize=256)
def _unit_sensitivity(shares: tuple[float, ...]) -> float:
    """Return the sensitivity for squared bounds that add up to 1."""
    sums = _subset_sums(shares)
    best = max(1 / 8, float(np.max(sums * (1 - sums))))
    largest = max(shares)
    if largest > 0.5:
        others = list(shares)
        others.remove(largest)
        best = max(best, max(_best_inside(largest, float(m)) for m in _subset_sums(tuple(others))))
    return math.sqrt(8 * best)


def _best_inside(share: float, m: float) -> float:
    """Return the largest G over t in [0, 1] for one column of this share while the others add up to m; W = 1."""
    roots = np.roots([4 * share, 0.0, 1 - 2 * share, (1 - share) / 2 - m])
    t = np.clip(np.append(roots.real + 0.5, [0.0, 1.0]), 0.0, 1.0)
    first, second = m + share * t, m + share * t * t
    return float(np.max(second + first**2 - 4 * first * second + 2 * second**2))


def _subset_sums(shares: tuple[float, ...]) -> Array:
    sums = np.zeros(1)
    for share in shares:
        sums = np.concatenate([sums, sums + share])
    return sums


@dataclass(frozen=True)
class BoxMoments(IntegerQuery):
    """X'X / n with every value clipped to [-bound, bound] of its column.

    Frobenius sensitivity: `box_sensitivity(bounds)` / n for a replaced record (at most sqrt(2) sum bound² / n), and
    sum bound² / n for an added or removed one.

    Parameters
    ----------
    bounds : tuple of float
        Bound on |x_j| for each column, in [1e-50, 1e50].
    offset : tuple of float, optional
        Public vector that is taken off every row before clipping.
    """

    bounds: tuple[float, ...]
    offset: tuple[float, ...] | None = None
    name: ClassVar[str] = "second moments of columns clipped to their bounds"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "symmetric"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if len(self.bounds) != d:
            raise InvalidParameter(f"bounds must have one number for each of the {d} columns, got {len(self.bounds)}")
        for bound in self.bounds:
            checks.moderate("bound", bound)
        check_offset(self.offset, d)

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; shape (d, d). Every column has a grid of its own, inside its bound."""
        bounds, d = np.array(self.bounds), len(self.bounds)
        parts = blocks(rows, False, block_rows(d))
        made = (in_box(centred(block, self.offset), bounds) for block in parts)
        numbers, terms = sum_of_products(made, d, MOST)
        units = np.ldexp(1.0, -column_powers(bounds))
        return Exact(numbers, np.outer(units, units) / n, terms)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        if relation is REPLACE_ONE:
            return box_sensitivity(self.bounds) / n
        return math.fsum(bound**2 for bound in self.bounds) * _ROUNDING / n
