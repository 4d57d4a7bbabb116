"""Every example of the documentation runs: blocks of Python, and every line of a shell block.

The blocks of one file share a namespace and a folder, in their order. In the folder are six parties' tables: `a.csv`,
`b.csv`, `c.csv`, `north.csv`, `south.csv` and `west.csv`. A block after `<!-- not run: why -->` is left out.
The lines of a shell block are `privfcd` commands, with `$ ` before them or without. A line may go on after a backslash, its
output may go to a file (`> FILE`), and `# exit N` at its end says with which code it ends (0 without). In a block with
lines that begin with `$ ` the others are output, which is not compared. A block of text after `<!-- part of the output -->`
quotes the last command: each of its lines but `...` is in what the command printed, in this order.
"""

from __future__ import annotations

import csv
import re
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from privfcd.datasets import linear_gaussian

ROOT = Path(__file__).parents[2]
FILES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TABLES = ("a", "b", "c", "north", "south", "west")

_FENCE = re.compile(r"^(`{3,})\s*([\w{}-]*).*$")
_SKIP = re.compile(r"<!-- not run: .+ -->")
_QUOTED = "<!-- part of the output -->"
_EXIT = re.compile(r"\s+#\s*exit (\d+)\s*$")
_SHELL = "sh"
_NOT_CODE = {"", "text", "toml", "{toctree}", "{eval-rst}"}

Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its first line's number in the file, from 1, its text, and whether that is output."""

    language: str
    line: int
    text: str
    quoted: bool = False


@dataclass(frozen=True)
class Command:
    """A line of shell: the words after `privfcd`, the exit code that is expected, and where its output goes."""

    words: list[str]
    code: int = 0
    into: str | None = None


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a Markdown text that are to be run."""
    answer: list[Block] = []
    lines = text.splitlines()
    at, before = 0, ""
    while at < len(lines):
        opened = _FENCE.match(lines[at])
        if opened is None:
            before = lines[at].strip() or before
            at += 1
            continue
        end = lines.index(opened[1], at + 1)
        if not _SKIP.fullmatch(before):
            answer.append(Block(opened[2], at + 2, "\n".join(lines[at + 1 : end]), before == _QUOTED))
        at, before = end + 1, ""
    return answer


def commands_of(block: Block) -> list[Command]:
    """Return the commands of a shell block; a line that is none must not be there."""
    if block.language != _SHELL:
        return []
    lines = [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]
    if any(line.startswith("$ ") for line in lines):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    answer = []
    for line in lines:
        words = shlex.split(line, comments=True)
        if not words:
            continue
        assert words[0] == "privfcd", f"line {block.line}: {line!r} is not run, and its block is not marked so"
        into = words[words.index(">") + 1] if ">" in words else None
        found = _EXIT.search(line)
        answer.append(
            Command(words[1 : words.index(">") if ">" in words else None], int(found[1]) if found else 0, into)
        )
    return answer


def quoted(text: str, printed: str) -> bool:
    """Say whether the lines of a text are lines of what was printed, in the same order; spaces do not count."""
    lines = iter([line.split() for line in printed.splitlines()])
    return all(line.split() in lines for line in text.splitlines() if line.strip() not in ("", "..."))


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with six parties' tables of 2000 rows and the columns a to f."""
    folder = tmp_path_factory.mktemp("tables")
    for name, rows in zip(TABLES, linear_gaussian(d=6, parties=6, rows=2000, seed=1000).tables, strict=True):
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([list("abcdef"), *rows.tolist()])
    return folder


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in FILES])
def test_examples_run(path: Path, tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    blocks = blocks_of(path.read_text(encoding="utf-8"))
    for table in tables.iterdir():
        (tmp_path / table.name).write_bytes(table.read_bytes())
    monkeypatch.chdir(tmp_path)
    module = ModuleType("examples")
    monkeypatch.setitem(sys.modules, "examples", module)  # dataclasses look up their module
    printed = ""
    for block in blocks:
        if block.quoted:
            assert quoted(block.text, printed), f"{path.name}, line {block.line}: the last command printed:\n{printed}"
        if block.language == "python":
            # lines keep their numbers in tracebacks
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec", dont_inherit=True)
            with warnings.catch_warnings():  # blocks may change what is shown
                exec(code, module.__dict__)
        for command in commands_of(block):
            code_, out, err = run(*command.words)
            assert code_ == command.code, f"{path.name}: {shlex.join(command.words)} ended with {code_}:\n{out}{err}"
            printed = out
            if command.into is not None:
                Path(command.into).write_text(out, encoding="utf-8")


def test_blocks_are_found_and_left_out() -> None:
    python = "a\n\n```python\nx = 1\n```\n\n<!-- not run: slow -->\n\n```python\ny\n```\n\n```{toctree}\nz\n```\n"
    text = python + "```sh\n$ privfcd noise \\\n  --epsilon 1 # exit 2\nout\n```\n\n```sh\nprivfcd x > y # z\n```\n"
    found = blocks_of(text)
    assert [(block.language, block.line, block.text.splitlines()[0]) for block in found] == [
        ("python", 4, "x = 1"),
        ("{toctree}", 14, "z"),
        ("sh", 17, "$ privfcd noise \\"),
        ("sh", 23, "privfcd x > y # z"),
    ]
    assert commands_of(found[2]) == [Command(["noise", "--epsilon", "1"], 2)]
    assert commands_of(found[3]) == [Command(["x"], 0, "y")]


def test_quoted_output_is_compared() -> None:
    text = f"{_QUOTED}\n\n```text\nb  c\n...\ne\n```\n"
    (block,) = blocks_of(text)
    assert block.quoted and not blocks_of(text.replace(_QUOTED, "x"))[0].quoted
    assert quoted(block.text, "a\n b c\nd\ne") and quoted(block.text, "b c\ne")
    assert not quoted(block.text, "e\nb c") and not quoted(block.text, "b c d\ne") and not quoted(block.text, "")


def test_a_line_of_shell_that_nobody_runs_is_a_fault() -> None:
    with pytest.raises(AssertionError, match="curl x"):
        commands_of(Block("sh", 1, "privfcd demo\ncurl x"))


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in FILES])
def test_no_block_escapes_by_its_language(path: Path) -> None:
    for block in blocks_of(path.read_text(encoding="utf-8")):
        assert block.language in {"python", _SHELL} | _NOT_CODE, f"{path.name}, line {block.line}"
        if block.language in ("", "text"):
            assert not re.search(r"^(\$ |privfcd |import |from \w+ import )", block.text, re.M), (
                f"{path.name}, line {block.line}"
            )


def test_links_between_files_lead_somewhere() -> None:
    for path in FILES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"


def test_methods_on_the_command_line_exist() -> None:
    from privfcd.algorithms.registry import LEARNERS

    text = (ROOT / "docs" / "learners.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--method ([a-z][a-z-]*)", text)) <= set(LEARNERS)
