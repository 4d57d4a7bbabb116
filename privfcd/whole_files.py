"""Write a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path

from privfcd.errors import InvalidParameter


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file beside its place and put it there in one step; a link is followed, an old file keeps its mode.

    Parameters
    ----------
    path : path
        Where it goes.
    content : bytes
        All of it.

    Raises
    ------
    InvalidParameter
        It cannot be written; what was there before is still there.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except OSError as error:
        raise InvalidParameter(f"path {os.fspath(path)!r} cannot be written: {error.strerror}") from error
    finally:  # of an interruption too
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
