"""A ledger's file: made whole or not at all, known by one name, opened, and what went wrong with it told by name.

The file is never opened other than by SQLite: closing any other handle on it would drop the locks of this process.

A commit is on disk before it returns: SQLite's rollback journal with `synchronous = EXTRA`, so that all that was spent is in
the file itself. `PERSIST` keeps the journal's file between commits with its header zeroed, which saves making and removing
it each time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from privfcd.errors import LedgerCorrupt, PrivfcdError
from privfcd.ledger.journal_errors import (
    ForeignFile,
    LedgerFull,
    LedgerLocked,
    LedgerMissing,
    LedgerReadOnly,
    LedgerUnavailable,
    OldLedger,
    SeveralNames,
    TruncatedLedger,
)
from privfcd.ledger.journal_head import create_head, head_path
from privfcd.ledger.journal_rows import Rows
from privfcd.ledger.journal_schema import APPLICATION_ID, PAGE_SIZE, SCHEMA_VERSION, check_version, write_schema

LOGS = ("-wal", "-shm", "-journal")
_MAGIC = b"SQLite format 3\0"
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\w*|9p|afs|afpfs|ceph|glusterfs|lustre|gpfs|beegfs|ncpfs|coda|ocfs2|gfs2|davfs\d?|virtiofs|"
    r"vboxsf|vmhgfs|prl_fs|drvfs|fuse\.(sshfs|s3fs|gcsfuse|glusterfs|ceph|rclone|davfs2?|vmhgfs-fuse|juicefs))"
)
_held_open: list[int] = []


def create(path: Path, settings: dict[str, str], fill: Callable[[Rows], None] = lambda rows: None) -> None:
    """Make a ledger at `path`, readable by its owner only, without entries or with those that `fill` writes.

    It is made under another name and then linked, so that nobody ever sees half of it; a ledger that is there is left alone.

    Raises
    ------
    LedgerUnavailable
        Files of an earlier ledger lie beside: what was spent might come back with them, or be forgotten without them.
    """
    left = [name for name in (*(f"{path}{suffix}" for suffix in LOGS), str(head_path(path))) if os.path.lexists(name)]
    if left and not path.exists():
        raise LedgerUnavailable(
            f"no ledger was made: {', '.join(left)} belong to an earlier ledger {path}, which is not there. Put it back, "
            "or make one from an export (`privfcd ledger restore`) or under another name"
        )
    with translated(path):
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
        os.close(handle)
        try:
            with contextlib.closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
                connection.execute("BEGIN IMMEDIATE")
                write_schema(connection, settings)
                fill(Rows(connection, settings["ledger"], str(path)))
                connection.execute("COMMIT")
            _take_name(temporary, path)
        finally:
            for suffix in ("", *LOGS):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary + suffix)
        sync_folder(path.parent)


def connect(path: Path, timeout: float, *, log: str = "journal_mode = PERSIST") -> sqlite3.Connection:
    """Open a ledger's database for writing, each commit on disk before it returns; `log` is the pragma that says how."""
    connection = _open(path, "mode=rw", timeout)
    try:
        for pragma in ("fullfsync = ON", "cell_size_check = ON", "trusted_schema = OFF", log, "synchronous = EXTRA"):
            connection.execute(f"PRAGMA {pragma}")
    except BaseException:
        connection.close()
        raise
    return connection


def close(connection: sqlite3.Connection) -> None:
    """Close a connection that wrote, and remove its journal's file if nobody else writes now."""
    with contextlib.suppress(sqlite3.Error):
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()


@contextlib.contextmanager
def reading(path: Path, timeout: float = 10.0) -> Iterator[sqlite3.Connection]:
    """Open a ledger's database for reading only. Nothing is made beside it, whoever reads.

    Where a writer died in the middle of a commit, its journal has to be rolled back first: who may write the ledger does
    that, and others are told.
    """
    check_state(path)
    connection = _open(path, "mode=ro", timeout)
    try:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.DatabaseError as error:
            if not _interrupted(error, path):
                raise
            connection.close()
            check_writable(path, "a charge was interrupted, which has to be undone first by who may write it: ")
            writer = connect(path, timeout)
            try:
                writer.execute("BEGIN IMMEDIATE")
                writer.execute("ROLLBACK")
            finally:
                close(writer)
            check_state(path)
            connection = _open(path, "mode=ro", timeout)
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        yield connection
    finally:
        connection.close()


def check_state(path: Path, versions: tuple[int, ...] | None = None) -> None:
    """Raise unless `path` is a ledger of this version in one file of one name; reads its first page only.

    Parameters
    ----------
    versions : tuple of int, optional
        Versions that are accepted, whatever log they keep; this one with a rollback journal by default.
    """
    check_present(path)
    check_one_name(path)
    try:
        with contextlib.closing(_open(path, "mode=ro&immutable=1", 1.0)) as connection:
            check_version(connection, str(path), (SCHEMA_VERSION,) if versions is None else versions)
            (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    except sqlite3.DatabaseError:
        if size_of(f"{path}-journal"):  # half of a commit, which whoever opens the file next undoes
            return
        raise
    if versions is not None:
        return
    if mode == "wal" or os.path.lexists(f"{path}-wal"):
        raise OldLedger(
            f"{path} is in SQLite's write-ahead mode, which privfcd does not leave it in: another program changed that. Run "
            f"`privfcd ledger upgrade {path}`"
        )


def check_one_name(path: Path) -> None:
    """Raise SeveralNames where the file has a second name, or is mounted alone: SQLite's journal goes by the name."""
    check_names(path)
    mounts = _mounts()
    if str(path) in mounts or (not mounts and os.stat(path).st_dev != os.stat(path.parent).st_dev):
        raise SeveralNames(
            f"{path} is a mount of a single file, whose journal would stay on this side of the mount. Mount the folder that "
            "holds the ledger instead"
        )


def check_names(path: Path) -> None:
    """Raise SeveralNames where the file has a second name."""
    status = os.stat(path)
    if status.st_nlink > 1:
        for other in path.parent.glob(f".{path.name}.*.new"):  # `create` died after it had linked the file
            if os.path.samestat(os.stat(other), status):
                other.unlink(missing_ok=True)
        status = os.stat(path)
    if status.st_nlink > 1:
        raise SeveralNames(
            f"{path} has {status.st_nlink} names (hard links): a charge under one name would not be undone or seen "
            f"under the other. Remove the others (`find / -xdev -samefile {path}`), or use a copy of the ledger's own"
        )


def check_present(path: Path) -> None:
    """Raise LedgerMissing or TruncatedLedger unless there is something at `path`; SQLite would take it for new."""
    if not path.is_file():
        raise LedgerMissing(f"there is no ledger at {path}")
    if size_of(path) < len(_MAGIC):
        raise TruncatedLedger(f"{path} is empty, or all but: what was spent is not known any more. {_NEXT}")
    if size_of(path) < 100:
        raise _damage(sqlite3.DatabaseError("no whole header"), path)


def check_whole(path: Path) -> None:
    """Raise TruncatedLedger if the last page lacks its end; SQLite would fill it up with zeros."""
    size = size_of(path)
    if size % PAGE_SIZE:
        raise TruncatedLedger(f"{path} was cut short: {size} bytes are left, not a whole number of pages")


def check_writable(path: Path, why: str = "") -> None:
    """Raise LedgerReadOnly unless the file can be written, its head, and its folder, where SQLite keeps its journal."""
    effective = os.access in os.supports_effective_ids
    for place in (path, path.parent, head_path(path), Path(f"{path}-journal")):
        if place.exists() and not os.access(place, os.W_OK, effective_ids=effective):
            raise LedgerReadOnly(f"{why}{place} cannot be written to: a ledger needs its file and its folder writable")


def log_commits(path: Path) -> int:
    """Return how many pages the write-ahead log of a ledger of version 1 says are committed, readable or not.

    SQLite leaves out without a word what does not have its checksum, and all after it.
    """
    log = Path(f"{path}-wal")
    if not size_of(log):
        return 0
    content = log.read_bytes()
    starts = range(32, len(content) - 23, 24 + PAGE_SIZE)  # a header, then a header of 24 bytes before each page
    same = [start for start in starts if content[start + 8 : start + 16] == content[16:24]]
    commits = [start for start in same if any(content[start + 4 : start + 8])]
    return max(((start - 32) // (24 + PAGE_SIZE) + 1 for start in commits), default=int(not same))


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
    found, kind, place = "", "", str(path)
    for point, its_kind in _mounts(mounts).items():
        if (place + "/").startswith(point.rstrip("/") + "/") and len(point) >= len(found):
            found, kind = point, its_kind
    return kind if _NETWORK.fullmatch(kind) else None


def _mounts(text: str | None = None) -> dict[str, str]:
    """Return the kind of file system by mount point; empty where the operating system does not say."""
    if text is None:
        try:
            text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return {}
    points = {}
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        if len(left.split()) >= 5 and right:
            points[re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), left.split()[4])] = right.split()[0]
    return points


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn the errors of SQLite and of the operating system into those of `journal_errors`, and those of a damaged file.

    A byte that flipped can make a text of a number, or drop a table: whatever then fails while rows are read is damage.
    """
    try:
        yield
    except PrivfcdError:
        raise
    except sqlite3.Error as error:
        raise _named(error, path) from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)):
            raise LedgerFull(f"the disk of {path} is full: nothing was granted") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise LedgerReadOnly(f"{error.filename or path} cannot be written to") from error
        raise LedgerUnavailable(f"{path} cannot be used: {error}") from error
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise LedgerCorrupt(f"{path} is damaged ({type(error).__name__}: {error}). {_NEXT}") from error


_NEXT = (
    "Nothing was granted, and nothing in it was changed. `privfcd ledger verify` says more; put the newest copy back, or "
    "make a ledger from an export (`privfcd ledger restore`)"
)


def _named(error: sqlite3.Error, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LedgerLocked(f"{path} is locked by another process: nothing was granted; try again later")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return LedgerReadOnly(f"{path} cannot be written to ({error}): nothing was granted")
        case sqlite3.SQLITE_FULL:
            return LedgerFull(f"the disk of {path} is full: nothing was granted")
        case sqlite3.SQLITE_IOERR:
            if _disk_is_full(path):
                return LedgerFull(f"the disk of {path} is full: nothing was granted")
            return LedgerUnavailable(f"the disk of {path} failed ({error}): nothing was granted")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damage(error, path)
        case sqlite3.SQLITE_CONSTRAINT:
            return LedgerCorrupt(f"{path}: an entry was refused that would break the ledger's rules ({error}). {_NEXT}")
        case 0 if isinstance(error, sqlite3.ProgrammingError):
            return LedgerUnavailable(
                f"{path} was closed in the middle of a charge, by a fork: nothing was granted ({error})"
            )
    return LedgerCorrupt(f"{path} is damaged: {error}. {_NEXT}")


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
    if size % max(page_size, 1) or size < pages * page_size:
        return TruncatedLedger(f"{path} was cut short: {size} bytes are left of at least {pages * page_size}")
    return LedgerCorrupt(f"{path} is damaged: {error}. {_NEXT}")


def _open(path: Path, mode: str, timeout: float) -> sqlite3.Connection:
    uri = f"{path.as_uri()}?{mode}"
    return sqlite3.connect(uri, timeout=timeout, uri=True, isolation_level=None, check_same_thread=False)


def _interrupted(error: sqlite3.Error, path: Path) -> bool:
    """Return whether a reader was refused because of a journal that has to be rolled back."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN) and size_of(f"{path}-journal") > 0


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


def put_head(path: Path, rows: Rows) -> None:
    """Make the file beside the ledger that names its last entry."""
    create_head(path, rows.newest())
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
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
