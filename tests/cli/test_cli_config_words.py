"""Values in configurations and on the command line: what Windows writes, what no float holds, and who wins."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfcd.cli.settings import Bounds, Setting, bounds_words, setting_words

Run = Callable[..., tuple[int, str, str]]

REFUSED = {
    "the same key twice": (
        "[study]\nepsilon = 5\nno-privacy = true\nno_privacy = false",
        "are the same option: give one",
    ),
    "no float": (f"[study]\nepsilon = {'9' * 400}", "study.epsilon must be a number"),
    "a bound that is no float": (
        f"[study]\nepsilon = 1\nbounds = {{a = {'9' * 400}}}",
        "study.bounds must be a number",
    ),
    "5000 digits": (f"[study]\nepsilon = {'9' * 5000}", "is not TOML that can be read"),
    "5000 brackets": (f"[study]\nx = {'[' * 5000}", "is not TOML that can be read"),
    "no path": ('[study]\nepsilon = 1\nfiles = ["a\\u0000b"]', "study.files must be a list of texts"),
    "a date": ("[study]\nepsilon = 2020-01-01", "study.epsilon must be a number"),
    "infinity": ("[study]\nepsilon = inf", "--epsilon (study.epsilon in"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_nothing_holds_are_refused(run: Run, files: list[str], tmp_path: Path, name: str) -> None:
    text, message = REFUSED[name]
    path = tmp_path / "study.toml"
    path.write_text(text)
    code, out, err = run("learn", *files, "--config", str(path), "--dry-run", "--json")
    answer = json.loads(out)
    assert code == 2 and err == "" and message in answer["message"]


def test_a_file_from_windows_is_read(run: Run, files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xef\xbb\xbf[study]\r\nepsilon = 0\r\n")
    code, _, err = run("learn", *files, "--config", str(path))
    assert code == 2 and "must be a finite number above 0, got 0" in err


def test_an_endless_file_is_not_read_to_its_end(run: Run, files: list[str]) -> None:
    code, _, err = run("learn", *files, "--config", "/dev/zero")
    assert code == 2 and "at most 1048576 bytes" in err


def test_a_flag_wins_over_the_file_s_set_and_the_other_way_round(run: Run, files: list[str], tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    common = "[study]\nepsilon = 5\nbounds = 9\n[learn]\nclip = 20\nstep = 0.5\nupdates = 3\n"
    for text, words in (("set = {rounds = 60}", ["--rounds", "2"]), ("rounds = 60", ["--set", "rounds=2"])):
        path.write_text(common + text)
        code, out, err = run("learn", *files, "--config", str(path), *words, "--dry-run", "--json")
        assert code == 0, err + out
        answer = json.loads(out)
        assert answer["rounds"] == 2
        again = shlex.split(answer["configuration"]["command"])[1:]
        assert "60" not in again and json.loads(run(*again, "--dry-run", "--json")[1])["rounds"] == 2
    code, out, _ = run("learn", *files, "--config", str(path), "--rounds", "2", "--set", "rounds=2", "--json")
    assert code == 2 and "give --rounds or --set rounds, not both" in out


def test_a_table_whose_name_begins_with_a_dash_is_named_so_that_it_runs_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_table: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_table(Path("-a.csv"), 1)
    words = ["learn", "--epsilon", "20", "--bounds", "9", "--method", "equal-variance", "--dry-run", "--json"]
    first = json.loads(run(*words, "--", "-a.csv")[1])["configuration"]["command"]
    assert first.endswith(" -- -a.csv")
    *before, dashes, file = shlex.split(first)[1:]
    assert json.loads(run(*before, "--dry-run", "--json", dashes, file)[1])["configuration"]["command"] == first


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.dictionaries(NAMES, st.floats(1e-9, 1e9), min_size=1, max_size=4))
def test_bounds_in_words_are_read_as_the_same_bounds(bounds: dict[str, float]) -> None:
    assert Bounds().convert(bounds_words(bounds), None, None) == bounds


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_with_control_characters_are_read_as_the_same(value: str) -> None:
    assert Setting().convert(setting_words("x", [value]), None, None) == ("x", [value])


def test_a_column_has_one_bound() -> None:
    with pytest.raises(click.BadParameter, match="'a' twice"):
        Bounds().convert("a=1,b=2, a = 3", None, None)
