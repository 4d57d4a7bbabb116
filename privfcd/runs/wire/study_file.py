"""One study = one TOML file: what all parties and the coordinator agree on before anything is asked.

    format = 2
    name = "sachs"
    method = "equal-variance"
    parties = ["hospital-1", "hospital-2", "hospital-3"]
    columns = ["praf", "pmek"]
    min_parties = 2          # all by default
    log1p = true             # false by default
    bounds = 12.0            # or one a column, or none
    sum = "secure"           # "per-party" by default
    colluders = 1            # of secure sums; the default
    dropouts = 0             # of secure sums; the default

    [identities]             # of secure sums: each party's long-term public key
    hospital-1 = "ed25519:93c2..."

Columns may be declared instead, as a schema's file has them (`privfcd.Schema`); then bounds and log1p are left out:

    [columns.age]
    range = [18, 90]

    [budget]                 # of each party; without it the study has no privacy
    epsilon = 5.0
    delta = 1e-6

    [parameters]             # the method's
    threshold = 0.3

Its digest is part of every question: a party answers for the file that its owner has read, and no other.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd import checks
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.errors import InvalidParameter
from privfcd.reading import content_of, toml_of

if TYPE_CHECKING:
    from privfcd.data.schema import Schema

FORMAT = 2
"""The version of study files; files of before say `schema = 1`, and mean the same."""

ED25519 = "ed25519:"
MOST_BYTES = 2**20


@dataclass(frozen=True)
class Study:
    """What is agreed on.

    Attributes
    ----------
    name : str
        For people.
    method : str
        See `privfcd.algorithms.registry.LEARNERS`.
    parties : tuple of str
        Their names, in the order in which answers are combined.
    columns : tuple of str
        Of every table; others are not looked at.
    epsilon, delta : float or None
        What each party spends at most; None for a study without privacy.
    min_parties : int
        With fewer the study does not begin.
    bounds : tuple of float or None
        Public bounds on |x_j|, one a column; of a schema's numbers less the middles of their ranges.
    log1p : bool
        Whether log(1 + x) of every value is taken first.
    parameters : mapping
        The method's.
    schema : mapping or None
        What is declared of the columns, see `privfcd.Schema.to_dict`.
    sum : str
        `"per-party"` noise, or one noise by `"secure"` sums.
    colluders, dropouts : int
        Of secure sums, see `SumTerms`.
    identities : mapping of str to str
        Of secure sums: for each party "ed25519:" and its long-term public key in hexadecimal digits.
    """

    name: str
    method: str
    parties: tuple[str, ...]
    columns: tuple[str, ...]
    epsilon: float | None = None
    delta: float | None = None
    min_parties: int = 1
    bounds: tuple[float, ...] | None = None
    log1p: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)
    sum: str = "per-party"
    colluders: int = 1
    dropouts: int = 0
    identities: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None

    @property
    def declared(self) -> Schema | None:
        """The schema; None where there is none."""
        from privfcd.data.schema import Schema

        return None if self.schema is None else Schema.from_dict(self.schema)

    @property
    def secure(self) -> bool:
        """Whether only sums are seen."""
        return self.sum == "secure"

    @property
    def least(self) -> int:
        """With fewer parties the study does not begin, or go on."""
        return max(self.min_parties, len(self.parties) - self.dropouts) if self.secure else self.min_parties

    @property
    def public_keys(self) -> dict[str, bytes]:
        """Each party's long-term public key."""
        return {name: bytes.fromhex(text.removeprefix(ED25519)) for name, text in self.identities.items()}

    @property
    def private(self) -> bool:
        """Whether it demands a budget."""
        return self.epsilon is not None

    @property
    def digest(self) -> str:
        """What stands for this study and no other."""
        document = {"format": FORMAT, **self._said(), "parameters": dict(self.parameters)}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    @property
    def keys(self) -> dict[str, str]:
        """A digest of what each key of the file says, so that two sides can tell in which their files differ."""
        said: dict[str, Any] = {"format": FORMAT, **self._said()}
        if said.pop("schema", None) is not None:
            assert self.schema is not None
            said.pop("columns")
            said |= {f"columns.{name}": column for name, column in self.schema["columns"].items()}
            said |= {name: self.schema.get(name) for name in ("relations", "knowledge")}
        for name in ("epsilon", "delta"):
            said[f"budget.{name}"] = said.pop(name)
        for table in ("parameters", "identities"):
            said |= {f"{table}.{name}": value for name, value in said.pop(table, {}).items()}
        return {
            name: hashlib.sha256(json.dumps([name, value], sort_keys=True).encode()).hexdigest()[:16]
            for name, value in said.items()
            if ":" not in name and "," not in name
        }

    def _said(self) -> dict[str, Any]:
        """Return what the file says; what belongs to secure sums only where there are any."""
        said = asdict(self)
        if not self.secure:
            for name in ("sum", "colluders", "dropouts", "identities"):
                del said[name]
        return said


def read_study(path: str | os.PathLike[str]) -> Study:
    """Return the study in a TOML file.

    Raises
    ------
    InvalidParameter
        What is wrong with it, naming the key.
    """
    what = f"study {Path(path).name!r}"
    document = toml_of(content_of(path, what, MOST_BYTES), what)
    return study_from(document)


def study_from(document: Mapping[str, Any]) -> Study:
    """Return the study that a TOML document describes; see `read_study`."""
    known = {"format", "schema", "name", "method", "parties", "columns", "min_parties", "bounds", "log1p", "budget"}
    known |= {"parameters", "relations", "knowledge"}
    known |= {"sum", "colluders", "dropouts", "identities"}
    unknown = sorted(set(document) - known)
    if unknown:
        raise InvalidParameter(f"a study must have no other keys than {sorted(known)}, got {unknown}")
    if "schema" in document and ("format" in document or document["schema"] != 1):
        accepted = f"left out: format = {FORMAT} is the version of study files known here"
        raise checks.refuse("schema", document["schema"], accepted)
    if "schema" not in document and document.get("format") != FORMAT:
        raise checks.refuse("format", document.get("format"), f"{FORMAT}, the version of study files known here")
    parties, schema = _names("parties", document), _schema(document)
    columns = _names("columns", document if schema is None else {"columns": list(schema.names)})
    for name in ("name", "method"):
        if not isinstance(document.get(name), str) or not document[name]:
            raise checks.refuse(name, document.get(name), "a non-empty text")
    least = checks.count("min_parties", document.get("min_parties", len(parties)))
    if least > len(parties):
        raise checks.refuse("min_parties", least, f"at most {len(parties)}, the number of parties")
    log1p = document.get("log1p", False)
    if not isinstance(log1p, bool):
        raise checks.refuse("log1p", log1p, "true or false")
    epsilon, delta = _budget(document.get("budget"))
    sums = _sums(document, parties, private=epsilon is not None)
    return Study(
        name=document["name"],
        method=document["method"],
        parties=parties,
        columns=columns,
        epsilon=epsilon,
        delta=delta,
        min_parties=least,
        bounds=_bounds(document.get("bounds"), columns) if schema is None else _bounds_of(schema),
        log1p=log1p,
        parameters=_plain("parameters", document.get("parameters", {})),
        schema=None if schema is None else schema.to_dict(),
        **sums,
    )


def _schema(document: Mapping[str, Any]) -> Schema | None:
    """Return what is declared of the columns; None where they are a list of names."""
    if not isinstance(document.get("columns"), Mapping):
        for name in ("relations", "knowledge"):
            if name in document:
                raise checks.refuse(
                    name, document[name], "left out where columns are a list of names, not [columns.NAME]"
                )
        return None
    for name in ("bounds", "log1p"):
        if name in document:
            accepted = "left out where columns are declared: [columns.NAME] has range and map"
            raise checks.refuse(name, document[name], accepted)
    from privfcd.data.schema import Schema

    return Schema.from_dict({key: document[key] for key in ("columns", "relations", "knowledge") if key in document})


def _bounds_of(schema: Schema) -> tuple[float, ...] | None:
    return schema.half_widths if all(map(math.isfinite, schema.half_widths)) else None


def _sums(document: Mapping[str, Any], parties: tuple[str, ...], *, private: bool) -> dict[str, Any]:
    """Return what the document says of sums, checked."""
    together = document.get("sum", "per-party")
    if together not in ("per-party", "secure"):
        raise checks.refuse("sum", together, "'per-party' or 'secure': between machines no place sees all tables")
    given = [name for name in ("colluders", "dropouts", "identities") if name in document]
    if together == "per-party":
        if given:
            raise InvalidParameter(f"{', '.join(given)} must be left out without sum = 'secure'")
        return {}
    if not private:
        raise InvalidParameter("sum must be 'per-party' in a study without a budget: a secure sum has noise")
    terms = SumTerms(len(parties), document.get("colluders", 1), document.get("dropouts", 0))
    identities = document.get("identities")
    accepted = (
        f"a table with {ED25519!r} and 64 hexadecimal digits for each party, as `privfcd party keygen` prints them"
    )
    if not isinstance(identities, dict) or set(identities) != set(parties):
        raise checks.refuse("identities", identities, accepted)
    for name, text in identities.items():
        if not isinstance(text, str) or not re.fullmatch(ED25519 + "[0-9a-f]{64}", text):
            raise checks.refuse(f"identities.{name}", text, accepted)
    if len(set(identities.values())) < len(parties):
        raise checks.refuse("identities", identities, "a different key for each party")
    return {
        "sum": together,
        "colluders": terms.colluders,
        "dropouts": terms.dropouts,
        "identities": {name: identities[name] for name in parties},
    }


def _names(key: str, document: Mapping[str, Any]) -> tuple[str, ...]:
    names = document.get(key)
    accepted = "a list of different, non-empty texts of one line"
    if not isinstance(names, list) or not names or not all(isinstance(each, str) and each.strip() for each in names):
        raise checks.refuse(key, names, accepted)
    if len(set(names)) < len(names) or any("\n" in each for each in names):
        raise checks.refuse(key, names, accepted)
    return tuple(names)


def _budget(table: Any) -> tuple[float | None, float | None]:
    if table is None:
        return None, None
    if not isinstance(table, dict) or set(table) != {"epsilon", "delta"}:
        raise checks.refuse("budget", table, "a table of epsilon and delta")
    return checks.positive("epsilon", table["epsilon"]), checks.delta("delta", table["delta"], zero=False)


def _bounds(given: Any, columns: tuple[str, ...]) -> tuple[float, ...] | None:
    if given is None:
        return None
    if isinstance(given, dict):
        if sorted(given) != sorted(columns):
            raise checks.refuse("bounds", sorted(given), f"one for each of {sorted(columns)}")
        return tuple(checks.bound(f"bounds.{name}", given[name]) for name in columns)
    return (checks.bound("bounds", given),) * len(columns)


def _plain(name: str, value: Any) -> Any:
    """Return a parameter; dates and times, which TOML has and methods have not, are refused."""
    if isinstance(value, dict):
        return {key: _plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(name, item) for item in value]
    if isinstance(value, str | bool | int | float):
        return value
    raise checks.refuse(name, value, "numbers, texts, true or false, and lists of them")
