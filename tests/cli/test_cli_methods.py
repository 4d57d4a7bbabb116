"""privfcd learn with every method: plans, stability, reports, progress, and refusals in the shell's words."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import privfcd.cli.progress as progress_module
from privfcd.algorithms.registry import LEARNERS
from privfcd.cli.commands import Command, option
from privfcd.cli.flags import in_shell_words

Run = Callable[..., tuple[int, str, str]]
SECURE = ["--epsilon", "20", "--bounds", "9"]
EXTRA = {"fed-sparse": ["--rounds", "4", "--updates", "3"], "fed-bnsl": ["--rounds", "4"]}


def words_of(method: str, files: list[str], *more: str) -> list[str]:
    return ["learn", *files, "--method", method, *EXTRA.get(method, []), *more]


@pytest.mark.parametrize("method", LEARNERS)
def test_every_method_learns_plans_and_says_how_sure_it_is(run: Run, files: list[str], method: str) -> None:
    noise = [*SECURE, "--noise", "simulated", "--seed", "4"]
    code, out, err = run(*words_of(method, files, *noise, "--dry-run", "--json"))
    assert code == 0 and err == "", err
    plan = json.loads(out)
    code, out, err = run(*words_of(method, files, *noise, "--stability", "3", "--json"))
    assert code == 0 and err.count("\n") == err.count("Warning: "), err
    found = json.loads(out)
    assert plan["method"] == LEARNERS[method].partition(":")[2] and plan["dry_run"]
    for planned, party in zip(plan["parties"], found["privacy"]["parties"], strict=True):
        assert planned["party"] == party["party"] and planned["epsilon"] == pytest.approx(party["epsilon"])
        assert [part["count"] for part in planned["parts"]] == [part["planned"] for part in party["parts"]]
        assert [part["event"] for part in planned["parts"]] == [part["event"] for part in party["parts"]]
    if found["stability"] is not None:
        pairs = {frozenset((row["from"], row["to"])) for row in found["stability"]["pairs"]}
        assert method == "fed-sparse" or found["stability"]["draws"] == 3
        assert found["stability"]["method"] and (not found["edges"] or pairs)
    else:
        assert method in ("fed-bnsl", "peri", "iperi"), "moments that stay at the parties cannot be noised again"
        assert found["stability_note"].startswith("Stability: not known; ")
    code, out, _ = run(*words_of(method, files, *noise, "--stability", "2"))
    assert code == 0 and ("Stability:" in out)


@pytest.mark.parametrize("method", LEARNERS)
def test_every_method_runs_without_privacy(run: Run, files: list[str], method: str) -> None:
    code, out, err = run(*words_of(method, files, "--no-privacy", "--json"))
    answer = json.loads(out)
    assert code == 0 and err.count("\n") == err.count("Warning: ")
    assert answer["privacy"]["epsilon"] == "inf" and answer["stability"] is None


def test_discrete_columns_have_declared_levels(run: Run, tmp_path: Path) -> None:
    paths = []
    for seed in range(2):
        rows = np.random.default_rng(seed).integers(0, 3, size=(300, 3))
        rows[:, 1] = np.where(np.random.default_rng(9 + seed).random(300) < 0.9, rows[:, 0], rows[:, 1])
        paths.append(str(tmp_path / f"d{seed}.csv"))
        with open(paths[-1], "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([["x", "y", "z"], *rows.tolist()])
    for levels in ("levels=3", "levels=[3, 3, 3]", "levels={x = 3, y = 3, z = 3}"):
        for privacy in (["--no-privacy"], ["--epsilon", "10"]):
            code, out, err = run("learn", *paths, "--method", "fedacd", "--set", levels, *privacy, "--json")
            assert code == 0, err + out
            edges = {frozenset((edge["from"], edge["to"])) for edge in json.loads(out)["edges"]}
            assert frozenset("xy") in edges
    code, _, err = run("learn", *paths, "--method", "fedacd", "--set", "levels={x = 3}", "--epsilon", "10")
    assert code == 2 and "--set levels must be one number for each of the columns" in err.replace("\n", " ")


# Plans.


def test_a_plan_changes_nothing(run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from privfcd.ledger import sqlite_journal

    ledger = str(tmp_path / "north.sqlite")
    run("ledger", "init", ledger, "--name", "north", "--epsilon", "30", "--delta", "1e-4")
    words = ["learn", files[0], "--ledger", ledger, "--bounds", "9", "--rounds", "2", "--updates", "3"]
    assert run(*words, "--epsilon", "5")[0] == 0
    exported = run("ledger", "export", ledger)[1]

    def opened(*_: Any, **__: Any) -> None:
        raise AssertionError("a plan opens no ledger for writing")

    monkeypatch.setattr(sqlite_journal.SqliteJournal, "__init__", opened)
    code, out, err = run(*words, "--epsilon", "20", "--dry-run", "--graph", str(tmp_path / "g.json"), "--json")
    assert code == 0 and err == ""
    (party,) = json.loads(out)["parties"]
    assert party["left_before"].startswith("(epsilon, delta) = (25") and party["epsilon"] == pytest.approx(20, rel=1e-3)
    assert party["left_after"].startswith("(epsilon, delta) = (5")
    assert run("ledger", "export", ledger)[1] == exported and not (tmp_path / "g.json").exists()
    code, out, err = run(*words, "--epsilon", "26", "--dry-run")
    assert code == 3 and out == "" and "left 25 of 30" in err
    code, out, _ = run("learn", files[0], "--epsilon", "20", "--bounds", "9", "--dry-run", "--method", "ges")
    assert code == 0 and "nothing was charged" in out and "epsilon = 20 at delta" in out


def test_plans_of_a_release_and_of_the_demonstration(run: Run, files: list[str], tmp_path: Path) -> None:
    target = tmp_path / "m.npz"
    words = [
        "moments",
        "release",
        *files,
        "--epsilon",
        "30",
        "-o",
        str(target),
        "--method",
        "covariance",
        "--row-norm",
        "8",
    ]
    plan = json.loads(run(*words, "--dry-run", "--json")[1])
    assert not target.exists() and plan["parameters"]["release"] == "covariance"
    made = json.loads(run(*words, "--json")[1])
    for planned, party in zip(plan["parties"], made["privacy"], strict=True):
        assert (
            planned["epsilon"] == pytest.approx(party["epsilon"])
            and planned["parts"][0]["event"] == party["parts"][0]["event"]
        )
    code, out, err = run(
        "moments", "release", *files, "--epsilon", "30", "-o", str(target), "--sum", "trusted", "--dry-run", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["parameters"]["release"] == "preconditioned"
    code, out, _ = run("demo", "--dry-run", "--json")
    plan = json.loads(out)
    assert code == 0 and [party["rows"] for party in plan["parties"]] == [2489, 2489, 2488]


def test_moments_have_no_plan(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "m.npz")
    assert run("moments", "release", *files, "--no-privacy", "-o", path)[0] == 0
    code, _, err = run("learn", path, "--method", "pc", "--dry-run")
    assert code == 2 and "leave out --dry-run" in err


# Results.


def test_a_report_is_a_page_or_text_by_its_name(run: Run, files: list[str], tmp_path: Path) -> None:
    page, text = tmp_path / "report.html", tmp_path / "report.md"
    words = words_of("notears", files, *SECURE, "--stability", "3")
    code, out, err = run(*words, "--report", str(page))
    assert code == 0 and f"Written: {page}" in out, err
    html = page.read_text(encoding="utf-8")
    assert html.lstrip().lower().startswith("<!doctype html") and "north" in html and "privfcd learn" in html
    assert run(*words, "--report", str(text))[0] == 0
    assert (
        text.read_text().count("Privacy report for") == 3
        and "Run again (pays again) with: privfcd learn" in text.read_text()
    )


def test_stability_is_shown_beside_each_edge(run: Run, files: list[str]) -> None:
    code, out, _ = run(*words_of("pc", files, *SECURE, "--stability", "4"))
    assert code == 0 and "stability" in out and "from noise alone" in out and "4 times" in out
    code, out, _ = run(*words_of("pc", files, *SECURE, "--stability", "0"))
    assert code == 0 and "stability" not in out.lower()
    for extra in (["--no-privacy", "--stability", "4"], ["--epsilon", "5", "--stability", "-1"]):
        assert run(*words_of("pc", files, *extra))[0] == 2


def test_a_fault_in_what_is_free_does_not_lose_what_is_paid_for(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import privfcd.algorithms.stability as stability

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(stability, "edge_stability", broken)
    code, out, _ = run(*words_of("pc", files, *SECURE))
    assert code == 0 and "Privacy, per party" in out and "Stability: not known; no such luck" in out


@pytest.mark.parametrize("method", ["fed-sparse", "fed-bnsl", "notears", "pc"])
def test_bars_are_shown_for_every_method_on_a_terminal_only(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    from rich.console import Console

    assert run(*words_of(method, files, *SECURE, "--stability", "3"))[2] == ""

    def terminal(*, stderr: bool = False) -> Console:
        return Console(stderr=stderr, force_terminal=True, width=150)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "console", terminal)
    err = run(*words_of(method, files, *SECURE, "--stability", "3"))[2]
    assert ("4/4" in err) if method in EXTRA else (method in err)
    assert ("budget left to draw" in err) == (method == "fed-sparse")
    assert method == "fed-bnsl" or "stability" in err
    for quiet in ("--quiet", "--json"):
        assert run(*words_of(method, files, *SECURE, "--stability", "3", quiet))[2] == ""


def test_notes_on_stderr_can_be_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from privfcd.cli import demonstration as demo

    real = demo.learn
    quick = {"rounds": 1, "updates": 2, "clip": 20.0, "step": 0.5}
    monkeypatch.setattr(demo, "learn", lambda sources, **arguments: real(sources, **{**arguments, **quick}))
    assert "7466 rows" in run("demo", "--no-privacy")[2] and run("demo", "--no-privacy", "--quiet")[2] == ""


def test_warnings_are_one_line_without_a_place_in_the_source(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(400, 3)) * [1.0, 5.0, 0.2]
    path = tmp_path / "a.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b", "c"], *rows.tolist()])
    code, _, err = run("learn", str(path), "--method", "equal-variance", "--no-privacy")
    assert (
        code == 0 and err.startswith("Warning: residual variances differ") and ".py" not in err and err.count("\n") == 1
    )


# Refusals.


@pytest.mark.parametrize("words", [["--noise", "secure"], ["--noise", "simulated"], ["--seed", "3"]])
@pytest.mark.parametrize("command", ["learn", "demo", "moments"])
def test_exact_answers_take_no_noise(
    run: Run, files: list[str], tmp_path: Path, command: str, words: list[str]
) -> None:
    calls = {
        "learn": ["learn", *files],
        "demo": ["demo"],
        "moments": ["moments", "release", *files, "-o", str(tmp_path / "m.npz")],
    }
    code, out, err = run(*calls[command], "--no-privacy", *words)
    assert code == 2 and out == "" and f"leave out {words[0]} or --no-privacy: exact answers have no" in err


@click.command(cls=Command)
@option("--epsilon", type=float)
@option("--delta", type=float)
@option("--rho", type=float)
@option("--ledger", "ledgers", multiple=True)
@option("--noise-multiplier", type=float)
@option("--row-norm", type=float)
@option("--method")
def sample() -> None:
    """Have options."""


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("epsilon must be above 0, got 0", "--epsilon must be above 0, got 0"),
        ("ledgers must be one for each", "--ledger must be one for each"),
        ("noise_multiplier must be above 0", "--noise-multiplier must be above 0"),
        ("give either epsilon or rho, not both", "give either --epsilon or --rho, not both"),
        ("delta must be given with epsilon, got None", "--delta must be given with --epsilon, got None"),
        ("give epsilon or noise_multiplier, not both", "give --epsilon or --noise-multiplier, not both"),
        ("row_norm must be None for method 'exact'", "--row-norm must be None for method 'exact'"),
        ("the method's epsilon is what is left", "the method's epsilon is what is left"),
        ("columns must be named", "columns must be named"),
        ("a text with 'row_norm' quoted", "a text with 'row_norm' quoted"),
        ("delta = 0 is pure, with epsilon = 1", "delta = 0 is pure, with --epsilon = 1"),
        ("give --epsilon or --ledger", "give --epsilon or --ledger"),
    ],
)
def test_refusals_name_flags(message: str, shown: str) -> None:
    assert in_shell_words(message, click.Context(sample)) == shown


def test_refusals_from_the_library_name_flags_everywhere(run: Run, files: list[str], tmp_path: Path) -> None:
    for words, flag in (
        (["learn", *files, "--epsilon", "-1"], "--epsilon must be"),
        (["learn", *files, "--epsilon", "1", "--noise-multiplier", "-1"], "--noise-multiplier must be"),
        (["learn", *files, "--epsilon", "1", "--noise", "simulated", "--seed", "-1"], "--seed must be"),
        (["moments", "release", *files, "--epsilon", "-1", "-o", str(tmp_path / "m.npz")], "--epsilon must be"),
        (["noise", "--epsilon", "-1"], "--epsilon must be"),
        (["audit", "gaussian", "--epsilon", "-1", "--delta", "1e-3"], "--epsilon must be"),
        (["audit", "sensitivity", "--rows", "0"], "--rows must be"),
        (["attack", "covariance", "--d", "1"], "--d must be"),
        (["compare", "regimes", "--pairs", "0"], "--pairs must be"),
        (["ledger", "init", str(tmp_path / "l.sqlite"), "--name", "x", "--epsilon", "0"], "--epsilon must be"),
        (["demo", "--epsilon", "0"], "--epsilon must be"),
    ):
        code, out, err = run(*words)
        assert code == 2 and out == "" and err.startswith(f"Error: {flag}"), (words, err)


def test_a_study_of_several_machines_is_shown_before_it_is_run(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'schema = 1\nname = "trial"\nmethod = "fed-sparse"\nparties = ["north", "south"]\ncolumns = ["a", "b"]\n'
        "[budget]\nepsilon = 2.0\ndelta = 1e-6\n[parameters]\nrounds = 4\n"
    )
    words = ["coordinator", "run", "--config", str(path), "--superlink", "127.0.0.1:1", "--insecure", "--dry-run"]
    code, out, err = run(*words)
    assert code == 0 and err == "" and "COST: at most epsilon = 2, delta = 1e-06" in out and "north, south" in out
    shown = json.loads(run(*words, "--json")[1])
    assert shown["dry_run"] and shown["parameters"] == {"rounds": 4} and len(shown["digest"]) == 64


def test_a_refused_setting_is_named_as_it_is_written(run: Run, files: list[str]) -> None:
    words = ["learn", *files, "--epsilon", "5", "--method", "peri", "--set"]
    for setting, message in (("max_parents=-1", "--set max_parents must be"), ("alpha=3", "--set alpha must be")):
        code, _, err = run(*words, setting)
        assert code == 2 and message in err and err.count("--set") == 1
