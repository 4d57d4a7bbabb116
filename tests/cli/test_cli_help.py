"""Help: one screen at the top, and examples that are true everywhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import privfcd
from privfcd.cli.config import TABLES, config_option, table_of
from privfcd.cli.main import COMMANDS, SECTIONS, cli


def all_commands(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group, with its words."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        yield inner.command_path, command
        if isinstance(command, click.Group):
            yield from all_commands(command, inner)


ALL = dict(all_commands(cli, click.Context(cli, info_name="privfcd")))


def examples_of(command: click.Command) -> list[str]:
    """Return the example lines of a command's help, continued ones joined."""
    found = re.search(r"\x08\n *Examples?:\n(.*)", command.help or "", re.DOTALL)
    lines = [] if found is None else found[1].replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip()]


def parsed(words: list[str]) -> tuple[click.Command, click.Context]:
    """Parse words down to the last command, and run nothing."""
    command: click.Command = cli
    context = cli.make_context("privfcd", list(words))
    while isinstance(command, click.Group):
        first = getattr(context, "_protected_args", None) or getattr(
            context, "protected_args", []
        )  # by click's version
        name, found, rest = command.resolve_command(context, [*first, *context.args])
        assert found is not None and name is not None
        context = found.make_context(name, rest, parent=context)
        command = found
    return command, context


def test_the_first_help_fits_a_screen() -> None:
    text = CliRunner().invoke(cli, ["--help"], prog_name="privfcd", terminal_width=80).output
    lines = text.splitlines()
    assert len(lines) <= 23 and max(map(len, lines)) <= 79
    for title, rows in SECTIONS:
        assert title in lines
        for words, what in rows:
            assert f"privfcd {words}" in ALL and any(words in line and what in line for line in lines)
    assert {words.split()[0] for _, rows in SECTIONS for words, _ in rows} == set(COMMANDS)


@pytest.mark.parametrize("words", ALL)
def test_every_command_is_described_and_has_examples(words: str) -> None:
    command = ALL[words]
    assert command.help and len(command.get_short_help_str()) > 15
    examples = examples_of(command)
    assert examples and all(line.startswith("privfcd ") for line in examples)
    if not isinstance(command, click.Group):
        assert any(line.startswith(words) for line in examples)
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name
    text = CliRunner().invoke(cli, [*words.split()[1:], "--help"], prog_name="privfcd", terminal_width=80).output
    assert text.startswith(f"Usage: {words}") and "Example" in text


@pytest.mark.parametrize("words", ALL)
def test_examples_are_understood(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(cli, ["init", "study.toml", "--files", "a.csv"], prog_name="privfcd").exit_code == 0
    Path("north.jsonl").touch()  # `ledger restore` takes an export that is there
    for line in examples_of(ALL[words]):
        call = shlex.split(re.sub(r"\s\(.*\)$", "", line), comments=True)
        end = call.index(">") if ">" in call else None
        _, context = parsed(call[1:end])
        assert context.params


def test_quick_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("truth.csv").write_text("from,to\na,b\nb,c\n")
    Path("learnt.json").write_text('{"nodes": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "directed": true, "multigraph": '
                                   'false, "graph": {}, "edges": [{"source": "a", "target": "b"}]}')  # fmt: skip
    called = 0
    for words in ("noise", "ledger init", "ledger show", "ledger verify", "ledger export", "init", "compare graphs",
                  "audit sensitivity"):  # fmt: skip
        for line in examples_of(ALL[f"privfcd {words}"]):
            call = shlex.split(line, comments=True)
            end = call.index(">") if ">" in call else None
            shorter = ["--evaluations", "200"] if words == "audit sensitivity" else []  # README.md does it in full
            done = CliRunner().invoke(cli, [*call[1:end], *shorter], prog_name="privfcd")
            if words == "ledger init" and "--rho" in line:
                assert "must be the declared one" in str(done.exception), "the second example is of another ledger"
            else:
                assert done.exit_code == 0, (line, done.output, done.exception)
            called += 1
    assert called >= 8


def test_options_stand_in_sections() -> None:
    text = CliRunner().invoke(cli, ["learn", "--help"], prog_name="privfcd", terminal_width=80).output
    titles = ["Basic options:", "Privacy options:", "Method's own options:", "Output options:", "Other options:"]
    places = [text.index(f"\n{title}\n") for title in titles]
    assert places == sorted(places)
    for title, flags in zip(titles, ("--method --dry-run", "--epsilon --ledger --noise", "--rounds --set",
                                     "--graph --json --stability", "--config --quiet --help"), strict=True):  # fmt: skip
        section = text[text.index(f"\n{title}\n") :].split("\n\n")[0]
        assert all(flag in section for flag in flags.split()), title


def test_the_tables_of_a_configuration_are_the_commands_that_take_one() -> None:
    taking = {
        words.removeprefix("privfcd ").replace(" ", ".")
        for words, command in ALL.items()
        if any(parameter.name == "config" and not parameter.required for parameter in command.params)
    }
    assert {"study", *taking} == set(TABLES)
    assert callable(config_option) and table_of(click.Context(cli, info_name="privfcd")) == ""


def test_help_imports_no_command(tmp_path: Path) -> None:
    code = (
        "import sys; from privfcd.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'pandas', 'networkx', 'dp_accounting', 'rich', 'privfcd.cli.learn'} & set(sys.modules)\n"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(privfcd.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "Catch it lying" in done.stdout, done.stderr


def test_completion_knows_commands_and_options() -> None:
    environment = {"_PRIVFCD_COMPLETE": "bash_complete", "COMP_WORDS": "privfcd le", "COMP_CWORD": "1"}
    home = str(Path(privfcd.__file__).parents[1])
    code = "from privfcd.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment, "PYTHONPATH": home},
        capture_output=True,
        text=True,
    )
    assert "plain,learn" in done.stdout and "plain,ledger" in done.stdout, done.stderr
