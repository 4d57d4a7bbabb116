"""Every example of the documentation runs: blocks of Python, and lines of shell that start with `$ privfcd`.

The blocks of one file share a namespace and an empty directory, in their order. A block after `<!-- not run -->` is left
out.
In shell blocks a line may be continued with a backslash, and `# exit N` at its end says with which code it ends (0 without).
"""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^(`{3,})\s*(\w*)\s*$")
_SKIP = "<!-- not run -->"
_EXIT = re.compile(r"\s+#\s*exit (\d+)\s*$")

Run = Callable[..., tuple[int, str, str]]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its first line's number in the file, from 1, and its text."""

    language: str
    line: int
    text: str


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
        if before != _SKIP:
            answer.append(Block(opened[2], at + 2, "\n".join(lines[at + 1 : end])))
        at, before = end + 1, ""
    return answer


def commands_of(block: Block) -> list[tuple[list[str], int]]:
    """Return the words of each `$ privfcd` line of a block, and the exit code that is expected."""
    answer = []
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("$ privfcd "):
            found = _EXIT.search(line)
            answer.append((shlex.split(line, comments=True)[2:], int(found[1]) if found else 0))
    return answer


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in FILES])
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "examples"}
    for block in blocks_of(path.read_text(encoding="utf-8")):
        if block.language == "python":
            # lines keep their numbers in tracebacks
            code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
            with warnings.catch_warnings():  # blocks may change what is shown
                exec(code, names)
        for words, expected in commands_of(block):
            code_, out, err = run(*words)
            assert code_ == expected, f"{path.name}: privfcd {shlex.join(words)} ended with {code_}:\n{out}{err}"


def test_blocks_are_found_and_left_out() -> None:
    python = "a\n\n```python\nx = 1\n```\n\n<!-- not run -->\n\n```python\ny\n```\n"
    text = python + "```sh\n$ privfcd noise \\\n  --epsilon 1 # exit 2\nls\n```\n"
    found = blocks_of(text)
    assert [(block.language, block.line, block.text.splitlines()[0]) for block in found] == [
        ("python", 4, "x = 1"),
        ("sh", 13, "$ privfcd noise \\"),
    ]
    assert commands_of(found[1]) == [(["noise", "--epsilon", "1"], 2)]


def test_links_between_files_lead_somewhere() -> None:
    for path in FILES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name} links to {target}, which does not exist"


def test_methods_on_the_command_line_exist() -> None:
    from privfcd.cli.methods import METHODS

    text = (ROOT / "docs" / "learners.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--method ([a-z][a-z-]*)", text)) <= set(METHODS)
