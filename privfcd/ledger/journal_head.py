"""The number and hash of a ledger's last entry, in a small file beside it: `north.sqlite-head` beside `north.sqlite`.

A chain of hashes cannot show that its newest entries were cut off, or that an old copy was put back. The file beside it
can: it is written after each commit, so that it never names an entry that the chain does not have yet. It has two slots,
each in a sector of its own and with a checksum, which are written in turn. It is not waited for until it is on disk: after a
power cut it may be behind the chain, which the next entry mends.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from privfcd.ledger.journal_errors import EditedLedger

_SLOT = 512
_LINE = re.compile(rb"([0-9a-f]{32}) ([0-9]{20}) ([0-9a-f]{64}) ([0-9a-f]{16}) *\n")


@dataclass(frozen=True)
class Head:
    """The ledger's id, and the number and hash of an entry; number 0 and the genesis hash before the first."""

    ledger: str
    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    def slot(self) -> bytes:
        """Return the bytes that stand for it."""
        words = f"{self.ledger} {self.number:020d} {self.hash}"
        return f"{words} {_check(words.encode())}".ljust(_SLOT - 1).encode() + b"\n"


def head_path(path: Path) -> Path:
    """Return where the head of the ledger at `path` is kept."""
    return Path(f"{path}-head")


def read_head(path: Path) -> Head | None:
    """Return the newest head in the file beside a ledger; None if there is no file.

    Raises
    ------
    EditedLedger
        Neither slot can be read.
    """
    try:
        handle = os.open(head_path(path), os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return None
    try:
        content = os.read(handle, 2 * _SLOT)
    finally:
        os.close(handle)
    found = [head for start in (0, _SLOT) if (head := _slot(content[start : start + _SLOT])) is not None]
    if not found:
        raise EditedLedger(
            f"{head_path(path)} is damaged: it should name the last entry of {path}. Run `privfcd ledger verify {path}` "
            f"with a head that was kept elsewhere; if that holds, remove {head_path(path)} and run `privfcd ledger adopt "
            f"{path}`"
        )
    return max(found, key=lambda head: head.number)


def write_head(path: Path, head: Head) -> None:
    """Write a head into its slot of the file that is there."""
    handle = os.open(head_path(path), os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        os.lseek(handle, head.number % 2 * _SLOT, os.SEEK_SET)
        os.write(handle, head.slot())
    finally:
        os.close(handle)


def create_head(path: Path, head: Head) -> None:
    """Make the file with one head, whole or not at all, for those who may use the ledger."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".head", dir=path.parent)
    try:
        with open(handle, "wb") as file:
            file.write(bytes(head.number % 2 * _SLOT) + head.slot())
            file.flush()
            status = os.stat(path)
            with contextlib.suppress(OSError, AttributeError):
                os.chown(temporary, status.st_uid if os.geteuid() == 0 else -1, status.st_gid)
            os.chmod(temporary, status.st_mode & 0o777)
            os.fsync(file.fileno())
        os.replace(temporary, head_path(path))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def _slot(content: bytes) -> Head | None:
    found = _LINE.fullmatch(content)
    if found is None or _check(content[:118]) != found[4].decode():
        return None
    return Head(found[1].decode(), int(found[2]), found[3].decode())


def _check(words: bytes) -> str:
    return hashlib.sha256(words).hexdigest()[:16]
