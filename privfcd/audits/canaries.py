"""Pairs of records that are hardest to hide, and tables to put them into.

The background is zero: rows that contribute nothing, so that nothing masks the canary. For products of two columns, as
in gradients and second moments, a record x against one with every other sign turned is the worst replacement: each
product of an even and an odd column changes its sign, and the two outer products are orthogonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, Budget, NeighboringRelation
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]

SIZE = 50.0
"""Entries of a canary in columns without declared bounds."""


def worst_canary(bounds: Sequence[float] | None, columns: int) -> tuple[Array, Array]:
    """Return a record at the bounds (50 without them) and its worst replacement, for products of two columns."""
    record = np.full(checks.count("columns", columns), SIZE) if bounds is None else np.array(bounds, dtype=float)
    return record, record * np.where(np.arange(columns) % 2, -1.0, 1.0)


def checked_canary(canary: tuple[ArrayLike, ArrayLike], columns: int) -> tuple[Array, Array]:
    """Return two finite records of so many columns."""
    if not isinstance(canary, tuple | list) or len(canary) != 2:
        raise checks.refuse("canary", canary, "two records: the one in table 0 and the one in table 1")
    first, second = (np.array(record, dtype=float) for record in canary)
    for record in (first, second):
        if record.shape != (columns,) or not np.isfinite(record).all():
            raise checks.refuse("canary", canary, f"two records of {columns} finite numbers")
    return first, second


@dataclass(frozen=True, eq=False)
class Template:
    """What is public of a party's table: everything that an audit needs to make tables like it.

    The rows of the table that it was taken from are never read.
    """

    name: str
    columns: tuple[str, ...]
    rows: int
    budget: Budget | None
    accountant: str
    bounds: tuple[float, ...] | None
    relation: NeighboringRelation

    @classmethod
    def of(cls, table: PrivateTable) -> Template:
        """Return the public side of a table."""
        return cls(
            table.name,
            table.columns,
            table.n_rows,
            table.ledger.budget,
            table.ledger.accountant,
            table.bounds,
            table.relation,
        )

    def worlds(self, canary: tuple[Array, Array], background: Array | None) -> tuple[Array, Array]:
        """Return the rows of two neighbouring tables: the background with either record in its first row.

        Where records are added or removed, table 0 has none in that row: zeros, which contribute nothing.
        """
        rows = np.zeros((self.rows, len(self.columns))) if background is None else _checked_rows(background, self)
        worlds = rows.copy(), rows.copy()
        worlds[1][0] = canary[1]
        worlds[0][0] = canary[0] if self.relation is REPLACE_ONE else 0.0
        return worlds


def _checked_rows(background: Array, template: Template) -> Array:
    rows = np.array(background, dtype=float)
    if rows.shape != (template.rows, len(template.columns)) or not np.isfinite(rows).all():
        raise InvalidParameter(
            f"background must be finite and of shape {(template.rows, len(template.columns))}, got {rows.shape}"
        )
    return rows
