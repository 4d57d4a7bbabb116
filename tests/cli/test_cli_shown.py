"""Names come from others: nothing of them may rewrite the screen, in text, tables, JSON, warnings or errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from privfcd.cli.main import cli, main
from privfcd.cli.output import console, echo, print_json, say
from privfcd.markup import json_escaped, one_line, writable

EVIL = "a\u202eb\x1b[2Jc\x9bd\u2066e\x00f"
FORBIDDEN = set("\u202e\u2066\x1b\x9b\x00")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    quoted = json.dumps(EVIL.replace("\x00", ""))
    path.write_text(
        f'schema = 1\nname = {quoted}\nmethod = "pc"\nparties = [{quoted}, "b"]\ncolumns = ["x", {quoted}]\n'
        "[budget]\nepsilon = 2\ndelta = 1e-6\n"
    )
    return path


def test_what_others_named_is_shown_harmlessly(study: Path) -> None:
    words = ["coordinator", "run", "--config", str(study), "--superlink", "127.0.0.1:9", "--insecure", "--dry-run"]
    shown = CliRunner().invoke(cli, words)
    assert shown.exit_code == 0 and not FORBIDDEN & set(shown.output) and "a�b" in shown.output
    as_json = CliRunner().invoke(cli, [*words, "--json"])
    assert not FORBIDDEN & set(as_json.output)
    assert json.loads(as_json.output)["name"] == EVIL.replace("\x00", "")  # nothing is lost for programs


def test_errors_and_tables_too(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    with pytest.raises(SystemExit):
        main(["party", "preview", str(study), "--name", "\x1b[2J\u202ec", "--table", "t.csv", "--ledger", "l"])
    table = Table(title=EVIL)
    table.add_column(EVIL)
    table.add_row(EVIL)
    console().print(table)
    say(EVIL)
    echo(EVIL)
    print_json({EVIL: EVIL})
    caught = capsys.readouterr()
    assert not FORBIDDEN & set(caught.out + caught.err) and "a�b" in caught.out and "study's parties" in caught.err


@given(st.text())
def test_one_line_is_one_line_and_json_reads_the_same(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1 and len(one_line(text)) <= 200
    assert writable(writable(text)) == writable(text)
    document = json.dumps({"name": text}, ensure_ascii=False)
    assert json.loads(json_escaped(document)) == {"name": text}
