"""The example notebooks as they are stored: valid, without outputs, and on public names only.

Building the documentation's site runs them (docs/conf.py; a cell that fails fails the build), so that they are not run here.
"""

from __future__ import annotations

import ast
import json
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import privfcd
from tests.support.public import FLOORS, defined

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
PUBLIC = {"privfcd", *(f"privfcd.{floor}" for floor in FLOORS)}

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    """Return a notebook's cells of one kind."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in stored["cells"] if cell["cell_type"] == kind]


def code(path: Path) -> ast.Module:
    """Return all code of a notebook, which must be Python without magics."""
    return ast.parse("\n".join("".join(cell["source"]) for cell in cells(path, "code")), filename=path.name)


@each
def test_it_is_valid_and_stored_without_outputs(path: Path) -> None:
    stored = json.loads(path.read_text(encoding="utf-8"))
    if find_spec("nbformat") is not None:
        import_module("nbformat").validate(stored)
    assert stored["metadata"]["kernelspec"]["name"] == "python3"
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells(path, "code"))
    assert len({cell["id"] for cell in stored["cells"]}) == len(stored["cells"])


@each
def test_it_has_one_title_and_says_what_its_cells_do(path: Path) -> None:
    texts = ["".join(cell["source"]) for cell in cells(path, "markdown")]
    assert texts[0].startswith("# ") and not any(text.startswith("# ") for text in texts[1:])
    assert len(texts) >= 4


@each
def test_it_uses_public_names_only(path: Path) -> None:
    tree = code(path)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("privfcd"):
            assert node.module in PUBLIC, f"{node.module} is not public"
            for alias in node.names:
                assert alias.name in defined(import_module(node.module)), f"{node.module}.{alias.name} is not public"
        if isinstance(node, ast.Import):
            imported.update({alias.asname or alias.name: alias.name for alias in node.names})
    assert imported["pf"] == "privfcd"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pf":
            public = {*privfcd.__all__, *(room.removeprefix("privfcd.") for room in PUBLIC)}
            assert node.attr in public, f"pf.{node.attr} is not public"
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_") or node.attr.startswith("__")


def test_together_they_show_frames_in_and_graphs_out() -> None:
    text = " ".join("".join(cell["source"]) for other in NOTEBOOKS for cell in cells(other, "code"))
    assert len(NOTEBOOKS) == 4
    for word in (
        "pd.DataFrame(",
        "pl.DataFrame(",
        "causal_graph_",
        "privacy_report",
        "BudgetExceeded",
        "edge_stability",
        "audit",
    ):
        assert word in text
