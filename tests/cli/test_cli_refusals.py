"""The command line's refusals: each with a message and an exit code of its own, before anything is charged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.helpers import interrupted

Run = Callable[..., tuple[int, str, str]]
QUICK = ["--rounds", "2", "--updates", "3", "--step", "0.5", "--bounds", "9", "--clip", "20"]
FIXED = [*QUICK, "--noise", "simulated", "--seed", "3"]
OPEN = ["--rounds", "12", "--updates", "6", "--step", "0.5", "--l1", "0.02", "--threshold", "0.3", "--no-privacy"]


def table_text(tmp_path: Path, text: str) -> str:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    return str(path)


BAD_TABLES = {
    "empty file": ("", "the file is empty"),
    "header only": ("a,b,c\n", "there are no rows"),
    "text in a column": ("a,b,c\n1,2,3\n1,two,3\n1,2,3\n", r"column 'b'"),
    "a missing value": ("a,b,c\n1,2,3\n1,,3\n1,2,3\n", "missing value"),
    "NaN": ("a,b,c\n1,2,3\n1,NaN,3\n1,2,3\n", "missing value"),
    "an infinity": ("a,b,c\n1,2,3\n1,2,inf\n1,2,3\n", "infinit"),
    "other columns": ("a,b,z\n1,2,3\n4,5,6\n7,8,10\n", r"missing \['c'\], unknown \['z'\]"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused_with_a_message_of_their_own(
    run: Run, files: list[str], tmp_path: Path, name: str
) -> None:
    text, message = BAD_TABLES[name]
    bad = table_text(tmp_path, text)
    code, out, err = run("learn", *files[:2], bad, "--epsilon", "5", *FIXED)
    assert code == 2 and out == "" and err.startswith("Error: ") and "Traceback" not in err
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(err)
    code, out, err = run("learn", *files[:2], bad, "--epsilon", "5", *FIXED, "--json")
    answer = json.loads(out)
    assert code == 2 and err == "" and answer["error"] == "InvalidTable" and set(answer) == {"error", "message"}


BAD_OPTIONS: dict[str, tuple[list[str], str]] = {
    "epsilon 0": (["--epsilon", "0"], "epsilon must be a finite number above 0, got 0.0"),
    "epsilon negative": (["--epsilon", "-1"], "epsilon must be a finite number above 0, got -1.0"),
    "epsilon nan": (["--epsilon", "nan"], "epsilon must be a finite number above 0, got nan"),
    "epsilon inf": (["--epsilon", "inf"], "epsilon must be a finite number above 0, got inf"),
    "epsilon text": (["--epsilon", "much"], "'much' is not a valid float"),
    "epsilon missing": ([], "give --epsilon or --ledger for a private run"),
    "epsilon twice": (["--epsilon", "1", "--no-privacy"], "give --epsilon or --no-privacy, not both"),
    "delta 1": (["--epsilon", "1", "--delta", "1"], "delta must be in (0, 1), got 1.0"),
    "delta nan": (["--epsilon", "1", "--delta", "nan"], "delta must be in (0, 1), got nan"),
    "delta 0": (["--epsilon", "1", "--delta", "0"], "delta must be in (0, 1), got 0.0"),
    "T 0": (["--epsilon", "1", "--rounds", "0"], "rounds must be a whole number of at least 1, got 0"),
    "K 0": (["--epsilon", "1", "--updates", "0"], "updates must be a whole number of at least 1, got 0"),
    "T fractional": (["--epsilon", "1", "--rounds", "1.5"], "'1.5' is not a valid integer"),
    "clip": (["--epsilon", "1", "--clip", "-2"], "clip must be"),
    "step": (["--epsilon", "1", "--step", "2"], "step must be in (0, 1], got 2.0"),
    "bounds": (["--epsilon", "1", "--bounds", "nan"], "bound of 'a' must be"),
    "seed with secure noise": (["--epsilon", "1", "--noise", "secure", "--seed", "3"], "secure noise has no seed"),
    "negative seed": (["--epsilon", "1", "--noise", "simulated", "--seed", "-1"], "seed must be"),
    "suffix": (["--epsilon", "1", "--graph", "graph.bmp"], "must end in one of .graphml, .dot, .json, .csv"),
    "suffix of the plot": (["--epsilon", "1", "--plot", "graph.txt"], "must end in one of .png, .svg, .pdf"),
    "no such folder": (["--epsilon", "1", "--report", "nowhere/report.txt"], "folder of 'nowhere/report.txt'"),
    "no such target": (["--epsilon", "1", "--target", "nowhere.csv"], "there is no such file"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_bad_options_are_refused_with_a_message_of_their_own(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    words, message = BAD_OPTIONS[name]
    code, out, err = run("learn", *files, *words)
    assert code == 2 and out == "" and message in err.replace("\n", " ") and "Traceback" not in err
    code, out, err = run("learn", *files, *words, "--json")
    assert code == 2 and err == "" and message in json.loads(out)["message"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["north.csv", "south.csv", "west.csv"]


def test_messages_differ(run: Run, files: list[str], tmp_path: Path) -> None:
    messages = [run("learn", *files, *words)[2] for words, _ in BAD_OPTIONS.values()]
    for text, _ in BAD_TABLES.values():
        messages.append(run("learn", *files[:2], table_text(tmp_path, text), "--epsilon", "1", *FIXED)[2])
    assert len(set(messages)) >= len(messages) - 1, "a missing cell and NaN may read the same"


def test_one_file_given_twice_is_refused(run: Run, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "link.csv").symlink_to(files[0])
    for again in (files[0], str(tmp_path / "." / "north.csv"), str(tmp_path / "link.csv")):
        code, _, err = run("learn", files[0], again, "--epsilon", "1")
        assert code == 2 and "was given twice" in err


def test_a_target_with_unknown_variables_is_refused(run: Run, files: list[str], tmp_path: Path) -> None:
    target = tmp_path / "target.csv"
    target.write_text("from,to\na,b\nb,nonsense\n")
    code, _, err = run("learn", *files, "--epsilon", "1", "--target", str(target))
    assert code == 2 and "nonsense" in err and "variables that the tables do not have" in err.replace("\n", " ")


def test_a_refused_budget_ends_with_3(run: Run, files: list[str]) -> None:
    words = ["learn", *files, "--epsilon", "1", "--noise-multiplier", "0.01", *FIXED]
    code, out, err = run(*words)
    assert code == 3 and out == "" and "asked epsilon" in err and "left 1 of 1" in err
    code, out, err = run(*words, "--json")
    assert code == 3 and err == "" and json.loads(out)["error"] == "BudgetExceeded"


def test_an_interruption_ends_with_130(run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import privfcd.algorithms

    monkeypatch.setattr(privfcd.algorithms.FedSparseBNSL, "fit", interrupted)
    code, out, err = run("learn", *files, "--epsilon", "1", *FIXED)
    assert code == 130 and out == "" and err == "interrupted; nothing was charged\n"
    code, out, err = run("learn", *files, "--epsilon", "1", *FIXED, "--json")
    answer = json.loads(out)
    assert code == 130 and err == "" and answer["error"] == "Interrupted"
    assert [party["party"] for party in answer["parties"]] == ["north", "south", "west"]
    assert all(party["charged"] == {} for party in answer["parties"])


@pytest.mark.parametrize("option", ["--graph", "--report"])
def test_results_do_not_write_over_the_tables(run: Run, files: list[str], option: str) -> None:
    before = Path(files[0]).read_bytes()
    code, _, _ = run("learn", *files, *OPEN, option, files[0])
    assert Path(files[0]).read_bytes() == before and code == 2


@pytest.mark.parametrize("option", ["--graph", "--report", "--plot"])
def test_files_that_cannot_be_written_are_refused_before_the_charge(
    run: Run, files: list[str], monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    from privfcd.ledger import Ledger

    charged: list[str] = []
    real = Ledger.reserve
    monkeypatch.setattr(Ledger, "reserve", lambda self, *a, **k: charged.append(self.name) or real(self, *a, **k))
    code, out, _ = run("learn", *files, "--epsilon", "5", *FIXED, option, "/proc/nowhere.png" if option == "--plot" else
                       "/proc/nowhere.csv", "--json")  # fmt: skip
    assert code == 2 and json.loads(out)["error"] and not charged


def test_a_target_that_cannot_be_compared_is_refused_before_the_charge(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privfcd.ledger import Ledger

    charged: list[str] = []
    real = Ledger.reserve
    monkeypatch.setattr(Ledger, "reserve", lambda self, *a, **k: charged.append(self.name) or real(self, *a, **k))
    target = tmp_path / "target.csv"
    target.write_text("from,to\na,a\n")
    code, _, _ = run("learn", *files, "--epsilon", "5", *FIXED, "--target", str(target))
    assert code == 2 and not charged


@pytest.mark.parametrize("extra", [["--delta", "0.5"], ["--noise-multiplier", "3"], ["--bounds", "3"]])
def test_options_that_a_run_without_privacy_cannot_keep_are_refused(
    run: Run, files: list[str], extra: list[str]
) -> None:
    assert run("learn", *files, *OPEN, *extra)[0] == 2


def test_demo_takes_one_of_epsilon_and_no_privacy(run: Run) -> None:
    code, out, err = run("demo", "--epsilon", "2", "--no-privacy")
    assert code == 2 and out == "" and "not both" in err


@pytest.mark.parametrize("way", ["as given", "relative", "symbolic link", "hard link"])
@pytest.mark.parametrize("given", ["table", "target"])
def test_no_way_to_a_file_that_is_read_leads_to_writing_over_it(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, given: str
) -> None:
    target = tmp_path / "target.csv"
    target.write_text("from,to\na,b\n")
    read = target if given == "target" else Path(files[1])
    path = tmp_path / "link.csv"
    match way:
        case "as given":
            path = read
        case "relative":
            (tmp_path / "sub").mkdir()
            monkeypatch.chdir(tmp_path / "sub")
            path = Path("..") / read.name
        case "symbolic link":
            path.symlink_to(read)
        case "hard link":
            path.hardlink_to(read)
    before = read.read_bytes()
    code, _, err = run("learn", *files, *OPEN, "--target", str(target), "--graph", str(path))
    assert code == 2 and "is read in the same run" in err.replace("\n", " ") and read.read_bytes() == before


def test_outputs_do_not_write_over_each_other(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "out.csv")
    (tmp_path / "other.csv").symlink_to(path)
    for words in (["--graph", path, "--report", path], ["--graph", path, "--graph", str(tmp_path / "other.csv")]):
        code, _, err = run("learn", *files, *OPEN, *words)
        assert code == 2 and "is written in the same run" in err.replace("\n", " ") and not Path(path).exists()


@pytest.mark.parametrize("name", ["/dev/null", "x" * 300], ids=["device", "long name"])
def test_places_that_are_no_files_are_refused(run: Run, files: list[str], tmp_path: Path, name: str) -> None:
    code, _, err = run("learn", *files, *OPEN, "--report", name if name.startswith("/") else str(tmp_path / name))
    assert code == 2 and "cannot write" in err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_result_that_cannot_be_written_is_still_printed(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    import privfcd.drawing
    import privfcd.graphs

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(privfcd.graphs, "write_graph", full)
    monkeypatch.setattr(privfcd.drawing, "draw_graph", full)
    graph, plot, report = (str(tmp_path / name) for name in ("graph.json", "plot.png", "report.txt"))
    words = ["--graph", graph, "--plot", plot, "--report", report, *(["--json"] if as_json else [])]
    code, out, err = run("learn", *files, "--epsilon", "5", *FIXED, *words)
    assert code == 2 and Path(report).read_text().count("Privacy report for") == 3
    if as_json:
        answer = json.loads(out)
        assert err == "" and answer["error"] == "NotWritten" and answer["privacy"]["parties"] and "edges" in answer
        assert graph in answer["message"] and plot in answer["message"] and report not in answer["message"]
    else:
        assert "Privacy, per party" in out and f"Written: {report}" in out.replace("\n", "")
        assert err.count("No space left on device") == 2 and graph in err and plot in err and "paid for" in err


@pytest.mark.parametrize(
    "words", [["noise", "--gaussians"], ["audit", "gumbel", "--runs"], ["learn", "a.csv", "--rounds"]]
)
def test_counts_that_no_float_holds_are_refused_and_long_seeds_are_not(run: Run, words: list[str]) -> None:
    for number in ("9" * 400, str(2**53 + 1)):
        code, out, err = run(*words, number, "--epsilon", "1")
        assert code == 2 and out == "" and f"Invalid value for '{words[-1]}': must be at most 2**53" in err
    assert run("audit", "gumbel", "--epsilon", "1", "--runs", "2000", "--seed", "9" * 60)[0] == 0


def test_a_negative_zero_is_zero(run: Run) -> None:
    words = ["audit", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--runs", "2000", "--json", "--scale"]
    assert run(*words, "-0")[0] == run(*words, "0")[0] == 1


def test_an_svg_needs_no_matplotlib(run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privfcd.cli.pictures.find_spec", lambda name: None)
    words = ("learn", *files, "--epsilon", "5", *FIXED)
    code, _, err = run(*words, "--plot", str(tmp_path / "graph.png"))
    assert code == 2 and "privfcd[plot]" in err and not (tmp_path / "graph.png").exists()
    assert run(*words, "--plot", str(tmp_path / "graph.svg"))[0] == 0
    assert (tmp_path / "graph.svg").read_text(encoding="utf-8").startswith("<svg")
    compared = ("compare", "graphs", str(tmp_path / "a.csv"), str(tmp_path / "a.csv"))
    (tmp_path / "a.csv").write_text("from,to\na,b\n")
    code, _, err = run(*compared, "--plot", str(tmp_path / "both.pdf"))
    assert code == 2 and "or write an .svg" in err and not (tmp_path / "both.pdf").exists()
    assert run(*compared, "--plot", str(tmp_path / "both.svg"))[0] == 0
    assert (tmp_path / "both.svg").read_text(encoding="utf-8").startswith("<svg")
