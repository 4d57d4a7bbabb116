"""The package's face: names resolve, and importing it is light."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import privfcd
from tests.support.public import FLOORS

HEAVY = (
    *("numpy", "scipy", "pandas", "networkx", "dp_accounting", "matplotlib", "opendp", "numba", "polars", "pyarrow"),
    *("jinja2", "rich", "click", "flwr", "sklearn", "causallearn", "pgmpy"),
)


def output_of(code: str) -> str:
    """Run code in a fresh interpreter that finds this package."""
    env = {**os.environ, "PYTHONPATH": str(Path(privfcd.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout


def loaded_after(statement: str) -> set[str]:
    """Return which heavy packages a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys\nprint(chr(10) + ' '.join(name for name in {HEAVY!r} if name in sys.modules))"
    return set(output_of(code).splitlines()[-1].split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_after("import privfcd; dir(privfcd); privfcd.__version__") == set()


def test_help_and_refusals_load_nothing_heavy_but_click() -> None:
    """What keeps `privfcd --help` quick; the clock is the benchmark's (`python -m benchmarks bench startup`)."""
    for words in (["--help"], ["--version"], ["nonsense"], []):
        statement = f"try:\n    from privfcd.cli import main; main({words!r})\nexcept SystemExit: pass"
        assert loaded_after(statement) == {"click"}, words


def test_the_help_of_a_command_loads_no_science() -> None:
    for command in ("learn", "demo", "noise", "ledger", "audit"):
        statement = f"try:\n    from privfcd.cli import main; main([{command!r}, '--help'])\nexcept SystemExit: pass"
        assert not loaded_after(statement) & {"scipy", "pandas", "matplotlib", "opendp", "numba", "polars", "sklearn"}


def test_tables_and_estimators_need_no_pandas_opendp_or_matplotlib() -> None:
    loaded = loaded_after("import privfcd; privfcd.FedSparseBNSL, privfcd.PrivateTable, privfcd.learn, privfcd.Budget")
    assert not loaded & {"opendp", "pandas", "polars", "pyarrow", "matplotlib", "numba", "jinja2", "rich", "sklearn"}


@pytest.mark.parametrize("name", privfcd.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(privfcd, name) is not None
    assert name in dir(privfcd)


@pytest.mark.parametrize("floor", FLOORS)
def test_every_name_of_every_floor_resolves(floor: str) -> None:
    module = import_module(f"privfcd.{floor}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_unknown_names_are_refused_and_the_package_is_typed() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        privfcd.nonsense  # noqa: B018
    assert files("privfcd").joinpath("py.typed").is_file()


ORDER = (
    *("errors", "amounts", "markup", "parallel", "checks", "reading", "whole_files"),
    *("accounting", "ledger", "mechanisms", "graphs", "drawing", "moments", "data", "datasets"),
    *("algorithms", "effects", "audits", "reports", "runs", "cli", "ui", "__main__"),
)
"""From the ground up: what the package consists of."""


def imported(file: Path) -> set[str]:
    """Return the parts of the package that a file imports, at its head or within a function."""
    parts = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        parts.update(name.split(".")[1] for name in names if name.startswith("privfcd."))
    return parts - {"__version__"}


def test_imports_go_down_the_floors_only() -> None:
    """No file imports from a floor above its own."""
    package = Path(privfcd.__file__).parent
    wrong = []
    for file in sorted(package.rglob("*.py")):
        own = file.relative_to(package).with_suffix("").parts[0]
        if own != "__init__":
            level = ORDER.index(own)
            wrong += [f"{file.relative_to(package)} -> {part}" for part in imported(file) if ORDER.index(part) > level]
    assert not wrong


def test_lower_floors_do_not_import_upper_ones() -> None:
    """A coordinator never imports data; accounting imports nothing above it."""
    upper = ("privfcd.data", "privfcd.datasets", "privfcd.algorithms", "privfcd.audits", "privfcd.cli", "privfcd.reports")
    floors: list[tuple[str, tuple[str, ...]]] = [("privfcd.accounting", ("privfcd.mechanisms", *upper))]
    floors += [(f"privfcd.{floor}", upper) for floor in ("ledger", "mechanisms", "moments", "graphs")]
    messages = tuple(name for name in upper if name != "privfcd.algorithms")
    floors += [(f"privfcd.{floor}", messages) for floor in ("algorithms.protocol", "runs.wire")]
    # one interpreter: what one floor is barred from, so are those before it: nothing barred is there already
    code = "\n".join(
        ["import sys"]
        + [f"import {floor}\nprint([m for m in sys.modules if m.startswith({barred!r})])" for floor, barred in floors]
    )
    found = output_of(code).splitlines()
    assert dict(zip((floor for floor, _ in floors), found, strict=True)) == {floor: "[]" for floor, _ in floors}
