"""The command line: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import privfcd
import privfcd.cli.progress as progress_module
from privfcd.graphs import read_graph

Run = Callable[..., tuple[int, str, str]]
QUICK = ["--rounds", "2", "--updates", "3", "--step", "0.5", "--bounds", "9", "--clip", "20"]
FIXED = [*QUICK, "--noise", "simulated", "--seed", "3"]
Write = Callable[..., str]
OPEN = ["--rounds", "12", "--updates", "6", "--step", "0.5", "--l1", "0.02", "--threshold", "0.3", "--no-privacy"]


# From the shell.


def shell(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    home = str(Path(privfcd.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-m", "privfcd", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": home},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_exit_codes_reach_the_shell(run: Run, files: list[str], tmp_path: Path) -> None:
    done = shell("learn", *files, "--epsilon", "5", *FIXED, "--json", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr == "" and json.loads(done.stdout)["privacy"]["epsilon"] <= 5
    refused = shell("learn", *files, "--epsilon", "1", "--noise-multiplier", "0.01", cwd=tmp_path)
    assert refused.returncode == 3 and "was refused" in refused.stderr and refused.stdout == ""
    assert "Traceback" not in refused.stderr
    code, out, err = run("learn", files[0], "nowhere.csv", "--epsilon", "5")
    assert code == 2 and out == "" and err.startswith("Error: nowhere.csv: there is no such file")


@pytest.mark.parametrize("privacy", [["--epsilon", "5", *FIXED], OPEN])
def test_json_is_one_object_and_nothing_else(run: Run, files: list[str], privacy: list[str]) -> None:
    code, out, err = run("learn", *files, *privacy, "--json")
    summary = json.loads(out)
    assert code == 0 and err == ""
    assert [party["party"] for party in summary["privacy"]["parties"]] == ["north", "south", "west"]
    for party in summary["privacy"]["parties"]:
        assert party["epsilon"] == "inf" if privacy is OPEN else 4.99 < party["epsilon"] <= 5
        assert party["delta"] == pytest.approx(0 if privacy is OPEN else 1 / 80**2)
    assert summary["history"][-1]["round"] == len(summary["history"])


def test_files_come_back_as_the_graph_that_was_printed(run: Run, files: list[str], tmp_path: Path) -> None:
    written = [str(tmp_path / f"graph{suffix}") for suffix in (".graphml", ".json", ".csv", ".dot")]
    report, plot = str(tmp_path / "report.txt"), str(tmp_path / "graph.png")
    wanted = [word for path in written for word in ("--graph", path)]
    target = tmp_path / "target.csv"
    target.write_text("from,to\na,b\n")
    code, out, _ = run("learn", *files, *OPEN, *wanted, "--report", report, "--plot", plot, "--target", str(target))
    assert code == 0
    code, printed, _ = run("learn", *files, *OPEN, "--json", "--target", str(target))
    summary = json.loads(printed)
    edges = {(edge["from"], edge["to"]): edge["weight"] for edge in summary["edges"]}
    assert ("a", "b") in edges and edges["a", "b"] == pytest.approx(2, abs=0.2)
    for path in written[:3]:
        graph = read_graph(path)
        assert set(graph) == {"a", "b", "c"}
        assert {(a, b): w for a, b, w in graph.edges(data="weight")} == pytest.approx(edges)
    assert '"a" -> "b"' in Path(written[3]).read_text()
    assert Path(plot).read_bytes().startswith(b"\x89PNG")
    assert Path(report).read_text().count("NO PRIVACY") == 3
    assert summary["against_target"]["shd"] == len(set(edges) ^ {("a", "b")})
    for words in ("1 edges", "north", "SHD 0", "Written:", "bytes exchanged", "inf"):
        assert words in out, words
    assert not list(tmp_path.glob(".*")), "no half-written files are left"


def test_columns_in_another_order_are_the_same_tables(
    run: Run, files: list[str], write_table: Write, tmp_path: Path
) -> None:
    (tmp_path / "turned").mkdir()
    south = write_table(tmp_path / "turned" / "south.csv", 1, ("c", "a", "b"), [2, 0, 1])
    turned = [files[0], south, files[2]]
    for privacy in (["--epsilon", "60", *FIXED], OPEN):
        plain, other = (json.loads(run("learn", *given, *privacy, "--json")[1]) for given in (files, turned))
        assert plain["edges"] == other["edges"] and plain["edges"]
        assert [row["h"] for row in plain["history"]] == [row["h"] for row in other["history"]]


def test_the_seed_decides(run: Run, files: list[str]) -> None:
    private = ["--epsilon", "60", *FIXED[:-1]]
    first, again, other = (
        json.loads(run("learn", *files, *private, seed, "--json")[1])["edges"] for seed in ("3", "3", "4")
    )
    assert first == again != other


def test_secure_noise_is_the_default_and_is_named(run: Run, files: list[str]) -> None:
    code, out, _ = run("learn", *files, "--epsilon", "5", *QUICK)
    assert code == 0 and "secure" in out and "simulated" not in out
    code, out, _ = run("learn", *files, "--epsilon", "5", *FIXED)
    assert code == 0 and "NO protection" in out


def test_progress_is_shown_on_a_terminal_only(
    run: Run, files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.console import Console

    target = tmp_path / "target.csv"
    target.write_text("from,to\na,b\n")
    words = ["learn", *files, *OPEN, "--target", str(target)]
    assert run(*words)[2] == ""

    def terminal(*, stderr: bool = False) -> Console:
        return Console(stderr=stderr, force_terminal=True, width=150)

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "console", terminal)
    code, _, err = run(*words)
    assert code == 0 and "12/12" in err and "SHD 0" in err and "0% of the run's budget left" in err
    assert run(*words, "--json")[2] == ""


def test_the_demonstration_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from privfcd.cli import demonstration as demo

    real = demo.learn
    quick = {"rounds": 1, "updates": 2, "clip": 20.0, "step": 0.5}
    monkeypatch.setattr(demo, "learn", lambda sources, **arguments: real(sources, **{**arguments, **quick}))
    code, out, err = run("demo", "--noise", "simulated")
    assert code == 0 and "hospital-3" in out and "SHD" in out and "(an empty graph has 18)" in out
    assert "7466 rows" in err
    code, out, err = run("demo", "--no-privacy", "--json")
    assert code == 0 and err == "" and json.loads(out)["against_target"]["edges_true"] == 18
    for epsilon in ("0", "nan", "-2", "inf"):
        code, out, err = run("demo", "--epsilon", epsilon, "--json")
        assert code == 2 and json.loads(out)["error"] == "InvalidParameter" and err == ""


def test_curves_of_the_noise_are_drawn_and_checked_first(run: Run, tmp_path: Path) -> None:
    words = ["noise", "--epsilon", "1", "--delta", "1e-6", "--gaussians", "2", "--plot"]
    code, out, _ = run(*words, str(tmp_path / "curves.svg"))
    assert code == 0 and "<svg" in (tmp_path / "curves.svg").read_text() and "curves.svg" in out
    code, _, err = run(*words, str(tmp_path / "curves.txt"))
    assert code == 2 and ".svg" in err
    code, _, _ = run("noise", "--epsilon", "1", "--selections", "3", "--plot", str(tmp_path / "pure.png"))
    assert code == 0 and (tmp_path / "pure.png").stat().st_size > 1000


def test_noise_prints_the_scale_for_a_target(run: Run) -> None:
    words = ["noise", "--epsilon", "5", "--delta", "4e-8", "--selections", "20", "--gaussians", "20"]
    code, out, _ = run(*words, "--json")
    plans = json.loads(out)["plans"]
    assert code == 0 and {plan["accountant"] for plan in plans} >= {"zcdp", "zcdp-loose"}
    assert all(plan["epsilon_spent"] <= 5 and plan["scale"] > 0 for plan in plans)
    assert sum(plan["default"] for plan in plans) == 1
    code, out, _ = run(*words)
    assert code == 0 and f"{plans[0]['scale']:.6g}"[:5] in out
    assert "1 % of the time" in out
    caught = json.loads(run(*words, "--json")[1])["attacker"]["true_positive_rate_at_most"]
    assert 0.01 < caught < 0.2
    for extra in (["--delta", "0"], ["--delta", "1"], ["--epsilon", "nan"], ["--selections", "-1"],
                  ["--accountant", "wrong"], ["--sensitivity", "0"]):  # fmt: skip
        given = dict(zip(words[1::2], words[2::2], strict=True)) | dict([extra])
        code, out, err = run("noise", *(word for pair in given.items() for word in pair), "--json")
        assert code == 2 and json.loads(out)["error"] == "InvalidParameter" and err == "", extra


@pytest.mark.parametrize(
    ("counts", "delta", "names", "left_out"),
    [
        ({"gaussians": 1}, "1e-6", ["tight", "zcdp", "zcdp-loose"], ["pure"]),
        ({"laplaces": 3}, "0", ["tight", "zcdp", "zcdp-loose", "pure"], []),
        ({"laplaces": 3}, "1e-6", ["tight", "zcdp", "zcdp-loose", "pure"], []),
        ({"selections": 4}, "0", ["tight", "zcdp", "zcdp-loose", "pure"], []),
        ({"selections": 4, "gaussians": 2, "laplaces": 3}, "1e-6", ["tight", "zcdp", "zcdp-loose"], ["pure"]),
        ({"selections": 2000, "gaussians": 2000}, "4e-8", ["tight", "zcdp", "zcdp-loose"], ["pure"]),
    ],
)
def test_noise_puts_the_accountants_side_by_side(
    run: Run, counts: dict[str, int], delta: str, names: list[str], left_out: list[str]
) -> None:
    words = ["noise", "--epsilon", "1", "--delta", delta, "--sensitivity", "2"]
    words += [word for name, count in counts.items() for word in (f"--{name}", str(count))]
    code, out, err = run(*words, "--json")
    answer = json.loads(out)
    plans = {plan["accountant"]: plan for plan in answer["plans"]}
    assert code == 0 and err == "" and list(plans) == names and list(answer["left_out"]) == left_out
    assert [name for name, plan in plans.items() if plan["default"]] == ["tight"]
    scales = [plan["scale"] for plan in plans.values()]
    assert scales == sorted(scales) or scales[0] == pytest.approx(min(scales)), "nobody needs less than the tight one"
    for plan in plans.values():
        assert 0.999999 < plan["epsilon_spent"] <= 1
        deviations = {"gaussians": 1.0, "selections": 1.2825498301618641, "laplaces": 1.4142135623730951}
        for kind, key in (("gaussians", "gaussian_sd"), ("selections", "selection_sd"), ("laplaces", "laplace_sd")):
            if kind in counts:
                assert plan[key] == pytest.approx(plan["scale"] * deviations[kind], rel=1e-12)
            else:
                assert plan[key] is None
    code, out, _ = run(*words)
    assert code == 0 and "tight (default)" in out and all(name in out for name in [*names, *left_out])


@pytest.mark.parametrize("words", [[], ["learn"], ["nonsense"], ["learn", "--nonsense"], ["noise"]])
def test_words_that_are_not_understood_end_with_2(run: Run, words: list[str]) -> None:
    code, _, err = run(*words)
    assert code == 2 and "Usage: privfcd" in err


def test_help_and_version_end_with_0(run: Run) -> None:
    for words in (["--help"], ["learn", "-h"], ["demo", "--help"], ["noise", "--help"], ["audit", "--help"]):
        code, out, _ = run(*words)
        assert code == 0 and out.startswith("Usage: privfcd")
    code, out, _ = run("--version")
    assert code == 0 and out.startswith("privfcd, version ")


# Audits.


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["gaussian", "--epsilon", "1", "--delta", "1e-3", "--runs", "20000"], 0),
        (["gaussian", "--epsilon", "1", "--delta", "1e-3", "--runs", "20000", "--scale", "0.5"], 1),
        (["laplace", "--epsilon", "1", "--runs", "20000"], 0),
        (["laplace", "--epsilon", "1", "--runs", "20000", "--scale", "0.3"], 1),
        (["gumbel", "--epsilon", "1", "--runs", "20000"], 0),
        (["gumbel", "--epsilon", "1", "--runs", "20000", "--scale", "0.5"], 1),
        (["covariance", "--epsilon", "1", "--delta", "1e-3", "--runs", "20000"], 0),
        (["covariance", "--epsilon", "1", "--delta", "1e-3", "--runs", "20000", "--scale", "0.3"], 1),
        (["sensitivity", "--rows", "6", "--columns", "2", "--evaluations", "150"], 0),
        (["gaussian", "--epsilon", "-1", "--delta", "1e-3"], 2),
        (["gaussian", "--epsilon", "1", "--delta", "1"], 2),
        (["laplace", "--epsilon", "nan"], 2),
        (["gumbel", "--epsilon", "1", "--runs", "0"], 2),
        (["sensitivity", "--rows", "0"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_audits_end_with_their_verdict(run: Run, words: list[str], code: int) -> None:
    found, out, err = run("audit", *words, "--json")
    answer = json.loads(out)
    assert found == code and err == ""
    assert (set(answer) == {"error", "message"}) == (code == 2)
    if words[0] in ("gaussian", "laplace", "gumbel", "covariance") and code != 2:
        assert (answer["verdict"] == "violated") == (code == 1)


def test_names_with_brackets_are_printed_whole(run: Run, write_table: Write, tmp_path: Path) -> None:
    made = [write_table(tmp_path / f"{k}.csv", k, ("dose[mg]", "level[mol]", "c")) for k in range(2)]
    _, out, _ = run("learn", *made, *OPEN)
    assert "dose[mg]" in out and "level[mol]" in out


def test_names_that_look_like_closing_tags_do_not_end_the_run(run: Run, write_table: Write, tmp_path: Path) -> None:
    made = [write_table(tmp_path / f"{k}.csv", k, ("x", "ratio [/x]", "c")) for k in range(2)]
    code, out, _ = run("learn", *made, *OPEN)
    assert code == 0 and "ratio [/x]" in out


def test_names_with_dollars_and_emoji_codes_are_printed_and_drawn_as_they_are(
    run: Run, write_table: Write, tmp_path: Path
) -> None:
    names = ("$\\fr$", ":smile: [red]", "c")
    made = [write_table(tmp_path / f"{k}.csv", k, names) for k in range(2)]
    plot = tmp_path / "graph.png"
    code, out, err = run("learn", *made, *OPEN, "--plot", str(plot))
    assert code == 0 and err == "" and names[0] in out and names[1] in out and plot.stat().st_size > 1000


def test_an_open_run_names_no_source_of_noise(run: Run, files: list[str]) -> None:
    code, out, _ = run("learn", *files, *OPEN)
    assert code == 0 and "Noise: none" in out and "secure" not in out
    parties = json.loads(run("learn", *files, *OPEN, "--json")[1])["privacy"]["parties"]
    assert all(party["noise"].startswith("none") and not party["secure"] and party["head"] == "" for party in parties)


def test_help_does_not_wait_for_heavy_imports(tmp_path: Path) -> None:
    code = (
        "import sys; from privfcd.cli import main\n"
        "try: main(['learn', '--help'])\n"
        "except SystemExit: pass\n"
        "loaded = {'pandas', 'matplotlib', 'dp_accounting', 'scipy', 'networkx'} & set(sys.modules)\n"
        "sys.exit(f'imported {loaded}' if loaded else 0)"
    )
    home = str(Path(privfcd.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": home}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("Usage: privfcd learn"), done.stderr
