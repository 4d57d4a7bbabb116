"""What someone meets on the first day: tables as they come, ledgers in the wrong order, and what is said about it."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest

import privfcd as pf
from privfcd.errors import InvalidParameter
from privfcd.ledger.tools import open_ledger, show
from privfcd.runs.tables import private_tables

Run = Callable[..., tuple[int, str, str]]

QUICK = ("--noise", "simulated", "--method", "covariance", "--row-norm", "8", "--no-center")


@pytest.fixture
def ledgers(run: Run, tmp_path: Path) -> list[str]:
    """Ledgers of north and south."""
    paths = [str(tmp_path / f"L{name}.sqlite") for name in ("north", "south")]
    for path, name in zip(paths, ("north", "south"), strict=True):
        assert run("ledger", "init", path, "--name", name, "--epsilon", "5", "--delta", "1e-4")[0] == 0
    return paths


@pytest.fixture
def raw(tmp_path: Path) -> list[str]:
    """Two tables as a hospital has them: an index without a name, an id, a date, text, an age and a dose."""
    paths = []
    for seed, name in enumerate(("north", "south")):
        rows = np.random.default_rng(seed).normal(size=(60, 2))
        lines = [
            f"{k},P-{k},2024-01-{k % 28 + 1:02d},{'MF'[k % 2]},{a!r},{b!r}" for k, (a, b) in enumerate(rows.tolist())
        ]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([",patient_id,date,sex,age,dose", *lines, ""]), encoding="utf-8")
        paths.append(str(path))
    return paths


@pytest.mark.parametrize("command", [("learn",), ("learn", "--dry-run"), ("moments", "release", "-o", "m.npz")])
def test_ledgers_in_another_order_than_the_files_are_refused(
    run: Run,
    files: list[str],
    ledgers: list[str],
    command: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    paid = [word for path in reversed(ledgers) for word in ("--ledger", path)]
    code, out, err = run(*command, *files[:2], *paid, "--epsilon", "1")
    assert code == 2 and out == ""
    assert "--ledger must be in the order of the files: north.csv would be charged to 'south'" in err
    assert "the ledger of 'north' stands beside south.csv" in err
    assert [show(path)["entries"] for path in ledgers] == [1, 1]


def test_only_names_that_belong_elsewhere_are_refused(
    files: list[str], ledgers: list[str], tmp_path: Path, write_table: Callable[..., str]
) -> None:
    with pytest.raises(
        InvalidParameter, match=r"ledgers must be in the order .* north.csv would be charged to 'south'"
    ):
        pf.learn(files[:2], ledgers=ledgers[::-1], epsilon=1)
    assert len(private_tables(files[:2], ledgers=ledgers)) == 2
    other = write_table(tmp_path / "west.csv", 9)
    with pytest.raises(InvalidParameter, match=r"north.csv would be charged to 'south'"):
        private_tables([other, files[0]], ledgers=ledgers)
    (tmp_path / "b").mkdir()
    twin = write_table(tmp_path / "b" / "north.csv", 9)
    tables = private_tables([files[0], twin], ledgers=ledgers)
    assert [table.name for table in tables] == ["north", "south"], "the second north.csv may be of another name"
    arrays = [np.random.default_rng(k).normal(size=(9, 2)) for k in range(2)]
    opened = [open_ledger(path, name) for path, name in zip(ledgers, ("north", "south"), strict=True)]
    assert len(private_tables(arrays, ledgers=opened[::-1])) == 2


@pytest.mark.parametrize("words", [("learn", "--method", "equal-variance"), ("moments", "release", *QUICK)])
def test_a_loose_delta_is_said_on_stderr(run: Run, files: list[str], tmp_path: Path, words: tuple[str, ...]) -> None:
    more = ["-o", str(tmp_path / "m.npz")] if words[0] == "moments" else ["--stability", "0", "--noise", "simulated"]
    call = [*words, files[0], *more, "--epsilon", "40"]
    code, _, err = run(*call, "--delta", "0.02")
    assert code == 0 and "Warning: Delta is not below 1/n for north (delta = 0.02, n = 80)" in err
    assert "Delta is not below" not in run(*call, "--delta", "0.02", "--quiet")[2]
    assert "Delta is not below" not in run(*call)[2]


def test_a_loose_delta_of_a_ledger_is_that_of_the_run(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "l.sqlite")
    assert run("ledger", "init", path, "--name", "n", "--epsilon", "50", "--delta", "0.03")[0] == 0
    call = ["moments", "release", files[0], "--ledger", path, *QUICK, "-o", str(tmp_path / "m.npz")]
    assert "Delta is not below" not in run(*call, "--epsilon", "10")[2], "0.006 of 0.03 goes with a fifth of epsilon"
    assert "Delta is not below 1/n for n (delta = 0.02, n = 80)" in run(*call, "--epsilon", "1", "--delta", "0.02")[2]


def test_means_are_taken_off_by_both_commands(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "m.npz")
    call = ["moments", "release", files[0], "--no-privacy", "-o", path]
    assert run(*call)[0] == 0
    code, out, _ = run("moments", "show", path, "--json")
    assert code == 0 and json.loads(out)["parts"][0]["mean"] is not None
    assert run(*call, "--no-center")[0] == 0
    assert json.loads(run("moments", "show", path, "--json")[1])["parts"][0]["mean"] is None
    code, out, _ = run("moments", "release", files[0], "--epsilon", "9", "-o", path, "--dry-run", "--bounds", "9")
    assert code == 0 and "differences of records" in out.split("Parameters")[0]
    study = tmp_path / "study.toml"
    assert run("init", str(study), "--files", files[0], "--force")[0] == 0
    text = study.read_text(encoding="utf-8")
    assert text.index("# center") < text.index("[learn]"), "both commands share it"


def test_columns_are_taken_before_cells_are_checked(run: Run, raw: list[str], tmp_path: Path) -> None:
    code, _, err = run("learn", *raw, "--epsilon", "5")
    assert code == 2 and "column 1 has no name; a row index" in err
    code, _, err = run("learn", raw[0], "--epsilon", "5", "--columns", "patient_id,date,sex,age")
    assert code == 2 and "column 'patient_id', row 1: text 'P-0'" in err and "text too in 'date', 'sex'" in err
    call = ["learn", *raw, "--no-privacy", "--method", "ges", "--json"]
    for choice in (["--columns", " age, dose"], ["--columns", "sex,dose,age", "--drop", "sex"]):
        code, out, err = run(*call, *choice)
        assert code == 0, err
        answer = json.loads(out)
        assert set(answer["columns"]) == {"age", "dose"}
        again = shlex.split(answer["configuration"]["command"])
        assert again.count("--columns") == 1
        assert json.loads(run(*again[1:], "--json")[1])["edges"] == answer["edges"]
    code, _, err = run(*call[:-1], "--columns", "age,weight")
    assert code == 2 and "there is no column 'weight'" in err
    for words, message in ((["--columns", "age,,dose"], "must be names"), (["--drop", "a,a"], "has 'a' twice")):
        code, _, err = run(*call[:-1], *words)
        assert code == 2 and message in err


def test_all_text_columns_are_named_at_once(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,x,date,y\n1,0.5,2024,1\n2,1.5,2024-01-02,2\n3,2,9,n/a\nP4,3,9,F\n", encoding="utf-8")
    code, _, err = run("learn", str(path), "--epsilon", "5")
    assert code == 2 and "column 'date', row 2: text '2024-01-02'" in err
    assert "text too in 'id', 'y'; code them as numbers, or leave out (in a shell: --drop id,date,y)" in err


REFUSED = {
    "missing": (b"a,b\n1,2\n3,\n", "put a public constant there (FAQ: rows with missing values)"),
    "not UTF-8": ("größe,b\n1,2\n".encode("latin-1"), "save it as UTF-8"),
    "semicolons": (b"a;b\n1,5;2\n", "seems to use ';' (a semicolon). A .csv file has commas and a .tsv file tabs"),
    "tabs": (b"a\tb\n1\t2\n", "(a tab)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_tables_say_what_to_do(run: Run, tmp_path: Path, name: str) -> None:
    content, message = REFUSED[name]
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(content))
    code, _, err = run("learn", str(path), "--epsilon", "5")
    assert code == 2 and message in " ".join(err.split())


def test_columns_in_a_configuration(run: Run, raw: list[str], tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text('[study]\nfiles = ["north.csv", "south.csv"]\ncolumns = ["age", "dose"]\n', encoding="utf-8")
    code, out, err = run("moments", "release", "--config", str(study), "--epsilon", "90", "-o", str(tmp_path / "m.npz"),
                         "--dry-run")  # fmt: skip
    assert code == 0 and "Columns: age, dose" in out, err
    study.write_text('[study]\nfiles = ["north.csv"]\ndrop = 3\n', encoding="utf-8")
    code, _, err = run("learn", "--config", str(study), "--epsilon", "5")
    assert code == 2 and "study.drop must be a list of texts, got 3" in err
    study.write_text("[study]\nepsilon = 3\n", encoding="utf-8")
    code, _, err = run("learn", "--config", str(study))
    assert code == 2 and f"{study}: [study] has no `files`" in err and "Missing argument" not in err
    code, _, err = run("learn", "--epsilon", "3")
    assert code == 2 and "Missing argument" in err


def test_a_ledger_lists_its_runs(run: Run, files: list[str], ledgers: list[str], tmp_path: Path) -> None:
    call = ["moments", "release", files[0], "--ledger", ledgers[0], *QUICK, "-o", str(tmp_path / "m.npz")]
    for epsilon in ("1", "1.5"):
        assert run(*call, "--epsilon", epsilon)[0] == 0
    reservation = open_ledger(ledgers[0], "north").reserve(pf_event(), label="left alone", delta=1e-6)
    data = json.loads(run("ledger", "show", ledgers[0], "--json")[1])["data_sets"]["north"]
    assert [each["state"] for each in data["runs"]] == ["settled", "settled", "open"] and data["more_runs"] == 0
    assert [round(each["spent"]["epsilon"], 6) for each in data["runs"][:2]] == [1, 1.5]
    total = sum(each["spent"]["epsilon"] for each in data["runs"])
    assert total == pytest.approx(data["accounts"]["epsilon"]["spent"])
    code, out, _ = run("ledger", "show", ledgers[0])
    assert code == 0 and "newest last" in out and "left alone" in out and "open" in out
    reservation.close()
    ledger = open_ledger(ledgers[0], "north")
    for k in range(20):
        ledger.charge(pf_event(), f"small {k}")
    out = run("ledger", "show", ledgers[0])[1]
    assert "and 4 more before them" in out and "small 19" in out and "left alone" not in out
    code, out, _ = run("ledger", "init", ledgers[0], "--name", "north", "--epsilon", "5", "--delta", "1e-4")
    assert code == 0 and "'north' is there already" in out and "spent: delta 0.0001, epsilon 5" in out
    code, out, _ = run("ledger", "init", ledgers[1], "--name", "south", "--epsilon", "5", "--delta", "1e-4", "--json")
    assert code == 0 and json.loads(out)["existed"] is True and json.loads(out)["spent"]["epsilon"] == 0


def pf_event() -> Any:
    """A release that costs next to nothing."""
    from dp_accounting import LaplaceDpEvent

    return LaplaceDpEvent(1e4)


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_refusal_says_what_would_fit(
    run: Run, files: list[str], ledgers: list[str], tmp_path: Path, dry: tuple[str, ...]
) -> None:
    call = ["moments", "release", files[0], "--ledger", ledgers[0], *QUICK, "-o", str(tmp_path / "m.npz")]
    assert run(*call, "--epsilon", "2")[0] == 0
    code, _, err = run(*call, "--epsilon", "4", *dry)
    assert code == 3 and "take --epsilon 3 or less; --dry-run shows what that buys" in err
    assert run(*call, "--epsilon", "3", *dry)[0] == 0, "what is said to fit fits"
    if not dry:
        code, _, err = run(*call, "--epsilon", "1")
        assert code == 3 and "take --epsilon" not in err, "a rounding's remainder buys nothing"


def test_a_rho_budget_says_that_less_would_fit(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "r.sqlite")
    assert run("ledger", "init", path, "--name", "r", "--rho", "0.01")[0] == 0
    call = ["moments", "release", files[0], "--ledger", path, *QUICK, "-o", str(tmp_path / "m.npz")]
    code, _, err = run(*call, "--epsilon", "5", "--delta", "1e-4")
    assert code == 3 and "take a smaller --epsilon, or leave it out for all that is left" in err


def test_nodes_without_edges_in_csv(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("from,to\nx,y\nsex,\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("from,to\nx,y\n", encoding="utf-8")
    code, _, err = run("compare", "graphs", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    assert code == 2 and "in CSV a node without edges is the row `sex,`" in err


def printed(graph: nx.DiGraph[str], capsys: pytest.CaptureFixture[str], kind: str = "PC", **share: Any) -> str:
    """Return what is printed of a graph, each edge with these numbers under the noise."""
    from privfcd.cli.edges import print_graph
    from privfcd.reports.run import graph_edges

    name = "Votes" if kind == "FedACD" else "Weight"
    by_votes = {"orientation_": None} if kind == "FedACD" else {}  # by the paper's rules: a DAG of votes
    model = type(kind, (), {"causal_graph_": graph, "weight_name": name, **by_votes})()
    edges = graph_edges(graph)
    row = {"frequency": 1.0, "low": None, "high": None, "noise_alone": None, **share}
    rows = [{"from": edge["from"], "to": edge["to"], **row} for edge in edges]
    stability = SimpleNamespace(rows=lambda _: rows, method="Stability: counted.") if share else None
    print_graph({"edges": edges, "against_target": None, "judgement": None}, model, stability)  # type: ignore[arg-type]
    return capsys.readouterr().out


def test_edges_are_printed_with_their_direction(capsys: pytest.CaptureFixture[str]) -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edge("a", "b")
    graph.add_edge("b", "c", undirected=True)
    graph.add_edge("c", "b", undirected=True)
    out = printed(graph, capsys, frequency=0.997)
    assert "weight" not in out and "from noise alone" not in out and "> 99 %" in out and "100 %" not in out
    assert "Stability: counted." in out and "either way; the data cannot tell" not in out.split("└")[0]
    lines = [line.replace("->", "→").replace("--", "–") for line in out.splitlines()]
    assert any("a" in line and "→" in line for line in lines) and any("b" in line and "–" in line for line in lines)
    assert "from noise alone" in printed(graph, capsys, noise_alone=0.001)


def test_votes_are_called_votes(capsys: pytest.CaptureFixture[str]) -> None:
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_edge("a", "b", weight=3.0)
    out = printed(graph, capsys, "FedACD")
    assert "votes" in out.split("┡")[0] and "weight" not in out.split("└")[0] and "equivalence class" in out
    assert "weight" in printed(graph, capsys, "FedSparseBNSL")


@pytest.mark.parametrize("width", ["80", "120"])
def test_help_has_no_odd_defaults_and_no_cut_lines(run: Run, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    for words in (["learn"], ["demo"], ["moments", "release"], ["audit", "algorithm"]):
        out = " ".join(run(*words, "--help")[1].split())
        assert "[default: (" not in out and "x>=" not in out and "))" not in out
    assert "[default: 50 within 10 seconds]" in " ".join(run("learn", "--help")[1].split())
    assert "[default: 1/rows²]" in " ".join(run("audit", "algorithm", "--help")[1].split())
    for group in ("audit", "moments", "ledger", "compare", "attack", "party", "coordinator"):
        assert "..." not in run(group, "--help")[1].split("Commands:")[1], group
    assert ".tsv" in run("learn", "--help")[1] and ".parquet" in run("moments", "release", "--help")[1]


def test_moments_show_what_people_need(run: Run, files: list[str], tmp_path: Path) -> None:
    path = str(tmp_path / "m.npz")
    assert run("moments", "release", *files, "--epsilon", "40", "--noise", "simulated", "-o", path)[0] == 0
    out = run("moments", "show", path)[1]
    assert "method: preconditioned" in out and "why: " in out
    assert not any(line.startswith(("mu", "factor", "rounds", "shares", "scales")) for line in out.splitlines())
    assert {"mu", "rounds"} <= json.loads(run("moments", "show", path, "--json")[1])["rule"].keys()


def test_regimes_are_explained(run: Run) -> None:
    out = run("compare", "regimes", "--pairs", "1", "--quiet")[1]
    assert "proven: whether its epsilon is proven" in out and "How many times as much Mangold 2023 needs" in out


def test_the_draws_time_is_told(run: Run, files: list[str]) -> None:
    call = [
        "learn",
        *files,
        "--epsilon",
        "40",
        "--method",
        "equal-variance",
        "--noise",
        "simulated",
        "--stability",
        "30",
    ]
    code, out, _ = run(*call)
    assert code == 0 and "bytes exchanged" in out
    assert json.loads(run(*call, "--json")[1])["stability_seconds"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["algorithm", "--workers", "100000"], "--workers must be at most"),
        (["algorithm", "--parties", "1001"], "--parties must be at most 1,000, got 1001"),
        (["algorithm", "--runs", "100000000"], "--runs must be at most 10,000,000"),
        (["algorithm", "--rows", "10000000", "--d", "90"], "--rows must be such that the parties' tables have at most"),
        (["gumbel", "--epsilon", "1", "--runs", "10000000000"], "--runs must be at most 1,000,000,000"),
    ],
)
def test_what_would_exhaust_the_machine_is_refused(run: Run, words: list[str], message: str) -> None:
    code, out, err = run("audit", *words)
    assert code == 2 and out == "" and message in err
