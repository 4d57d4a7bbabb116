"""A request that may arrive more than once: one charge and one answer, from whatever threads and processes it comes."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from dp_accounting import ZCDpEvent

from privfcd.accounting import Budget, answers
from privfcd.accounting.answers import AnswerPending, OtherQuestion
from privfcd.ledger import Ledger, PlanPart
from privfcd.ledger.journal import Journal
from privfcd.ledger.journal_errors import LedgerFull
from privfcd.ledger.memory_journal import MemoryJournal
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import init_ledger, open_ledger, verify

COST = ZCDpEvent(0.125)


@pytest.fixture(params=["memory", "stored"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    journal: Journal = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "l.sqlite")
    return Ledger(Budget(rho=1.0), name="n", journal=journal)


@pytest.mark.parametrize("reserved", [False, True])
def test_eight_threads_at_once_pay_once_and_get_the_same_bytes(ledger: Ledger, reserved: bool) -> None:
    run = ledger.reserve([PlanPart("g", COST, 3)]) if reserved else None
    start, got = threading.Barrier(8), []

    def compute() -> bytes:
        if run is not None:
            run.draw("g")
        time.sleep(0.02)
        return secrets.token_bytes(8)

    def ask() -> None:
        # ledgers of one journal are one account, however many there are
        own = Ledger(Budget(rho=1.0), name="n", journal=ledger._journal)
        start.wait()
        got.append(own.answer_once("q", COST, compute) if run is None else run.answer_once("q", compute))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8 and len(set(got)) == 1
    assert ledger.spent()["rho"] == (0.375 if reserved else 0.125)
    assert run is None or run.drawn() == {"g": 1}
    assert not answers._turns


def test_an_id_of_another_question_is_refused_and_nothing_is_charged(ledger: Ledger) -> None:
    assert ledger.answer_once("q", COST, lambda: b"a", "mean") == b"a"
    for event, label in ((ZCDpEvent(0.25), "mean"), (COST, "median")):
        with pytest.raises(OtherQuestion, match="of its own"):
            ledger.answer_once("q", event, lambda: pytest.fail("rows were read"), label)
    run = ledger.reserve([PlanPart("g", COST, 2)])
    assert run.answer_once("r", lambda: b"b", "round 1") == b"b"
    with pytest.raises(OtherQuestion):
        run.answer_once("r", lambda: pytest.fail("rows were read"), "round 2")
    assert ledger.spent()["rho"] == 0.375 and ledger.answer_once("q", COST, lambda: b"x", "mean") == b"a"


def test_the_claim_on_a_request_is_no_answer(tmp_path: Path) -> None:
    """It says which process has taken the request on, and nobody who asks under its name is to see that."""
    init_ledger(tmp_path / "l.sqlite", "n", Budget(rho=1.0))
    ledger = open_ledger(tmp_path / "l.sqlite", "n")
    assert ledger.answer_once("q", COST, lambda: b"a") == b"a"
    with pytest.raises(OtherQuestion):
        ledger.answer_once("q claim 1", COST, lambda: pytest.fail("rows were read"))
    assert ledger.answer_once("r claim 1", COST, lambda: b"b") == b"b"  # and an answer is no claim
    assert ledger.answer_once("r", COST, lambda: b"c") == b"c" and ledger.spent()["rho"] == 0.375


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_is_forked_while_an_answer_is_made_gives_the_same_answer(tmp_path: Path) -> None:
    init_ledger(tmp_path / "l.sqlite", "n", Budget(rho=1.0))
    ledger = open_ledger(tmp_path / "l.sqlite", "n")
    child = -1

    def compute() -> bytes:
        nonlocal child
        child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        return b"parent's" if child else b"child's"

    try:
        answer = ledger.answer_once("q", COST, compute)
    finally:
        if child == 0:
            os._exit(answer != b"child's" if "answer" in locals() else 2)
    assert answer == b"child's" and ledger.spent()["rho"] == 0.125  # the first that is stored is the answer


def test_answers_of_earlier_versions_are_given_as_they_are(ledger: Ledger) -> None:
    ledger.store_answer("old", b"bytes", "answer")
    assert ledger.answer_once("old", COST, lambda: pytest.fail("rows were read")) == b"bytes"


def test_an_answer_that_cannot_be_stored_is_kept(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Ledger.store_answer

    def full(self: Ledger, request: str, answer: bytes, label: str, **options: Any) -> bytes:
        if "asked" in label:
            return store(self, request, answer, label, **options)
        raise LedgerFull("the disk is full")

    monkeypatch.setattr(Ledger, "store_answer", full)
    made = iter([b"first"])
    for _ in range(3):
        with pytest.raises(LedgerFull):
            ledger.answer_once("q", COST, lambda: next(made))
    monkeypatch.undo()
    assert ledger.answer_once("q", COST, lambda: pytest.fail("made again")) == b"first"
    assert ledger.spent()["rho"] == 0.125 and not answers._unstored


def ask(path: Path, out: Any, seconds: float, die: bool) -> None:
    def compute() -> bytes:
        if die:
            os._exit(9)
        time.sleep(seconds)
        return secrets.token_bytes(8)

    answers.WAIT = 30.0
    out.put(open_ledger(path, "n").answer_once("q", COST, compute))
    out.close()
    out.join_thread()


def test_processes_pay_once_and_the_dead_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "l.sqlite"
    init_ledger(path, "n", Budget(rho=1.0))
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    dead = context.Process(target=ask, args=(path, out, 0.0, True))
    dead.start()
    dead.join(60)
    assert dead.exitcode == 9 and open_ledger(path, "n").spent()["rho"] == 0.125
    living = [context.Process(target=ask, args=(path, out, 0.5, False)) for _ in range(2)]
    for process in living:
        process.start()
    got = {out.get(timeout=60) for _ in living}
    for process in living:
        process.join(60)
    ledger = open_ledger(path, "n")
    assert len(got) == 1 and ledger.spent()["rho"] == 0.25  # what the dead one paid is lost, and the rest paid once
    assert ledger.answer_once("q", COST, lambda: pytest.fail("made again")) in got and not verify(path).problems
    # where it cannot be known whether a process lives, nothing is charged
    monkeypatch.setattr(answers, "WAIT", 0.1)
    here = answers._where()
    for holder in (
        f"{here[0]} another-namespace 1 5",
        f"{here[0]} {here[1]} {os.getppid()} {answers._started(os.getppid())}",
    ):
        name = f"other {len(holder)}"
        ledger.store_answer(f"{name} claim 1", holder.encode(), "asked")
        with pytest.raises(AnswerPending, match="ask again later"):
            ledger.answer_once(name, COST, lambda: pytest.fail("rows were read"))
    ledger.store_answer("rebooted claim 1", f"before {here[1]} 1 5".encode(), "asked")
    assert ledger.answer_once("rebooted", COST, lambda: b"now") == b"now"
    assert ledger.spent()["rho"] == 0.375


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_no_turns_and_no_answers_of_its_parent() -> None:
    answers._unstored["x", "n", "q"] = b"parent's"
    try:
        child = os.fork()
        if child == 0:
            os._exit(len(answers._unstored) + len(answers._turns))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        answers._unstored.clear()
