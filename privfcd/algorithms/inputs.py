"""What estimators are fitted to: tables, one for each party, or moments. Checked, and columns aligned by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from privfcd import checks
from privfcd.algorithms.declared import Takes, check_schemas
from privfcd.algorithms.rounds import check_rows
from privfcd.data.private import PrivateTable, refuse_same_rows
from privfcd.errors import InvalidParameter, InvalidTable
from privfcd.moments import Moments
from privfcd.moments.second_moments import check_different


def checked_tables(tables: Any, takes: Sequence[Takes] = ("numbers",), method: str = "this one") -> list[PrivateTable]:
    """Return the tables as a list, after checking that they belong to one federation; reads no rows.

    `takes` says which declared columns `method` takes, see `privfcd.algorithms.declared`.

    Raises
    ------
    InvalidParameter
        Not a list of PrivateTable, two tables on one ledger, or tables that are declared differently or as `method` does
        not take them.
    InvalidTable
        Columns have other names than the first table's, whose order does not matter; or two tables with budgets hold the
        same rows.
    """
    if isinstance(tables, PrivateTable) or not isinstance(tables, Sequence) or not tables:
        raise checks.refuse("tables", type(tables).__name__, "a non-empty list of PrivateTable")
    for index, table in enumerate(tables):
        if not isinstance(table, PrivateTable):
            raise InvalidParameter(
                f"tables[{index}] must be a PrivateTable, got {type(table).__name__}: wrap it, with a budget for a "
                "private run or without one for an open run"
            )
    first = tables[0]
    for table in tables[1:]:
        missing = sorted(set(first.columns) - set(table.columns))
        extra = sorted(set(table.columns) - set(first.columns))
        if missing or extra:
            raise InvalidTable(
                f"table {table.name!r} has other columns than {first.name!r}: missing {missing}, unknown {extra}"
            )
    if len({table.ledger.account for table in tables}) < len(tables):
        raise InvalidParameter(
            "tables must have a ledger each: parties hold different records; rows of one ledger belong into one table"
        )
    names = [table.name for table in tables]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f"tables must have different names, got {name!r} twice: each party has its own")
    check_schemas(tables, takes, method)
    check_rows([table.n_rows for table in tables], first.n_columns)
    refuse_same_rows(tables)
    return list(tables)


def moments_given(source: Any) -> list[Moments] | None:
    """Return the moments if that is what `source` is, with columns in the order of the first; None for tables.

    Raises
    ------
    InvalidParameter
        Moments are mixed with something else, have other columns than the first, or are of one party twice (see
        `privfcd.moments.pooled`).
    """
    if isinstance(source, Moments):
        check_different([source])
        check_rows([source.rows], len(source.columns))
        return [source]
    if isinstance(source, str) or not isinstance(source, Sequence):
        return None
    if not any(isinstance(part, Moments) for part in source):
        return None
    parts: list[Moments] = []
    for index, part in enumerate(source):
        if not isinstance(part, Moments):
            raise InvalidParameter(f"source[{index}] must be Moments as the others are, got {type(part).__name__}")
        first = parts[0] if parts else part
        if sorted(part.columns) != sorted(first.columns):
            raise InvalidParameter(
                f"source[{index}] must have the columns of source[0], {list(first.columns)}, got {list(part.columns)}"
            )
        parts.append(aligned(part, first.columns))
    check_different(parts)
    check_rows([part.rows for part in parts], len(parts[0].columns))
    return parts


def aligned(moments: Moments, columns: tuple[str, ...]) -> Moments:
    """Return the moments with their columns in another order."""
    if moments.columns == columns:
        return moments
    order = [moments.columns.index(column) for column in columns]
    place = np.ix_(order, order)
    noise = tuple(
        replace(
            term,
            sd=term.sd if term.isotropic or term.carry is not None else np.asarray(term.sd)[place],
            carry=None if term.carry is None else term.carry[order],
        )
        for term in moments.noise
    )
    mean = None if moments.mean is None else moments.mean[order]
    return Moments(
        moments.matrix[place].copy(), moments.rows, columns, noise, mean, moments.origins, moments.differences
    )


def refuse_release_options(model: Any, names: Sequence[str]) -> None:
    """Raise InvalidParameter for options of a release that were set although moments are given: they would be ignored."""
    for name in names:
        value = getattr(model, name)
        if value is not None and value is not False:
            raise checks.refuse(name, value, "left at its default for Moments, which were released before")
