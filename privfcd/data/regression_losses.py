"""What a linear Gaussian regression loses in log-likelihood by other regressors, with a sensitivity by construction.

For a variable y and regressors z let v(S) = max(v0, min over ‖b‖ <= R of the mean of (y - b'z)²), y clipped to
[-B_y, B_y] and z shortened to norm B_z. The question is (n/2) (log v(S) - log v(S0)).

Sensitivity. With the clipping every squared residual lies in [0, E²], E = B_y + R B_z (E = B_y without regressors),
whatever the rows and whichever b of the ball. So one replaced, added or removed record moves the mean, for each
fixed b, by at most E²/n (n public and fixed); a minimum over b moves by no more than the functions that it is taken
of; and so does the larger of it and v0. As both values are at least v0, |log v - log v'| <= log(1 + E²/(n v0)).
Hence each score moves by at most (n/2) log(1 + E²/(n v0)) <= E²/(2 v0), and the answer by the sum of two such
bounds, at most E²/v0 for equal E.

The floor v0 is what bounds it: Gaussian data have no density floor of their own, so that without clipping and floor
a regret's sensitivity is infinite (Lemma 3.1 of I-PERI assumes a floor). The minimum over the ball is computed from
the clipped moments to within a share `_GAP` of E², which a dual bound guarantees, and the sensitivity allows for
it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.amounts import PlainNumbers
from privfcd.data.integer_sums import MOST, Grid, block_rows, column_powers, in_box, on_grid, sum_of_products
from privfcd.data.pairs import blocks
from privfcd.data.queries import Array, Kind, Norm
from privfcd.errors import InvalidParameter

_GAP = 1e-9
_ROUNDED = 1 + 1e-12


@dataclass(frozen=True)
class RegressionLoss(PlainNumbers):
    """(n/2) (log v(given) - log v(base)): by how much `given` explains a column less well than `base`, in nats.

    Columns are taken to have mean 0, or to have been centred by public constants.

    Parameters
    ----------
    node : int
        The column that is explained.
    given, base : tuple of int
        The columns that explain it; without `node`.
    bounds : tuple of float
        For each column the bound that its values are clipped to; z is shortened to the norm of its columns' bounds.
    radius : float
        R, the largest norm of the coefficients.
    floor : float
        v0, the least residual variance.
    """

    node: int
    given: tuple[int, ...]
    base: tuple[int, ...]
    bounds: tuple[float, ...]
    radius: float
    floor: float
    name: ClassVar[str] = "loss of a clipped regression against another"
    norm: ClassVar[Norm] = "l1"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if len(self.bounds) != d:
            raise InvalidParameter(f"bounds must have one number for each of the {d} columns, got {len(self.bounds)}")
        for bound in self.bounds:
            checks.bound("bound", bound)
        checks.bound("radius", self.radius)
        checks.bound("floor", self.floor)
        if not 0 <= self.node < d:
            raise checks.refuse("node", self.node, f"a column from 0 to {d - 1}")
        for name in ("given", "base"):
            columns = getattr(self, name)
            if len(set(columns)) < len(columns) or not all(0 <= c < d and c != self.node for c in columns):
                raise checks.refuse(name, columns, f"different columns from 0 to {d - 1} without {self.node}")

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; shape (1,)."""
        size = n or len(rows)
        values = [self._variance(rows, columns, size) for columns in (self.given, self.base)]
        return np.array([size / 2 * (math.log(values[0]) - math.log(values[1]))])

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`; the same for a replaced, an added and a removed record."""
        if self.given == self.base:
            return 0.0
        return math.fsum(self._score_sensitivity(columns, n) for columns in (self.given, self.base)) * _ROUNDED

    def _largest_residual(self, columns: tuple[int, ...]) -> float:
        return self.bounds[self.node] + (self.radius * self._norm(columns) if columns else 0.0)

    def _norm(self, columns: tuple[int, ...]) -> float:
        return math.hypot(*(self.bounds[column] for column in columns))

    def _score_sensitivity(self, columns: tuple[int, ...], n: int) -> float:
        # a gap between the computed minimum and the true one on either side; sums are exact, see `_variance`
        share = 1 / n + 2 * _GAP
        return n / 2 * math.log1p(share * self._largest_residual(columns) ** 2 / self.floor)

    def _variance(self, rows: Array, columns: tuple[int, ...], n: int) -> float:
        """Return v(columns), from moments of the clipped columns that are exact sums.

        They are within an ulp or two, and so is each of the terms of the minimum, of which none is above E²: 1e-13 E² for
        hundreds of columns, where half of the gap, 5e-10 E², is left for it.
        """
        norm, m = self._norm(columns), len(columns)
        regressors, grid = list(columns), Grid(norm if m else 1.0)
        bounds = np.array([self.bounds[self.node]])

        def clipped(block: Array) -> Array:
            target = in_box(block[:, [self.node]], bounds)
            return np.hstack([on_grid(block[:, regressors], grid.power, grid.most), target])

        numbers, _ = sum_of_products(map(clipped, blocks(rows, False, block_rows(m + 1))), m + 1, MOST)
        units = np.ldexp(1.0, -np.append(np.full(m, grid.power), column_powers(bounds)))
        moments = numbers.astype(np.float64) * np.outer(units, units) / n
        constant = float(moments[m, m])
        if not m:
            return max(self.floor, constant)
        gap = _GAP * self._largest_residual(columns) ** 2
        return max(self.floor, least_in_ball(moments[:m, :m], moments[:m, m], constant, self.radius, gap / 2))


def least_in_ball(matrix: Array, vector: Array, constant: float, radius: float, gap: float) -> float:
    """Return a value of b'Ab - 2 h'b + c at a b of norm at most `radius`, within `gap` of the least one.

    A is positive semidefinite up to rounding. For any t >= 0 the dual value c - sum h_i² / (l_i + t) - t R² is a
    lower bound, and b(t) = (A + t)⁻¹ h reaches it up to t (R² - ‖b‖²). So where ‖b(t)‖ <= R at t = gap / R², that b
    will do, and otherwise t is raised until the norm is R.
    """
    values, vectors = np.linalg.eigh(matrix)
    values, rotated = np.maximum(values, 0.0), vectors.T @ vector

    def solution(t: float) -> Array:
        return np.asarray(rotated / (values + t))

    low = gap / radius**2
    best = solution(low)
    if float(np.linalg.norm(best)) > radius:
        high = float(np.linalg.norm(rotated)) / radius + low  # there the norm is at most the radius
        for _ in range(200):
            middle = math.sqrt(low * high)
            if float(np.linalg.norm(solution(middle))) > radius:
                low = middle
            else:
                high = middle
            if high <= low * (1 + 1e-15):
                break
        best = solution(high)
    return float(best @ (values * best) - 2 * (rotated @ best) + constant)
