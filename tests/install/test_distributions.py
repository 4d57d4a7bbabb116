"""What is built and how it installs: sdist and wheel hold what they need, `uvx` and `pipx` run the command."""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import privfcd

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(newcomer: Any) -> Path:
    """The folder with an sdist and a wheel, built from the copy by the backend itself, which must leave nothing there."""
    before = newcomer.listing()
    newcomer.well(".venv/bin/pip install -q --target ../tools hatchling")
    newcomer.well("PYTHONPATH=../tools .venv/bin/python -m hatchling build -d ../dist")
    assert newcomer.listing() == before, "building left files in the checkout"
    folder: Path = newcomer.folder.parent / "dist"
    return folder


def wheel_in(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_whole_package(built: Path, newcomer: Any) -> None:
    inside = {name for name in contents(wheel_in(built)) if name.startswith("privfcd/")}
    tree = {name for name in newcomer.listing("privfcd") if (newcomer.folder / name).is_file()}
    assert inside == {Path(name).as_posix() for name in tree}
    for needed in ("py.typed", "datasets/bundled/NOTICE.md"):
        assert f"privfcd/{needed}" in inside
    assert any(name.startswith("privfcd/reports/html/") and not name.endswith(".py") for name in inside), "templates"
    assert any(name.startswith("privfcd/datasets/bundled/") and name.endswith((".gz", ".csv", ".npz")) for name in inside)


def test_the_metadata_say_what_is_needed(built: Path) -> None:
    held = contents(wheel_in(built))
    (name,) = [name for name in held if name.endswith(".dist-info/METADATA")]
    metadata = Parser().parsestr(held[name].decode())
    assert metadata["Name"] == "privfcd" and metadata["Version"] == privfcd.__version__
    assert metadata["Requires-Python"] == ">=3.11" and metadata["License-Expression"] == "Apache-2.0"
    versions = [
        found for text in metadata.get_all("Classifier", []) for found in re.findall(r"Python :: (3\.\d+)", text)
    ]
    assert versions == ["3.11", "3.12", "3.13"] and f"3.{sys.version_info.minor}" in versions
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert set(metadata.get_all("License-File", [])) == {"LICENSE", "privfcd/datasets/bundled/NOTICE.md"}
    folder = name.removesuffix("METADATA") + "licenses/"
    assert all(folder + file in held for file in metadata.get_all("License-File", []))
    assert wheel_in(built).name.endswith("-py3-none-any.whl"), "no compiler is needed"
    assert b"privfcd = privfcd.__main__:main" in held[name.removesuffix("METADATA") + "entry_points.txt"]


def test_the_sdist_builds_the_same_wheel(built: Path, newcomer: Any, tmp_path: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    newcomer.well(
        f"cd {source} && PYTHONPATH={newcomer.folder.parent}/tools {newcomer.folder}/.venv/bin/python -m hatchling build"
        " -t wheel -d ../wheel"
    )
    assert wheel_in(tmp_path / "wheel").read_bytes() == wheel_in(built).read_bytes(), "built twice, and not the same bytes"
    assert not any(name.startswith("benchmarks") for name in contents(wheel_in(built)))
    for needed in (
        "pyproject.toml",
        "benchmarks/__main__.py",
        "README.md",
        "LICENSE",
        "privfcd/py.typed",
        "tests/conftest.py",
    ):
        assert needed in names
    pages = {path.name for path in ROOT.glob("*.md")} | {path.name for path in ROOT.glob("*.cff")}
    assert pages <= names, f"the sdist lacks {sorted(pages - names)}"
    assert {f"docs/notebooks/{path.name}" for path in (ROOT / "docs" / "notebooks").glob("*.ipynb")} <= names


def test_the_lock_file_holds_what_pyproject_asks_for() -> None:
    """Each requirement, and those of the extras that it says, in a version that fits, with hashes, from no named place."""
    text = (ROOT / "requirements-lock.txt").read_text(encoding="utf-8")
    extras = re.findall(r"--extra (\w+)", text.splitlines()[1])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    locked: dict[str, list[str]] = {}
    for entry in re.split(r"\n(?=\w)", text):
        if found := re.match(r"([\w.-]+)==(\S+)", entry):
            locked.setdefault(found[1], []).append(found[2])
            assert "--hash=sha256:" in entry, found[1]
    for requirement in map(Requirement, wanted):
        assert all(number in requirement.specifier for number in locked[requirement.name.replace("_", "-")]), requirement
    assert "://" not in text


def with_uv(newcomer: Any, no_network: re.Pattern[str], line: str) -> str:
    """Run a line with uv, which has ways to the network of its own; return what it prints."""
    done = newcomer.shell(line)
    if done.returncode and no_network.search(done.stderr):
        pytest.skip(f"uv reaches no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


needs_uv = pytest.mark.skipif(
    shutil.which("uvx", path=str(Path(sys.executable).parent)) is None, reason="uv is not installed (extra `test`)"
)


@needs_uv
@pytest.mark.slow
def test_uvx_runs_the_command(newcomer: Any, no_network: re.Pattern[str]) -> None:
    said = with_uv(newcomer, no_network, f"uvx --python {sys.executable} --from . privfcd --version")
    assert said.strip() == f"privfcd, version {privfcd.__version__}"


@needs_uv
@pytest.mark.slow
def test_pipx_installs_the_command(newcomer: Any, no_network: re.Pattern[str]) -> None:
    place = f"PIPX_HOME={newcomer.folder.parent}/pipx PIPX_BIN_DIR={newcomer.folder.parent}/bin"
    with_uv(newcomer, no_network, f"{place} uvx --python {sys.executable} pipx install .")
    said = newcomer.well("../bin/privfcd noise --epsilon 1 --delta 1e-6 --gaussians 1 --json")
    assert '"epsilon"' in said
