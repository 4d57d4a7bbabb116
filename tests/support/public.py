"""Which names are public, and whether a docstring in NumPy's style says what it should.

It should say every parameter, what comes back, and which errors there are. Functions and classes are held to all of it. A
method is held to it once its docstring has a section of parameters, and `fit` always: what a query or a journal does is
written at its protocol, and not again at each class that follows it.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

_RULE = re.compile(r"-{3,}\s*$")
_ENTRY = re.compile(r"(\*{0,2}\w+(?:, *\*{0,2}\w+)*)(?: ?: .*)?$")
_RETURNS = re.compile(r"(Return|Yield|Say whether)")  # a summary that says it

FLOORS = (
    *("accounting", "ledger", "mechanisms", "graphs", "drawing", "moments", "data", "datasets", "algorithms"),
    *("audits", "reports"),
)
"""Sub-packages whose `__all__` is public."""
MODULES = ("errors", "graphs.metrics", "datasets.simulate")
"""Modules that are public: their `__all__`, or else every class and function that they define."""


@dataclass(frozen=True)
class Public:
    """One public name.

    Attributes
    ----------
    module : str
        Where it is to be imported from, such as "privfcd.graphs".
    name : str
    value : object
        What it stands for.
    """

    module: str
    name: str
    value: Any

    @property
    def ours(self) -> bool:
        """Whether this package defines it; a few names are dp_accounting's."""
        return str(getattr(self.value, "__module__", "")).partition(".")[0] == "privfcd"


def defined(module: ModuleType) -> list[str]:
    """Return a module's `__all__`, or else the functions and classes that it defines and does not hide."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (inspect.isclass(value) or inspect.isfunction(value))
        and value.__module__ == module.__name__
    ]


def public_names() -> Iterator[Public]:
    """Yield every public name, by module and then by name."""
    for path in ("privfcd", *sorted(f"privfcd.{name}" for name in (*FLOORS, *MODULES))):
        module = import_module(path)
        for name in sorted(defined(module)):
            yield Public(path, name, getattr(module, name))


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class that this package defines, in the order of names."""
    seen = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] == "privfcd":
            seen.update(
                {
                    name: value
                    for name, value in vars(base).items()
                    if not name.startswith("_")
                    and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod | property))
                }
            )
    yield from sorted(seen.items())


def signature(function: Any) -> inspect.Signature | None:
    """Return a callable's signature without `self` or `cls`; None where there is none to speak of."""
    if isinstance(function, classmethod | staticmethod):
        bound = not isinstance(function, staticmethod)
        function = function.__func__
    else:
        bound = inspect.isfunction(function) and "." in function.__qualname__.removeprefix("<locals>")
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    parameters = list(found.parameters.values())
    if bound and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    return found.replace(parameters=parameters)


def sections(doc: str) -> dict[str, list[str]]:
    """Return the names that each section of a docstring lists, "Parameters" and the like; stars are left out."""
    lines = inspect.cleandoc(doc).splitlines()
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _RULE.match(following) and line.strip():
            current = found.setdefault(line.strip(), [])
        elif current is not None and (entry := _ENTRY.match(line)) and not _RULE.match(line):
            current.extend(name.strip(" *") for name in entry[1].split(","))
    return found


def faults(name: str, value: Any) -> Iterator[str]:
    """Yield what is missing or wrong in the docstrings of a public function or class, and of its methods."""
    if inspect.isclass(value):
        yield from _class_faults(name, value)
        for member, made in members(value):
            doc = inspect.getdoc(getattr(value, member)) or ""
            if not doc:
                yield f"{name}.{member} has no docstring"
            elif not isinstance(made, property) and (member == "fit" or "Parameters" in sections(doc)):
                yield from _function_faults(f"{name}.{member}", made, doc)
    elif callable(value):
        yield from _function_faults(name, value, inspect.getdoc(value) or "")


def _class_faults(name: str, kind: type) -> Iterator[str]:
    doc = vars(kind).get("__doc__") or ""
    if not doc or doc.startswith(f"{kind.__name__}("):  # what dataclasses write by themselves
        yield f"{name} has no docstring"
        return
    if issubclass(kind, Exception) or getattr(kind, "_is_protocol", False):
        return
    documented = sections(doc)
    listed = [
        name
        for base in kind.__mro__
        for section in ("Parameters", "Attributes")
        for name in sections(vars(base).get("__doc__") or "").get(section, [])
    ]
    taken = signature(kind)
    names = [] if taken is None else [parameter for parameter in taken.parameters if not parameter.startswith("_")]
    for parameter in names:
        if parameter not in listed:
            yield f"{name}: parameter {parameter} is not documented"
    for parameter in documented.get("Parameters", []):
        if parameter not in names:
            yield f"{name}: the docstring documents {parameter}, which it does not take"


def _function_faults(name: str, function: Any, doc: str) -> Iterator[str]:
    if not doc:
        yield f"{name} has no docstring"
        return
    taken = signature(function)
    documented = sections(doc)
    names = [] if taken is None else list(taken.parameters)
    for parameter in names:
        if parameter not in documented.get("Parameters", []):
            yield f"{name}: parameter {parameter} is not documented"
    for parameter in documented.get("Parameters", []):
        if parameter not in names:
            yield f"{name}: the docstring documents {parameter}, which it does not take"
    back = inspect.Signature.empty if taken is None else taken.return_annotation
    if back not in ("None", "NoReturn", "Self", None, inspect.Signature.empty):  # self is returned by convention
        if not {"Returns", "Yields"} & documented.keys() and not _RETURNS.match(doc):
            yield f"{name} does not say what it returns"
    if "Raises" not in documented and raises(function):
        yield f"{name} does not say what it raises"


def raises(function: Any) -> bool:
    """Whether a function's own lines raise an error on purpose; what its calls raise is not looked at."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        return False
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def documented(kind: type) -> list[str]:
    """Return the attributes that the docstrings of a class and its bases list."""
    names: dict[str, None] = {}
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "privfcd":
            names.update(dict.fromkeys(sections(vars(base).get("__doc__") or "").get("Attributes", [])))
    return list(names)
