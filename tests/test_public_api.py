"""Public names: documented, listed on their page, one thing wherever they come from, loaded from where types say."""

from __future__ import annotations

import ast
import re
import warnings
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import privfcd
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.registry import LEARNERS, learner_class
from tests.support.public import FLOORS, Public, documented, faults, members, public_names, sections

ROOT = Path(__file__).parents[1]
FOUND = {id(public.value): public for public in public_names() if public.ours and callable(public.value)}
NAMES = list(FOUND.values())  # each once: by its floor where it has one, as modules come after the package itself


@pytest.mark.parametrize("public", NAMES, ids=lambda public: f"{public.module.removeprefix('privfcd.')}.{public.name}")
def test_every_public_name_is_documented(public: Public) -> None:
    assert list(faults(f"{public.module}.{public.name}", public.value)) == []


def test_the_page_lists_every_name_once_for_each_place_that_it_comes_from() -> None:
    """docs/api.md has one line for each name of the package and of its floors."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    assert len(listed) == len(set(listed))
    top = {f"pf.{name}" for name in privfcd.__all__ if name != "__version__"}
    below = {
        f"{public.module.removeprefix('privfcd.')}.{public.name}"
        for public in public_names()
        if public.module.removeprefix("privfcd.") in FLOORS and public.name not in privfcd.__all__
    }
    assert {name for name in listed if name.startswith("pf.")} == top
    assert {name for name in listed if not name.startswith("pf.")} == below


def seen_by_type_checkers(module: ModuleType) -> dict[str, str]:
    """Return the names that a module imports for type checkers only, to hand them on, with where each comes from."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen: dict[str, str] = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names:
            if alias.asname is not None:  # those without are for the module's own annotations
                assert alias.asname == alias.name and alias.name not in seen
                seen[alias.name] = node.module
    return seen


def test_what_type_checkers_see_is_what_is_loaded() -> None:
    """The imports under TYPE_CHECKING are the table of lazy names, one by one, with the same homes."""
    homes = {name: f"privfcd.{home}" for name, home in privfcd._HOME_OF.items()}
    modules = {name: path.rpartition(".")[0] for name, path in privfcd._MODULES.items()}
    seen = seen_by_type_checkers(privfcd)
    assert seen == {**homes, **modules}
    assert privfcd.__all__ == ["__version__", *sorted(seen)]
    lazy = [module for floor in FLOORS if hasattr(module := import_module(f"privfcd.{floor}"), "_HOME_OF")]
    assert [module.__name__ for module in lazy] == ["privfcd.algorithms", "privfcd.reports"]
    for module in lazy:
        seen = seen_by_type_checkers(module)
        assert seen == {name: f"{module.__name__}.{home}" for name, home in module._HOME_OF.items()}
        assert sorted(seen) == sorted(module.__all__)


def test_a_name_is_the_same_thing_wherever_it_comes_from() -> None:
    """The package re-exports its floors' names, and no two floors use one name for different things."""
    found: dict[str, Any] = {}
    for public in public_names():
        if public.module.removeprefix("privfcd.") in FLOORS or public.module == "privfcd":
            assert found.setdefault(public.name, public.value) is public.value, public.name


def fitted() -> list[Estimator]:
    """Return every estimator, fitted to the open tables of two parties."""
    rng = np.random.default_rng(0)
    weights = np.array([[0.0, 1.2, 0.0], [0.0, 0.0, -0.9], [0.0, 0.0, 0.0]])
    parts = [rng.normal(size=(60, 3)) @ np.linalg.inv(np.eye(3) - weights) for _ in range(2)]
    tables = [privfcd.PrivateTable(rows, name=f"party-{number}") for number, rows in enumerate(parts)]
    made: list[Any] = [learner_class(method)() for method in LEARNERS]
    assert {type(model).__name__ for model in made} <= set(privfcd.__all__)
    assert len(made) == len(LEARNERS)
    for model in made:
        if isinstance(model, privfcd.FedSparseBNSL | privfcd.FedBNSL):
            model.set_params(rounds=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a test of the data's assumptions says what it found
            model.fit(tables)  # type: ignore[attr-defined]
    return made


def test_results_are_those_of_the_docstrings() -> None:
    wrong = []
    for model in fitted():
        kind = type(model)
        results = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
        results |= {name for name, made in members(kind) if name.endswith("_") and isinstance(made, property)}
        listed = {name for name in documented(kind) if name.endswith("_")}
        wrong += [f"{kind.__name__}.{name} is not in the docstring" for name in sorted(results - listed)]
        absent = {name for name in listed if not hasattr(model, name)} - {"edge_stability_"}  # set by `edge_stability`
        wrong += [f"{kind.__name__}.{name} is in the docstring, and fit does not set it" for name in sorted(absent)]
    assert not wrong, "\n".join(wrong)


def says_too_little(value: int, other: int) -> int:
    """Add.

    Parameters
    ----------
    value : int
        One.
    gone : int
        Was here once.
    """
    if other < 0:
        raise ValueError(other)
    return value + other


def test_what_docstrings_lack_is_seen() -> None:
    assert list(faults("f", says_too_little)) == [
        "f: parameter other is not documented",
        "f: the docstring documents gone, which it does not take",
        "f does not say what it returns",
        "f does not say what it raises",
    ]
    assert list(faults("f", lambda value: value)) == ["f has no docstring"]
    text = "Add.\n\nParameters\n----------\nfirst, second : int\n    Two.\n*rest : int\n\nReturns\n-------\nint\n    Sum.\n"
    assert sections(text) == {"Parameters": ["first", "second", "rest"], "Returns": ["int"]}
