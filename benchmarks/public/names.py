"""Which names are public: those in the `__all__` of the package and its floors, and what their modules define."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

FLOORS = ("accounting", "mechanisms", "moments", "data", "graphs", "federation", "algorithms", "audits", "reports")
"""Sub-packages whose `__all__` is public."""
MODULES = ("errors", "graphs.metrics", "data.simulate")
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
