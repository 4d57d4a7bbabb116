"""Second moments of small groups of columns, each group clipped on its own.

What a regression of every variable on its parents needs is the moments of each family, a variable with its parents, and not
those of all pairs. A family's rows are short where whole rows are long, and noise grows with the square of the length: m
families of k columns cost about k sqrt(m) where all d columns cost d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.data.integer_sums import Grid, block_rows, on_grid, sum_of_products
from privfcd.data.pairs import blocks
from privfcd.data.queries import Array, IntegerQuery, Kind, Norm, centred, check_offset, shortened
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Exact, covariance_sensitivity

_ROUNDED = 1 + 1e-12
"""For the scaling of the entries, in a few floating-point operations each."""


@dataclass(frozen=True)
class FamilyMoments(IntegerQuery):
    """X_f'X_f / n for each family f of columns, rows of X_f shortened to `row_norms` of the family, in units of its square.

    The answer is one vector: for each family the diagonal and sqrt(2) times the entries above it, an isometry from the
    Frobenius norm. One replaced record moves each family's part by at most sqrt(2) / n (see
    `privfcd.mechanisms.covariance_sensitivity`), and all m of them by sqrt(2 m) / n; an added or removed one by
    sqrt(m) / n.

    Parameters
    ----------
    families : tuple of tuples of int
        Columns of each family, different within it.
    row_norms : tuple of float
        One for each family, above 0; inf for no clipping (unit 1, and an unbounded sensitivity).
    offset : tuple of float, optional
        Public vector that is taken off every row first.
    """

    families: tuple[tuple[int, ...], ...]
    row_norms: tuple[float, ...]
    offset: tuple[float, ...] | None = None
    name: ClassVar[str] = "second moments of families of columns, clipped in norm"
    norm: ClassVar[Norm] = "l2"
    kind: ClassVar[Kind] = "numbers"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        if not self.families or len(self.families) != len(self.row_norms):
            raise InvalidParameter(
                f"families must be at least one, each with a row norm, got {len(self.families)} and {len(self.row_norms)}"
            )
        for family, row_norm in zip(self.families, self.row_norms, strict=True):
            if not family or len(set(family)) < len(family) or not all(0 <= column < d for column in family):
                raise checks.refuse("family", family, f"different columns of 0 to {d - 1}")
            if row_norm != math.inf:
                checks.moderate("row_norm", row_norm)
        check_offset(self.offset, d)

    @property
    def bounded(self) -> bool:
        """See `IntegerQuery.bounded`."""
        return math.inf not in self.row_norms

    def exact(self, rows: Array, n: int) -> Exact:
        """See `IntegerQuery.exact`; one vector."""
        numbers, units = [], []
        for family, row_norm in zip(self.families, self.row_norms, strict=True):
            grid, size = Grid(row_norm), len(family)
            parts = blocks(rows, False, block_rows(rows.shape[1]))
            made = (on_grid(centred(block, self.offset)[:, family], grid.power, grid.most) for block in parts)
            upper, scale = _coordinates(size)
            numbers.append(sum_of_products(made, size, grid.most)[0][upper])
            units.append(grid.unit / row_norm**2 / n * scale)
        return Exact(np.concatenate(numbers), np.concatenate(units), len(rows))

    def unbounded(self, rows: Array, n: int) -> Array:
        """See `IntegerQuery.unbounded`; one vector."""
        shifted = centred(rows, self.offset)
        parts = []
        for family, row_norm in zip(self.families, self.row_norms, strict=True):
            own = shifted[:, family]
            if row_norm != math.inf:
                own = shortened(own, row_norm) / row_norm
            moments = own.T @ own / n
            upper, scale = _coordinates(len(family))
            parts.append(moments[upper] * scale)
        return np.concatenate(parts)

    def decode(self, answer: Array) -> list[Array]:
        """Return each family's moments in the columns' own units, symmetric."""
        matrices, start = [], 0
        for family, unit in zip(self.families, self.units, strict=True):
            upper, scale = _coordinates(len(family))
            matrix = np.empty((len(family), len(family)))
            values = answer[start : start + len(scale)] / scale * unit
            matrix[upper] = values
            matrix.T[upper] = values
            matrices.append(matrix)
            start += len(scale)
        return matrices

    @property
    def units(self) -> tuple[float, ...]:
        """What 1 in the answer is in the columns' own units, for each family: the square of its row norm."""
        return tuple(1.0 if math.isinf(row_norm) else row_norm**2 for row_norm in self.row_norms)

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        if math.inf in self.row_norms:
            return math.inf
        return math.sqrt(len(self.families)) * covariance_sensitivity(1.0, n, relation) * _ROUNDED


def _coordinates(size: int) -> tuple[tuple[np.ndarray, np.ndarray], Array]:
    """Return the upper triangle's indices, and by what its entries are multiplied."""
    rows, columns = np.triu_indices(size)
    return (rows, columns), np.where(rows == columns, 1.0, math.sqrt(2))
