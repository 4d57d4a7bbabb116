"""`--config study.toml`: a command's options from a file, checked key by key; the command line wins.

A file has a table for each command, such as `[learn]` or `[moments.release]`, whose keys are the command's long options
without their dashes, and `[study]` for what `learn` and `moments release` share. Paths are relative to the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from privfcd.cli.commands import OTHER, option
from privfcd.cli.flags import CONFIGURED, SETTINGS, flag_of
from privfcd.cli.settings import Bounds, Names, bounds_words, names_words, setting_words
from privfcd.reading import content_of, toml_of

Function = TypeVar("Function", bound=Callable[..., Any])

SHARED = "study"
SHARED_KEYS = ("files", "epsilon", "delta", "ledger", "no-privacy", "bounds", "columns", "drop", "log1p", "schema", "center",
               "noise", "seed")  # fmt: skip
SHARING = ("learn", "moments.release")
TABLES = (
    SHARED,
    "learn",
    "demo",
    "moments.release",
    "audit.gaussian",
    "audit.laplace",
    "audit.gumbel",
    "audit.covariance",
    "audit.sensitivity",
    "audit.sampler",
    "audit.algorithm",
    "attack.covariance",
    "compare.regimes",
)
"""The tables that a file may have."""

CALLING = ("config", "as_json", "dry_run", "quiet", "help")
"""Options about how a command is called, which no file sets."""

MOST_BYTES = 2**20


@dataclass(frozen=True)
class Configured:
    """What a file set.

    Attributes
    ----------
    path : str
        The file, as it was given.
    keys : mapping of str to str
        For each parameter that it set, the key, such as `learn.epsilon`.
    """

    path: str
    keys: Mapping[str, str]


def config_option(function: Function) -> Function:
    """Add `--config FILE`."""
    return option(
        "--config",
        type=click.Path(dir_okay=False),
        is_eager=True,
        expose_value=False,
        callback=_configure,
        metavar="FILE",
        section=OTHER,
        help="Options from a TOML file (`privfcd init` writes one); those given here win.",
    )(function)


def given(context: click.Context, name: str, *, shared: bool = True) -> bool:
    """Return whether a parameter was given: in the shell or, with `shared` False in the command's own table, in a file."""
    source = context.get_parameter_source(name)
    if source is click.core.ParameterSource.DEFAULT_MAP:
        key = context.meta[CONFIGURED].keys.get(name, "")
        return shared or not key.startswith(f"{SHARED}.")
    return source in (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)


def origin(context: click.Context, *names: str) -> str:
    """Return, for a message, which of these parameters a file gave: "" if none."""
    configured = context.meta.get(CONFIGURED)
    if configured is None:
        return ""
    keys = [
        configured.keys[name]
        for name in names
        if name in configured.keys and context.get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP
    ]
    return f" ({' and '.join(keys)} in {configured.path})" if keys else ""


def _configure(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or context.resilient_parsing:
        return value
    own = table_of(context)
    defaults, keys = _read(value, own, context.command)
    context.default_map = {**(context.default_map or {}), **defaults}
    context.meta[CONFIGURED] = Configured(value, keys)
    return value


def table_of(context: click.Context) -> str:
    """Return the name of a command's table: its words, without that of the program."""
    words = []
    at: click.Context | None = context
    while at is not None and at.parent is not None:
        words.append(at.info_name or "")
        at = at.parent
    return ".".join(reversed(words))


def _read(path: str, own: str, command: click.Command) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values for a command's parameters, and their keys in the file."""
    document = _document(path)
    if "format" in document or "schema" in document or "parties" in document:
        raise click.UsageError(
            f"{path} is a study of several machines, for `privfcd coordinator run` and `privfcd party`; "
            "`privfcd init` writes a file for this command"
        )
    tables = {SHARED: _table(document.pop(SHARED, {}), path, SHARED)}
    for name, content in document.items():
        if any(table.startswith(f"{name}.") for table in TABLES):
            tables |= {f"{name}.{key}": _table(inner, path, f"{name}.{key}")
                       for key, inner in _table(content, path, name).items()}  # fmt: skip
        else:
            tables[name] = _table(content, path, name)
    for name in tables:
        if name not in TABLES:
            raise click.UsageError(f"{path}: [{name}] is unknown; accepted are " + ", ".join(f"[{t}]" for t in TABLES))
    defaults: dict[str, Any] = {}
    keys: dict[str, str] = {}
    for name in (SHARED, own) if own in SHARING else (own,):
        accepted = {flag_of(each).lstrip("-").lower(): each for each in command.params if each.name not in CALLING}
        if name == SHARED:
            accepted = {key: each for key, each in accepted.items() if key in SHARED_KEYS}
        for key, value in tables.get(name, {}).items():
            parameter = accepted.get(key.replace("_", "-"))
            if parameter is None:
                raise click.UsageError(
                    f"{path}: key {key!r} of [{name}] is unknown; accepted are {', '.join(sorted(accepted))}"
                )
            assert parameter.name is not None
            if keys.get(parameter.name, "").startswith(f"{name}."):
                raise click.UsageError(f"{path}: {keys[parameter.name]} and {name}.{key} are the same option: give one")
            where = f"{path}: {name}.{key}"
            defaults[parameter.name] = _checked(value, parameter, where, os.path.dirname(path))
            keys[parameter.name] = f"{name}.{key}"
    return defaults, keys


def _document(path: str) -> dict[str, Any]:
    return toml_of(content_of(path, path, MOST_BYTES, click.UsageError), path, click.UsageError)


def _table(value: Any, path: str, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise click.UsageError(f"{path}: {name} must be a table, [{name}], got {value!r}")
    return dict(value)


def _checked(value: Any, parameter: click.Parameter, where: str, folder: str) -> Any:
    """Return a value of the parameter's type; text is not taken for a number, nor a number for text."""
    if parameter.name == SETTINGS:
        if not isinstance(value, dict):
            raise click.UsageError(f"{where} must be a table of parameters, got {value!r}")
        return list(value.items())
    if parameter.multiple or parameter.nargs == -1:
        items = value if isinstance(value, list) else [value]
        return [_one(item, parameter, where, folder, "a list of texts") for item in items]
    return _one(value, parameter, where, folder, None)


def _one(value: Any, parameter: click.Parameter, where: str, folder: str, accepted: str | None) -> Any:
    kind = parameter.type
    number = _is_number(value)
    match kind:
        case Bounds():
            numbers = list(value.values()) if isinstance(value, dict) else [value]
            fits = all(map(_is_number, numbers))
            wanted = "a number, or a table with one for each column"
        case Names():
            names = value if isinstance(value, list) else [value]
            fits, wanted = bool(names) and all(isinstance(each, str) for each in names), "a list of texts"
        case click.types.BoolParamType():
            fits, wanted = isinstance(value, bool), "true or false"
        case click.Choice():
            choices = [str(choice) for choice in kind.choices]
            fits, wanted = value in choices, "one of " + ", ".join(choices)
        case click.types.IntParamType():
            fits, wanted = number and isinstance(value, int), "a whole number"
        case click.types.FloatParamType():
            fits, wanted = number, "a number"
        case _:
            fits, wanted = isinstance(value, str) and "\0" not in value, "a text"
    if not fits:
        raise click.UsageError(f"{where} must be {accepted or wanted}, got {value!r}")
    if isinstance(kind, click.Path):
        return os.path.join(folder, value)
    return value


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that a float can hold."""
    return isinstance(value, float) or (type(value) is int and abs(value) <= sys.float_info.max)


def reproduced(context: click.Context) -> dict[str, Any]:
    """Return the configuration in effect: the words that give it again, and every option by its flag."""
    import shlex

    words = context.command_path.split()
    arguments: list[str] = []
    options: dict[str, Any] = {}
    for parameter in context.command.params:
        if parameter.name in CALLING or parameter.name not in context.params:
            continue
        value = context.params[parameter.name]
        options[flag_of(parameter).lstrip("-").lower()] = dict(value) if parameter.name == SETTINGS else value
        if isinstance(parameter, click.Argument):
            arguments += map(str, value if isinstance(value, tuple) else [value])
        elif context.get_parameter_source(str(parameter.name)) is not click.core.ParameterSource.DEFAULT:
            words += _words(parameter, value)
    configured = context.meta.get(CONFIGURED)
    return {
        "command": shlex.join(
            [*words, *(["--"] if any(each.startswith("-") for each in arguments) else []), *arguments]
        ),
        "config": None if configured is None else configured.path,
        "options": options,
    }


def _words(parameter: click.Parameter, value: Any) -> list[str]:
    flag = flag_of(parameter)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        off = next(iter(parameter.secondary_opts), None)
        return [flag] if value else ([off] if off else [])
    if parameter.name == SETTINGS:
        return [word for name, item in value for word in (flag, setting_words(name, item))]
    if parameter.multiple:
        return [word for item in value for word in (flag, str(item))]
    if isinstance(value, dict):
        return [flag, bounds_words(value)]
    if isinstance(parameter.type, Names) and value is not None:
        return [flag, names_words(value)]
    return [] if value is None else [flag, str(value)]
