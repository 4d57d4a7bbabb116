"""The package's face: names resolve, and importing it is light."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import privfcd

HEAVY = ("dp_accounting", "opendp", "pandas", "matplotlib", "scipy", "numba", "networkx", "numpy", "rich")


def output_of(code: str) -> str:
    """Run code in a fresh interpreter that finds this package."""
    env = {**os.environ, "PYTHONPATH": str(Path(privfcd.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def loaded_after(statement: str) -> set[str]:
    """Return which heavy packages a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    return set(output_of(code).split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import privfcd; dir(privfcd); privfcd.__version__") == set()


def test_the_command_line_loads_little_before_it_is_asked() -> None:
    assert not loaded_after("import privfcd.cli") & {"dp_accounting", "opendp", "pandas", "matplotlib", "scipy"}


def test_tables_and_estimators_need_no_pandas_opendp_or_matplotlib() -> None:
    loaded = loaded_after("import privfcd; privfcd.FedSparseBNSL, privfcd.PrivateTable, privfcd.learn, privfcd.Budget")
    assert not loaded & {"opendp", "pandas", "matplotlib", "numba"}


@pytest.mark.parametrize("name", privfcd.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(privfcd, name) is not None
    assert name in dir(privfcd)


@pytest.mark.parametrize(
    "floor", ["accounting", "mechanisms", "data", "graphs", "federation", "algorithms", "audits", "reports"]
)
def test_every_name_of_every_floor_resolves(floor: str) -> None:
    module = import_module(f"privfcd.{floor}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_unknown_names_are_refused_and_the_package_is_typed() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        privfcd.nonsense  # noqa: B018
    assert files("privfcd").joinpath("py.typed").is_file()


def test_lower_floors_do_not_import_upper_ones() -> None:
    """A coordinator never imports data; accounting imports nothing above it."""
    upper = ("privfcd.data", "privfcd.algorithms", "privfcd.audits", "privfcd.cli", "privfcd.reports")
    for module, barred in (
        ("privfcd.accounting", ("privfcd.mechanisms", *upper)),
        ("privfcd.mechanisms", upper),
        ("privfcd.moments", upper),
        ("privfcd.graphs", upper),
        ("privfcd.federation", upper),
    ):
        code = f"import {module}, sys; print([m for m in sys.modules if m.startswith({barred!r})])"
        assert output_of(code).strip() == "[]", module
