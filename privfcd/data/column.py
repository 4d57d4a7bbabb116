"""What is declared of one column: its kind, range or levels, unit, gaps. Public, and never computed from rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Any

import numpy as np

from privfcd import checks
from privfcd.amounts import as_float
from privfcd.errors import InvalidParameter

KINDS = ("continuous", "count", "ordinal", "binary", "categorical", "date")
MISSING = ("refuse", "category", "pairwise")
MAPS = ("none", "log1p", "logit", "asinh")
REFUSE = "refuse"
NO_VALUE = "(missing)"
"""The level of a gap where `missing = "category"`."""

EPOCH = "1970-01-01"
WIDTHS = 3.0
"""A column with a location and a scale is clipped at so many scales from its location."""

OF_PARTY = ("unit", "factor", "spellings", "other", "ignore_case", "missing_values")
"""How one party writes its cells: may differ between parties. All else is the same for all."""

_MOST = 1e24
_MOST_LEVELS = 1000
_DISCRETE = ("ordinal", "binary", "categorical")
_DEFAULT_SPELLINGS = {"0": ("false",), "1": ("true",)}


@dataclass(frozen=True, kw_only=True)
class Column:
    """Declare one column: what its cells mean and which values it can have.

    Parameters
    ----------
    kind : {"continuous", "count", "ordinal", "binary", "categorical", "date"}
        A count is a whole number of at least 0. Levels of an ordinal column are in order. Dates become days since `origin`.
    range : pair of numbers, optional
        Least and largest value, in the column's unit and before `map`; dates for a date. What lies outside is clipped to it.
    location, scale : float, optional
        Instead of a range: location ± 3 scale. Not together with a map.
    unit : str
        For people, such as "mmHg".
    factor : float
        What this party's cells are multiplied by to be in the parties' common unit.
    levels : sequence of str
        Of an ordinal, binary or categorical column. Numbers become text: 1.0 is "1". By default a binary column has the
        levels "0" and "1" (also written false and true), and an ordinal one the whole numbers of its range.
    spellings : mapping of level to texts
        Other ways in which a level is written.
    other : str
        `"refuse"`, or the level to which unknown texts go.
    ignore_case : bool
        Whether levels and spellings are matched without regard to case.
    missing : {"refuse", "category", "pairwise"}
        What a gap is: refused; a level (or an indicator) of its own; or left out of the pairs that need it.
    missing_values : sequence of number or str
        Cells that are gaps too, such as -999. Empty cells, NaN, NA, N/A, null and none always are, unless they are levels.
    map : {"none", "log1p", "logit", "asinh"}
        Taken of every value.
    tier : int, optional
        Columns of a later tier cause none of an earlier one.
    drop : bool
        Whether the column is left out. Its cells are not looked at.
    origin : str
        Day 0 of a date, 1970-01-01 by default.

    Raises
    ------
    InvalidParameter
        All that is wrong with the declaration, in one message.

    Examples
    --------
    >>> from privfcd import Column
    >>> Column(range=[18, 90], unit="a").limits
    (18.0, 90.0)
    >>> Column(kind="categorical", levels=["f", "m"], spellings={"f": ["F", 2]}).codes
    ('f', 'm')
    """

    kind: str = "continuous"
    range: tuple[float, float] | None = None
    location: float | None = None
    scale: float | None = None
    unit: str = ""
    factor: float = 1.0
    levels: tuple[str, ...] = ()
    spellings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    other: str = REFUSE
    ignore_case: bool = False
    missing: str = REFUSE
    missing_values: tuple[str, ...] = ()
    map: str = "none"
    tier: int | None = None
    drop: bool = False
    origin: str = ""

    def __post_init__(self) -> None:
        faults: list[str] = []

        def settle(name: str, check: Any) -> None:
            try:
                object.__setattr__(self, name, check(getattr(self, name)))
            except InvalidParameter as error:
                faults.append(str(error))

        for name, accepted in (("kind", KINDS), ("missing", MISSING), ("map", MAPS)):
            settle(name, _one_of(name, accepted))
        for name in ("ignore_case", "drop"):
            settle(name, _flag(name))
        settle("unit", _text("unit"))
        settle("origin", lambda value: _day("origin", value) if value else "")
        settle("range", lambda value: None if value is None else _pair(value, self.origin or EPOCH, self.kind))
        for name in ("location", "scale"):
            settle(name, _number(name, positive=name == "scale"))
        settle("factor", lambda value: checks.moderate("factor", value))
        settle("tier", lambda value: None if value is None else checks.count("tier", value, least=0))
        settle("levels", lambda value: _texts("levels", value))
        settle("spellings", _spellings)
        settle("other", _text("other"))
        settle("missing_values", lambda value: _texts("missing_values", value))
        if not faults:
            self._add_levels()
            faults += self._contradictions()
        if faults:
            raise InvalidParameter("; ".join(faults))

    def _add_levels(self) -> None:
        levels = self.levels
        if self.kind == "binary" and not levels:
            levels = ("0", "1")
            if not self.spellings:
                object.__setattr__(self, "spellings", dict(_DEFAULT_SPELLINGS))
        if self.kind == "ordinal" and not levels and self.range is not None:
            low, high = self.range
            if low == int(low) and high == int(high) and high - low < _MOST_LEVELS:
                levels = tuple(str(value) for value in np.arange(int(low), int(high) + 1).tolist())
                object.__setattr__(self, "range", None)
        object.__setattr__(self, "levels", levels)

    def _contradictions(self) -> list[str]:
        """Return what the declaration says twice, or cannot mean."""
        if self.drop:
            return []
        found = self._faults_of_levels() if self.discrete else self._faults_of_numbers()
        if self.origin and self.kind != "date":
            found.append(f"origin must be left out for kind {self.kind!r}, got {self.origin!r}")
        return found

    def _faults_of_levels(self) -> list[str]:
        found = []
        set_here = [name for name in ("range", "location", "scale") if getattr(self, name) is not None]
        set_here += ["factor"] * (self.factor != 1) + ["map"] * (self.map != "none")
        if set_here:
            found.append(f"{' and '.join(set_here)} must be left out for kind {self.kind!r}, which has levels")
        least, most = 2, 2 if self.kind == "binary" else _MOST_LEVELS
        if not least <= len(self.levels) <= most:
            many = "two" if most == 2 else f"2 to {most}"
            found.append(f"levels must be {many} texts for kind {self.kind!r}, got {checks.shown(list(self.levels))}")
        if NO_VALUE in self.levels:
            found.append(f"levels must not have {NO_VALUE!r}, which is the level of gaps")
        unknown = [level for level in self.spellings if level not in self.levels]
        if unknown:
            found.append(f"spellings must be of the levels {list(self.levels)}, got {unknown}")
        if self.other != REFUSE and self.other not in self.levels:
            found.append(f"other must be 'refuse' or one of the levels {list(self.levels)}, got {self.other!r}")
        meanings: dict[str, str] = {}
        for text, level in self.written():
            key = text.casefold() if self.ignore_case else text
            if meanings.setdefault(key, level) != level:
                found.append(f"{text!r} must be written for one level, got {meanings[key]!r} and {level!r}")
        for text in self.missing_values:
            if (text.casefold() if self.ignore_case else text) in meanings:
                found.append(f"missing_values must not be levels or spellings, got {text!r}")
        return found

    def _faults_of_numbers(self) -> list[str]:
        found = []
        set_here = [name for name in ("levels", "spellings") if getattr(self, name)]
        set_here += ["other"] * (self.other != REFUSE) + ["ignore_case"] * self.ignore_case
        if set_here:
            found.append(f"{' and '.join(set_here)} must be left out for kind {self.kind!r}, which has numbers")
        if (self.location is None) != (self.scale is None):
            found.append("location and scale must be given together")
        elif self.location is not None and (self.range is not None or self.map != "none"):
            found.append("location and scale must be left out where a range or a map is given")
        if self.kind == "date" and (self.factor != 1 or self.map != "none"):
            found.append("factor and map must be left out for kind 'date'")
        if self.range is not None:
            low, high = self.range
            if self.kind == "count" and low < 0:
                found.append(f"range of a count must begin at 0 or above, got {list(self.range)}")
            if self.map == "log1p" and low <= -1:
                found.append(f"range must begin above -1 for map 'log1p', got {list(self.range)}")
            if self.map == "logit" and not 0 < low < high < 1:
                found.append(f"range must lie inside (0, 1) for map 'logit', got {list(self.range)}")
        if not found and self.limits is not None and not 1e-24 <= self.half_width <= _MOST:
            found.append("range must be from 2e-24 to 2e24 wide, after the map")
        return found

    def written(self) -> list[tuple[str, str]]:
        """Return every text of the declaration with the level that it stands for."""
        return [(level, level) for level in self.levels] + [
            (text, level) for level, texts in self.spellings.items() for text in texts
        ]

    @property
    def discrete(self) -> bool:
        """Whether the column has levels."""
        return self.kind in _DISCRETE

    @property
    def codes(self) -> tuple[str, ...]:
        """The levels by their code 0, 1, ..., that of gaps last where they are one; none of a column of numbers."""
        if not self.discrete:
            return ()
        return (*self.levels, NO_VALUE) if self.missing == "category" else self.levels

    @property
    def has_gaps(self) -> bool:
        """Whether its numbers can be NaN: gaps are neither refused nor a level."""
        return self.missing == "pairwise" or (self.missing == "category" and not self.discrete)

    @property
    def limits(self) -> tuple[float, float] | None:
        """Least and largest of its numbers, after the map; None where nothing is declared."""
        if self.discrete:
            return 0.0, float(len(self.codes) - 1)
        if self.location is not None and self.scale is not None:
            return self.location - WIDTHS * self.scale, self.location + WIDTHS * self.scale
        if self.range is None:
            return None
        low, high = mapped(np.array(self.range), self.map).tolist()
        return low, high

    @property
    def middle(self) -> float:
        """The middle of `limits`; 0 where nothing is declared."""
        limits = self.limits
        return 0.0 if limits is None else (limits[0] + limits[1]) / 2

    @property
    def half_width(self) -> float:
        """The largest distance from the middle within `limits`; inf where nothing is declared."""
        limits = self.limits
        # rounding is monotone: the float x - middle is no larger for any x within the limits
        return math.inf if limits is None else max(limits[1] - self.middle, self.middle - limits[0])

    def words(self) -> str:
        """Return the declaration in words."""
        said = [self.kind]
        if self.discrete:
            said.append("levels " + ", ".join(self.codes))
        elif self.location is not None:
            said.append(f"location {self.location:g}, scale {self.scale:g}")
        elif self.range is not None:
            said.append(f"{self.range[0]:g} to {self.range[1]:g}")
        else:
            said.append("no range")
        said += [self.unit] if self.unit else []
        said += [f"map {self.map}"] if self.map != "none" else []
        said += [f"gaps: {self.missing}"] if self.missing != REFUSE else []
        return "; ".join([*said, *([f"tier {self.tier}"] if self.tier is not None else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as a file has it: what is not its default, in plain values."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        kept = {"kind": self.kind}
        for each in fields(self):
            value = said[each.name]
            default = {} if each.name == "spellings" else each.default
            if value != default and each.name != "kind":
                kept[each.name] = _plain(value)
        if self.kind == "binary" and self.levels == ("0", "1") and self.spellings == _DEFAULT_SPELLINGS:
            del kept["levels"], kept["spellings"]
        return {"drop": True} if self.drop and self.kind == "continuous" and len(kept) == 2 else kept


def mapped(values: Any, name: str) -> Any:
    """Return the map of values; each is increasing, so that clipping before is clipping after."""
    if name == "log1p":
        return np.log1p(values)
    if name == "logit":
        return np.log(values) - np.log1p(-values)
    return np.arcsinh(values) if name == "asinh" else values


def as_text(value: Any) -> str | None:
    """Return a level as text: whole numbers without a point, True as true; None for what is no text or number."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    number = as_float(value)
    if number is None or not math.isfinite(number):
        return None
    return number_text(number)


def number_text(number: float) -> str:
    """Return a number as the text that stands for it: 1 for 1.0."""
    return str(int(number)) if number == int(number) and abs(number) < 2**53 else repr(number)


def days_since(day: date | datetime, origin: str) -> float:
    """Return days, with the time of day as a part of one; a time with a zone is taken in UTC."""
    if isinstance(day, datetime):
        if day.tzinfo is not None:
            offset = day.utcoffset()
            day = day.replace(tzinfo=None)
            day = day if offset is None else day - offset
        start = datetime.combine(date.fromisoformat(origin), datetime.min.time())
        return (day - start).total_seconds() / 86400
    return float((day - date.fromisoformat(origin)).days)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {key: list(item) for key, item in value.items()}
    return value


def _one_of(name: str, accepted: Sequence[str]) -> Any:
    def check(value: Any) -> str:
        if value not in accepted:
            raise checks.refuse(name, value, "one of " + ", ".join(accepted))
        return str(value)

    return check


def _flag(name: str) -> Any:
    def check(value: Any) -> bool:
        if not isinstance(value, bool):
            raise checks.refuse(name, value, "true or false")
        return value

    return check


def _text(name: str) -> Any:
    def check(value: Any) -> str:
        text = None if isinstance(value, bool) else as_text(value)
        if text is None or checks.UNWRITABLE.search(text):
            raise checks.refuse(name, value, "a text without control characters")
        return text

    return check


def _number(name: str, *, positive: bool) -> Any:
    def check(value: Any) -> float | None:
        if value is None:
            return None
        number = checks.real(name, value)
        if abs(number) > _MOST or (positive and number < 1e-24):
            raise checks.refuse(name, value, f"a number {'above 1e-24' if positive else ''} of at most 1e24 in size")
        return number

    return check


def _day(name: str, value: Any) -> str:
    try:
        return (value if isinstance(value, date) else date.fromisoformat(str(value))).strftime("%Y-%m-%d")[:10]
    except ValueError:
        raise checks.refuse(name, value, "a day such as 2020-01-31") from None


def _pair(value: Any, origin: str, kind: str) -> tuple[float, float]:
    accepted = "two numbers, the least and the largest, such as [18, 90]"
    if isinstance(value, str) or not np.iterable(value) or len(pair := list(value)) != 2:
        raise checks.refuse("range", value, accepted)
    if kind == "date" and all(isinstance(each, str | date) for each in pair):
        pair = [days_since(date.fromisoformat(_day("range", each)), origin) for each in pair]
    low, high = (checks.real("range", each, accepted) for each in pair)
    if not -_MOST <= low < high <= _MOST:
        raise checks.refuse("range", value, accepted + ", of at most 1e24 in size")
    return low, high


def _texts(name: str, value: Any) -> tuple[str, ...]:
    accepted = "a list of different texts or numbers"
    if isinstance(value, str | Mapping) or not np.iterable(value):
        raise checks.refuse(name, value, accepted)
    texts = [as_text(each) for each in value]
    if any(text is None or checks.UNWRITABLE.search(text) for text in texts) or len(set(texts)) < len(texts):
        raise checks.refuse(name, list(value), accepted)
    return tuple(text for text in texts if text is not None)


def _spellings(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise checks.refuse("spellings", value, 'a table such as { f = ["F", "female"] }')
    made: dict[str, tuple[str, ...]] = {}
    for level, texts in value.items():
        one = isinstance(texts, str | int | float)
        made[str(as_text(level))] = _texts(f"spellings of {level!r}", [texts] if one else texts)
    return made
