"""Values with a structure on the command line: `--set name=value` for a method's own parameters, and `--bounds`."""

from __future__ import annotations

import sys
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import click

from privfcd.errors import InvalidParameter
from privfcd.reading import toml_value

NAMED = ("epsilon", "delta", "center")
"""Parameters of estimators that have a flag of their own on every command, and are not for `--set`."""


class Setting(click.ParamType):  # type: ignore[type-arg]
    """`name=value`; the value as in TOML (0.5, true, [1, 2], {a = 2}), `none`, or else a text."""

    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Return (name, value)."""
        if isinstance(value, tuple):
            return value[0].replace("-", "_"), value[1]
        name, sign, text = value.partition("=")
        if not sign or not name.strip():
            self.fail(f"{value!r} must be name=value, such as alpha=0.05", param, ctx)
        return name.strip().replace("-", "_"), from_text(text.strip())


class Bounds(click.ParamType):  # type: ignore[type-arg]
    """One number for all columns, or `column=number,...`, or a table as in TOML."""

    name = "bounds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | dict[str, float]:
        """Return the number, or one for each column."""
        if isinstance(value, _Several):
            return self._together([self.convert(each, param, ctx) for each in value], param, ctx)
        if isinstance(value, dict):
            return {column: float(number) for column, number in value.items()}
        try:
            return float(value)
        except ValueError:
            pass
        table = from_text(value) if value.startswith("{") else None
        if isinstance(table, dict) and all(type(number) in (int, float) for number in table.values()):
            return {column: float(number) for column, number in table.items()}
        found: dict[str, float] = {}
        for each in value.split(","):
            column, sign, number = (part.strip() for part in each.rpartition("="))
            try:
                bound = float(number)
            except ValueError:
                sign = ""
            if not sign or not column:
                self.fail(f"{value!r} must be a number, or column=number,column=number,...", param, ctx)
            if column in found:
                self.fail(f"{value!r} has {column!r} twice", param, ctx)
            found[column] = bound
        return found


    def joined(self, before: Any, value: Any) -> _Several:
        """Return two values of one option, to be converted together."""
        return _Several([*(before if isinstance(before, _Several) else [before]), value])

    def _together(self, parts: list[Any], param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        found: dict[str, float] = {}
        for part in parts:
            if not isinstance(part, dict):
                self.fail(f"{part!r} is for all columns: give one number, or column=number for each", param, ctx)
            for column, number in part.items():
                if found.setdefault(column, number) != number:
                    self.fail(f"{column!r} has two: {found[column]!r} and {number!r}", param, ctx)
        return found


class _Several(list[Any]):
    """The values of an option that was given several times and adds up."""


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names separated by commas, or a list of texts as in TOML."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names, all different, none blank."""
        if isinstance(value, _Several):
            parts = [name for each in value for name in self.convert(each, param, ctx)]
            return tuple(dict.fromkeys(parts))
        listed = from_text(value) if isinstance(value, str) and value.startswith("[") else value
        given = listed if isinstance(listed, list | tuple) else str(value).split(",")
        names = tuple(each.strip() if isinstance(each, str) else "" for each in given)
        if not names or not all(names):
            self.fail(f"{value!r} must be names, separated by commas", param, ctx)
        twice = next((each for each in names if names.count(each) > 1), None)
        if twice is not None:
            self.fail(f"{value!r} has {twice!r} twice", param, ctx)
        return names

    def joined(self, before: Any, value: Any) -> _Several:
        """Return two values of one option, to be converted together."""
        return _Several([*(before if isinstance(before, _Several) else [before]), value])


def names_words(names: Sequence[str]) -> str:
    """Return text that `Names` reads as these names."""
    plain = ",".join(names)
    return plain if not any("," in each for each in names) and not plain.startswith("[") else toml_value(list(names))


def bounds_words(bounds: Mapping[str, float]) -> str:
    """Return text that `Bounds` reads as these bounds."""
    plain = ",".join(f"{name}={number!r}" for name, number in bounds.items())
    if all(name == name.strip() and "," not in name for name in bounds) and not plain.startswith("{"):
        return plain
    return toml_value(bounds)


def from_text(text: str) -> Any:
    """Return a value as TOML reads it, None for `none`, or the text itself."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, or a number of 5000 digits
        return text


def setting_words(name: str, value: Any) -> str:
    """Return `name=value` such that `Setting` reads the same again."""
    return f"{name}={_shortest(value)}"


def _shortest(value: Any) -> str:
    """Return a value as TOML; a text that `from_text` reads as itself without quotes."""
    return value if isinstance(value, str) and from_text(value) == value else toml_value(value)


def checked_settings(method: str, kind: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of an estimator, each of a type that its signature has.

    Raises
    ------
    InvalidParameter
        The estimator does not have the parameter, or the value is of another type.
    """
    hints = _hints(kind)
    answer: dict[str, Any] = {}
    for name, value in settings.items():
        if name in NAMED:
            raise InvalidParameter(f"--set {name} must be given as --{name}")
        if name not in hints:
            known = ", ".join(each for each in hints if each not in NAMED)
            raise InvalidParameter(f"--set {name} does not belong to --method {method}; its parameters are {known}")
        fits, converted = _fitted(value, hints[name])
        if not fits:
            raise InvalidParameter(f"--set {name} must be {_accepted(hints[name])}, got {value!r}")
        answer[name] = converted
    return answer


def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a learner's parameters, each as the class that declares it has it."""
    found = {}
    for each in fields(kind):
        if each.init:
            home = next(base for base in kind.__mro__ if each.name in vars(base).get("__annotations__", {}))
            found[each.name] = eval(str(each.type), vars(sys.modules[home.__module__]))
    return found


def _fitted(value: Any, hint: Any) -> tuple[bool, Any]:
    """Return whether a value is of a type, and the value as that type has it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        found = [made for fits, made in (_fitted(value, each) for each in arguments) if fits]
        return (True, found[0]) if found else (False, value)
    if origin is typing.Literal:
        return value in arguments, value
    if hint is type(None) or value is None:
        return hint is type(None) and value is None, value
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(_fitted(each, arguments[1])[0] for each in value.values()), value
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(_fitted(each, arguments[0])[0] for each in value), value
    if hint is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return fits, float(value) if fits else value
    if hint in (int, bool, str):
        return isinstance(value, hint) and (hint is bool or not isinstance(value, bool)), value
    return hint is Any, value


def _accepted(hint: Any) -> str:
    """Return a type in words."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_accepted(each) for each in arguments))
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "a table {column = value}"
    if origin is not None and isinstance(origin, type) and issubclass(origin, Sequence):
        return "a list [value, ...]"
    words = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", type(None): "none"}
    return words.get(hint, getattr(hint, "__name__", str(hint)))
