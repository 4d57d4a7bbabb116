"""A schema: what all parties declare of their tables, public and agreed on before anything is read.

Nothing of it is inferred from rows. `Schema.apply` makes the numbers that learners see: each record by itself, so that
neighbouring tables stay neighbours.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from privfcd import checks
from privfcd.data.column import OF_PARTY, Column
from privfcd.data.declared_cells import declared_numbers
from privfcd.data.tables import Table, read_cells
from privfcd.errors import InvalidParameter, InvalidTable
from privfcd.markup import one_line
from privfcd.reading import content_of, parsing, toml_of, toml_text, toml_value

RELATIONS = ("any", "linear")
MOST_BYTES = 2**22
_KEYS = ("relations", "columns", "knowledge")
_KNOWLEDGE = ("forbidden", "required")
_KNOWN = tuple(each.name for each in fields(Column))

Edges = tuple[tuple[str, str], ...]


class Schema:
    """Declare the columns of the parties' tables, and what is known of their graph.

    Parameters
    ----------
    columns : mapping of str to Column or mapping
        For each column what is declared of it, see `Column`. Other columns of a table are not looked at.
    relations : {"any", "linear"}
        What kind of dependence is looked for, where the learner is chosen by the schema.
    forbidden, required : sequence of (str, str)
        Edges, cause first, that are known not to be there, or to be there.

    Attributes
    ----------
    columns : mapping of str to Column
        Those that are dropped too.
    names : tuple of str
        The columns that are kept, in order.

    Raises
    ------
    InvalidParameter
        All that is wrong with all columns, in one message.

    Examples
    --------
    >>> import pandas
    >>> from privfcd import Schema
    >>> schema = Schema({
    ...     "age": {"range": [18, 90], "tier": 0},
    ...     "sex": {"kind": "categorical", "levels": ["f", "m"], "spellings": {"f": ["F"]}},
    ... })
    >>> schema.apply(pandas.DataFrame({"sex": ["m", "F"], "age": ["44", "101"]})).rows
    array([[44.,  1.],
           [90.,  0.]])
    """

    def __init__(
        self,
        columns: Mapping[str, Column | Mapping[str, Any]],
        *,
        relations: str = "any",
        forbidden: Sequence[Sequence[str]] = (),
        required: Sequence[Sequence[str]] = (),
    ) -> None:
        if not isinstance(columns, Mapping) or not columns:
            raise checks.refuse("columns", columns, "a table with one entry for each column")
        faults: list[str] = []
        made: dict[str, Column] = {}
        for name, given in columns.items():
            if not isinstance(name, str) or not name.strip() or name != name.strip() or checks.UNWRITABLE.search(name):
                faults.append(f"a column's name must be a text without blanks around it, got {checks.shown(name)}")
                continue
            try:
                made[name] = given if isinstance(given, Column) else _column(given)
            except InvalidParameter as error:
                faults.append(f"column {name!r}: {error}")
        if relations not in RELATIONS:
            faults.append(str(checks.refuse("relations", relations, "one of " + ", ".join(RELATIONS))))
        self.columns: Mapping[str, Column] = MappingProxyType(made)
        self.relations = relations
        self.names = tuple(name for name, column in made.items() if not column.drop)
        self.forbidden = self._edges("forbidden", forbidden, faults)
        self.required = self._edges("required", required, faults)
        if not faults:
            faults += self._contradictions()
        if not self.names and not faults:
            faults.append("columns must have one that is not dropped")
        if faults:
            raise InvalidParameter("schema: " + _listed(faults))

    def _edges(self, what: str, given: Any, faults: list[str]) -> Edges:
        found: list[tuple[str, str]] = []
        if isinstance(given, str | Mapping) or not np.iterable(given):
            faults.append(f"{what} must be a list of [cause, effect], got {checks.shown(given)}")
            return ()
        for edge in given:
            pair = tuple(edge) if not isinstance(edge, str) and np.iterable(edge) else ()
            if len(pair) != 2 or pair[0] == pair[1]:
                faults.append(f"{what} must be a list of [cause, effect], got {checks.shown(edge)}")
                continue
            for name in pair:
                if name not in self.columns:
                    faults.append(f"{what}: there is no column {name!r}{_close(str(name), list(self.columns))}")
                elif self.columns[name].drop:
                    faults.append(f"{what}: column {name!r} is dropped")
            found.append((str(pair[0]), str(pair[1])))
        return tuple(dict.fromkeys(found))

    def _contradictions(self) -> list[str]:
        found = [f"the edge {edge} is both required and forbidden" for edge in self.required if edge in self.forbidden]
        tiers = self.tiers
        for cause, effect in self.required:
            if cause in tiers and effect in tiers and tiers[cause] > tiers[effect]:
                back = f"from tier {tiers[cause]} to {tiers[effect]}"
                found.append(f"the edge {(cause, effect)} is required, and goes back {back}")
        left = set(self.required)
        while left and (ends := {pair for pair in left if pair[1] not in {cause for cause, _ in left}}):
            left -= ends
        if left:
            found.append(f"the required edges {sorted(left)} hold a cycle")
        return found

    @property
    def kept(self) -> tuple[Column, ...]:
        """The columns that are not dropped, in the order of `names`."""
        return tuple(self.columns[name] for name in self.names)

    @property
    def offset(self) -> tuple[float, ...]:
        """The middle of each column's range, 0 where none is declared."""
        return tuple(column.middle for column in self.kept)

    @property
    def half_widths(self) -> tuple[float, ...]:
        """How far each column's numbers are from its middle at most; inf where no range is declared."""
        return tuple(column.half_width for column in self.kept)

    @property
    def has_gaps(self) -> bool:
        """Whether a column's numbers can be NaN."""
        return any(column.has_gaps for column in self.kept)

    @property
    def discrete(self) -> bool:
        """Whether all columns have levels."""
        return all(column.discrete for column in self.kept)

    @property
    def levels(self) -> dict[str, int]:
        """The number of levels of each column that has some, that of gaps included: as `FedACD(levels=...)` takes it."""
        return {name: len(column.codes) for name, column in zip(self.names, self.kept, strict=True) if column.discrete}

    def lines(self) -> list[str]:
        """Return each column in words, for plans and reports."""
        return [f"{name}: {column.words()}" for name, column in zip(self.names, self.kept, strict=True)]

    @property
    def tiers(self) -> dict[str, int]:
        """The tier of each column that has one."""
        return {name: tier for name in self.names if (tier := self.columns[name].tier) is not None}

    def apply(self, source: Any, columns: Sequence[str] | None = None) -> Table:
        """Return a table's declared columns as numbers, in the schema's order.

        Parameters
        ----------
        source : array, mapping, data frame or path
            See `read_table`. Columns that are not declared are not looked at.
        columns : sequence of str, optional
            The names of an array's columns.

        Returns
        -------
        Table
            Codes 0, 1, ... of levels, days of dates, mapped values within the range else; NaN for gaps that are no level.

        Raises
        ------
        InvalidTable
            All that is wrong with all columns, in one message, for the table's owner only.
        """
        cells = read_cells(source, columns)
        faults, made = [], []
        for name, column in zip(self.names, self.kept, strict=True):
            if name not in cells:
                faults.append(f"there is no column {name!r}{_close(name, list(cells))}")
                continue
            numbers, wrong = declared_numbers(column, cells[name])
            faults += [f"column {name!r}: {what}" for what in wrong]
            made.append(numbers)
        if faults:
            where = f"{os.fspath(source)}: " if isinstance(source, str | os.PathLike) else ""
            raise InvalidTable(f"{where}the table does not fit the schema: {_listed(faults)}")
        rows = np.column_stack(made)
        rows.setflags(write=False)
        return Table(self.names, rows, self)

    def only(self, columns: Sequence[str] | None = None, *, drop: Sequence[str] = ()) -> Schema:
        """Return the schema of some of the columns: those that are named, without those to drop.

        Raises
        ------
        InvalidParameter
            One is not there.
        """
        for name in (*(columns or ()), *drop):
            if name not in self.columns:
                raise InvalidParameter(f"the schema has no column {name!r}{_close(name, list(self.columns))}")
        names = [name for name in (self.names if columns is None else columns) if name not in drop]
        edges = {
            what: [edge for edge in getattr(self, what) if set(edge) <= set(names)]
            for what in ("forbidden", "required")
        }
        return Schema({name: self.columns[name] for name in names}, relations=self.relations, **edges)

    @classmethod
    def of(cls, given: Any) -> Self:
        """Return a schema from a schema, a path of a .toml or .json file, or a mapping as for `from_dict` or `Schema`."""
        if isinstance(given, cls):
            return given
        if isinstance(given, str | os.PathLike):
            return cls.read(given)
        if isinstance(given, Mapping):
            inner = given.get("columns")
            whole = isinstance(inner, Mapping) and all(isinstance(each, Mapping | Column) for each in inner.values())
            return cls.from_dict(given) if whole else cls(given)
        raise checks.refuse("schema", given, "a privfcd.Schema, a path, or a mapping of columns")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Return the schema in a .toml or .json file; that of a study's file too."""
        what = f"schema {Path(path).name!r}"
        content = content_of(path, what, MOST_BYTES)
        if Path(path).suffix.lower() == ".json":
            return cls.from_json(content.decode("utf-8-sig", "replace"))
        document = toml_of(content, what)
        return cls.from_dict({key: value for key, value in document.items() if key in _KEYS}
                             if "format" in document else document)  # fmt: skip

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Return the schema that a document describes, with the keys `columns`, `relations` and `knowledge`."""
        unknown = [key for key in document if key not in _KEYS]
        if unknown:
            raise InvalidParameter(f"schema: key {unknown[0]!r} is unknown; accepted are {', '.join(_KEYS)}")
        knowledge = document.get("knowledge", {})
        if not isinstance(knowledge, Mapping) or set(knowledge) - set(_KNOWLEDGE):
            raise checks.refuse("knowledge", knowledge, "a table of forbidden and required edges")
        return cls(document.get("columns", {}), relations=document.get("relations", "any"), **knowledge)

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Return the schema that a text in TOML describes."""
        return cls.from_dict(toml_of(text.encode(), "schema"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the schema that a text in JSON describes."""
        with parsing("schema is not JSON that can be read", advice="mend it, or get it again"):
            document = json.loads(text)
        if not isinstance(document, dict):
            raise checks.refuse("schema", document, "a table with the key columns")
        return cls.from_dict(document)

    def to_dict(self) -> dict[str, Any]:
        """Return the schema as plain values; `from_dict` makes the same of it."""
        document: dict[str, Any] = {"relations": self.relations}
        document["columns"] = {name: column.to_dict() for name, column in self.columns.items()}
        edges = {name: [list(edge) for edge in getattr(self, name)] for name in _KNOWLEDGE if getattr(self, name)}
        return document | ({"knowledge": edges} if edges else {})

    def to_json(self) -> str:
        """Return the schema as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_toml(self) -> str:
        """Return the schema as TOML."""
        lines = [f"relations = {toml_text(self.relations)}"]
        for name, column in self.columns.items():
            lines += ["", f"[columns.{toml_text(name)}]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in column.to_dict().items()]
        edges = {name: getattr(self, name) for name in _KNOWLEDGE if getattr(self, name)}
        if edges:
            lines += ["", "[knowledge]", *(f"{name} = {toml_value(value)}" for name, value in edges.items())]
        return "\n".join(lines) + "\n"

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a .toml or .json file."""
        if Path(path).suffix.lower() not in (".toml", ".json"):
            raise checks.refuse("path", os.fspath(path), "one that ends in .toml or .json")
        json_file = Path(path).suffix.lower() == ".json"
        Path(path).write_text(self.to_json() if json_file else self.to_toml(), encoding="utf-8")

    def agreed(self) -> dict[str, Any]:
        """Return what must be the same at all parties: not how one of them writes its cells, and not what it drops."""
        document = self.to_dict()
        document["columns"] = {
            name: {key: value for key, value in column.to_dict().items() if key not in OF_PARTY}
            for name, column in self.columns.items()
            if not column.drop
        }
        return document

    @property
    def digest(self) -> str:
        """What stands for what the parties agree on, and nothing else."""
        return hashlib.sha256(json.dumps(self.agreed(), sort_keys=True).encode()).hexdigest()

    def differences(self, other: Schema) -> list[str]:
        """Return in lines where another schema differs; those that parties must agree on are marked."""
        ours, theirs = _flat(self.to_dict()), _flat(other.to_dict())
        lines = []
        for key in dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                own = key.rpartition(".")[2] in OF_PARTY
                said = [toml_value(side[key]) if key in side else "-" for side in (ours, theirs)]
                lines.append(f"{key}: {said[0]} | {said[1]}{' (may differ between parties)' if own else ''}")
        return lines

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.to_dict() == other.to_dict() and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        kinds = [column.kind for column in self.kept]
        counted = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        return f"Schema({len(kinds)} columns: {counted})"


def _column(given: Any) -> Column:
    if not isinstance(given, Mapping):
        raise checks.refuse("a column", given, 'a table such as { kind = "continuous", range = [18, 90] }')
    unknown = [key for key in given if key not in _KNOWN]
    if unknown:
        hint = _close(str(unknown[0]), _KNOWN)
        raise InvalidParameter(f"key {unknown[0]!r} is unknown{hint or '; accepted are ' + ', '.join(_KNOWN)}")
    return Column(**given)


def _close(name: str, known: Sequence[str]) -> str:
    """Return the end of a message: which known name is meant, probably."""
    lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), list(lower), 1, 0.75)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""


def _listed(faults: Sequence[str]) -> str:
    lines = [one_line(fault, 600) for fault in faults]
    return lines[0] if len(lines) == 1 else "".join(f"\n  - {line}" for line in lines)


def _flat(document: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {key: value for key, value in document.items() if key != "columns"}
    for name, column in document["columns"].items():
        flat |= {f"{name}.{key}": value for key, value in column.items()}
    return flat
