"""What commands print and write with: the terminal, numbers, JSON, and checks of files."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privfcd.cli.flags import CONFIGURED
from privfcd.markup import json_escaped, writable

if TYPE_CHECKING:
    from rich.console import Console


DATABASE = b"SQLite format 3\0"
"""How every file of SQLite begins."""


def console(*, stderr: bool = False) -> Console:
    """Return the terminal; wide enough for tables where it is a file or a pipe.

    Text is printed as it is, but for what could rewrite the screen around it, see `markup.writable`: names come from others.
    """
    from rich.console import Console
    from rich.text import Text

    class Plain(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(writable(text), **options)

    def made(width: int | None) -> Console:
        return Plain(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)

    terminal = made(None)
    return terminal if terminal.is_terminal else made(120)


def say(text: str, *, stderr: bool = False) -> None:
    """Print a line of text literally, never folded: paths and hashes stay whole."""
    console(stderr=stderr).print(text, soft_wrap=True, markup=False, emoji=False)


def echo(text: object, *, err: bool = False) -> None:
    """Print text as it is, lines and all, but for what could rewrite the screen; see `console`."""
    click.echo(writable(text), err=err)


def print_json(value: Any) -> None:
    """Print one JSON object; infinities and NaN become text, which JSON has no numbers for."""
    text = json_escaped(json.dumps(jsonable(value), indent=2, ensure_ascii=False))
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(jsonable(value), indent=2)
    click.echo(text)


def jsonable(value: Any) -> Any:
    """Return `value` without floats that JSON cannot hold."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def check_writable(path: str | os.PathLike[str]) -> None:
    """Refuse a file that could not be written, as far as can be known: its folder is tried out.

    A ledger is refused too, whoever uses it: with it would go what was spent.
    """
    target = Path(os.path.realpath(path))
    try:
        if not target.parent.is_dir():
            raise click.UsageError(f"the folder of {str(path)!r} does not exist")
        if target.exists() and not target.is_file():
            raise click.UsageError(f"cannot write {str(path)!r}: it is not a file")
        if target.exists() and _is_database(target):
            raise click.UsageError(
                f"cannot write {str(path)!r}: it is an SQLite database, such as a ledger, which nothing is written over"
            )
        with tempfile.TemporaryFile(dir=target.parent):
            return
    except OSError as error:
        raise click.UsageError(f"cannot write {str(path)!r}: {error.strerror}") from error


def _is_database(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(len(DATABASE)) == DATABASE


def check_apart(outputs: Iterable[str], inputs: Iterable[str]) -> None:
    """Refuse outputs that would be written over an input, the configuration or each other, whatever links lead there."""
    context = click.get_current_context(silent=True)
    configured = None if context is None else context.meta.get(CONFIGURED)
    read = [*inputs, *([] if configured is None else [configured.path])]
    taken = [(path, "is read in the same run") for path in read]
    for path in outputs:
        for other, why in taken:
            if _same_file(path, other):
                raise click.UsageError(f"cannot write {path!r}: {other!r} {why}")
        taken.append((path, "is written in the same run"))


def _same_file(one: str, other: str) -> bool:
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def significant(value: float, digits: int = 6) -> str:
    """Return a number with so many significant digits."""
    return "inf" if math.isinf(value) else f"{value:.{digits}g}"
