"""Declared levels of discrete columns: what users may write, and one number for each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from privfcd import checks
from privfcd.data.encoding import CONSTANT
from privfcd.errors import InvalidParameter

Levels = int | Sequence[int | None] | Mapping[str, int | None]


def declared_levels(levels: Levels | None, names: Sequence[str]) -> tuple[int, ...] | None:
    """Return a number of levels for each column, or None where all are continuous.

    Raises
    ------
    InvalidParameter
        Some columns are discrete and others continuous, or a column has no declaration.
    """
    if levels is None:
        return None
    values: list[Any]
    if isinstance(levels, Mapping):
        if sorted(levels) != sorted(names):
            raise checks.refuse("levels", dict(levels), f"one number for each of the columns {list(names)}")
        values = [levels[name] for name in names]
    elif isinstance(levels, int) and not isinstance(levels, bool):
        values = [levels] * len(names)
    elif isinstance(levels, Sequence) and not isinstance(levels, str):
        values = list(levels)
    else:
        raise checks.refuse("levels", levels, "a number, one for each column, or None for continuous columns")
    if len(values) != len(names):
        raise InvalidParameter(f"levels must have one number for each of {len(names)} columns, got {len(values)}")
    continuous = [name for name, value in zip(names, values, strict=True) if value is None]
    if len(continuous) == len(names):
        return None
    if continuous:
        raise InvalidParameter(
            f"levels must be given for all columns or for none, got none for {continuous}: discrete and continuous columns "
            "together are not supported; cut continuous ones at public values, or leave columns out"
        )
    return tuple(checks.count(f"levels of {name!r}", value, least=2) for name, value in zip(names, values, strict=True))


def encoded_variables(columns: Sequence[str]) -> tuple[str, ...]:
    """Return the discrete columns that the columns of `Contrasts` encode."""
    return tuple(dict.fromkeys(column.rpartition(":")[0] for column in columns if column != CONSTANT))
