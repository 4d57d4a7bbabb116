"""One noisy sum over several tables, for a place that may see all of them.

Where one place is trusted with the sum over all parties, noise is needed once, and less of it: the mean over all N rows
moves by 1 / N of what a record contributes, so that noise of the same event is smaller by the share of a party's rows.
What is promised: to every record of every table, the event that its ledger is charged, towards whoever sees the noisy sum
and what is made of it. Towards the place itself nothing is promised.

Parties whose sum is made by secure aggregation each add a share of that noise, see `privfcd.mechanisms.distributed`.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeVar

import numpy as np
from dp_accounting import NonPrivateDpEvent

from privfcd import checks
from privfcd.data.private import Mechanism, PrivateTable, check_covered, refuse_same_rows
from privfcd.data.queries import IntegerQuery, Query, answer
from privfcd.errors import InvalidParameter
from privfcd.ledger import Reservation
from privfcd.mechanisms.distributed import NoiseShare

Answer = TypeVar("Answer")


def release_sum(
    tables: Sequence[PrivateTable],
    query: Query | Sequence[Query],
    mechanism: Mechanism[Answer],
    label: str,
    reservations: Sequence[Reservation],
    key: tuple[int, ...],
) -> Answer:
    """Draw one release from every table's reservation, and return the noisy answer on all their rows together.

    Parameters
    ----------
    tables : sequence of PrivateTable
        Of the same columns in one order, relation and noise source, each with a reservation.
    query : Query or sequence of Query
        A mean over records: its answer on several tables is the sum of theirs, all divided by the public number of all
        rows. Its sensitivity is that for this number. Or one for each table, which differ in what is taken off its rows.
    mechanism : Mechanism
        Its noise is added once, to the sum.
    label : str
        The reservations' name for the release.
    reservations : sequence of Reservation
        One for each table, on its ledger.
    key : tuple of int
        Key of the noise stream.

    Raises
    ------
    BudgetExceeded
        A reservation is drawn already; no row was read.
    """
    total = check_summable(tables)
    if len(reservations) != len(tables):
        raise checks.refuse("reservations", len(reservations), f"one for each of {len(tables)} tables")
    queries = list(query) if isinstance(query, Sequence) else [query] * len(tables)
    for each in queries:
        each.check(tables[0].n_columns)
    cost: Any = mechanism.event(max(each.sensitivity(total, tables[0].relation) for each in queries))
    for table, reservation in zip(tables, reservations, strict=True):
        table._check_own(reservation)
        check_covered(NonPrivateDpEvent() if table.open else cost, reservation, label)
    for reservation in reservations:
        reservation.draw(label)
    parts = (
        answer(each, table._rows_for(each, (*key, place)), total)
        for place, (table, each) in enumerate(zip(tables, queries, strict=True))
    )
    return mechanism.release(reduce(operator.add, parts), tables[0]._stream(*key))


def noise_share(query: Query, table: PrivateTable, multiplier: float, honest: int) -> tuple[NoiseShare, float]:
    """Return one party's share of the noise of a secure sum, the same at every party, and what 1 stands for in the sum.

    Parameters
    ----------
    query : Query
        A sum of whole numbers over records.
    table : PrivateTable
        The party's; only its number of columns and relation are looked at.
    multiplier : float
        Noise multiplier of the sum.
    honest : int
        How many parties certainly add a share.

    Returns
    -------
    NoiseShare
    float
        In units of the sum of answers that are not divided by a number of rows.
    """
    if not isinstance(query, IntegerQuery) or not query.bounded:
        raise InvalidParameter(f"{query.name!r} is no sum of whole numbers, which a secure sum needs")
    query.check(table.n_columns)
    unit = float(np.asarray(query.exact(np.empty((0, table.n_columns)), 1).unit))
    moved = query.sensitivity(1, table.relation) / unit * (1 + 2.0**-50)
    return NoiseShare(multiplier, moved, honest, query.kind == "symmetric"), unit


def check_summable(tables: Sequence[PrivateTable]) -> int:
    """Return the public number of rows of all tables, or raise InvalidParameter where they cannot share one noise."""
    first = tables[0]
    if len({table.ledger.account for table in tables}) < len(tables):
        raise InvalidParameter(
            "one sum needs tables with a ledger each: a record that is in two tables of one ledger would move it twice"
        )
    for table in tables[1:]:
        if table.open != first.open:
            raise InvalidParameter(
                f"one sum needs tables that all have budgets, or none: {first.name!r} and {table.name!r} differ"
            )
        if table.columns != first.columns or table.relation is not first.relation or table.noise != first.noise:
            raise InvalidParameter(
                "one sum needs tables of one order of columns, one neighbouring relation and one noise source: "
                f"{first.name!r} and {table.name!r} differ"
            )
    refuse_same_rows(tables)
    return sum(table.n_rows for table in tables)
