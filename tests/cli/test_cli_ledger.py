"""The command line's ledgers: made once, charged by every run, refused when spent, verified from outside."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import verify_export
from tests.support.helpers import interrupted

Run = Callable[..., tuple[int, str, str]]
QUICK = ["--rounds", "2", "--updates", "3", "--step", "0.5", "--bounds", "9", "--clip", "20"]
FIXED = [*QUICK, "--noise", "simulated", "--seed", "3"]
BUDGET = ["--epsilon", "5", "--delta", "1e-5"]


class Hasty(SqliteJournal):
    """Does not wait for the disk."""

    _synchronous = "OFF"


@pytest.fixture
def made(run: Run, tmp_path: Path) -> list[str]:
    """Paths of three ledgers; their names are not those of the tables' files."""
    paths = [str(tmp_path / f"{name}.sqlite") for name in "nsw"]
    for path, name in zip(paths, ("clinic-n", "clinic-s", "clinic-w"), strict=True):
        assert run("ledger", "init", path, "--name", name, *BUDGET)[0] == 0
    return paths


def options(ledgers: list[str]) -> list[str]:
    return [word for path in ledgers for word in ("--ledger", path)]


def shown(run: Run, path: str, name: str = "clinic-n") -> dict[str, float]:
    code, out, _ = run("ledger", "show", path, "--json")
    assert code == 0
    accounts = json.loads(out)["data_sets"][name]["accounts"]
    return {account: amounts["spent"] for account, amounts in accounts.items()}


def test_runs_add_up_until_the_budget_is_spent(run: Run, files: list[str], made: list[str]) -> None:
    words = ["learn", *files, *options(made), *FIXED]
    code, out, err = run(*words, "--epsilon", "2", "--json")
    summary = json.loads(out)
    assert code == 0 and err == ""
    parties = summary["privacy"]["parties"]
    assert [party["party"] for party in parties] == ["clinic-n", "clinic-s", "clinic-w"]
    for party in parties:
        assert 1.99 < party["epsilon"] <= 2 and party["delta"] == pytest.approx(4e-6)
        assert party["left"] == "(epsilon, delta) = (3, 6e-06)"
    assert shown(run, made[0]) == pytest.approx({"epsilon": 2, "delta": 4e-6})

    code, out, err = run(*words, "--epsilon", "4")
    assert code == 3 and out == "" and "asked epsilon 4, spent 2, left 3 of 5" in err
    assert shown(run, made[0]) == pytest.approx({"epsilon": 2, "delta": 4e-6}), "a refusal changes nothing"

    code, out, _ = run(*words)
    assert code == 0 and "head" in out
    for path, name in zip(made, ("clinic-n", "clinic-s", "clinic-w"), strict=True):
        assert shown(run, path, name) == pytest.approx({"epsilon": 5, "delta": 1e-5})
    code, out, err = run(*words, "--json")
    assert code == 3 and err == "" and json.loads(out)["error"] == "BudgetExceeded"
    assert "nothing is left" in json.loads(out)["message"]


def test_one_partys_spent_budget_charges_nobody(run: Run, files: list[str], made: list[str]) -> None:
    spent = ["learn", files[0], files[1], *options([made[0], made[1]]), *FIXED]
    assert run(*spent)[0] == 0
    assert run("learn", *files, *options(made), *FIXED)[0] == 3
    assert shown(run, made[2], "clinic-w") == {"epsilon": 0, "delta": 0}


def test_the_reports_head_tells_an_old_copy_from_the_ledger(
    run: Run, files: list[str], made: list[str], tmp_path: Path
) -> None:
    old = Path(made[0]).read_bytes()
    report = tmp_path / "report.txt"
    code, out, _ = run("learn", *files, *options(made), *FIXED, "--epsilon", "1", "--report", str(report), "--json")
    assert code == 0
    head = json.loads(out)["privacy"]["parties"][0]["head"]
    assert f"Ledger: head {head} (keep it" in report.read_text()
    assert run("ledger", "verify", made[0], "--head", head)[0] == 0
    code, out, _ = run("ledger", "verify", made[0], "--json")
    assert code == 0 and json.loads(out)["head"] == head and json.loads(out)["ok"] is True
    assert json.loads(out)["notes"] == [], "the run was closed"

    run("learn", *files, *options(made), *FIXED, "--epsilon", "1")
    assert run("ledger", "verify", made[0], "--head", head)[0] == 0, "an earlier head stays in the chain"
    Path(made[0]).write_bytes(old)
    code, out, _ = run("ledger", "verify", made[0])
    assert code == 1 and "an old copy was put back" in out
    for leftover in tmp_path.glob("n.sqlite-*"):
        leftover.unlink()
    code, out, _ = run("ledger", "verify", made[0])
    assert code == 0 and "compare the head with one that was kept elsewhere" in out and "ledger adopt" in out
    code, out, _ = run("ledger", "verify", made[0], "--head", head)
    assert code == 1 and "WRONG" in out and "cut off" in out


def test_an_edited_balance_is_found_and_grants_nothing(run: Run, files: list[str], made: list[str]) -> None:
    assert run("learn", *files, *options(made), *FIXED, "--epsilon", "2")[0] == 0
    with sqlite3.connect(made[1]) as connection:
        changed = connection.execute("UPDATE accounts SET spent = replace(hex(zeroblob(length(spent) / 2)), 'x', '')")
        assert changed.rowcount == 2
    connection.close()
    code, out, _ = run("ledger", "verify", made[1], "--json")
    assert code == 1 and not json.loads(out)["ok"] and json.loads(out)["problems"]
    code, out, err = run("learn", *files, *options(made), *FIXED)
    assert code == 2 and out == "" and err.startswith("Error: ") and "balance" in err, err


def test_the_export_verifies_by_itself(run: Run, files: list[str], made: list[str]) -> None:
    run("learn", *files, *options(made), *FIXED, "--epsilon", "1")
    code, out, _ = run("ledger", "export", made[0])
    lines = out.splitlines()
    assert code == 0 and [json.loads(line)["kind"] for line in lines[1:]][:2] == ["open", "reserve"]
    assert json.loads(lines[-1])["kind"] == "close"
    verdict = verify_export(lines, json.loads(run("ledger", "show", made[0], "--json")[1])["head"])
    assert verdict.ok and verdict.entries == len(lines) - 1


def test_init_says_the_budget_once_and_for_all(run: Run, tmp_path: Path) -> None:
    path = str(tmp_path / "a.sqlite")
    code, out, _ = run("ledger", "init", path, "--name", "one", "--epsilon", "1", "--delta", "1e-6")
    assert code == 0 and "(epsilon, delta) = (1, 1e-06)" in out and "head 1:" in out
    code, out, _ = run("ledger", "init", path, "--name", "two", "--rho", "0.5", "--json")
    assert code == 0 and json.loads(out)["budget"] == "rho = 0.5 (zCDP)"
    head = json.loads(out)["head"]
    assert json.loads(run("ledger", "init", path, "--name", "two", "--rho", "0.5", "--json")[1])["head"] == head
    code, _, err = run("ledger", "init", path, "--name", "two", "--rho", "0.6")
    assert code == 2 and "must be the declared one (rho = 0.5), got rho = 0.6" in err
    code, out, _ = run("ledger", "show", path)
    assert code == 0 and "one" in out and "two" in out and f"head of 'two': {head}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--name", "x"], "give either --epsilon or --rho"),
        (["--name", "x", "--epsilon", "1", "--rho", "1"], "give either --epsilon or --rho"),
        (["--name", "x", "--rho", "1", "--delta", "1e-6"], "takes no delta"),
        (["--name", "x", "--epsilon", "0"], "epsilon must be"),
        (["--name", "x", "--epsilon", "nan"], "epsilon must be"),
        (["--name", "x", "--epsilon", "1", "--delta", "1"], "delta must be in [0, 1)"),
        (["--name", "", "--epsilon", "1"], "name must be a non-empty text"),
        (["--epsilon", "1"], "Missing option '--name'"),
    ],
)
def test_init_refuses_what_is_no_budget(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    code, out, err = run("ledger", "init", str(tmp_path / "a.sqlite"), *words)
    assert code == 2 and out == "" and message in err
    assert not list(tmp_path.iterdir())


def test_a_ledger_is_never_made_by_accident(run: Run, files: list[str], made: list[str], tmp_path: Path) -> None:
    missing = str(tmp_path / "nowhere.sqlite")
    for words in (
        ["learn", *files, *options([made[0], made[1], missing]), *FIXED],
        ["ledger", "show", missing],
        ["ledger", "verify", missing],
        ["ledger", "export", missing],
    ):
        code, out, err = run(*words)
        assert code == 2 and out == "" and "there is no ledger at" in err, words
        assert not Path(missing).exists()
    foreign = tmp_path / "foreign.sqlite"
    foreign.write_text("not a ledger, but of some length " * 10)
    before = foreign.read_bytes()
    code, out, err = run("learn", *files, *options([made[0], made[1], str(foreign)]), *FIXED)
    assert code == 2 and "not a privfcd ledger" in err and foreign.read_bytes() == before


def test_one_ledger_may_hold_all_data_sets(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "all.sqlite")
    for name in ("north", "south", "west"):
        run("ledger", "init", path, "--name", name, *BUDGET)
    code, out, _ = run("learn", *files, *options([path] * 3), *FIXED, "--epsilon", "1", "--json")
    assert code == 0
    assert [party["party"] for party in json.loads(out)["privacy"]["parties"]] == ["north", "south", "west"]
    assert run("ledger", "verify", path)[0] == 0
    other = str(Path(files[0]).rename(tmp_path / "elsewhere.csv"))
    code, _, err = run("learn", other, *files[1:], *options([path] * 3), *FIXED, "--epsilon", "1")
    assert code == 2 and "one called 'elsewhere' as the table, got ['north', 'south', 'west']" in err


def test_the_same_rows_under_another_name_are_told(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "all.sqlite")
    for name in ("north", "south", "again"):
        run("ledger", "init", path, "--name", name, *BUDGET)
    again = tmp_path / "again.csv"
    lines = Path(files[0]).read_text().splitlines(keepends=True)
    again.write_text("".join([lines[0], *lines[:0:-1]]))
    assert run("learn", files[0], files[1], *options([path] * 2), *FIXED, "--epsilon", "1")[2] == ""
    code, _, err = run("learn", str(again), files[1], *options([path] * 2), *FIXED, "--epsilon", "1")
    assert code == 0 and err.startswith("Warning: the rows of 'again' are also those of 'north'") and ".py" not in err


def test_ledgers_that_do_not_fit_the_run_are_refused(
    run: Run, files: list[str], made: list[str], tmp_path: Path
) -> None:
    from privfcd.ledger.tools import init_ledger

    pure, rho, unlimited, same = (str(tmp_path / f"{name}.sqlite") for name in ("pure", "rho", "open", "same"))
    run("ledger", "init", pure, "--name", "pure", "--epsilon", "5")
    run("ledger", "init", rho, "--name", "rho", "--rho", "0.5")
    run("ledger", "init", same, "--name", "clinic-n", *BUDGET)
    init_ledger(unlimited, "open", None)
    two = made[:2]
    heads = [run("ledger", "verify", path)[1] for path in made]
    for ledgers, extra, message in (
        (two, [], "--ledger must be one for each of 3 tables, in their order, got 2"),
        ([*two, made[0]], [], "different ones, with different names, got 'clinic-n' twice"),
        ([*two, same], [], "different ones, with different names, got 'clinic-n' twice"),
        ([*two, pure], [], "is pure (delta = 0)"),
        ([*two, rho], ["--epsilon", "1"], "--delta must be given with --epsilon"),
        ([*two, unlimited], [], "'open' has no budget: only a run without privacy"),
        (made, ["--epsilon", "0"], "epsilon must be a finite number above 0"),
        (made, ["--delta", "2"], "delta must be in (0, 1)"),
        (made, ["--epsilon", "1", "--noise-multiplier", "3"], "give --epsilon or --noise-multiplier"),
    ):
        code, out, err = run("learn", *files, *options(ledgers), *FIXED, *extra)
        assert code == 2 and out == "" and message in err, (message, err)
    open_words = ["--rounds", "1", "--updates", "1", "--no-privacy"]
    code, _, err = run("learn", *files, *options(made), *open_words)
    assert code == 2 and "from which a run without privacy cannot be paid" in err
    assert [run("ledger", "verify", path)[1] for path in made] == heads, "nothing was charged"
    assert run("learn", files[2], *options([unlimited]), *open_words)[0] == 0
    assert "no budget" in run("ledger", "show", unlimited)[1]
    assert run("learn", files[2], *options([rho]), *FIXED)[0] == 0


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_results_do_not_write_over_a_ledger(run: Run, files: list[str], made: list[str], suffix: str) -> None:
    before = Path(made[1]).read_bytes()
    code, _, err = run("learn", *files, *options(made), *FIXED, "--report", made[1] + suffix)
    assert code == 2 and "is read in the same run" in err.replace("\n", " ")
    assert Path(made[1]).read_bytes() == before


def test_a_run_that_ended_early_is_told(
    run: Run, files: list[str], made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from privfcd.algorithms.fed_sparse.party import FedSparseParty

    monkeypatch.setattr(FedSparseParty, "_update", interrupted)
    code, _, err = run("learn", *files, *options(made), *FIXED, "--epsilon", "2")
    assert code == 130 and "stays spent" in err
    assert shown(run, made[0])["epsilon"] == pytest.approx(2), "nothing goes back by itself"
    code, out, _ = run("ledger", "show", made[0])
    assert code == 0 and "never closed" in out and "Fed-Sparse-BNSL" in out
    code, out, _ = run("ledger", "verify", made[0])
    assert code == 0 and "note: " in out


def test_entries_are_numbered_over_the_file_as_heads_are(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privfcd.algorithms.fed_sparse.party import FedSparseParty

    path = str(tmp_path / "all.sqlite")
    for name in ("north", "south"):
        assert run("ledger", "init", path, "--name", name, *BUDGET)[0] == 0
    monkeypatch.setattr(FedSparseParty, "_update", interrupted)
    assert run("learn", *files[:2], *options([path, path]), *FIXED, "--epsilon", "1")[0] == 130
    held = json.loads(run("ledger", "show", path, "--json")[1])
    exported = [json.loads(line) for line in run("ledger", "export", path)[1].splitlines()[1:]]
    numbers = {line["scope"]: line["number"] for line in exported if line["kind"] == "reserve"}
    code, out, _ = run("ledger", "show", path)
    verified = run("ledger", "verify", path)[1]
    for name in ("north", "south"):
        (entry,) = held["data_sets"][name]["unfinished"]
        assert entry["number"] == numbers[name] and entry["sequence"] == 1
        assert f"entry {numbers[name]}, of '{name}': 'Fed-Sparse-BNSL" in out
        assert f"note: entry {numbers[name]} ('{name}' 1): 'Fed-Sparse-BNSL" in verified
    assert code == 0 and held["head"].startswith(f"{held['entries']}:")


def test_a_snapshot_is_the_ledger_without_the_file(tmp_path: Path) -> None:
    from dp_accounting import GaussianDpEvent

    from privfcd import Budget
    from privfcd.errors import BudgetExceeded, InvalidParameter
    from privfcd.ledger.tools import init_ledger, open_ledger, snapshot

    path = tmp_path / "a.sqlite"
    for name, budget in (("rho", Budget(rho=1.0)), ("both", Budget(epsilon=5, delta=1e-5)), ("open", None)):
        init_ledger(path, name, budget)
    open_ledger(path, "rho").charge(GaussianDpEvent(1.0))  # rho = 1/2
    open_ledger(path, "both").charge(GaussianDpEvent(20.0))  # opens the adaptive slice
    open_ledger(path, "open").charge(GaussianDpEvent(1.0))
    before = open_ledger(path, "rho").head()
    for name in ("rho", "both", "open"):
        real, copy = open_ledger(path, name), snapshot(path, name)
        assert copy.budget == real.budget and copy.left() == real.left() and copy.open == real.open
        assert copy.spent_units() == real.spent_units() and copy.name == name
    copy = snapshot(path, "rho")
    copy.charge(GaussianDpEvent(1.0))
    with pytest.raises(BudgetExceeded):
        copy.charge(GaussianDpEvent(1.0))
    assert open_ledger(path, "rho").head() == before
    with pytest.raises(InvalidParameter, match="'nobody'"):
        snapshot(path, "nobody")


def test_an_export_is_verified_and_restored_by_commands(run: Run, tmp_path: Path) -> None:
    path, exported = str(tmp_path / "a.sqlite"), tmp_path / "a.jsonl"
    run("ledger", "init", path, "--name", "a", "--rho", "1")
    exported.write_text(run("ledger", "export", path)[1])
    code, out, _ = run("ledger", "verify-export", str(exported), "--json")
    head = json.loads(out)["head"]
    assert code == 0 and json.loads(out)["ok"] and json.loads(out)["entries"] == 1
    assert run("ledger", "verify-export", str(exported), "--head", "2:" + "0" * 64)[0] == 1
    (tmp_path / "no.jsonl").write_text("nothing")
    (tmp_path / "no.bytes").write_bytes(b"\xff\xfe")
    for name in ("no.jsonl", "no.bytes"):
        code, out, err = run("ledger", "verify-export", str(tmp_path / name))
        assert code == 2 and out == "" and err.startswith(("Error: ", "Usage: ")), err
    for words, left in (([], "counts as spent"), (["--head", head], "what was left is left")):
        restored = str(tmp_path / f"r{len(words)}.sqlite")
        code, out, _ = run("ledger", "restore", str(exported), restored, *words)
        assert code == 0 and left in out
        assert shown(run, restored, "a") == {"rho": 0 if words else 1}
    assert run("ledger", "restore", str(exported), path)[0] == 2


def test_a_copy_without_its_head_is_adopted_and_an_old_format_upgraded(run: Run, tmp_path: Path) -> None:
    path, copy = tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    run("ledger", "init", str(path), "--name", "a", "--rho", "1")
    copy.write_bytes(path.read_bytes())
    assert run("ledger", "init", str(copy), "--name", "b", "--rho", "1")[0] == 2
    code, out, _ = run("ledger", "adopt", str(copy))
    assert code == 0 and "can be charged" in out and "compare the head" in out
    assert run("ledger", "init", str(copy), "--name", "b", "--rho", "1")[0] == 0
    old = tmp_path / "old.sqlite"
    old.write_bytes((Path(__file__).parents[1] / "ledger/stored/version-1.sqlite").read_bytes())
    code, _, err = run("ledger", "show", str(old))
    assert code == 2 and "privfcd ledger upgrade" in err
    code, out, _ = run("ledger", "upgrade", str(old))
    assert code == 0 and "from format 1" in out
    assert "the present format already" in run("ledger", "upgrade", str(old))[1]


def test_names_that_turn_the_text_around_are_shown_harmless(run: Run, tmp_path: Path) -> None:
    path, name = str(tmp_path / "a.sqlite"), "north\u202eevil\u200f\x1b[31m"
    for words in (["init", path, "--name", name, "--rho", "1"], ["show", path], ["verify", path], ["export", path]):
        code, out, err = run("ledger", *words)
        assert code == 0 and not any(mark in out + err for mark in "\u202e\u200f\x1b")


def test_of_many_unfinished_runs_the_last_are_shown(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    run("ledger", "init", str(path), "--name", "a", "--rho", "1")
    with Hasty(path) as journal:
        for number in range(75):
            journal.post("a", "reserve", f"run {number}", "", {"rho": 1}, request=f"q{number}")
    data = json.loads(run("ledger", "show", str(path), "--json")[1])["data_sets"]["a"]
    assert (len(data["unfinished"]), data["more_unfinished"]) == (20, 55)
    assert (len(data["unanswered"]), data["more_unanswered"]) == (20, 55)
    assert data["unfinished"][-1]["label"] == "run 74"
    assert "55 runs of 'a' before these" in run("ledger", "show", str(path))[1]
    found = json.loads(run("ledger", "verify", str(path), "--json")[1])
    assert len(found["notes"]) == 51 and found["notes"][-1] == "and 100 more" and found["unfinished"] == 150
