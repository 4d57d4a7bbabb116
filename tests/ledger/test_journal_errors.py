"""What can go wrong with a stored ledger: each fault by its own name, nothing granted, the old state intact."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from privfcd.accounting import Budget, ZCDpEvent
from privfcd.errors import InvalidParameter, LedgerCorrupt, PrivfcdError
from privfcd.ledger import Ledger
from privfcd.ledger import journal_errors as errors
from privfcd.ledger.journal_files import create, network_file_system
from privfcd.ledger.journal_schema import new_settings
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import export, init_ledger, open_ledger, show, verify

BUDGET = Budget(rho=1)
STEP = ZCDpEvent(0.01)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A ledger with an entry for each of ten charges, and closed."""
    place = tmp_path / "ledger.db"
    with SqliteJournal(place) as journal:
        ledger = Ledger(BUDGET, name="patients", journal=journal)
        for index in range(10):
            ledger.charge(STEP, f"step {index}")
    return place


def spent(path: Path) -> str:
    return str(show(path)["data_sets"]["patients"]["accounts"]["rho"]["spent_exact"])


@contextlib.contextmanager
def another_user(*folders: Path) -> Iterator[None]:
    """Act without the rights of root, who may write anywhere."""
    if os.name != "posix":
        pytest.skip("needs POSIX users")
    if os.geteuid() != 0:
        yield
        return
    for folder in folders:
        for place in (folder, *folder.parents):
            if (
                place.owner() == "root"
                and place.is_relative_to(tempfile.gettempdir())
                and place != Path(tempfile.gettempdir())
            ):
                place.chmod(place.stat().st_mode | 0o055)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# --- cannot be used now -------------------------------------------------------------------------------------------


def test_missing(tmp_path: Path) -> None:
    for call in (show, verify, lambda p: list(export(p)), lambda p: open_ledger(p, "a")):
        with pytest.raises(errors.LedgerMissing, match="no ledger at"):
            call(tmp_path / "none.db")
    with pytest.raises(errors.LedgerMissing):
        SqliteJournal(tmp_path / "none.db", create=False)
    with pytest.raises(errors.LedgerMissing):
        SqliteJournal(tmp_path)
    with pytest.raises(InvalidParameter, match="a folder that exists"):
        SqliteJournal(tmp_path / "none" / "ledger.db")
    with pytest.raises(InvalidParameter, match="timeout"):
        SqliteJournal(tmp_path / "none.db", timeout=0)
    assert os.listdir(tmp_path) == []


def test_read_only_file_and_folder(path: Path) -> None:
    path.chmod(0o444)
    with another_user(path.parent):
        with pytest.raises(errors.LedgerReadOnly, match="writable"):
            SqliteJournal(path)
        with pytest.raises(errors.LedgerReadOnly):
            SqliteJournal(path.parent / "new.db")
        assert spent(path) == "0.1" and verify(path).ok
    assert sorted(os.listdir(path.parent)) == ["ledger.db", "ledger.db-head"]


def test_a_file_that_becomes_read_only_stops_charges(path: Path) -> None:
    ledger = open_ledger(path, "patients")
    journal = ledger._journal
    assert isinstance(journal, SqliteJournal)
    journal._live().execute("PRAGMA query_only = ON")
    with pytest.raises(errors.LedgerReadOnly, match="cannot be written to"):
        ledger.charge(STEP)
    journal._live().execute("PRAGMA query_only = OFF")
    assert ledger.spent() == {"rho": 0.1}
    ledger.charge(STEP)
    journal.close()


def test_locked_fails_closed_after_the_timeout(path: Path) -> None:
    ledger = open_ledger(path, "patients", timeout=0.2)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(errors.LedgerLocked, match="try again later"):
            ledger.charge(STEP)
        assert time.monotonic() - start > 0.1
        assert ledger.spent() == {"rho": 0.1}
        other.execute("ROLLBACK")
    ledger.charge(STEP)
    assert ledger.spent() == {"rho": 0.11}


def test_full_disk_by_the_page_limit(path: Path) -> None:
    ledger = open_ledger(path, "patients")
    journal = ledger._journal
    assert isinstance(journal, SqliteJournal)
    (pages,) = journal._live().execute("PRAGMA page_count").fetchone()
    journal._live().execute(f"PRAGMA max_page_count = {pages}")
    granted = 0
    with pytest.raises(errors.LedgerFull, match="nothing was granted"):
        for _ in range(80):
            ledger.charge(STEP, "x" * 500)
            granted += 1
    assert ledger.spent_units() == {"rho": (10 + granted) * 10**22}
    journal._live().execute("PRAGMA max_page_count = 100000")
    ledger.charge(STEP)
    journal.close()
    assert verify(path).ok and spent(path) == f"{0.11 + granted / 100:.2f}"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    made = os.name == "posix" and os.geteuid() == 0 and shutil.which("mount")
    if (
        not made
        or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", place], capture_output=True).returncode
    ):
        pytest.skip("a small disk can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_full_disk(small_disk: Path) -> None:
    path = small_disk / "ledger.db"
    init_ledger(path, "patients", BUDGET)
    ledger = open_ledger(path, "patients")
    granted = 0
    with pytest.raises(errors.LedgerFull):
        for _ in range(100):
            ledger.charge(ZCDpEvent(1e-3), "x" * 20_000)
            granted += 1
    assert granted > 2
    assert ledger.spent_units() == {"rho": granted * 10**21}
    assert verify(path).ok and verify(path).entries == granted + 1
    with pytest.raises(errors.LedgerFull):
        create_on_full(small_disk)
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    ledger.charge(ZCDpEvent(1e-3), "after")
    assert verify(path).ok and verify(path).entries == granted + 2


def create_on_full(folder: Path) -> None:
    with contextlib.suppress(OSError), open(folder / "filler", "wb", buffering=0) as filler:
        while True:
            filler.write(b"x" * 1024)
    try:
        create(folder / "second.db", new_settings("now"))
    finally:
        assert sorted(os.listdir(folder)) == ["filler", "ledger.db", "ledger.db-head", "ledger.db-journal"]
        os.unlink(folder / "filler")


def test_newer_schema(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    content = path.read_bytes()
    for call in (SqliteJournal, show, verify):
        with pytest.raises(errors.NewerLedger, match="update privfcd"):
            call(path)
    assert path.read_bytes() == content


def test_an_old_sqlite_is_refused_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(errors.LedgerUnavailable, match=r"3\.37\.0"):
        SqliteJournal(path)


# --- not what was left there --------------------------------------------------------------------------------------


def foreign_text(path: Path) -> None:
    path.write_text("name,age\n" * 1000)


def foreign_database(path: Path) -> None:
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE entries (x)")
        connection.commit()


@pytest.mark.parametrize("spoil", [foreign_text, foreign_database])
def test_foreign_file(path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(path)
    content = path.read_bytes()
    for call in (SqliteJournal, show):
        with pytest.raises(errors.ForeignFile, match="left as it is"):
            call(path)
    assert not verify(path).ok
    assert path.read_bytes() == content


@pytest.mark.parametrize("size", [0, 1, 60, 200, 4095, 4096, 5000, 8192, -4096, -1])
def test_truncated(path: Path, size: int) -> None:
    content = path.read_bytes()[:size]
    path.write_bytes(content)
    for call in (SqliteJournal, show):
        with pytest.raises(errors.TruncatedLedger, match=r"cut short|is empty"):
            call(path)
    found = verify(path)
    assert "cut short" in found.problems[0] or "is empty" in found.problems[0]
    assert path.read_bytes() == content


def test_overwritten_bytes_are_noticed_wherever_there_was_something(path: Path) -> None:
    content, spoilt = path.read_bytes(), 0
    for end in [100, *range(4096, len(content) + 1, 4096)]:
        if any(content[end - 50 : end]):
            path.write_bytes(content[: end - 50] + b"?" * 50 + content[end:])
            assert not verify(path).ok, end
            spoilt += 1
    assert spoilt >= 4
    path.write_bytes(content)
    assert verify(path).ok


def edit(path: Path, *statements: str) -> None:
    """Change rows as somebody would who drops the triggers first and puts them back."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount != 0
        for _, text in triggers:
            connection.execute(text)


ZERO = "0" * 60
EDITS = {
    "balance": (
        f"UPDATE accounts SET spent = '{ZERO}'",
        "the balance of 'rho' of 'patients' is 0 of 1, its entries give",
    ),
    "cap": (f"UPDATE accounts SET cap = '{'9' * 60}'", "the balance of 'rho' of 'patients' is 0.1 of 99999"),
    "account gone": ("DELETE FROM accounts", "the balance of 'rho' of 'patients' is missing"),
    "not a number": ("UPDATE accounts SET spent = 'nothing'", "a balance of 'patients' is not a number"),
    "last entry": ("UPDATE entries SET spent = '{}' WHERE number = 11", "entry 11 .* does not have the hash"),
    "not an entry": ("UPDATE entries SET spent = '?' WHERE number = 11", "entry 11 cannot be read"),
    "last hash": (f"UPDATE entries SET hash = '{'0' * 64}' WHERE number = 11", "entry 11 .* does not have the hash"),
    "opening": ("UPDATE entries SET label = 'x' WHERE number = 1", "entry 1 .* does not have the hash"),
    "last entry gone": ("DELETE FROM entries WHERE number = 11", "its entries give 0.09 of 1"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_row_stops_the_next_charge_and_is_told_precisely(path: Path, name: str) -> None:
    statement, words = EDITS[name]
    edit(path, statement)
    found = verify(path)
    assert not found.ok
    with pytest.raises(errors.EditedLedger):
        with SqliteJournal(path) as journal:
            Ledger(BUDGET, name="patients", journal=journal).charge(STEP)
    assert verify(path) == found
    assert any(re.search(words, problem) for problem in found.problems), found


def test_a_changed_definition_is_noticed(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TRIGGER keep_entries_delete")
    with pytest.raises(errors.EditedLedger, match="definitions of keep_entries_delete"):
        SqliteJournal(path)
    assert "keep_entries_delete" in verify(path).problems[0]


def test_an_edited_answer_is_not_sent(path: Path) -> None:
    ledger = open_ledger(path, "patients")
    ledger.answer_once("q", STEP, lambda: b"answer")
    edit(path, "UPDATE answers SET answer = x'00'")
    with pytest.raises(errors.EditedLedger, match="request 'q'"):
        ledger.answer_once("q", STEP, lambda: b"other")
    assert any("answer to request 'q' of 'patients' was changed" in problem for problem in verify(path).problems)
    edit(path, "DELETE FROM answers")
    assert any("answer to request 'q' of 'patients' is missing" in problem for problem in verify(path).problems)


def test_a_file_that_is_replaced_while_in_use_gets_no_charges(path: Path) -> None:
    old = path.with_name("old.db")
    shutil.copy(path, old)
    ledger = open_ledger(path, "patients")
    ledger.charge(STEP)
    os.replace(old, path)
    with pytest.raises(errors.ReplacedLedger, match="nothing was granted"):
        ledger.charge(STEP)
    path.unlink()
    with pytest.raises(errors.ReplacedLedger):
        ledger.charge(STEP)


# --- warnings -----------------------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_warns_and_keeps_the_order(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = open_ledger(path, "patients")
    back = (datetime.now(UTC) - timedelta(days=2)).isoformat(timespec="milliseconds")
    for module in ("sqlite_journal", "journal_rows"):
        monkeypatch.setattr(f"privfcd.ledger.{module}.now", lambda: back)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.ClockWentBack):
            ledger.charge(STEP)
    assert ledger.spent() == {"rho": 0.1}  # what warns is not paid for and lost
    with pytest.warns(errors.ClockWentBack, match="s behind the last entry"):
        entry = ledger.charge(STEP)
    assert (entry.sequence, entry.time) == (11, back)
    with warnings.catch_warnings():  # one wrong moment is told of once
        warnings.simplefilter("error")
        ledger.charge(STEP)
    assert ledger.spent() == {"rho": 0.12}
    found = verify(path)
    assert found.ok and "entry 12 ('patients' 11) has the time" in found.notes[0]


MOUNTS = r"""21 1 252:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 21 0:35 / /srv rw - tmpfs none rw
41 21 0:36 / /srv/our\040share rw,relatime master:2 - nfs4 host:/x rw
42 41 0:37 / /srv/our\040share/local rw - xfs /dev/vdb rw
43 21 0:38 / /home/me/far rw - fuse.sshfs me@host: rw
44 21 0:39 / /odd
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/srv/our share/ledger.db", "nfs4"),
        ("/srv/our share/local/ledger.db", None),
        ("/srv/our sharex/ledger.db", None),
        ("/home/me/far/deep/ledger.db", "fuse.sshfs"),
        ("/var/lib/ledger.db", None),
        ("\\\\host\\share\\ledger.db", "network share"),
    ],
)
def test_network_file_systems_are_known_from_the_mounts(place: str, kind: str | None) -> None:
    assert network_file_system(Path(place), MOUNTS) == kind


def test_a_network_file_system_warns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert network_file_system(path) is None
    monkeypatch.setattr("privfcd.ledger.journal_files.network_file_system", lambda _: "nfs4")
    with pytest.warns(errors.NetworkFileSystem, match="nfs4"):
        SqliteJournal(path).close()


def test_every_error_is_privfcds_own() -> None:
    named = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    for kind in named:
        assert issubclass(kind, PrivfcdError | Warning)
    for kind in (errors.ForeignFile, errors.TruncatedLedger, errors.EditedLedger, errors.ReplacedLedger):
        assert issubclass(kind, LedgerCorrupt)
