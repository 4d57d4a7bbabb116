"""Names that changed: the old one works for one minor release, and warns of the new one.

A public name that is renamed or moved stays usable from version `since` until version `until`, exclusive. Four kinds are
served: names of modules (`renamed_name`, called by a module's `__getattr__`), parameters (`renamed_parameters`), words that
a parameter may be (`renamed_value`) and attributes of classes (`RenamedAttribute`). All warn with `DeprecationWarning`, at
the line that uses the old name.

    _RENAMED = {"old_name": Renamed("new_name", since="0.2", until="0.3")}

    def __getattr__(name: str) -> Any:
        return renamed_name(__name__, name, _RENAMED)
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from privfcd.checks import refuse
from privfcd.errors import InvalidParameter

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_TABLE = "__privfcd_renamed__"


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version such as "0.2" or "1.4.0", without zeros at the end.

    Parameters
    ----------
    version : str
        Whole numbers, separated by dots; "0.2.dev1" and the like count as "0.2".

    Raises
    ------
    InvalidParameter
        It starts with no number.
    """
    numbers: list[int] = []
    for part in str(version).split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part))
    if not numbers:
        raise refuse("version", version, 'numbers separated by dots, such as "0.2"')
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


@dataclass(frozen=True)
class Renamed:
    """What a former name is called now.

    Parameters
    ----------
    successor : str
        The new name: of the same module, function or class; or, for names of modules, a full path such as
        "privfcd.graphs.compare".
    since : str
        The version that has the new name.
    until : str
        The version that no longer knows the old one: at least the next minor release after `since`.

    Raises
    ------
    InvalidParameter
        The old name would not live for one minor release.
    """

    successor: str
    since: str
    until: str

    def __post_init__(self) -> None:
        first, last = ((*release(version), 0, 0) for version in (self.since, self.until))
        if last[:2] <= first[:2]:
            raise refuse("until", self.until, f"at least one minor release after {self.since!r}")

    def warning(self, old: str, new: str) -> str:
        """Return the warning's text.

        Parameters
        ----------
        old, new : str
            Both names, as their user writes them.
        """
        return f"{old} is called {new} since privfcd {self.since}; the old name goes in privfcd {self.until}"


def renamed_name(module: str, name: str, renamed: Mapping[str, Renamed]) -> Any:
    """Return what a former name of a module stands for now, with a warning; to be called by the module's `__getattr__`.

    Parameters
    ----------
    module : str
        The module's `__name__`.
    name : str
        The name that was asked for, and that the module does not have.
    renamed : mapping of str to Renamed
        The module's former names.

    Raises
    ------
    AttributeError
        The module never had that name, or no longer knows it.
    """
    entry = renamed.get(name)
    if entry is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, _, new = entry.successor.rpartition(".")
    home = home or module
    value = getattr(import_module(home), new)
    # 1 is this line, 2 the module's __getattr__, 3 the line that uses the name
    warnings.warn(entry.warning(f"{module}.{name}", f"{home}.{new}"), DeprecationWarning, stacklevel=3)
    return value


def renamed_parameters(
    renamed: Mapping[str, Renamed],
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Let a function take former names of its parameters, with a warning.

    The signature shows the new names only, so `get_params` and scikit-learn's `clone` do as well; `set_params` of our
    estimators takes both.

    Parameters
    ----------
    renamed : mapping of str to Renamed
        Former names of parameters that can be given by name.

    Returns
    -------
    callable
        The decorator.

    Raises
    ------
    InvalidParameter
        While decorating, where the function has no parameter of a new name, or has one of an old name; in a call, where
        both names are given.
    """

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        by_name = [
            parameter.name
            for parameter in inspect.signature(function).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ]
        for old, entry in renamed.items():
            if entry.successor not in by_name or old in by_name:
                raise refuse("renamed", {old: entry.successor}, f"from a former name to one of {', '.join(by_name)}")

        @wraps(function)
        def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            return function(*args, **_current(renamed, kwargs, function.__qualname__, stacklevel=3))

        setattr(wrapper, _TABLE, dict(renamed))
        return wrapper

    return decorate


def current_parameters(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a function by their new names, with a warning for each that was given by a former one.

    Parameters
    ----------
    function : callable
        What takes them; decorated with `renamed_parameters` or not.
    given : mapping of str to object
        Values by name.

    Raises
    ------
    InvalidParameter
        Both names of one parameter are given.
    """
    return _current(former_parameters(function), given, function.__qualname__, stacklevel=4)


def former_parameters(function: Callable[..., Any]) -> dict[str, Renamed]:
    """Return the former names that a function's parameters can still be given by.

    Parameters
    ----------
    function : callable
        Decorated with `renamed_parameters` or not.
    """
    return dict(getattr(function, _TABLE, {}))


def _current(renamed: Mapping[str, Renamed], given: Mapping[str, Any], owner: str, stacklevel: int) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    for name, value in given.items():
        entry = renamed.get(name)
        if entry is not None:
            if entry.successor in given:
                raise InvalidParameter(f"{name} is the former name of {entry.successor}: give {entry.successor} only")
            place = owner.removesuffix(".__init__")
            text = entry.warning(f"parameter {name} of {place}", entry.successor)
            warnings.warn(text, DeprecationWarning, stacklevel=stacklevel)
        answer[name if entry is None else entry.successor] = value
    return answer


def renamed_value(parameter: str, value: Any, renamed: Mapping[str, Renamed], *, stacklevel: int = 2) -> Any:
    """Return what a parameter's value is called now, with a warning where a former word was given.

    For parameters that are kept as they were given and are looked at later, such as an estimator's in `fit`.

    Parameters
    ----------
    parameter : str
        Its name.
    value : object
        What was given; anything but a former word is returned as it is.
    renamed : mapping of str to Renamed
        The former words.
    stacklevel : int
        As of `warnings.warn`, counted from the caller: 2 is the caller's caller.
    """
    entry = renamed.get(value) if isinstance(value, str) else None
    if entry is None:
        return value
    text = entry.warning(f"{parameter}={value!r}", f"{parameter}={entry.successor!r}")
    warnings.warn(text, DeprecationWarning, stacklevel=stacklevel + 1)
    return entry.successor


class RenamedAttribute:
    """A class's attribute under its former name: reading it gives the new one, with a warning.

        edges_ = RenamedAttribute(Renamed("causal_graph_", since="0.2", until="0.3"))

    Parameters
    ----------
    entry : Renamed
        The new name, of the same class or of its instances.
    """

    def __init__(self, entry: Renamed) -> None:
        self.entry = entry
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = getattr(instance, self.entry.successor)  # first: an estimator that is not fitted has neither
        kind = type(instance).__name__
        text = self.entry.warning(f"{kind}.{self._name}", f"{kind}.{self.entry.successor}")
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return value
