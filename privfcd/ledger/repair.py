"""What brings a stored ledger back into use: from an older format, from an export, or without the file that names its head.

None of these gives anything back: what cannot be known to be unspent counts as spent.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from privfcd.errors import LedgerCorrupt
from privfcd.ledger import journal_files as files
from privfcd.ledger.hash_chain import Record
from privfcd.ledger.journal import applied, now
from privfcd.ledger.journal_errors import LedgerLocked, LedgerUnavailable
from privfcd.ledger.journal_head import head_path, read_head
from privfcd.ledger.journal_rows import Rows
from privfcd.ledger.journal_schema import SCHEMA_VERSION, check_schema, check_version, new_settings, settings_of
from privfcd.ledger.replay import Replay
from privfcd.ledger.tools import Verification, verify, verify_export

_ALL_VERSIONS = tuple(range(1, SCHEMA_VERSION + 1))
_RESTORED = "left when the ledger was restored from an export: what was spent after it is not known"


def upgrade(path: str | os.PathLike[str], *, timeout: float = 10.0) -> tuple[int, str]:
    """Bring the ledger at `path` to the present format, in one transaction. Its chain goes on; what is spent stays spent.

    A ledger of version 1 keeps its newest entries in `-wal` beside it: upgrade it where it is, together with that file.

    Returns
    -------
    version : int
        Of the format that it had.
    head : str
        Number and hash of its last entry, as before.

    Raises
    ------
    LedgerCorrupt
        Its chain, its balances or its log are damaged. Nothing was changed.
    LedgerUnavailable
        Somebody uses it, or it cannot be written to.
    """
    place = Path(os.path.realpath(path))
    with files.translated(place):
        files.check_state(place, _ALL_VERSIONS)
        files.check_writable(place)
        _leave_log(place, timeout)
        with contextlib.ExitStack() as ending:
            connection = files.connect(place, timeout)
            ending.callback(files.close, connection)
            connection.execute("BEGIN IMMEDIATE")
            version = check_version(connection, str(place), _ALL_VERSIONS)
            check_schema(connection, str(place))
            settings = settings_of(connection, str(place), version)
            rows = Rows(connection, settings["ledger"], str(place))
            replay = Replay(rows.ledger, restored=int(settings["restored"]))
            replay.add_all(rows)
            replay.compare(rows)
            if replay.problems:
                raise LedgerCorrupt(f"{place} was not upgraded, because it is damaged: {replay.problems[0]}")
            beside = read_head(place)
            if beside is not None:
                rows.check_holds(beside, str(head_path(place)))
            if version == 1:
                connection.execute("INSERT INTO settings VALUES ('restored', '0')")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.execute("COMMIT")
            if version == 1:
                files.put_head(place, rows)
    return version, replay.head


def adopt(path: str | os.PathLike[str], head: str | None = None) -> Verification:
    """Take a ledger into use without the file beside it that names its last entry, after verifying it.

    Parameters
    ----------
    head : str, optional
        A head that was kept elsewhere. Without one, nothing shows whether entries were cut off.

    Raises
    ------
    LedgerCorrupt
        It does not verify, or does not hold `head`.
    """
    place = Path(os.path.realpath(path))
    found = verify(place, head)
    if not found.ok:
        raise LedgerCorrupt(f"{place} was not adopted: {found.problems[0]}")
    with files.translated(place), contextlib.ExitStack() as ending:
        connection = files.connect(place, 10.0)
        ending.callback(files.close, connection)
        connection.execute("BEGIN IMMEDIATE")
        if read_head(place) is None:
            ledger = settings_of(connection, str(place))["ledger"]
            files.put_head(place, Rows(connection, ledger, str(place)))
        connection.execute("ROLLBACK")
    return found


def restore(path: str | os.PathLike[str], lines: Iterable[str], head: str | None = None) -> bool:
    """Make the ledger at `path`, where none is, from the lines of an export.

    The export shows one moment. What was spent later is not known, so all that was left then counts as spent; unless
    `head` says that the export's last entry was the ledger's last.

    Parameters
    ----------
    head : str, optional
        Head of the lost ledger's last entry, as in the report of its last run.

    Returns
    -------
    bool
        Whether what was left then is left now.

    Raises
    ------
    LedgerCorrupt
        The export does not verify.
    LedgerUnavailable
        There is a ledger at `path`.
    """
    place = Path(os.path.realpath(path))
    lines = [line for line in lines if line.strip()]
    found = verify_export(lines)
    if found.problems:
        raise LedgerCorrupt(f"no ledger was made: the export is damaged: {found.problems[0]}")
    if place.exists():
        raise LedgerUnavailable(f"{place} is there already: restore to another name, or move it away first")
    header, *documents = [json.loads(line) for line in lines]
    known = head == found.head

    def fill(rows: Rows) -> None:
        for document in documents:
            rows.insert(Record.from_document(document, document["hash"]))
        for scope in sorted({document["scope"] for document in documents}):
            balance = rows.agreed_balance(scope)
            left = {
                account: cap - spent for account, (spent, cap) in balance.items() if cap is not None and cap > spent
            }
            if left and not known:
                rows.write(scope, "charge", _RESTORED, "", left, applied(balance, left, {}))

    settings = {**new_settings(str(header.get("created") or now())), "ledger": header["ledger"]}
    with files.translated(place):
        for suffix in (
            *files.LOGS,
            "-head",
        ):  # of the ledger that was lost; its journal must not be played into this one
            Path(f"{place}{suffix}").unlink(missing_ok=True)
    files.create(place, {**settings, "restored": str(found.entries)}, fill)
    adopt(place)
    return known


def _leave_log(path: Path, timeout: float) -> None:
    """Move what the write-ahead log of a ledger of version 1 holds into its file, and the file out of that mode."""
    log = files.log_commits(path)
    with contextlib.closing(files.connect(path, timeout, log="query_only = OFF")) as connection:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode == "wal":
            _, frames, moved = connection.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if frames != moved:
                raise LedgerLocked(f"{path} is in use: end what uses it, and try again")
            if log > frames:
                raise LedgerCorrupt(
                    f"{path} was not upgraded: its log ({path}-wal) holds {log} pages that were committed, of which only "
                    f"{frames} can be read. What was spent is not known; make a ledger from an export (`privfcd ledger "
                    "restore`)"
                )
            (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        if mode == "wal":
            raise LedgerLocked(f"{path} is in use: end what uses it, and try again")
