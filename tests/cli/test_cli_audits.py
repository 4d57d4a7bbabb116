"""The commands audit, attack and compare: pictures, JSON, refusals before anything is computed."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import privfcd.cli.attack as attack_module
import privfcd.cli.audit_algorithm as algorithm_module
import privfcd.cli.pictures as pictures
from privfcd.cli.progress import progress

Run = Callable[..., tuple[int, str, str]]

QUICK = {
    "audit gaussian": ["--epsilon", "1", "--delta", "1e-3", "--runs", "2000"],
    "audit laplace": ["--epsilon", "1", "--runs", "2000"],
    "audit gumbel": ["--epsilon", "1", "--runs", "2000"],
    "audit covariance": ["--epsilon", "1", "--delta", "1e-3", "--runs", "2000"],
    "audit sensitivity": ["--rows", "6", "--columns", "2", "--evaluations", "100"],
    "audit sampler": ["--draws", "10000"],
    "audit algorithm": ["--method", "covariance", "--runs", "50", "--d", "3", "--rows", "30", "--attack", "black-box"],
    "attack covariance": ["--d", "4,6", "--rows", "80", "--method", "fed-bnsl", "--method", "dp-fed-bnsl"],
    "compare regimes": ["--pairs", "1,100"],
}
MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.mark.parametrize("command", QUICK)
def test_every_command_draws_and_prints_one_json_object(run: Run, command: str, tmp_path: Path) -> None:
    suffix = list(MAGIC)[list(QUICK).index(command) % 3]
    picture = tmp_path / f"picture{suffix}"
    code, out, err = run(*command.split(), *QUICK[command], "--plot", str(picture), "--json")
    assert code in (0, 1) and err == ""
    json.loads(out)
    assert picture.read_bytes().startswith(MAGIC[suffix]) and picture.stat().st_size > 2000
    assert list(tmp_path.iterdir()) == [picture]


@pytest.mark.parametrize("command", QUICK)
def test_pictures_that_cannot_be_written_are_refused_before_anything_runs(
    run: Run, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*command.split(), *QUICK[command]]
    for path in (str(tmp_path / "x.gif"), str(tmp_path / "nowhere" / "x.png")):
        code, out, err = run(*words, "--plot", path)
        assert code == 2 and out == "" and "Error:" in err
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    code, out, err = run(*words, "--plot", str(tmp_path / "x.png"))
    assert code == 2 and out == "" and "pip install 'privfcd[plot]'" in err


def test_tables_of_regimes_agree_on_screen_in_csv_and_in_json(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "regimes.csv"
    code, out, _ = run("compare", "regimes", "--pairs", "100,2000", "--csv", str(file))
    assert code == 0 and "Mangold 2023 over each other regime" in out
    answer = json.loads(run("compare", "regimes", "--pairs", "100,2000", "--json")[1])
    with open(file, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == len(answer["rows"]) == 10 and len(answer["factors"]) == 6
    for factor in answer["factors"]:
        assert factor["epsilon_proven"] > factor["epsilon"] >= math.sqrt(2)
        (row,) = (one for one in rows if one["pairs"] == str(factor["pairs"]) and one["regime"] == factor["regime"])
        assert float(row["mangold_over_this_epsilon"]) == factor["epsilon"]
    assert {row["mangold_over_this_epsilon"] for row in rows if row["regime"].startswith("mangold")} == {""}


@pytest.mark.parametrize(
    "words",
    [
        ["--epsilon", "0"],
        ["--delta", "0"],
        ["--pairs", "0"],
        ["--pairs", "1,x"],
        ["--csv", "/nowhere/x.csv"],
        ["--csv", "same.png", "--plot", "same.png"],
    ],
)
def test_bad_comparisons_are_refused(
    run: Run, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run("compare", "regimes", *words)
    assert code == 2 and out == "" and err and not list(tmp_path.iterdir())


def test_the_attack_reports_what_messages_give_away(run: Run) -> None:
    answer = json.loads(run("attack", "covariance", *QUICK["attack covariance"], "--json")[1])
    assert [(one["d"], one["method"]) for one in answer["attacks"]] == [
        (4, "fed-bnsl"), (4, "dp-fed-bnsl"), (6, "fed-bnsl"), (6, "dp-fed-bnsl"),
    ]  # fmt: skip
    for one in answer["attacks"]:
        assert (one["relative_error"] < 1e-9) == (one["method"] == "fed-bnsl") == (one["epsilon"] is None)
    _, out, _ = run("attack", "covariance", *QUICK["attack covariance"])
    assert "fed-bnsl" in out and "record rank" in out


@pytest.mark.parametrize(
    "words",
    [["--d", "1"], ["--d", "x"], ["--rows", "20"], ["--method", "magic"], ["--epsilon", "-1"], ["--seed", "-1"]],
)
def test_bad_attacks_are_refused(run: Run, words: list[str]) -> None:
    code, out, err = run("attack", "covariance", *words)
    assert code == 2 and out == "" and err


def test_the_methods_that_are_offered_are_those_that_exist() -> None:
    from privfcd.audits.attack import METHODS

    assert tuple(METHODS) == attack_module.METHODS


def test_simulated_noise_is_not_fit_for_a_release(run: Run) -> None:
    code, out, _ = run("audit", "sampler", "--noise", "simulated", "--draws", "10000", "--json")
    answer = json.loads(out)
    assert code == 1 and not answer["ok"] and answer["right_laws"] and not answer["safe_digits"]


@pytest.mark.parametrize(
    ("words", "method"),
    [
        (["--updates", "2"], "dp-pgcd"),
        (["--method", "dp-fed-sparse-bnsl", "--rounds", "1", "--updates", "2"], "dp-fed-sparse-bnsl"),
        (["--method", "dp-fed-bnsl", "--rounds", "1"], "dp-fed-bnsl"),
        (["--method", "covariance", "--attack", "one-run"], "covariance"),
    ],
)
def test_whole_algorithms_are_audited(run: Run, words: list[str], method: str) -> None:
    code, out, err = run("audit", "algorithm", *words, "--runs", "50", "--d", "3", "--rows", "30", "--json")
    answer = json.loads(out)
    assert code == 0 and err == "" and answer["audited"] == method and answer["verdict"] != "violated"
    assert answer["accountants"]["tight"] == pytest.approx(5, rel=0.01)
    if method == "dp-fed-sparse-bnsl":
        assert "curious" in answer["subject"] or "Fed" in answer["subject"]


@pytest.mark.parametrize(
    "words",
    [
        ["--attack", "one-run"],
        ["--attack", "one-run", "--method", "covariance", "--plot", "x.png"],
        ["--attack", "one-run", "--method", "covariance", "--parties", "2"],
        ["--d", "1"],
        ["--rows", "1"],
        ["--parties", "0"],
        ["--epsilon", "0"],
        ["--bounds", "-1"],
        ["--runs", "3"],
    ],
)
def test_bad_audits_of_algorithms_are_refused(run: Run, words: list[str]) -> None:
    code, out, err = run("audit", "algorithm", *words)
    assert code == 2 and out == "" and err


def test_subjects_can_be_sent_to_workers() -> None:
    import pickle

    for name in algorithm_module.METHODS[1:]:
        pickle.dumps(algorithm_module._subject(name, 1, 1, None))
    pickle.dumps(algorithm_module._descent(1.0, 1e-6, 3, 10, 2, None))


def test_a_bar_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    import privfcd.cli.progress as module

    def with_terminal(terminal: bool) -> Callable[..., Any]:
        return lambda **_: Console(stderr=True, force_terminal=terminal, width=60)

    monkeypatch.setenv("TERM", "xterm")
    for terminal, quiet in ((False, False), (True, True), (True, False)):
        monkeypatch.setattr(module, "console", with_terminal(terminal))
        with progress("audit", quiet=quiet) as done:
            done(1, 2)
            done(2, 2)
        out, err = capsys.readouterr()
        assert out == "" and ("audit" in err) == (terminal and not quiet)
