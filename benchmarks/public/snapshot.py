"""The public names as they are, in a form that can be written down, and what a change of it means for users."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import click

from benchmarks.public.docstrings import sections
from benchmarks.public.json_keys import json_keys
from benchmarks.public.names import Public, members, public_names, signature
from privfcd.deprecation import RenamedAttribute, former_parameters

Entry = dict[str, Any]
Snapshot = dict[str, dict[str, Any]]

EITHER, BY_PLACE, BY_NAME, VARIADIC = "by place or name", "by place", "by name", "any more"
_PASSED = {
    "POSITIONAL_OR_KEYWORD": EITHER,
    "POSITIONAL_ONLY": BY_PLACE,
    "KEYWORD_ONLY": BY_NAME,
    "VAR_POSITIONAL": VARIADIC,
    "VAR_KEYWORD": VARIADIC,
}
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def snapshot() -> Snapshot:
    """Return modules, their names and what each takes and shows; every command with its options; and keys of JSON."""
    from privfcd.cli.main import cli

    modules: dict[str, dict[str, Entry]] = {}
    homes: dict[int, str] = {}
    found = sorted(public_names(), key=lambda public: public.module == "privfcd")  # floors first: they hold the details
    for public in found:
        path = f"{public.module}.{public.name}"
        home = homes.setdefault(id(public.value), path) if callable(public.value) else path
        modules.setdefault(public.module, {})[public.name] = {"is": home} if home != path else entry(public)
    return {
        "modules": dict(sorted(modules.items())),
        "commands": dict(sorted(commands(cli, "privfcd"))),
        "json": {name: list(keys) for name, keys in json_keys().items()},
    }


def entry(public: Public) -> Entry:
    """Return what one name stands for."""
    value = public.value
    if isinstance(value, ModuleType):
        return {"kind": "module", "module": value.__name__}
    if not inspect.isclass(value) and not callable(value):
        return {"kind": "constant"}
    if not public.ours:
        return {"kind": "of another package", "module": value.__module__}
    if not inspect.isclass(value):
        return {"kind": "function", "parameters": parameters(value)}
    answer: Entry = {"kind": _kind(value), "parameters": parameters(value)}
    if is_dataclass(value):
        answer["fields"] = [field.name for field in fields(value) if not field.name.startswith("_")]
    if results := [name for name in documented(value) if name.endswith("_")]:
        answer["results"] = sorted(results)
    methods = {name: "property" if isinstance(made, property) else parameters(made) for name, made in members(value)}
    if methods:
        answer["members"] = methods
    return answer


def documented(kind: type) -> list[str]:
    """Return the attributes that the docstrings of a class and its bases list."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "privfcd":
            names.update(dict.fromkeys(sections(vars(base).get("__doc__") or "").get("Attributes", [])))
    return list(names)


def parameters(function: Any) -> dict[str, str]:
    """Return how each parameter is passed, in their order, with its default: "by name = None"."""
    taken = signature(function)
    answer = {}
    for name, parameter in ({} if taken is None else taken.parameters).items():
        if name.startswith("_"):
            continue
        text = _PASSED[parameter.kind.name]
        if parameter.default is not parameter.empty:
            text += f" = {_ADDRESS.sub('', repr(parameter.default))}"
        answer[name] = text
    return answer


def commands(command: click.Command, path: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every command under one, with its options and arguments; hidden ones, which are former names, are left out."""
    names = []
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            if not parameter.hidden:
                names.extend([*parameter.opts, *parameter.secondary_opts])
        else:
            names.append(parameter.human_readable_name)
    yield path, sorted(names)
    for name, sub in _subcommands(command):
        if not sub.hidden:
            yield from commands(sub, f"{path} {name}")


def _subcommands(command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands of a group, which may import them only now."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None:
                yield name, found


def broken(before: Snapshot, after: Snapshot) -> list[str]:
    """Return what worked before and does not now: one sentence for each; former names that still work are none."""
    answer = []
    for module, names in before["modules"].items():
        now = after["modules"].get(module)
        if now is None:
            answer.append(f"module {module} is gone")
            continue
        for name, old in names.items():
            if name in now:
                answer += _entry_broken(f"{module}.{name}", old, now[name])
            elif not _renamed(module, name):
                answer.append(f"{module}.{name} is gone")
    for path, options in before["commands"].items():
        if path not in after["commands"]:
            answer.append(f"command `{path}` is gone")
            continue
        answer += [
            f"`{path}` no longer takes {option}"
            for option in options
            if option not in after["commands"][path] and not _hidden_option(path, option)
        ]
    for path, keys in before.get("json", {}).items():
        gone = sorted(set(keys) - set(after["json"].get(path, ())))
        answer += [f"`{path} --json` no longer prints {key}" for key in gone]
    return answer


def _entry_broken(path: str, old: Entry, new: Entry) -> list[str]:
    if "is" in old or "is" in new:
        return []
    if old["kind"] != new["kind"] and {old["kind"], new["kind"]} != {"class", "dataclass"}:
        return [f"{path} was a {old['kind']} and is a {new['kind']}"]
    answer = _parameters_broken(path, old.get("parameters", {}), new.get("parameters", {}))
    for word in ("fields", "results"):
        gone = sorted(set(old.get(word, [])) - set(new.get(word, [])) - set(new.get("members", {})))
        answer += [f"{path}.{name} is gone" for name in gone if not _renamed_attribute(path, name)]
    for name, was in old.get("members", {}).items():
        now = new.get("members", {}).get(name)
        if now is None:
            if name not in new.get("fields", []) and not _renamed_attribute(path, name):
                answer.append(f"{path}.{name} is gone")
        elif isinstance(was, str) != isinstance(now, str):
            answer.append(f"{path}.{name} was a {'property' if isinstance(was, str) else 'method'} and is none now")
        elif not isinstance(was, str):
            answer += _parameters_broken(f"{path}.{name}", was, now)
    return answer


def _parameters_broken(path: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    answer = []
    former = {name: renamed.successor for name, renamed in _former(path).items()}
    for name, was in old.items():
        now = new.get(former.get(name, name))
        if now is None:
            answer.append(f"{path} no longer takes {name}")
            continue
        (how, had, value), (how_now, has, value_now) = was.partition(" = "), now.partition(" = ")
        if had and not has and how_now != VARIADIC:
            answer.append(f"{path} asks for {name}, which had a default")
        elif had and has and value != value_now:
            answer.append(f"{path}: the default of {name} was {value}, is {value_now}")
        if how_now not in (how, EITHER):
            answer.append(f"{path}: {name} was passed {how}, is passed {how_now}")
    expected = {former.get(name, name) for name in old}
    for name, now in new.items():
        if name not in expected and " = " not in now and now != VARIADIC:
            answer.append(f"{path} asks for {name}, which it did not")
    places = _by_place(new)
    before = [former.get(name, name) for name in _by_place(old) if former.get(name, name) in places]
    if places[: len(before)] != before:
        answer.append(f"{path} takes its arguments in another order: {', '.join(places)}")
    return answer


def _by_place(names: Mapping[str, str]) -> list[str]:
    """Return the parameters that can be given by their place, in order."""
    return [name for name, how in names.items() if how.startswith((EITHER, BY_PLACE))]


def _home(path: str) -> Any:
    """Return what a path stands for: a module's name, or a member of one."""
    module, _, name = path.rpartition(".")
    try:
        holder: Any = import_module(module)
    except ModuleNotFoundError:  # the path of a method: its class comes before it
        holder = _home(module)
    return inspect.getattr_static(holder, name, None)


def _former(path: str) -> Mapping[str, Any]:
    value = _home(path)
    made = getattr(value, "__init__", None) if inspect.isclass(value) else value
    return {} if made is None else former_parameters(made)


def _renamed(module: str, name: str) -> bool:
    return name in getattr(import_module(module), "_RENAMED", {})


def _renamed_attribute(path: str, name: str) -> bool:
    return isinstance(inspect.getattr_static(_home(path), name, None), RenamedAttribute)


def _hidden_option(path: str, option: str) -> bool:
    from privfcd.cli.main import cli

    command: click.Command = cli
    for word in path.split()[1:]:
        command = dict(_subcommands(command))[word]
    return any(option in [*each.opts, *each.secondary_opts] for each in command.params)


def _kind(value: type) -> str:
    if issubclass(value, Exception):
        return "exception"
    if getattr(value, "_is_protocol", False):
        return "protocol"
    return "dataclass" if is_dataclass(value) else "class"
