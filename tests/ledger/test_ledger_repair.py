"""Old formats, exports and missing heads: what is spent stays spent, and what cannot be known counts as spent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from privfcd.accounting import Budget, ZCDpEvent
from privfcd.errors import BudgetExceeded, LedgerCorrupt
from privfcd.ledger import journal_errors as errors
from privfcd.ledger.journal_head import head_path, read_head
from privfcd.ledger.journal_schema import APPLICATION_ID
from privfcd.ledger.repair import adopt, restore, upgrade
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import export, init_ledger, open_ledger, show, verify

STORED = Path(__file__).parent / "stored"
STEP = ZCDpEvent(0.01)


def spent(path: Path) -> dict[str, dict[str, str]]:
    data_sets = show(path)["data_sets"]
    return {
        name: {account: amounts["spent_exact"] for account, amounts in data["accounts"].items()}
        for name, data in data_sets.items()
    }


@pytest.fixture(params=["version-1.sqlite", "version-1-log.sqlite"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A ledger as version 1 left it: closed, or killed with all but the declarations in its log."""
    for suffix in ("", "-wal"):
        if (STORED / f"{request.param}{suffix}").exists():
            shutil.copy(STORED / f"{request.param}{suffix}", tmp_path / f"ledger.sqlite{suffix}")
    return tmp_path / "ledger.sqlite"


def test_an_old_ledger_says_what_to_run_and_keeps_all_that_was_spent(old: Path) -> None:
    before = {name: (old.parent / name).read_bytes() for name in os.listdir(old.parent)}
    for call in (show, verify, SqliteJournal, lambda path: open_ledger(path, "north"), lambda path: list(export(path))):
        with pytest.raises(errors.OldLedger, match="privfcd ledger upgrade"):
            call(old)
    assert {name: (old.parent / name).read_bytes() for name in os.listdir(old.parent)} == before

    version, head = upgrade(old)
    assert version == 1 and upgrade(old) == (2, head)
    assert spent(old) == json.loads((STORED / "version-1.json").read_text())["spent_exact"]
    found = verify(old, head)
    assert found.ok and found.entries == 14 and found.unfinished == 1
    assert sorted(os.listdir(old.parent)) == ["ledger.sqlite", "ledger.sqlite-head"]
    north = open_ledger(old, "north")
    assert north.answer_once("question", STEP, lambda: b"another") == b"answer"
    with pytest.raises(BudgetExceeded):
        north.charge(ZCDpEvent(0.723))
    north.charge(ZCDpEvent(0.7225))
    assert verify(old, head).ok


def test_a_damaged_log_of_an_old_ledger_is_no_upgrade(tmp_path: Path) -> None:
    log = (STORED / "version-1-log.sqlite-wal").read_bytes()
    for place in (0, 12, 20, 30, 32 + 10, 5000, len(log) // 2, len(log) - 3000):
        path = tmp_path / f"{place}.sqlite"
        shutil.copy(STORED / "version-1-log.sqlite", path)
        flipped = bytearray(log)
        flipped[place] ^= 1
        Path(f"{path}-wal").write_bytes(flipped)
        with pytest.raises(LedgerCorrupt, match="was not upgraded"):
            upgrade(path)
        with pytest.raises(errors.OldLedger):
            open_ledger(path, "north")


def test_an_upgrade_in_use_changes_nothing(old: Path) -> None:
    import sqlite3

    other = sqlite3.connect(old, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(errors.LedgerLocked):
        upgrade(old, timeout=0.1)
    other.execute("ROLLBACK")
    other.close()
    assert upgrade(old)[0] == 1


def test_another_programs_log_is_refused_and_upgraded_away(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "ledger.db"
    init_ledger(path, "a", Budget(rho=1))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.close()
    with pytest.raises(errors.OldLedger, match="write-ahead"):
        open_ledger(path, "a")
    assert upgrade(path)[0] == 2
    open_ledger(path, "a").charge(STEP)


# --- heads --------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "ledger.db"
    init_ledger(place, "a", Budget(rho=1))
    with SqliteJournal(place) as journal:
        journal.post("a", "charge", "x", "", {"rho": 10**22})
        journal.store("a", "q", b"answer")
    return place


def charge(path: Path) -> None:
    with SqliteJournal(path) as journal:
        journal.post("a", "charge", "x", "", {"rho": 10**22})


def test_an_old_copy_is_noticed_on_opening_and_in_use(path: Path) -> None:
    old = path.read_bytes()
    charge(path)
    used = open_ledger(path, "a")
    head = read_head(path)
    with open(path, "r+b") as file:  # in place, so that the file stays the same one
        file.write(old)
    for call in (used.spent, lambda: used.charge(STEP), lambda: open_ledger(path, "a"), lambda: adopt(path)):
        with pytest.raises(LedgerCorrupt, match="entry 4"):
            call()
    assert not verify(path).ok and "old copy" in verify(path).problems[-1]
    head_path(path).unlink()  # this object still knows
    with pytest.raises(errors.ShortenedLedger, match="this process"):
        used.charge(STEP)
    assert head is not None and not verify(path, str(head)).ok


def test_a_head_behind_the_chain_is_brought_up_to_date(path: Path) -> None:
    behind = head_path(path).read_bytes()
    charge(path)
    head_path(path).write_bytes(behind)
    charge(path)
    found = read_head(path)
    assert found is not None and str(found) == verify(path).head


def test_without_its_head_a_ledger_is_read_and_not_charged_until_it_is_adopted(path: Path) -> None:
    head_path(path).unlink()
    ledger = open_ledger(path, "a")
    assert ledger.spent() == {"rho": 0.01}
    with pytest.raises(errors.NotAdopted, match="privfcd ledger adopt"):
        ledger.charge(STEP)
    found = verify(path)
    assert found.ok and "adopt" in found.notes[0]
    assert not head_path(path).exists()
    with pytest.raises(LedgerCorrupt, match="not adopted"):
        adopt(path, "9:" + "0" * 64)
    assert adopt(path, found.head).entries == 3
    ledger.charge(STEP)
    assert verify(path).notes == ()


def test_a_head_of_another_ledger_or_of_none_is_refused(path: Path) -> None:
    other = path.with_name("other.db")
    init_ledger(other, "a", Budget(rho=1))
    shutil.copy(head_path(other), head_path(path))
    with pytest.raises(errors.ShortenedLedger, match="another ledger"):
        charge(path)
    for content in (b"", b"x" * 1024):
        head_path(path).write_bytes(content)
        with pytest.raises(LedgerCorrupt, match="adopt"):
            charge(path)
        assert not verify(path).ok


def test_what_lies_beside_a_lost_ledger_stops_a_new_one(path: Path) -> None:
    path.unlink()
    with pytest.raises(errors.LedgerUnavailable, match="earlier ledger"):
        init_ledger(path, "a", Budget(rho=1))
    for suffix in ("-wal", "-journal"):
        Path(f"{path.parent / 'new.db'}{suffix}").write_bytes(b"x")
        with pytest.raises(errors.LedgerUnavailable, match=suffix):
            init_ledger(path.parent / "new.db", "a", Budget(rho=1))
        Path(f"{path.parent / 'new.db'}{suffix}").unlink()


# --- exports ------------------------------------------------------------------------------------------------------


def test_what_came_after_an_export_counts_as_spent(path: Path) -> None:
    lines = list(export(path))
    charge(path)
    lost = verify(path).head
    for number, head in enumerate((None, lost, "3:" + "0" * 64)):
        place = path.with_name(f"restored {number}.db")
        assert restore(place, lines, head) is False
        assert spent(place) == {"a": {"rho": "1"}}
        found = verify(place, json.loads(lines[-1])["hash"] and f"3:{json.loads(lines[-1])['hash']}")
        assert found.ok and found.entries == 4
        with pytest.raises(BudgetExceeded):
            open_ledger(place, "a").charge(ZCDpEvent(1e-24))


def test_an_export_of_the_last_entry_restores_what_is_left(path: Path) -> None:
    lines = list(export(path))
    for suffix in ("", "-head"):
        Path(f"{path}{suffix}").unlink()
    assert restore(path, lines, f"3:{json.loads(lines[-1])['hash']}") is True
    assert spent(path) == {"a": {"rho": "0.01"}}
    ledger = open_ledger(path, "a")
    assert ledger.answer_once("q", STEP, lambda: b"anew") == b"anew"  # the export has no answers: it is paid again
    assert ledger.spent() == {"rho": 0.02}
    assert verify(path).ok
    with pytest.raises(errors.LedgerUnavailable, match="there already"):
        restore(path, lines)


def test_no_ledger_is_made_from_a_damaged_export(path: Path) -> None:
    lines = list(export(path))
    place = path.with_name("new.db")
    for damaged in (lines[:2] + lines[3:], [lines[0], lines[1].replace("opened", "0pened"), *lines[2:]]):
        with pytest.raises(LedgerCorrupt, match="export is damaged"):
            restore(place, damaged)
    assert not place.exists()


def test_the_format_is_marked(path: Path) -> None:
    header = path.read_bytes()[:100]
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID and header[60:64] == (2).to_bytes(4, "big")
    assert header[18:20] == b"\1\1"  # a rollback journal


# --- one file, one name -------------------------------------------------------------------------------------------


def hard_link(path: Path) -> Path:
    os.link(path, path.with_name("second.db"))
    return path.with_name("second.db")


def test_two_names_of_one_file_are_refused_under_both_and_in_use(path: Path) -> None:
    used = open_ledger(path, "a")
    second = hard_link(path)
    calls: list[Callable[[], object]] = [lambda: used.charge(STEP), lambda: used.spent()]
    calls += [lambda p=p: open_ledger(p, "a") for p in (path, second)] + [lambda: show(second), lambda: verify(path)]
    for call in calls:
        with pytest.raises(errors.SeveralNames, match="2 names"):
            call()
    second.unlink()
    used.charge(STEP)


def test_a_kill_while_a_ledger_is_made_locks_nobody_out(path: Path) -> None:
    os.link(path, path.with_name(f".{path.name}.abc.new"))
    charge(path)
    assert sorted(os.listdir(path.parent)) == ["ledger.db", "ledger.db-head"]


def test_symbolic_links_lead_to_the_one_name(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)
    ledger = open_ledger(link, "a")
    ledger.charge(STEP)
    assert not Path(f"{link}-journal").exists() and not head_path(link).exists()
    assert spent(path) == {"a": {"rho": "0.02"}}


@pytest.mark.parametrize("device", ["same", "none"])
def test_a_file_that_is_mounted_alone_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    mounts = {"/": "ext4", str(path): "ext4"} if device == "same" else {"/": "ext4"}
    monkeypatch.setattr("privfcd.ledger.journal_files._mounts", lambda text=None: mounts)
    if device == "same":
        with pytest.raises(errors.SeveralNames, match="mount"):
            open_ledger(path, "a")
    else:
        open_ledger(path, "a")


def test_who_only_reads_makes_and_changes_nothing(path: Path) -> None:
    before = {name: (path.parent / name).stat() for name in os.listdir(path.parent)}
    show(path), verify(path), list(export(path))
    after = {name: (path.parent / name).stat() for name in os.listdir(path.parent)}
    assert {name: (s.st_mtime_ns, s.st_size) for name, s in before.items()} == {
        name: (s.st_mtime_ns, s.st_size) for name, s in after.items()
    }
