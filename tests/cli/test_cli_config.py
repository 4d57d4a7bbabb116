"""--config and init: options from a file, checked key by key, and the same run again."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import privfcd.cli.init as init_module
from privfcd.cli.main import cli
from privfcd.cli.settings import Bounds, Setting, from_text, setting_words

Run = Callable[..., tuple[int, str, str]]
QUICK = "rounds = 2\nupdates = 3\nstep = 0.5\nclip = 20\n"
STUDY = """
[study]
files = ["north.csv", "south.csv", "west.csv"]
epsilon = 5
bounds = 9.0
noise = "simulated"
seed = 3

[learn]
stability = 0

[learn.set]
rounds = 2
updates = 3
step = 0.5
clip = 20

[moments.release]
method = "covariance"
row-norm = 8
output = "m.npz"
"""


@pytest.fixture
def study(files: list[str], tmp_path: Path) -> Path:
    """A configuration beside three tables."""
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path


def test_a_file_gives_what_the_shell_would(run: Run, files: list[str], study: Path) -> None:
    code, out, err = run("learn", "--config", str(study), "--json")
    assert code == 0, err
    words = [
        "--epsilon",
        "5",
        "--bounds",
        "9",
        "--noise",
        "simulated",
        "--seed",
        "3",
        "--rounds",
        "2",
        "--updates",
        "3",
    ]
    plain = run("learn", *files, *words, "--step", "0.5", "--clip", "20", "--stability", "0", "--json")
    one, other = json.loads(out), json.loads(plain[1])
    assert one["edges"] == other["edges"] and one["parameters"] == other["parameters"]
    assert one["configuration"]["config"] == str(study) and other["configuration"]["config"] is None
    assert one["configuration"]["options"]["epsilon"] == 5 and one["configuration"]["options"]["set"]["rounds"] == 2


def test_the_configuration_of_a_run_gives_it_again(run: Run, study: Path) -> None:
    first = json.loads(run("learn", "--config", str(study), "--json")[1])
    command = shlex.split(first["configuration"]["command"])
    assert command[0] == "privfcd" and "--config" not in command
    again = json.loads(run(*command[1:], "--json")[1])
    assert again["edges"] == first["edges"] and again["parameters"] == first["parameters"]
    assert again["configuration"]["command"] == first["configuration"]["command"]


def test_the_command_line_wins_one_value_at_a_time(run: Run, study: Path) -> None:
    code, out, err = run("learn", "--config", str(study), "--epsilon", "2", "--set", "rounds=1", "--json")
    answer = json.loads(out)
    assert code == 0, err
    assert answer["configuration"]["options"]["epsilon"] == 2 and answer["parameters"]["rounds"] == 1
    assert answer["parameters"]["updates"] == 3, "other parameters of the file stay"
    assert all(party["epsilon"] <= 2 for party in answer["privacy"]["parties"])


def test_commands_share_the_study_and_have_tables_of_their_own(run: Run, study: Path) -> None:
    code, out, err = run("moments", "release", "--config", str(study), "--json")
    assert code == 0, err
    answer = json.loads(out)
    assert answer["rule"]["row norm"] == 8 and answer["output"] == str(study.parent / "m.npz"), "relative to the file"
    assert (study.parent / "m.npz").exists()
    # what the study says of tables is not held against moments; what [learn] says is
    made = str(study.parent / "m.npz")
    assert run("learn", made, "--config", str(study), "--method", "equal-variance", "--stability", "0")[0] == 2
    study.write_text(
        STUDY.replace("rounds = 2", "").replace("updates = 3", "").replace("step = 0.5", "").replace("clip = 20", "")
    )
    code, _, err = run("learn", made, "--config", str(study), "--method", "equal-variance", "--stability", "0")
    assert code == 0, err
    study.write_text(STUDY.replace("stability = 0", "stability = 0\nepsilon = 3"))
    code, _, err = run("learn", made, "--config", str(study), "--method", "equal-variance")
    assert code == 2 and "leave out --epsilon" in err


BAD = {
    "unknown table": ("[larn]\nepsilon = 1", "[larn] is unknown; accepted are [study], [learn]"),
    "unknown key": ("[learn]\nepsilom = 1", "key 'epsilom' of [learn] is unknown; accepted are bounds, center, clip"),
    "key of another command": ("[learn]\nrow-norm = 1", "key 'row-norm' of [learn] is unknown"),
    "not of the study": ("[study]\nthreshold = 1", "key 'threshold' of [study] is unknown"),
    "text for a number": ('[study]\nepsilon = "5"', "study.epsilon must be a number, got '5'"),
    "number for text": ("[learn]\ntarget = 5", "learn.target must be a text, got 5"),
    "boolean for a number": ("[study]\nepsilon = true", "study.epsilon must be a number, got True"),
    "fraction for a whole number": ("[learn]\nrounds = 1.5", "learn.rounds must be a whole number, got 1.5"),
    "number for a boolean": ("[study]\nlog1p = 1", "study.log1p must be true or false, got 1"),
    "choice": ('[learn]\nmethod = "magic"', "learn.method must be one of fed-sparse, equal-variance"),
    "list of numbers": ("[study]\nfiles = [1]", "study.files must be a list of texts, got 1"),
    "set": ("[learn]\nset = 3", "learn.set must be a table of parameters, got 3"),
    "bounds": ('[study]\nbounds = "9"', "study.bounds must be a number, or a table with one for each column"),
    "no table": ("study = 3", "study must be a table, [study], got 3"),
    "not TOML": ("[study\n", "is not TOML"),
    "another study": ('schema = 1\nname = "x"', "is a study of several machines"),
    "value refused": ("[study]\nepsilon = -1", "--epsilon (study.epsilon in"),
    "type of a parameter": ('[learn.set]\nrounds = "two"', "--set rounds must be a whole number or none, got 'two'"),
    "parameter of nobody": ("[learn.set]\nalpha = 1", "--set alpha does not belong to --method fed-sparse"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_in_a_file_is_named(run: Run, files: list[str], tmp_path: Path, name: str) -> None:
    text, message = BAD[name]
    path = tmp_path / "bad.toml"
    path.write_text(text)
    extra = [] if "epsilon" in text else ["--epsilon", "5"]
    code, out, err = run("learn", *files, "--config", str(path), *extra)
    assert code == 2 and out == "" and message in err.replace("\n", " "), err
    if name not in ("type of a parameter", "parameter of nobody"):
        assert "bad.toml" in err
    code, out, err = run("learn", *files, "--config", str(path), *extra, "--json")
    assert code == 2 and err == "" and message in json.loads(out)["message"]


def test_files_that_cannot_be_read_are_refused(run: Run, files: list[str], tmp_path: Path) -> None:
    code, _, err = run("learn", *files, "--config", str(tmp_path / "none.toml"))
    assert code == 2 and "cannot be read: there is no such file" in err
    (tmp_path / "long.toml").write_text("# " + "x" * 2**20)
    code, _, err = run("learn", *files, "--config", str(tmp_path / "long.toml"))
    assert code == 2 and "at most" in err


def test_a_contradiction_between_file_and_shell_is_refused_not_resolved(run: Run, study: Path) -> None:
    code, _, err = run("learn", "--config", str(study), "--no-privacy")
    assert code == 2 and "not both (study.epsilon in" in err.replace("\n", " ")
    study.write_text(STUDY.replace("epsilon = 5", ""))
    code, _, err = run("learn", "--config", str(study), "--no-privacy")
    assert code == 2 and "exact answers have no" in err


def test_other_commands_take_a_configuration(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "audits.toml"
    path.write_text('[audit.gaussian]\nepsilon = 1\ndelta = 1e-3\nruns = 2000\n[compare.regimes]\npairs = "7"\n')
    code, out, err = run("audit", "gaussian", "--config", str(path), "--json")
    assert code == 0, err
    assert json.loads(out)["claim"]
    assert {
        row["pairs"] for row in json.loads(run("compare", "regimes", "--config", str(path), "--json")[1])["rows"]
    } == {7}
    assert run("audit", "laplace", "--config", str(path))[0] == 2, "its table is not there, and epsilon is missing"


def test_the_written_configuration_is_understood(run: Run, files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "made" / "study.toml"
    path.parent.mkdir()
    words = [word for file in files for word in ("--files", file)]
    code, out, _ = run("init", str(path), *words, "--method", "pc", "--epsilon", "4")
    assert code == 0 and "Next: privfcd learn --config" in out
    document = tomllib.loads(path.read_text())
    assert document["study"] == {"files": files, "epsilon": 4.0}
    code, out, err = run("learn", "--config", str(path), "--dry-run", "--json")
    assert code == 0, err
    plan = json.loads(out)
    assert (
        plan["dry_run"]
        and plan["method"] == "PC"
        and [party["party"] for party in plan["parties"]] == ["north", "south", "west"]
    )
    assert run("moments", "release", "--config", str(path), "--dry-run", "--json")[0] == 0
    assert [each.name for each in path.parent.iterdir()] == ["study.toml"], "a plan writes nothing"
    # every line that is commented out is understood too, once it is not
    text = re.sub(r"^# (\w[\w.]* = )", r"\1", path.read_text(), flags=re.MULTILINE)
    whole = tomllib.loads(text)
    assert {"delta", "ledger", "bounds", "log1p"} <= set(whole["study"]) and "target" in whole["learn"]
    path.write_text(text)
    code, _, err = run("learn", "--config", str(path), "--method", "fed-sparse", "--dry-run")
    assert code == 2 and "north.sqlite" in err, "all keys and types are right; the ledgers of the example are not there"


def test_init_refuses_to_write_over_a_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init")[0] == 0 and Path("study.toml").exists()
    Path("study.toml").write_text("mine")
    code, _, err = run("init")
    assert code == 2 and "--force" in err and Path("study.toml").read_text() == "mine"
    assert run("init", "--force", "--epsilon", "2")[0] == 0 and "epsilon = 2.0" in Path("study.toml").read_text()
    code, out, _ = run("init", "other.toml", "--json")
    assert code == 0 and json.loads(out)["path"] == "other.toml"
    for words in (["--epsilon", "0"], ["--epsilon", "nan"], ["--ledger", "x"], ["--method", "magic"]):
        code, _, err = run("init", "third.toml", *words)
        assert code == 2 and err and not Path("third.toml").exists()
    assert run("init", "nowhere/study.toml")[0] == 2


def test_init_writes_paths_as_the_file_sees_them(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    assert run("init", "sub/study.toml", "--files", "a.csv", "--ledger", "sub/a.sqlite")[0] == 0
    study = tomllib.loads(Path("sub/study.toml").read_text())["study"]
    assert study == {"files": ["../a.csv"], "ledger": ["a.sqlite"]}, "with a ledger no epsilon is made up"


def test_init_asks_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(init_module, "_on_terminal", lambda: True)
    done = CliRunner().invoke(cli, ["init"], input="a.csv b.csv\npc\n2\n")
    assert done.exit_code == 0 and "Tables, one for each party" in done.stderr, done.output
    study = tomllib.loads(Path("study.toml").read_text())
    assert study["study"] == {"files": ["a.csv", "b.csv"], "epsilon": 2.0} and study["learn"]["method"] == "pc"
    done = CliRunner().invoke(
        cli, ["init", "--force", "--files", "c.csv", "--method", "ges", "--epsilon", "3"], input=""
    )
    assert done.exit_code == 0 and "Tables" not in done.stderr, "what was given is not asked for"


# Values with a structure.


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("0.5", 0.5), ("true", True), ("none", None), ("pc", "pc"), ("closed-form", "closed-form"),
     ("[1, 2]", [1, 2]), ("{a = 2, b = 3}", {"a": 2, "b": 3}), ("'3'", "3"), ("1e-3", 1e-3)],
)  # fmt: skip
def test_values_are_read_as_in_a_file(text: str, value: object) -> None:
    assert from_text(text) == value


plain = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False) | st.text(
    st.characters(exclude_categories=["Cc", "Cs"]), max_size=8
)  # fmt: skip


@given(st.text("abcxyz_", min_size=1, max_size=6), plain | st.lists(plain.filter(lambda v: v is not None), max_size=3))
def test_what_is_written_is_read_again(name: str, value: object) -> None:
    assert Setting().convert(setting_words(name, value), None, None) == (name, value)


def test_bounds_are_one_number_or_one_a_column() -> None:
    kind = Bounds()
    assert kind.convert("9", None, None) == 9.0 and kind.convert("a=9,b b=1e2", None, None) == {"a": 9.0, "b b": 100.0}
    for text in ("x", "a=", "=3", "a=1,b"):
        with pytest.raises(Exception, match="must be a number, or column=number"):
            kind.convert(text, None, None)


def test_bounds_for_each_column_reach_the_run(run: Run, files: list[str]) -> None:
    words = ["--epsilon", "5", "--method", "pc", "--dry-run", "--json"]
    code, _, err = run("learn", *files, "--bounds", "a=9,b=9,c=9", *words)
    assert code == 0, err
    assert run("learn", *files, "--bounds", "a=9", *words)[0] == 2


@pytest.mark.parametrize(
    ("method", "words", "message"),
    [
        ("pc", ["--set", "alpha=0.05"], ""),
        ("ges", ["--set", "max-parents=2"], ""),
        ("peri", ["--set", "local=ges"], ""),
        ("iperi", ["--set", "orientation=regret"], ""),
        ("fed-bnsl", ["--set", "local-step=frank-wolfe", "--rounds", "3"], ""),
        ("pc", ["--set", "alpha=high"], "--set alpha must be a number, got 'high'"),
        ("pc", ["--set", "alpha=2"], "--set alpha must be"),
        ("pc", ["--set", "max_cond_vars=2.5"], "--set max_cond_vars must be a whole number or none"),
        ("pc", ["--set", "alpha"], "must be name=value"),
        ("pc", ["--set", "alpha=0.1", "--set", "alpha=0.2"], "more than once"),
        ("pc", ["--set", "epsilon=1"], "--set epsilon must be given as --epsilon"),
        ("pc", ["--rounds", "3"], "--rounds does not belong to --method pc"),
        ("fed-sparse", ["--rounds", "3", "--set", "rounds=4"], "give --rounds or --set rounds, not both"),
        ("iperi", ["--set", "orientation=none"], "--set orientation must be one of votes, regret, authors"),
    ],
)
def test_parameters_without_a_flag(run: Run, files: list[str], method: str, words: list[str], message: str) -> None:
    code, out, err = run("learn", *files, "--method", method, "--no-privacy", "--json", *words)
    if message:
        assert code == 2 and message in json.loads(out)["message"] and err == ""
    else:
        assert code == 0, out
        name, _, value = words[1].partition("=")
        assert str(json.loads(out)["parameters"][name.replace("-", "_")]) == value
