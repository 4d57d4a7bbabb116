"""Making, showing, verifying and exporting a stored ledger; what a forged chain gives away."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget, ZCDpEvent
from privfcd.errors import InvalidParameter
from privfcd.ledger import Ledger, PlanPart
from privfcd.ledger.hash_chain import Record, canonical, genesis
from privfcd.ledger.journal_errors import BudgetMismatch, EditedLedger
from privfcd.ledger.replay import Replay
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import export, init_ledger, open_ledger, show, verify, verify_export


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two data sets: one with a reservation that was closed, one open and with an answer."""
    place = tmp_path / "ledger.db"
    init_ledger(place, "a", Budget(rho=2))
    with SqliteJournal(place) as journal:
        ledger = Ledger(Budget(rho=2), name="a", journal=journal)
        ledger.charge(ZCDpEvent(0.5), "histogram")
        run = ledger.reserve([PlanPart("step", ZCDpEvent(0.1), 10)])
        run.draw("step", 3)
        run.checkpoint("round 1")
        run.close()
        free = Ledger(None, name="b", journal=journal)
        free.answer_once("q", ZCDpEvent(0.1), lambda: b"secret answer")
        free.note_rows(np.eye(3))
    return place


def test_a_budget_is_declared_by_init_and_cannot_be_declared_otherwise(tmp_path: Path) -> None:
    place = tmp_path / "ledger.db"
    head = init_ledger(place, "a", Budget(epsilon=5, delta=4e-8))
    assert init_ledger(place, "a", Budget(epsilon=5, delta=4e-8)) == head
    with pytest.raises(BudgetMismatch, match=r"delta = 0\.00000004, epsilon = 5"):
        init_ledger(place, "a", Budget(epsilon=5, delta=5e-8))
    with pytest.raises(InvalidParameter, match="budget"):
        init_ledger(place, "a", 5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="name"):
        init_ledger(place, "", None)
    init_ledger(place, "b", None)
    assert open_ledger(place, "a").budget == Budget(epsilon=5, delta=4e-8)
    assert open_ledger(place, "b").budget is None
    assert verify(place).entries == 2


def test_show_says_what_is_spent_and_changes_nothing(path: Path) -> None:
    content, files = path.read_bytes(), sorted(os.listdir(path.parent))
    shown = show(path)
    assert json.loads(json.dumps(shown)) == shown
    assert (shown["entries"], shown["head"]) == (9, verify(path).head)
    data_set = shown["data_sets"]["a"]
    assert (data_set["entries"], data_set["unfinished"], data_set["unanswered"]) == (4, [], [])
    assert data_set["accounts"] == {
        "rho": {"spent": 0.8, "cap": 2.0, "left": 1.2, "spent_exact": "0.8", "cap_exact": "2"}
    }
    assert shown["data_sets"]["b"]["accounts"] == {}
    list(export(path))
    assert (path.read_bytes(), sorted(os.listdir(path.parent))) == (content, files)


def test_an_export_is_verified_without_the_file_and_keeps_secrets(path: Path) -> None:
    lines = list(export(path))
    assert len(lines) == 10
    assert verify_export(lines) == verify(path)
    with SqliteJournal(path) as journal:
        key = journal._row_key.hex()
    assert not any(secret in line for line in lines for secret in ("secret answer", key, "fingerprint"))
    for number in range(1, 10):
        document = json.loads(lines[number])
        document["label"] += "!"
        found = verify_export([*lines[:number], json.dumps(document), *lines[number + 1 :]])
        assert len(found.problems) == 1 and f"entry {number} " in found.problems[0]
        if number < 9:
            gap = verify_export(lines[:number] + lines[number + 1 :])
            assert f"entries {number} to {number} are missing" in gap.problems[0]
    with pytest.raises(InvalidParameter, match="line 2"):
        verify_export([lines[0], "{}"])
    with pytest.raises(InvalidParameter, match="got none"):
        verify_export([])


def test_the_documented_encoding_recomputes_the_chain(path: Path) -> None:
    header, *entries = [json.loads(line) for line in export(path)]
    digest = hashlib.sha256(("privfcd ledger 1\n" + header["ledger"]).encode()).hexdigest()
    assert digest == header["genesis"]
    for entry in entries:
        claimed = entry.pop("hash")
        text = json.dumps(entry, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        digest = hashlib.sha256(bytes.fromhex(digest) + text.encode()).hexdigest()
        assert digest == claimed


def test_heads_stand_for_all_before_them(path: Path) -> None:
    with SqliteJournal(path) as journal:
        assert journal.head() == journal.head("b") == verify(path).head
        assert journal.head("a").startswith("5:") and journal.head("nobody").startswith("0:")
        heads = [journal.head("a"), journal.head("b"), journal.head("nobody")]
    assert all(verify(path, head).ok for head in heads)
    for wrong in ("5:" + "0" * 64, "7" + heads[1][1:], "nonsense"):
        found = verify(path, wrong)
        assert len(found.problems) == 1 and "kept elsewhere" in found.problems[0]
    assert str(verify(path)).splitlines() == [f"9 entries, head {heads[1]}", "chain and balances are intact"]


# --- chains whose hashes are right and whose content is not -------------------------------------------------------

OPEN = Record(1, "a", 0, "open", "opened", "", {}, {"rho": (0, 10)}, "2026-01-01", "", 0, "")


def entry(number: int, kind: str, units: int, total: int, **other: Any) -> Record:
    record = Record(
        number, "a", number - 1, kind, "x", "", {"rho": units}, {"rho": (total, 10)}, "2026-01-01", "", 0, ""
    )
    return replace(record, **other)


FORGED = {
    "above the cap": [entry(2, "charge", 11, 11)],
    "leaves .* where its amounts give": [entry(2, "charge", 5, 4)],
    "gives something back": [entry(2, "charge", 5, 5), entry(3, "charge", -1, 4)],
    "closes 1, which is not an open reservation": [entry(2, "charge", 5, 5), entry(3, "close", -1, 4, reference=1)],
    "not what its reservation took": [entry(2, "reserve", 5, 5), entry(3, "close", -6, -1, reference=1)],
    "closes 1, which": [
        entry(2, "reserve", 5, 5),
        entry(3, "close", -2, 3, reference=1),
        entry(4, "close", -2, 1, reference=1),
    ],
    "changes the cap": [entry(2, "charge", 5, 5, balances={"rho": (5, 11)})],
    "has lost the account": [entry(2, "charge", 0, 0, spent={}, balances={})],
    "a second time": [
        entry(2, "answer", 0, 0, request="q", digest="0"),
        entry(3, "answer", 0, 0, request="q", digest="0"),
    ],
    "number 0 of a data set opens it": [entry(2, "open", 0, 0)],
    "should be number 1": [entry(2, "charge", 0, 0, sequence=7)],
    "of kind 'charge': number 0": [entry(2, "charge", 0, 0, scope="b", sequence=0)],
}


@pytest.mark.parametrize("words", FORGED)
def test_a_forged_chain_is_told_by_what_it_says(words: str) -> None:
    replay = Replay("id")
    for record in [OPEN, *FORGED[words]]:
        replay.add(record.chained(replay.hash))
    replay.finish()
    assert any(re.search(words, problem) for problem in replay.problems), replay.problems
    assert len(replay.problems) <= 2


def test_an_honest_chain_has_no_problems() -> None:
    replay = Replay("id", head=None)
    honest = [entry(2, "reserve", 5, 5), entry(3, "draws", 0, 5, reference=1), entry(4, "close", -4, 1, reference=1)]
    for record in [OPEN, *honest]:
        replay.add(record.chained(replay.hash))
    replay.finish()
    assert (replay.problems, replay.notes()) == ([], [])
    assert replay.scopes["a"].balances == {"rho": (1, 10)}


def test_records_survive_their_row_and_refuse_what_is_none() -> None:
    record = entry(2, "charge", 10**30, 10**30, label="Zürich \u2028 \x00 '").chained(genesis("id"))
    assert Record.from_row(record.row()) == record
    document = record.document()
    assert json.loads(canonical(document)) == document
    for name, wrong in {
        "number": "2",
        "label": 5,
        "spent": {"rho": "x"},
        "balances": {"rho": 5},
        "sequence": True,
    }.items():
        with pytest.raises((TypeError, ValueError)):
            Record.from_document({**document, name: wrong}, record.hash)
    with pytest.raises(ValueError, match="hash"):
        Record.from_document(document, "0" * 63)


def test_show_of_a_damaged_ledger_raises(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO known_rows VALUES ('x', 'y')")
        connection.execute("UPDATE settings SET value = ? WHERE name = 'ledger'", ("0" * 32,))
    with pytest.raises(EditedLedger):
        show(path)
    assert "entry 1" in verify(path).problems[0]
