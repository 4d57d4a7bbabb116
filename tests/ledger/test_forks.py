"""What may exist once: a fork, a pickle or a copy of a budget in memory grants nothing; no SQLite state crosses a fork."""

from __future__ import annotations

import contextlib
import copy
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import privfcd as pf
from privfcd.accounting import ZCDpEvent
from privfcd.errors import CopiedBudget
from privfcd.ledger import Ledger, PlanPart
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import init_ledger, open_ledger, verify

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
STEP = ZCDpEvent(0.01)
BUDGET = pf.Budget(rho=1)


@contextlib.contextmanager
def patience(seconds: int = 30) -> Iterator[None]:
    """End a child that hangs: a lock that nobody will release."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def in_child(act: Callable[[], object], fork: Callable[[], int] = os.fork) -> str:
    """Return what a forked child's `act` returned, or the name of what it raised. The child leaves by the normal way out."""
    reading, writing = os.pipe()
    child = fork()
    if child == 0:
        with patience():
            try:
                said = repr(act())
            except BaseException as error:
                said = type(error).__name__
            os.write(writing, said.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    return said


def reserved(ledger: Ledger) -> pf.ledger.Reservation:
    return ledger.reserve([PlanPart("step", STEP, 10)])


SPENDS: dict[str, Callable[[Ledger, pf.ledger.Reservation], object]] = {
    "charge": lambda ledger, run: ledger.charge(STEP),
    "reserve": lambda ledger, run: reserved(ledger),
    "answer": lambda ledger, run: ledger.answer_once("q", STEP, lambda: b""),
    "draw": lambda ledger, run: run.draw("step"),
    "close": lambda ledger, run: run.close(),
    "checkpoint": lambda ledger, run: run.checkpoint("x"),
    "open": lambda ledger, run: Ledger(None, name="other", journal=ledger._journal),
}


@pytest.mark.parametrize("what", SPENDS)
def test_a_forked_child_spends_nothing_of_a_budget_in_memory(what: str) -> None:
    ledger = Ledger(BUDGET)
    run = reserved(ledger)
    assert in_child(lambda: SPENDS[what](ledger, run)) == "CopiedBudget"
    assert in_child(lambda: in_child(lambda: SPENDS[what](ledger, run))) == repr("CopiedBudget")  # and no grandchild
    assert in_child(ledger.spent) == repr({"rho": 0.1})
    assert in_child(lambda: Ledger(BUDGET).charge(STEP).sequence) == "1"
    SPENDS[what](ledger, run)


def test_a_child_of_the_same_pid_is_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the first process of a container that forks into a process namespace of its own."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr("privfcd.accounting.once._here.pid", 1)
    ledger = Ledger(BUDGET)
    run = reserved(ledger)
    assert in_child(lambda: ledger.charge(STEP)) == in_child(lambda: run.draw("step")) == "CopiedBudget"
    run.draw("step")


@pytest.mark.skipif(sys.platform != "linux", reason="finds fork in the C library")
def test_a_fork_that_python_does_not_see_is_one_too() -> None:
    ledger = Ledger(BUDGET)
    assert in_child(lambda: ledger.charge(STEP), ctypes.CDLL(None).fork) == "CopiedBudget"


def charge_in_worker(ledger: Ledger) -> int:
    return ledger.charge(STEP).sequence


LEDGER: list[Ledger] = []


def charge_inherited(_: int) -> str:
    try:
        return repr(LEDGER[0].charge(STEP).sequence)
    except CopiedBudget as error:
        return type(error).__name__


def test_pools_of_forked_workers_are_granted_nothing() -> None:
    LEDGER[:] = [Ledger(BUDGET)]
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(charge_inherited, range(3))) == ["CopiedBudget"] * 3
    with context.Pool(2) as workers:
        assert workers.map(charge_inherited, range(3)) == ["CopiedBudget"] * 3
    assert LEDGER[0].charge(STEP).sequence == 1


def test_pickles_and_copies_say_so_in_one_sentence(tmp_path: Path) -> None:
    table = pf.PrivateTable(np.eye(4), budget=BUDGET, bounds=1.0)
    ledger = Ledger(BUDGET)
    for what in (ledger, reserved(ledger), table, ledger._journal):
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(CopiedBudget, match="stored ledger"):
                copied(what)
    for what in (reserved(ledger), ledger._journal):
        with pytest.raises(CopiedBudget):
            copy.copy(what)
    init_ledger(tmp_path / "l.db", "a", BUDGET)
    stored = open_ledger(tmp_path / "l.db", "a")
    with pytest.raises(CopiedBudget):
        pickle.dumps(reserved(stored))
    for again in (pickle.loads(pickle.dumps(stored)), copy.deepcopy(stored)):  # the same file, so the same budget
        again.charge(STEP)
    assert stored.spent() == {"rho": pytest.approx(0.12)}


# --- stored ledgers -----------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    init_ledger(tmp_path / "ledger.db", "a", BUDGET)
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("first", ["parent", "child"])
def test_whichever_side_ends_first_all_that_was_granted_is_recorded(path: Path, first: str) -> None:
    """The parent charges 5, forks; the child charges 1 and ends as programs end. Run in a process of its own."""

    def program() -> None:
        ledger = open_ledger(path, "a")
        for _ in range(5):
            ledger.charge(STEP)
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(writing)
            if first == "parent":
                os.read(reading, 1)  # until the parent is gone
            ledger.charge(STEP)
            sys.exit(0)
        if first == "child":
            os.wait()
        ledger.charge(STEP)

    process = multiprocessing.get_context("fork").Process(target=program)
    process.start()
    process.join(60)
    for _ in range(600):
        if verify(path).entries == 8:
            break
        signal.sigtimedwait([], 0.05)
    assert verify(path).ok and verify(path).entries == 8
    assert open_ledger(path, "a").spent() == {"rho": pytest.approx(0.07)}


def test_no_connection_crosses_a_fork(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.post("a", "charge", "x", "", {"rho": 1})
    held = journal._connection

    def look() -> tuple[bool, int]:
        crossed = journal._connection is held
        return crossed, journal.post("a", "charge", "child", "", {"rho": 1}).sequence

    assert in_child(look) == repr((False, 2))
    assert journal._connection is not held
    assert journal.post("a", "charge", "parent", "", {"rho": 1}).sequence == 3
    assert verify(path).ok


def test_a_fork_inside_a_charge_grants_it_on_neither_side(path: Path) -> None:
    journal = SqliteJournal(path)

    def torn() -> int:
        with journal._writing() as rows:
            rows.write("a", "charge", "torn", "", {}, {})
            return os.fork()

    said = "granted"
    try:
        torn()
    except pf.ledger.LedgerUnavailable:
        said = "refused"
    if os.getpid() != PARENT:
        os._exit(0 if said == "refused" else 1)
    assert os.wait()[1] == 0
    assert said == "refused"
    assert verify(path).entries == 1
    assert journal.post("a", "charge", "x", "", {"rho": 1}).sequence == 1


PARENT = os.getpid()


def test_what_a_forked_child_inherits_of_a_stored_reservation_grants_nothing(path: Path) -> None:
    ledger = open_ledger(path, "a")
    run = reserved(ledger)
    assert in_child(lambda: run.draw("step")) == "CopiedBudget"
    assert in_child(lambda: reserved(ledger).draw("step")) == "None"
    run.draw("step", 10)
    assert ledger.spent() == {"rho": pytest.approx(0.2)}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_every_kind_share_a_stored_ledger(path: Path, method: str) -> None:
    ledger = open_ledger(path, "a")
    ledger.charge(STEP)
    with warnings.catch_warnings(), ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        assert pool.submit(charge_in_worker, ledger).result(60) == 2
    assert ledger.charge(STEP).sequence == 3


def test_threads_that_charge_while_another_forks_lose_nothing(path: Path) -> None:
    import threading

    class Hasty(SqliteJournal):
        _synchronous = "OFF"

    journal, memory = Hasty(path), MemoryJournal()
    done = threading.Event()

    def charge() -> None:
        while not done.is_set():
            journal.post("a", "charge", "x", "", {"rho": 1})
            memory.post("a", "charge", "x", "", {"rho": 1})

    thread = threading.Thread(target=charge)
    thread.start()
    try:
        said = [in_child(lambda: (len(memory.entries("a")) >= 0, journal.head("a") != "")) for _ in range(10)]
    finally:
        done.set()
        thread.join()
    assert said == [repr((True, True))] * 10
    assert verify(path).ok and len(journal.entries("a")) == len(memory.entries("a"))
