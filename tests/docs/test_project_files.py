"""The changelog and the security policy speak of the version that there is."""

from __future__ import annotations

import re
from pathlib import Path

import privfcd

ROOT = Path(__file__).parents[2]
SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_newest_version_in_the_changelog_is_the_packages() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (?:unreleased|\d{4}-\d{2}-\d{2})$", text, re.M)
    assert versions[0] == privfcd.__version__
    assert len(re.findall(r"^## ", text, re.M)) == len(versions)
    assert set(re.findall(r"^### (.+)$", text, re.M)) <= SECTIONS


def test_this_version_is_supported() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    minor = ".".join(privfcd.__version__.split(".")[:2])
    assert f"| {minor}.x | yes |" in text
