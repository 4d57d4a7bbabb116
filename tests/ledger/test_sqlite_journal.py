"""The durable journal: the answers of a simple model, through refusals, restarts, crashes, forks and races."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sqlite3
import stat
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from privfcd.errors import InvalidParameter
from privfcd.ledger.journal import WIDTH, Journal, OverCap
from privfcd.ledger.journal_errors import BudgetMismatch, LedgerUnavailable, SameRows
from privfcd.ledger.journal_schema import TABLES, fixed_width
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import verify


class HastyJournal(SqliteJournal):
    """Does not wait for the disk: for laws that are not about power cuts."""

    _synchronous = "OFF"


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield MemoryJournal()
    else:
        with HastyJournal(tmp_path / "ledger.db") as journal:
            yield journal


# --- both journals alike ------------------------------------------------------------------------------------------


def test_all_or_nothing(journal: Journal) -> None:
    journal.open("a", {"epsilon": 10, "delta": 5})
    journal.post("a", "charge", "x", "E()", {"epsilon": 6, "delta": 1})
    before = (journal.balance("a"), journal.entries("a"))
    with pytest.raises(OverCap) as refusal:
        journal.post("a", "charge", "x", "E()", {"epsilon": 4, "delta": 5}, {"new": 3})
    over = refusal.value
    assert (over.account, over.asked, over.spent, over.cap) == ("delta", 5, 1, 5)
    assert (journal.balance("a"), journal.entries("a")) == before
    entry = journal.post("a", "charge", "last", "E()", {"epsilon": 4, "delta": 4})
    assert (entry.sequence, entry.kind, entry.label, entry.event) == (2, "charge", "last", "E()")
    assert journal.balance("a") == {"epsilon": (10, 10), "delta": (5, 5)}
    assert journal.balance("b") == {} and journal.entries("b") == ()


def test_a_budget_is_declared_once(journal: Journal) -> None:
    assert journal.declared("a") is None
    journal.open("a", {"epsilon": 10, "free": 0})
    journal.open("a", {"free": 0, "epsilon": 10})
    assert journal.declared("a") == {"epsilon": 10, "free": 0}
    for caps in ({}, {"epsilon": 10}, {"epsilon": 11, "free": 0}, {"rho": 10}):
        with pytest.raises(BudgetMismatch, match=r"budget of 'a'.*0\.00000000000000000000001"):
            journal.open("a", caps)
    journal.post("b", "charge", "x", "", {})
    assert journal.declared("b") == {}
    with pytest.raises(BudgetMismatch, match="no budget"):
        journal.open("b", {"epsilon": 1})
    assert journal.entries("a") == ()


def test_a_reservation_is_settled_once_by_at_most_what_it_took(journal: Journal) -> None:
    journal.open("a", {"rho": 100})
    journal.post("a", "charge", "x", "", {"rho": 1})
    run = journal.post("a", "reserve", "run", "", {"rho": 60}).sequence
    for sequence, refund in ((1, {"rho": 0}), (9, {}), (run, {"rho": 61}), (run, {"epsilon": 1}), (run, {"rho": -1})):
        with pytest.raises(InvalidParameter):
            journal.settle("a", sequence, "end", refund)
    assert journal.balance("a") == {"rho": (61, 100)}
    entry = journal.settle("a", run, "end", {"rho": 20})
    assert (entry.kind, entry.reference, entry.spent) == ("close", run, {"rho": -20})
    assert journal.balance("a") == {"rho": (41, 100)}
    with pytest.raises(InvalidParameter, match="closed already"):
        journal.settle("a", run, "end", {"rho": 0})


def test_the_first_stored_answer_is_the_answer(journal: Journal) -> None:
    journal.open("a", {})
    assert journal.answer("a", "q") is None
    assert journal.store("a", "q", b"\x00one") == b"\x00one"
    assert journal.store("a", "q", b"two") == journal.answer("a", "q") == b"\x00one"
    assert journal.answer("b", "q") is None
    assert [entry.kind for entry in journal.entries("a")] == ["answer"]
    with pytest.raises(InvalidParameter, match="request"):
        journal.store("a", "", b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ("", "charge", "x", "", {}),
        ("a", "close", "x", "", {}),
        ("a", "open", "x", "", {}),
        ("a", "charge", "x", "", {"rho": -1}),
        ("a", "charge", "x", "", {"rho": 1.0}),
        ("a", "charge", "x", "", {"rho": True}),
        ("a", "charge", "x", "", {"": 1}),
        ("a", "charge", 5, "", {}),
        ("a", "charge", "\udc80", "", {}),
    ],
)
def test_what_is_no_entry_is_refused_and_changes_nothing(journal: Journal, arguments: tuple[Any, ...]) -> None:
    journal.open("a", {"rho": 5})
    with pytest.raises(InvalidParameter):
        journal.post(*arguments)
    assert journal.balance("a") == {"rho": (0, 5)} and journal.entries("a") == ()


def test_a_later_entry_belongs_to_a_reservation_that_exists(journal: Journal) -> None:
    journal.open("a", {"rho": 5})
    with pytest.raises(InvalidParameter, match="entry 3 of 'a' must be a reservation"):
        journal.post("a", "draws", "x", "", {}, reference=3)
    run = journal.post("a", "reserve", "run", "", {"rho": 1}).sequence
    assert journal.post("a", "draws", "x", "", {}, reference=run).reference == run


def test_the_same_rows_under_another_name_only_warn(journal: Journal) -> None:
    rows = np.arange(12.0).reshape(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert journal.note_rows("a", rows) == ()
        assert journal.note_rows("a", rows) == ()
        assert journal.note_rows("other", rows + 1) == ()
        assert journal.note_rows("wide", rows.reshape(3, 4)) == ()
    with pytest.warns(SameRows, match="'b' are also those of 'a'"):
        assert journal.note_rows("b", rows[::-1]) == ("a",)
    assert journal.entries("b") == ()


# --- amounts ------------------------------------------------------------------------------------------------------

UNITS = st.one_of(
    st.integers(0, 10**WIDTH - 1), st.integers(0, 20), st.integers(0, 62).map(lambda power: min(2**power, 10**18))
)


@settings(max_examples=80, deadline=None)
@given(spent=UNITS, cap=UNITS)
def test_the_check_compares_amounts_of_any_size_as_numbers(spent: int, cap: int) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLES["accounts"])
        row = ("a", "epsilon", fixed_width(spent), fixed_width(cap))
        if spent <= cap:
            connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?)", row)
        else:
            with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
                connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?)", row)


@pytest.mark.parametrize(
    "spent", ["5", "-" + "0" * (WIDTH - 1), "0" * (WIDTH - 1) + "x", "0" * (WIDTH + 1), 5, b"5", None]
)
def test_the_check_takes_nothing_but_amounts_of_full_width(spent: Any) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLES["accounts"])
        for row in (("a", "e", spent, fixed_width(9)), ("a", "e", fixed_width(0), spent)):
            if row[3] is not None:
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?)", row)


def test_amounts_above_64_bits_are_kept_exactly_and_a_unit_too_much_is_refused(tmp_path: Path) -> None:
    cap = 50 * 10**24 + 1
    with SqliteJournal(tmp_path / "ledger.db") as journal:
        journal.open("a", {"epsilon": cap})
        journal.post("a", "charge", "x", "", {"epsilon": cap - 1})
        with pytest.raises(OverCap):
            journal.post("a", "charge", "x", "", {"epsilon": 2})
        journal.post("a", "charge", "x", "", {"epsilon": 1})
        assert journal.balance("a") == {"epsilon": (cap, cap)}
        with pytest.raises(InvalidParameter, match="below 10\\^60 units"):
            journal.open("b", {"epsilon": 10**WIDTH})
        with pytest.raises(InvalidParameter, match="below 10\\^60 units"):
            journal.post("a", "charge", "x", "", {"free": 10**WIDTH})
        assert journal.declared("b") is None and "free" not in journal.balance("a")


def test_the_check_stops_an_overspending_update_even_past_this_library(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with SqliteJournal(path) as journal:
        journal.open("a", {"epsilon": 10**25})
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in (
            f"UPDATE accounts SET spent = '{fixed_width(10**25 + 1)}'",
            f"UPDATE accounts SET cap = '{fixed_width(10**26)}'",
            "DELETE FROM accounts",
            "DELETE FROM entries",
            "UPDATE entries SET label = 'nothing'",
        ):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute(statement)
    assert verify(path).ok


# --- the file -----------------------------------------------------------------------------------------------------


def test_the_file_is_in_the_mode_that_makes_a_commit_durable(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with SqliteJournal(path) as journal:
        journal.open("a", {})
        assert journal._live().execute("PRAGMA journal_mode").fetchone() == ("persist",)
        assert journal._live().execute("PRAGMA synchronous").fetchone() == (3,)
        if os.name == "posix":
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(os.listdir(tmp_path)) == ["ledger.db", "ledger.db-head"]
    with pytest.raises(LedgerUnavailable, match="closed"):
        journal.balance("a")


def test_a_pickled_journal_is_the_same_ledger(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "ledger.db") as journal:
        journal.open("a", {"rho": 2})
        with pickle.loads(pickle.dumps(journal)) as other:
            other.post("a", "charge", "x", "", {"rho": 1})
        assert journal.balance("a") == {"rho": (1, 2)}


def test_threads_that_race_for_the_last_units_get_exactly_those(tmp_path: Path) -> None:
    granted: list[int] = []
    with HastyJournal(tmp_path / "ledger.db") as journal, HastyJournal(tmp_path / "ledger.db") as other:
        journal.open("a", {"rho": 60})
        start = threading.Barrier(6)

        def spend(mine: SqliteJournal) -> None:
            start.wait()
            with contextlib.suppress(OverCap):
                while True:
                    granted.append(mine.post("a", "charge", "x", "", {"rho": 1}).sequence)

        threads = [threading.Thread(target=spend, args=(mine,)) for mine in (journal, other) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(granted) == list(range(1, 61))
    assert verify(tmp_path / "ledger.db").ok


# --- against a simple model ---------------------------------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "patients of Zürich"])
SMALL = st.integers(0, 40)


class Model(RuleBasedStateMachine):
    """Random charges, refusals, reservations, answers, restarts and crashes; the model is a few dicts."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.lives = 0
        self.path = Path(self.folder.name) / "ledger.db"
        self.journal = HastyJournal(self.path)
        self.caps: dict[str, int] = {}
        self.spent: dict[str, int] = {}
        self.history: dict[str, list[tuple[str, int]]] = {}
        self.runs: dict[tuple[str, int], int] = {}
        self.answers: dict[tuple[str, str], bytes] = {}
        self.heads: list[str] = []

    @rule(name=NAMES, cap=st.integers(0, 100))
    def open(self, name: str, cap: int) -> None:
        if self.caps.setdefault(name, cap) != cap:
            with pytest.raises(BudgetMismatch):
                self.journal.open(name, {"rho": cap})
        else:
            self.journal.open(name, {"rho": cap})
            self.spent.setdefault(name, 0)
            self.history.setdefault(name, [])

    @precondition(lambda self: self.caps)
    @rule(data=st.data(), units=SMALL, kind=st.sampled_from(["charge", "reserve"]))
    def spend(self, data: st.DataObject, units: int, kind: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.caps)))
        if self.spent[name] + units > self.caps[name]:
            with pytest.raises(OverCap):
                self.journal.post(name, kind, "x", "E()", {"rho": units})
            return
        entry = self.journal.post(name, kind, "x", "E()", {"rho": units})
        self.spent[name] += units
        self.history[name].append((kind, units))
        assert entry.sequence == len(self.history[name])
        if kind == "reserve":
            self.runs[name, entry.sequence] = units

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), units=SMALL)
    def settle(self, data: st.DataObject, units: int) -> None:
        name, sequence = data.draw(st.sampled_from(sorted(self.runs)))
        if units > self.runs[name, sequence]:
            with pytest.raises(InvalidParameter):
                self.journal.settle(name, sequence, "end", {"rho": units})
            return
        self.journal.settle(name, sequence, "end", {"rho": units})
        del self.runs[name, sequence]
        self.spent[name] -= units
        self.history[name].append(("close", -units))

    @precondition(lambda self: self.caps)
    @rule(data=st.data(), request=st.sampled_from("pqr"), answer=st.binary(max_size=8))
    def answer(self, data: st.DataObject, request: str, answer: bytes) -> None:
        name = data.draw(st.sampled_from(sorted(self.caps)))
        if (name, request) not in self.answers:
            self.answers[name, request] = answer
            self.history[name].append(("answer", 0))
        assert self.journal.store(name, request, answer) == self.answers[name, request]

    @rule()
    def restart(self) -> None:
        self.journal.close()
        self.journal = HastyJournal(self.path, create=False)

    @rule()
    def crash(self) -> None:
        """Go on from the files as they are in the middle of a transaction."""
        connection = self.journal._live()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO known_rows VALUES ('half', 'done')")
        self.lives += 1
        path = Path(self.folder.name) / f"life {self.lives}.db"
        for suffix in ("", "-head", "-journal"):
            shutil.copy(f"{self.path}{suffix}", f"{path}{suffix}")
        connection.execute("ROLLBACK")
        self.journal.close()
        self.path, self.journal = path, HastyJournal(path, create=False)

    @invariant()
    def agrees(self) -> None:
        for name, cap in self.caps.items():
            assert self.journal.balance(name) == {"rho": (self.spent[name], cap)}
            found = [(entry.kind, entry.spent.get("rho", 0)) for entry in self.journal.entries(name)]
            assert found == self.history[name]
        for (name, request), answer in self.answers.items():
            assert self.journal.answer(name, request) == answer
        self.heads.append(self.journal.head())

    def teardown(self) -> None:
        for head in {self.heads[0], self.heads[len(self.heads) // 2], self.heads[-1]}:
            found = verify(self.path, head)
            assert found.ok, found
        assert found.unfinished == len(self.runs)
        self.journal.close()
        self.folder.cleanup()


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
