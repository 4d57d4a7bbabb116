"""Nothing that a command writes goes over a ledger, a table or its own configuration."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ledger(run: Run, tmp_path: Path) -> Path:
    """A ledger that no run below uses."""
    path = tmp_path / "other.txt"
    assert run("ledger", "init", str(path), "--name", "other", "--epsilon", "5", "--delta", "1e-5")[0] == 0
    return path


@pytest.mark.parametrize("command", ["learn", "moments", "init"])
def test_no_ledger_is_written_over_whoever_uses_it(
    run: Run, files: list[str], ledger: Path, tmp_path: Path, command: str
) -> None:
    before = ledger.read_bytes()
    words = {
        "learn": ["learn", *files, "--epsilon", "1", "--report", str(ledger)],
        "moments": [
            "moments",
            "release",
            *files,
            "--epsilon",
            "1",
            "-o",
            str(tmp_path / "m.npz"),
            "--report",
            str(ledger),
        ],
        "init": ["init", str(ledger), "--force"],
    }[command]
    code, out, err = run(*words)
    assert code == 2 and out == "" and "SQLite database, such as a ledger" in err and ledger.read_bytes() == before


def test_a_report_is_not_written_over_the_configuration(run: Run, files: list[str], tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text("[study]\nepsilon = 1\nbounds = 9\n")
    (tmp_path / "link.txt").symlink_to(study)
    for report in (study, tmp_path / "link.txt"):
        code, _, err = run("learn", *files, "--config", str(study), "--report", str(report), "--dry-run")
        assert code == 2 and "is read in the same run" in err
    assert study.read_text().startswith("[study]")


def test_init_is_not_written_over_a_table(run: Run, files: list[str]) -> None:
    before = Path(files[0]).read_bytes()
    code, _, err = run("init", files[0], "--files", files[0], "--force")
    assert code == 2 and "is read in the same run" in err and Path(files[0]).read_bytes() == before


def test_a_coordinator_does_not_write_a_graph_over_its_study(run: Run, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        'schema = 1\nname = "s"\nmethod = "fed-sparse"\nparties = ["n", "s"]\ncolumns = ["a", "b"]\n'
        "[budget]\nepsilon = 1.0\ndelta = 1e-7\n"
    )
    (tmp_path / "graph.json").symlink_to(study)
    words = ["coordinator", "run", "--config", str(study), "--superlink", "127.0.0.1:1", "--insecure", "--dry-run"]
    assert run(*words)[0] == 0
    code, _, err = run(*words, "--graph", str(tmp_path / "graph.json"))
    assert code == 2 and "is read in the same run" in err
