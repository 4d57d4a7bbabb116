"""The benchmark of starts and sizes: its parts on small cases, and that what it prints of this environment is right."""

from __future__ import annotations

import os
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import bench_startup
from benchmarks.__main__ import studies

pytest.importorskip("packaging")


def distribution(folder: Path, name: str, requires: list[str], size: int, extras: tuple[str, ...] = ()) -> None:
    """Write an installed distribution: one file of `size` bytes, and its metadata."""
    stem = name.replace("-", "_")
    (folder / f"{stem}.py").write_bytes(b"#" * size)
    info = folder / f"{stem}-1.0.dist-info"
    info.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
    lines += [f"Provides-Extra: {extra}" for extra in extras] + [f"Requires-Dist: {text}" for text in requires]
    (info / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{stem}.py,,\nabsent.py,,\n", encoding="utf-8")


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four distributions: one that needs another, and more for its extras; one of its needs is for no system."""
    needs = [
        "Low.Level",
        'nowhere; sys_platform == "never"',
        'extra_part[deep]; extra == "more"',
        'gone; extra == "lost"',
    ]
    distribution(tmp_path, "top", needs, 1_500_000, ("more", "lost"))
    distribution(tmp_path, "low-level", [], 20)
    distribution(tmp_path, "extra-part", ['deepest; extra == "deep"', "low-level"], 3_000_000, ("deep",))
    distribution(tmp_path, "deepest", ["top[more]"], 4_000_000)  # a circle
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("small_world")
def test_sizes_go_along_requirements_and_extras() -> None:
    assert bench_startup.closure("top") == ({"top": 1_500_000, "low-level": 20}, set())
    sizes, absent = bench_startup.closure("top", ("more",))
    assert sizes == {"top": 1_500_000, "low-level": 20, "extra-part": 3_000_000, "deepest": 4_000_000} and not absent
    assert bench_startup.closure("top", ("lost",))[1] == {"gone"}
    assert bench_startup.extras_of("top") == ["more", "lost"]


@pytest.mark.usefixtures("small_world")
def test_sizes_are_printed_by_distribution_and_extra(capsys: pytest.CaptureFixture[str]) -> None:
    bench_startup.print_sizes("top")
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    assert lines[0] == ["minimal", "installation:", "2", "MB"]
    assert lines[1] == ["top", "1.5", "MB"] and lines[2][-1] == "low-level"
    assert lines[4][:2] == ["more", "7"] and lines[4][-2:] == ["deepest,", "extra-part"]
    assert lines[5][0] == "lost" and lines[5][-1] == "gone"


def test_what_is_not_installed_is_said() -> None:
    assert bench_startup.installed("no-such-distribution-anywhere") is None
    assert bench_startup.closure("no-such-distribution-anywhere") == ({}, {"no-such-distribution-anywhere"})
    with pytest.raises(metadata.PackageNotFoundError):
        bench_startup.print_sizes("no-such-distribution-anywhere")


def test_names_are_compared_as_indexes_do() -> None:
    assert bench_startup.canonical("Dp_Accounting") == bench_startup.canonical("dp.-accounting") == "dp-accounting"


def test_sizes_of_a_real_distribution_are_those_on_disk() -> None:
    found = bench_startup.installed("click")
    files = metadata.distribution("click").files
    assert found is not None and files is not None
    paths = {os.fspath(file.locate()) for file in files}  # type: ignore[arg-type]
    assert found.size == sum(os.stat(path).st_size for path in paths if os.path.isfile(path)) > 10_000


def test_starts_are_measured_and_what_they_load() -> None:
    wall, processor = bench_startup.seconds("sum(range(10**6))", 1)
    assert wall > 0 and processor >= 0
    loaded = bench_startup.loaded("import json")
    assert "json" in loaded and "numpy" not in loaded


def test_a_program_that_ends_itself_is_listened_to() -> None:
    assert "decimal" in bench_startup.loaded("import decimal, sys; sys.exit(0)")


def test_the_command_is_there() -> None:
    answer = CliRunner().invoke(studies, ["bench", "startup", "--help"])
    assert answer.exit_code == 0 and "import" in answer.output
