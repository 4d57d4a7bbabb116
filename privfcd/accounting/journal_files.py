"""A ledger's file: made whole or not at all, opened, and what went wrong with it told by name.

The file is never opened other than by SQLite: closing any other handle on it would drop the locks of this process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from privfcd.accounting.journal_errors import (
    ForeignFile,
    LedgerFull,
    LedgerLocked,
    LedgerMissing,
    LedgerReadOnly,
    LedgerUnavailable,
    TruncatedLedger,
)
from privfcd.accounting.journal_rules import now
from privfcd.accounting.journal_schema import APPLICATION_ID, PAGE_SIZE, write_schema
from privfcd.errors import LedgerCorrupt

_MAGIC = b"SQLite format 3\0"
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\w*|9p|afs|afpfs|ceph|glusterfs|lustre|gpfs|beegfs|ncpfs|coda|ocfs2|gfs2|davfs\d?|virtiofs|"
    r"vboxsf|vmhgfs|prl_fs|drvfs|fuse\.(sshfs|s3fs|gcsfuse|glusterfs|ceph|rclone|davfs2?|vmhgfs-fuse|juicefs))"
)
_held_open: list[int] = []


def create(path: Path) -> None:
    """Make a ledger without entries at `path`, readable by its owner only; leave one that is there alone.

    It is made under another name and then linked, so that nobody ever sees half of it.
    """
    with translated(path):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        os.close(handle)
        try:
            with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                write_schema(connection, now())
            _take_name(temporary, path)
        finally:
            for suffix in ("", "-wal", "-shm", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary + suffix)
        _sync_folder(path.parent)


def connect(path: Path, timeout: float) -> sqlite3.Connection:
    """Open a ledger's database for writing, each commit on disk before it returns."""
    uri = path.as_uri() + "?mode=rw"
    connection = sqlite3.connect(uri, timeout=timeout, uri=True, isolation_level=None, check_same_thread=False)
    try:
        for pragma in ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")  # see SqliteJournal._checkpoint
        connection.execute("PRAGMA journal_size_limit = 0")  # the log's size on disk is its length
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_reading(path: Path, timeout: float = 10.0) -> sqlite3.Connection:
    """Open a ledger's database for reading only, also where nothing beside it can be written."""
    check_present(path)
    # A reader of a file at rest that may write removes SQLite's files beside it afterwards; others leave them there.
    first = "mode=ro" if size_of(f"{path}-wal") else "mode=rw"
    for mode in (first, "mode=ro&immutable=1"):
        connection = sqlite3.connect(
            f"{path.as_uri()}?{mode}", timeout=timeout, uri=True, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            connection.close()
            unwritable = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
            # What is still in the log beside the file can be read only with SQLite's shared memory.
            if not unwritable or size_of(f"{path}-wal"):
                raise
            failure = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise failure


def check_present(path: Path) -> None:
    """Raise LedgerMissing or TruncatedLedger unless there is something at `path`; SQLite would take it for new."""
    if not path.is_file():
        raise LedgerMissing(f"there is no ledger at {path}")
    if size_of(path) < len(_MAGIC):
        raise TruncatedLedger(f"{path} is empty, or all but: what was spent is not known any more")


def check_whole(path: Path) -> None:
    """Raise TruncatedLedger if the last page lacks its end; SQLite would fill it up with zeros."""
    size = size_of(path)
    if size % PAGE_SIZE and not size_of(f"{path}-wal"):
        raise TruncatedLedger(f"{path} was cut short: {size} bytes are left, not a whole number of pages")


def check_writable(path: Path) -> None:
    """Raise LedgerReadOnly unless the file can be written, and its folder, where SQLite keeps its log."""
    effective = os.access in os.supports_effective_ids
    for place in (path, path.parent):
        if not os.access(place, os.W_OK, effective_ids=effective):
            raise LedgerReadOnly(f"{place} cannot be written to: a ledger needs its file and its folder writable")


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells the file from another one of that name; None if there is none."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def size_of(path: str | Path) -> int:
    """Return a file's size in bytes; 0 if there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def network_file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the name of the network file system that `path` is on; None if it is on none that can be told.

    Parameters
    ----------
    mounts : str, optional
        Text of /proc/self/mountinfo, which is read by default where there is one.
    """
    if str(path).startswith("\\\\"):
        return "network share"
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return None
    found, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) < 5 or not right:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split()[4])
        if (path == Path(point) or Path(point) in path.parents) and len(point) >= len(found):
            found, kind = point, right.split()[0]
    return kind if _NETWORK.fullmatch(kind) else None


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the operating system into those of `journal_errors`."""
    try:
        yield
    except sqlite3.Error as error:
        raise _named(error, path) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
            raise LedgerFull(f"the disk of {path} is full: nothing was recorded") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise LedgerReadOnly(f"{error.filename or path} cannot be written to") from error
        raise LedgerUnavailable(f"{path} cannot be used: {error}") from error


def _named(error: sqlite3.Error, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerLocked(f"{path} is locked by another process: nothing was recorded; try again later")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return LedgerReadOnly(f"{path} cannot be written to ({error}): nothing was recorded")
        case sqlite3.SQLITE_FULL:
            return LedgerFull(f"the disk of {path} is full: nothing was recorded")
        case sqlite3.SQLITE_IOERR:
            if _disk_is_full(path):
                return LedgerFull(f"the disk of {path} is full: nothing was recorded")
            return LedgerUnavailable(f"the disk of {path} failed ({error}): nothing was granted")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damage(error, path)
        case sqlite3.SQLITE_CONSTRAINT:
            return LedgerCorrupt(f"{path}: an entry was refused that would break the ledger's rules ({error})")
        case 0 if isinstance(error, sqlite3.ProgrammingError):
            return LedgerUnavailable(f"{path}: {error}")
    return LedgerCorrupt(f"{path}: {error}")


def _damage(error: sqlite3.Error, path: Path) -> LedgerCorrupt:
    """Return what is wrong with a file that SQLite cannot read: not ours, cut short, or else."""
    size = size_of(path)
    header = b""
    with contextlib.suppress(OSError):
        # Not closed on purpose: that would drop the locks of other connections of this process on the file.
        _held_open.append(os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0)))
        header = os.read(_held_open[-1], 100)
    if not header.startswith(_MAGIC[: max(len(header), 1)]):
        return ForeignFile(f"{path} is not an SQLite database, so not a privfcd ledger; it was left as it is")
    if len(header) < 100:
        return TruncatedLedger(f"{path} was cut short: {size} bytes are left, less than a header")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        return ForeignFile(f"{path} is an SQLite database, but not a privfcd ledger; it was left as it is")
    pages, page_size = int.from_bytes(header[28:32], "big"), int.from_bytes(header[16:18], "big")
    if size % page_size or (size < pages * page_size and not size_of(f"{path}-wal")):
        return TruncatedLedger(f"{path} was cut short: {size} bytes are left of at least {pages * page_size}")
    return LedgerCorrupt(f"{path} is damaged: {error}. Nothing in it was changed; `verify` says more")


def _take_name(temporary: str, path: Path) -> None:
    """Give the file its name unless the name is taken, in one step."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links: reserve the name first
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return
        os.replace(temporary, path)


def _sync_folder(folder: Path) -> None:
    """Put the folder's list of names on disk, where the operating system lets one."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _disk_is_full(path: Path) -> bool:
    if not hasattr(os, "statvfs"):
        return False
    status = os.statvfs(path.parent)
    return status.f_bavail * status.f_frsize < 65536
