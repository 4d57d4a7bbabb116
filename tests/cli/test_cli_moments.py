"""privfcd moments: one charge, a file, and learning from it for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from privfcd import Budget, PrivateTable, release_moments
from privfcd.moments import Moments, NoiseTerm, pooled, save_moments

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def released(run: Run, files: list[str], tmp_path: Path) -> str:
    """A file of moments of three parties."""
    path = str(tmp_path / "m.npz")
    code, _, err = run(
        "moments", "release", *files, "--epsilon", "30", "--noise", "simulated", "--method", "covariance",
        "--row-norm", "8", "-o", path,
    )  # fmt: skip
    assert code == 0, err
    return path


def test_release_and_show(run: Run, released: str, files: list[str]) -> None:
    code, out, _ = run("moments", "show", released)
    assert code == 0 and "second moments" in out.lower() and "covariance" in out and "north" in out
    code, out, _ = run("moments", "show", released, "--json", "--matrix")
    summary = json.loads(out)
    assert code == 0 and summary["columns"] == ["a", "b", "c"] and len(summary["matrices"]) == 3
    assert [part["rows"] for part in summary["parts"]] == [80] * 3
    assert all(report["epsilon"] <= 30 for report in summary["privacy"])
    assert summary["rule"]["row norm"] == 8


def test_show_says_whose_moments_are_exact(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(2, 300, 2))
    paid = release_moments([PrivateTable(rows[0], name="paid", bounds=5.0, budget=Budget(5.0, 1e-6))])
    exact = release_moments([PrivateTable(rows[1], name="west")])
    path = tmp_path / "m.npz"
    save_moments(path, pooled([*paid.parts, *exact.parts]), privacy_report=paid.privacy_report)
    code, out, _ = run("moments", "show", str(path))
    said = " ".join(out.split())
    assert code == 0 and "1 party without noise (west); 1 party with noise of a secure source (paid)" in said
    assert "WARNING: The moments of 1 party carry no noise (west)" in said
    code, out, _ = run("learn", str(path), "--method", "ges", "--json")
    summary = json.loads(out)["privacy"]
    assert code == 0 and summary["epsilon"] == "inf" and "carry no noise (west)" in summary["missing"][0]
    code, out, _ = run("moments", "show", str(path), "--json")
    assert json.loads(out)["parts"][0]["origins"][1] == {"party": "west", "noise": "none"}


@pytest.mark.parametrize("method", ["equal-variance", "fed-sparse", "fed-bnsl", "notears"])
def test_learning_from_the_file_costs_nothing(run: Run, released: str, method: str) -> None:
    code, out, err = run("learn", released, "--method", method, "--stability", "2", "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert ("a", "b") in {(edge["from"], edge["to"]) for edge in summary["edges"]} | {
        (edge["to"], edge["from"]) for edge in summary["edges"]
    }
    assert summary["privacy"]["epsilon"] <= 30 and len(summary["privacy"]["parties"]) == 3


def test_rounds_and_a_ledger_with_one_charge(run: Run, tmp_path: Path, write_table: Callable[..., str]) -> None:
    table = write_table(tmp_path / "a.csv", 1)
    ledger, path, report = (str(tmp_path / name) for name in ("l.sqlite", "m.npz", "r.txt"))
    assert run("ledger", "init", ledger, "--epsilon", "50", "--delta", "1e-4", "--name", "a")[0] == 0
    code, out, err = run(
        "moments", "release", table, "--ledger", ledger, "--epsilon", "40", "--sum", "trusted", "--json", "-o", path,
        "--report", report, "--noise", "simulated", "--seed", "3",
    )  # fmt: skip
    assert code == 0, err
    summary = json.loads(out)
    assert summary["rule"]["method"] == "preconditioned" and summary["output"] == path
    code, out, _ = run("ledger", "show", ledger, "--json")
    assert code == 0 and out.count('"reserve"') <= 1
    assert "Privacy report for 'a'" in Path(report).read_text(encoding="utf-8")
    assert run("learn", path, "--method", "equal-variance")[0] == 0
    code, again, _ = run("ledger", "show", ledger, "--json")
    assert again == out, "learning charged nothing"
    code, _, err = run("moments", "release", table, "--ledger", ledger, "--epsilon", "20", "-o", path)
    assert code == 3 and "refused" in err


def test_exact_moments(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "m.npz")
    assert run("moments", "release", *files, "--no-privacy", "-o", path)[0] == 0
    code, out, _ = run("moments", "show", path, "--json")
    assert code == 0 and all(part["exact"] for part in json.loads(out)["parts"])
    assert json.loads(out)["privacy"][0]["epsilon"] == "inf"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --epsilon or --ledger"),
        (["--epsilon", "1", "--no-privacy"], "not both"),
        (["--no-privacy", "--row-norm", "1"], "leave out --row-norm"),
        (["--epsilon", "1", "--seed", "1"], "--seed belongs to"),
        (["--epsilon", "1", "--method", "exact"], "must not be 'exact'"),
        (["--epsilon", "-1"], "epsilon must be"),
    ],
)
def test_refusals(run: Run, files: list[str], tmp_path: Path, words: list[str], message: str) -> None:
    path = tmp_path / "m.npz"
    code, _, err = run("moments", "release", *files, "-o", str(path), *words)
    assert code == 2 and message in err and not path.exists()


def test_outputs_are_checked_first(run: Run, files: list[str], tmp_path: Path) -> None:
    code, _, err = run("moments", "release", *files, "--epsilon", "1", "-o", str(tmp_path / "m.csv"))
    assert code == 2 and "must end in .npz" in err
    code, _, err = run("moments", "release", *files, "--epsilon", "1", "-o", str(tmp_path / "none" / "m.npz"))
    assert code == 2 and "does not exist" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--epsilon", "1"], "leave out --epsilon"),
        (["--ledger", "x"], "leave out --ledger"),
        (["--no-privacy"], "leave out --no-privacy"),
        (["--seed", "1"], "leave out --seed"),
        (["--method", "equal-variance", "--rounds", "3"], "--rounds does not belong to --method equal-variance"),
    ],
)
def test_learning_from_moments_takes_no_budget(run: Run, released: str, words: list[str], message: str) -> None:
    code, _, err = run("learn", released, *words)
    assert code == 2 and message in err


def test_files_that_are_no_moments(run: Run, released: str, files: list[str], tmp_path: Path) -> None:
    code, _, err = run("learn", released, files[0])
    assert code == 2 and "one .npz file" in err
    (tmp_path / "no.npz").write_bytes(b"no")
    code, out, _ = run("moments", "show", str(tmp_path / "no.npz"), "--json")
    assert code == 2 and json.loads(out)["error"] == "InvalidParameter"


def test_two_releases_of_one_table_are_shown_and_not_learnt_from(run: Run, tmp_path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(200, 3))
    north = PrivateTable(rows, name="north", budget=Budget(epsilon=4.0, delta=1e-6), bounds=6.0)
    made = [release_moments([north], method="covariance", epsilon=2.0) for _ in range(2)]
    path, reports = str(tmp_path / "both.npz"), [each.privacy_report[0] for each in made]
    save_moments(path, [each.parts[0] for each in made], privacy_report=reports)
    code, out, err = run("learn", path, "--method", "ges")
    assert code == 2 and "'north' was released twice: give one of them; both together cost" in " ".join(err.split())
    code, out, _ = run("moments", "show", path)
    assert code == 0 and "The parts cannot be pooled: 'north' was released twice" in " ".join(out.split())


def test_notes_of_a_fit_are_printed(run: Run, tmp_path: Path) -> None:
    """Frequencies alone would not show that no test could judge an edge."""
    path = str(tmp_path / "loud.npz")
    together = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 25.0]])
    save_moments(path, Moments(together, 1000, ("a", "b", "c"), (NoiseTerm(0.4),)))
    code, out, _ = run("learn", path, "--method", "pc", "--stability", "2")
    assert code == 0 and "Note: 1 of 1 edges could not be tested: the privacy noise" in " ".join(out.split())
    code, out, _ = run("learn", path, "--method", "pc", "--json")
    assert [edge["untested"] for edge in json.loads(out)["edges"]] == [True]


def test_exact_moments_have_no_epsilon(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "exact.npz")
    save_moments(path, Moments(np.eye(3), 1000, ("a", "b", "c")))
    code, out, _ = run("learn", path, "--method", "ges", "--json")
    privacy = json.loads(out)["privacy"]
    assert code == 0 and privacy["epsilon"] == "inf" and privacy["paid"] == "nowhere: the moments were exact"
