"""The README has an example of at most five lines for each of the three uses (the tests of the docs run them)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
USES = {"What sigma?": {"calibrate"}, "A graph within a budget": {"learn"}, "Catch it lying": {"audit"}}


def examples() -> dict[str, list[str]]:
    """Return the Python blocks below each bold phrase of the section on the three uses."""
    section = README.read_text(encoding="utf-8").partition("## Three uses")[2].partition("\n## ")[0]
    pieces = re.split(r"^\*\*(.+?)[:,.]?\*\*", section, flags=re.MULTILINE)
    return {
        title: re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for title, text in zip(pieces[1::2], pieces[2::2], strict=True)
    }


def test_each_use_has_an_example_of_at_most_five_lines() -> None:
    found = examples()
    assert set(USES) == set(found)
    for title, names in USES.items():
        (code,) = found[title]
        assert len([line for line in code.splitlines() if line.strip()]) <= 5, title
        called = {
            node.attr
            for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pf"
        }
        assert names <= called, f"{title}: {sorted(names - called)} is what this use is about"
