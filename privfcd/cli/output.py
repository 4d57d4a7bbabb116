"""What commands share: options, numbers from the shell, tables, JSON and files."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

Function = TypeVar("Function", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object for machines.")


def console(*, stderr: bool = False) -> Console:
    """Return the terminal; wide enough for tables where it is a file or a pipe."""
    from rich.console import Console

    made = Console(stderr=stderr, highlight=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=120)


def print_json(value: Any) -> None:
    """Print one JSON object; infinities and NaN become text, which JSON has no numbers for."""
    click.echo(json.dumps(jsonable(value), indent=2, ensure_ascii=False))


def jsonable(value: Any) -> Any:
    """Return `value` without floats that JSON cannot hold."""
    if isinstance(value, dict):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a whole file or nothing."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent or ".", prefix=f".{target.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, target)
    except OSError as error:
        raise click.UsageError(f"cannot write {str(target)!r}: {error.strerror}") from error


def significant(value: float, digits: int = 6) -> str:
    """Return a number with so many significant digits."""
    return "inf" if math.isinf(value) else f"{value:.{digits}g}"
