"""Which learners take which declared columns: said before a charge, from the schema alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from privfcd.errors import InvalidParameter

if TYPE_CHECKING:
    from privfcd.data.private import PrivateTable
    from privfcd.data.schema import Schema

Takes = Literal["numbers", "levels", "mixed", "gaps"]
"""What a learner takes: columns of numbers (levels in an order too, as codes); columns of levels; both together; gaps."""


def fits(schema: Schema, takes: Sequence[Takes]) -> bool:
    """Return whether a learner that takes these can be given tables of this schema."""
    return not any(_untaken(schema, takes))


def refuse_untaken(schema: Schema, takes: Sequence[Takes], method: str) -> None:
    """Raise InvalidParameter where a learner does not take the schema's columns; name those that do."""
    kinds, gaps = _untaken(schema, takes)
    if not kinds and not gaps:
        return
    said = []
    if kinds:
        wanted = "levels" if "levels" in takes and "mixed" not in takes else "numbers"
        said.append(f"takes columns of {wanted} only, which {kinds} are not")
    if gaps:
        said.append(f"takes no gaps, which {gaps} may have")
    able = learners_for(schema)
    others = f"method {' or '.join(map(repr, able))} takes them" if able else "no learner takes all of them"
    raise InvalidParameter(
        f"method {method!r} {' and '.join(said)}: {others}; or declare them otherwise (kind, missing), or drop them"
    )


def learners_for(schema: Schema) -> list[str]:
    """Return the names of the learners that take tables of this schema."""
    from privfcd.algorithms.registry import LEARNERS, learner_class

    return [name for name in LEARNERS if any(fits(schema, takes) for takes in learner_class(name).may_take)]


def check_schemas(tables: Sequence[PrivateTable], takes: Sequence[Takes], method: str) -> None:
    """Raise InvalidParameter where tables are declared differently, or as the learner does not take them."""
    first = tables[0].schema
    for table in tables:
        if (table.schema is None) != (first is None):
            raise InvalidParameter(
                f"tables must all have a schema or none, and {table.name!r} differs from {tables[0].name!r}"
            )
        if table.schema is not None and first is not None and table.schema.digest != first.digest:
            lines = [line for line in first.differences(table.schema) if "may differ" not in line]
            raise InvalidParameter(
                f"tables must have one schema; {tables[0].name!r} | {table.name!r} differ in " + "; ".join(lines[:10])
            )
    if first is not None:
        refuse_untaken(first, takes, method)


def _untaken(schema: Schema, takes: Sequence[Takes]) -> tuple[list[str], list[str]]:
    """Return the columns of a kind that is not taken, and those with gaps that are not."""
    columns = dict(zip(schema.names, schema.kept, strict=True))
    # an order, or two levels, can stand as numbers; a level for gaps is in no order
    levels = [
        name
        for name, column in columns.items()
        if column.discrete and len(column.codes) > 2 and (column.kind == "categorical" or column.missing == "category")
    ]
    numbers = [name for name, column in columns.items() if not column.discrete]
    wrong: list[str] = []
    if "mixed" not in takes:
        wrong = levels if "numbers" in takes else numbers
        if "numbers" in takes and "levels" in takes:
            wrong = levels if numbers else []
    gaps = [] if "gaps" in takes else [name for name, column in columns.items() if column.has_gaps]
    return wrong, gaps
