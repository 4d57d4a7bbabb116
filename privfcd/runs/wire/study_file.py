"""One study = one TOML file: what all parties and the coordinator agree on before anything is asked.

    schema = 1
    name = "sachs"
    method = "equal-variance"
    parties = ["hospital-1", "hospital-2", "hospital-3"]
    columns = ["praf", "pmek"]
    min_parties = 2          # all by default
    log1p = true             # false by default
    bounds = 12.0            # or one a column, or none

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
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.reading import content_of, toml_of

SCHEMA = 1
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
        Public bounds on |x_j|, one a column.
    log1p : bool
        Whether log(1 + x) of every value is taken first.
    parameters : mapping
        The method's.
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

    @property
    def private(self) -> bool:
        """Whether it demands a budget."""
        return self.epsilon is not None

    @property
    def digest(self) -> str:
        """What stands for this study and no other."""
        document = {"schema": SCHEMA, **asdict(self), "parameters": dict(self.parameters)}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()

    @property
    def keys(self) -> dict[str, str]:
        """A digest of what each key of the file says, so that two sides can tell in which their files differ."""
        said: dict[str, Any] = {"schema": SCHEMA, **asdict(self)}
        for name in ("epsilon", "delta"):
            said[f"budget.{name}"] = said.pop(name)
        said |= {f"parameters.{name}": value for name, value in said.pop("parameters").items()}
        return {
            name: hashlib.sha256(json.dumps([name, value], sort_keys=True).encode()).hexdigest()[:16]
            for name, value in said.items()
            if ":" not in name and "," not in name
        }


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
    known = {"schema", "name", "method", "parties", "columns", "min_parties", "bounds", "log1p", "budget", "parameters"}
    unknown = sorted(set(document) - known)
    if unknown:
        raise InvalidParameter(f"a study must have no other keys than {sorted(known)}, got {unknown}")
    if document.get("schema") != SCHEMA:
        raise checks.refuse("schema", document.get("schema"), f"{SCHEMA}, the version of study files known here")
    parties, columns = _names("parties", document), _names("columns", document)
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
    return Study(
        name=document["name"],
        method=document["method"],
        parties=parties,
        columns=columns,
        epsilon=epsilon,
        delta=delta,
        min_parties=least,
        bounds=_bounds(document.get("bounds"), columns),
        log1p=log1p,
        parameters=_plain("parameters", document.get("parameters", {})),
    )


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
