"""Files and texts of others: bounded before they are parsed, and one error for whatever a parser says of damaged ones.

A parser meets truncated, hostile and mistaken contents, and raises whatever its depths raise: RecursionError, MemoryError,
OverflowError, zlib.error. Who reads through `parsing` raises one error that names what was read and says what to do next.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any

from privfcd.errors import InvalidParameter, PrivfcdError
from privfcd.markup import one_line

MOST_PARTS = 16  # as in `_DOTTED`
"""Parts of a dotted key in TOML: Python's parser takes time and memory by their square."""

MOST_RATIO, _FREE = 100, 64 * 2**20
"""How many times its length a packed file may hold, beyond what is let pass in any case."""

_TEXTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_DOTTED = re.compile(r"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){16}")


@contextmanager
def parsing(
    says: str, error: Callable[[str], Exception] = InvalidParameter, advice: str = "get it again from where it came"
) -> Iterator[None]:
    """Turn whatever is raised inside, but for errors of privfcd, into one that names what is read.

    Parameters
    ----------
    says : str
        How its words begin, such as "study 'trial.toml' is not TOML"; the reason follows.
    error : callable
        Makes the error from its words.
    advice : str
        What to do next.
    """
    try:
        yield
    except PrivfcdError:
        raise
    except RecursionError:
        raise error(f"{says}: it is nested too deeply; {advice}") from None
    except MemoryError:
        raise error(f"{says}: it asks for more memory than there is; {advice}") from None
    except UnicodeDecodeError as problem:
        raise error(f"{says}: it is not UTF-8 text ({problem.reason} at byte {problem.start}); {advice}") from problem
    except Exception as problem:
        why = one_line(problem) or type(problem).__name__
        raise error(f"{says}: {f'it has no {why}' if isinstance(problem, KeyError) else why}; {advice}") from problem


def content_of(
    path: str | os.PathLike[str], what: str, most: int, error: Callable[[str], Exception] = InvalidParameter
) -> bytes:
    """Return a file's bytes; refuse, before it is read, what is no file or longer than `most` bytes.

    Raises
    ------
    error
        It is not there, cannot be read, is a folder, or is too long; named as `what`.
    """
    place = Path(path)
    try:
        status = place.stat()
        if S_ISDIR(status.st_mode):
            raise error(f"{what} cannot be read: it is a folder; give a file")
        if not S_ISREG(status.st_mode) or status.st_size <= most:  # pipes are read as far as they may be long
            with open(place, "rb") as file:
                content = file.read(most + 1)
            if len(content) <= most:
                return content
    except FileNotFoundError:
        raise error(f"{what} cannot be read: there is no such file") from None
    except (OSError, ValueError) as problem:  # a name with a zero character is a ValueError
        why = getattr(problem, "strerror", None) or problem
        raise error(f"{what} cannot be read: {why}") from problem
    raise error(f"{what} cannot be read: it must have at most {most} bytes; is it the right file?")


def toml_of(content: bytes, what: str, error: Callable[[str], Exception] = InvalidParameter) -> dict[str, Any]:
    """Return a TOML document."""
    import tomllib

    with parsing(f"{what} is not TOML that can be read", error, "mend it, or get it again"):
        text = content.decode("utf-8-sig")
        if not _DOTTED.search(_TEXTS.sub("", text)):
            return tomllib.loads(text)
    raise error(f"{what} has a name of more than {MOST_PARTS} parts with dots between them; use tables instead")


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it; None, which TOML has not, as `none`."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return toml_text(value)
        case Mapping():
            return "{" + ", ".join(f"{toml_text(str(key))} = {toml_value(item)}" for key, item in value.items()) + "}"
        case Sequence():
            return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value)


def toml_text(value: str) -> str:
    """Return a text as TOML has it, control characters escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\u{ord(found[0]):04x}", escaped) + '"'


def unzipped(content: bytes, what: str, error: Callable[[str], Exception] = InvalidParameter) -> bytes:
    """Return what a gzip file holds, which may be 2⁶ MiB and `MOST_RATIO` times its length at most."""
    import zlib

    most = _FREE + MOST_RATIO * len(content)
    parts, length = [], 0
    with parsing(f"{what}: not a readable gzip file", error):
        while content:
            reader = zlib.decompressobj(wbits=31)
            parts.append(reader.decompress(content, most + 1 - length))
            length += len(parts[-1])
            if length > most:
                raise error(
                    f"{what}: not a readable gzip file: it holds more than {most} bytes; unpack it and look at it"
                )
            if not reader.eof:
                raise EOFError("it is cut short")
            content = reader.unused_data.lstrip(b"\0")
    return b"".join(parts)


def check_ratio(held: int, length: int, what: str) -> None:
    """Refuse a file of `length` bytes that would hold `held` when unpacked: honest ones are never so far packed."""
    if held > _FREE + MOST_RATIO * length:
        raise InvalidParameter(
            f"{what} says that it holds {held} bytes in {length}: it is damaged or made up; get it again"
        )
