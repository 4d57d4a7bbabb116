"""A proposal for a schema, read from the rows of one table: for its owner's eyes, until the owner declares it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd.data.column import Column, as_text
from privfcd.data.declared_cells import MISSING_WORDS, declared_numbers
from privfcd.data.schema import Schema
from privfcd.data.tables import read_cells
from privfcd.reading import toml_text

FEW = 12
"""Up to so many different texts are taken to be levels, and up to so many small whole numbers."""

SENTINELS = (-9, -99, -999, -9999, 999, 9999, 99999)
"""Whole numbers that often stand for a gap."""

HEAD = """\
# A proposal that was READ FROM THE ROWS of one table: for its owner's eyes only, until the owner declares it.
# Look at every line. Add range = [least, largest] where you know it from elsewhere than the rows, and take out levels
# that others may not know. What this file then says is public. `privfcd schema check` says whether tables fit it.
"""


@dataclass(frozen=True)
class Draft:
    """A proposed schema.

    Attributes
    ----------
    schema : Schema
    remarks : dict of str to str
        What the owner should look at, by column.
    """

    schema: Schema
    remarks: dict[str, str]

    def toml(self) -> str:
        """Return the schema as TOML, with the remarks."""
        lines = []
        for line in self.schema.to_toml().splitlines():
            lines.append(line)
            for name, remark in self.remarks.items():
                if line == f"[columns.{toml_text(name)}]":
                    lines.append(f"# {remark}")
        return HEAD + "\n".join(lines) + "\n"


def draft_schema(source: Any) -> Draft:
    """Propose a schema for a table. It depends on the rows, and is not protected: for the table's owner only.

    Parameters
    ----------
    source : array, mapping, data frame or path
        See `read_table`.

    Raises
    ------
    InvalidTable
        It cannot be read.
    """
    columns: dict[str, Column] = {}
    remarks: dict[str, str] = {}
    for name, cells in read_cells(source).items():
        if not name:
            continue  # a row index that was saved with the table
        columns[name], remark = _proposed(np.asarray(cells))
        if remark:
            remarks[name] = remark
    return Draft(Schema(columns), remarks)


def _proposed(cells: NDArray[Any]) -> tuple[Column, str]:
    """Return what a column seems to be, and what its owner should look at."""
    values = [cell for cell in cells.tolist() if not _is_gap(cell)]
    gaps = len(values) < len(cells)
    missing: dict[str, Any] = {"missing": "pairwise"} if gaps else {}
    words = "" if not gaps else f"{len(cells) - len(values)} of {len(cells)} cells have no value"
    if not values:
        return Column(drop=True), "no cell has a value"
    if cells.dtype.kind == "b":
        return Column(kind="binary", **missing), words
    if cells.dtype.kind == "M" or _all_dates(values):
        return Column(kind="date", **missing), words
    whole, faults = declared_numbers(Column(missing="pairwise"), cells)
    texts = {str(as_text(value)) for value in values}
    if faults:
        if len(texts) == len(values) > FEW or len(texts) > 1000 or len(texts) < 2:
            return Column(
                drop=True
            ), f"{len(texts)} different texts in {len(values)} cells: an identifier, or free text"
        folded = {text.casefold(): text for text in sorted(texts, reverse=True)}
        levels = tuple(sorted(folded.values() if len(folded) > 1 else texts))
        remark = f"{len(levels)} levels; is every one for others to know?" if len(levels) > 2 else words
        gap = "category" if gaps else "refuse"
        return Column(kind="categorical", levels=levels, ignore_case=len(levels) < len(texts), missing=gap), remark
    known = whole[~np.isnan(whole)]
    sentinels = [value for value in SENTINELS if (known == value).any() and _apart(known, value)]
    if sentinels:
        missing = {"missing": "pairwise", "missing_values": tuple(map(str, sentinels))}
        known = known[~np.isin(known, sentinels)]
        words = f"{', '.join(map(str, sentinels))} seem to be gaps"
    if set(np.unique(known).tolist()) == {0.0, 1.0}:
        return Column(kind="binary", **missing), words
    if (known == np.floor(known)).all() and (known >= 0).all():
        if len(np.unique(known)) == len(known) > FEW:
            return Column(kind="count", **missing), "all values are different: an identifier? then drop = true"
        return Column(kind="count", **missing), words or "whole numbers: a count, or codes of levels?"
    return Column(**missing), words


def _is_gap(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING_WORDS
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and cell != cell)


def _all_dates(values: list[Any]) -> bool:
    def is_date(value: Any) -> bool:
        if isinstance(value, date):
            return True
        try:
            return isinstance(value, str) and len(value.strip()) >= 10 and bool(datetime.fromisoformat(value.strip()))
        except ValueError:
            return False

    return all(map(is_date, values))


def _apart(known: NDArray[np.float64], value: int) -> bool:
    """Return whether a value is far beyond all others: they are at most a third of its size, or on its other side."""
    others = known[known != value]
    return len(others) > 0 and bool((np.abs(others) < abs(value) / 3).all() or ((others >= 0).all() and value < 0))
