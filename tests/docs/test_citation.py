"""CITATION.cff has what version 1.2.0 of its format requires, and says what the package says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import privfcd
from privfcd.algorithms.registry import LEARNERS

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
TYPES = {"article", "book", "conference-paper", "proceedings", "report", "software", "thesis", "unpublished"}


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    answer: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    return answer


def people(authors: list[dict[str, str]]) -> bool:
    """Return whether each is a person with a family name, or an entity with a name."""
    return bool(authors) and all(set(one) in ({"name"}, {"family-names", "given-names"}) for one in authors)


def test_required_keys_are_there(citation: dict[str, Any]) -> None:
    assert citation["cff-version"] == "1.2.0"
    assert citation["message"] and citation["title"].startswith("privfcd")
    assert citation["type"] == "software"
    assert people(citation["authors"])


def test_version_and_licence_are_the_packages(citation: dict[str, Any]) -> None:
    assert citation["version"] == privfcd.__version__
    assert f'license = "{citation["license"]}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_references_are_whole(citation: dict[str, Any]) -> None:
    for reference in citation["references"]:
        assert reference["type"] in TYPES and reference["title"], reference
        assert people(reference["authors"]), reference
        assert isinstance(reference["year"], int), reference
        assert "doi" not in reference or re.fullmatch(r"10\.\d{4,}/\S+", reference["doi"]), reference


def test_every_method_has_a_source(citation: dict[str, Any]) -> None:
    notes = " ".join(reference["notes"] for reference in citation["references"])
    assert {place.partition(":")[2] for place in LEARNERS.values()} <= set(re.findall(r"\w+", notes))
