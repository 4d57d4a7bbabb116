"""Runs whose parties meet locked ledgers, full disks, kills, threads and second processes: nothing paid for is lost or paid
twice, and nobody is told what is not so."""

from __future__ import annotations

import errno
import multiprocessing
import os
import shutil
import sqlite3
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.algorithms.release import messages as release
from privfcd.errors import PartyFailed
from privfcd.ledger.journal_errors import LedgerFull, LedgerLocked, LedgerUnavailable, NotWritten
from privfcd.ledger.tools import open_ledger, verify
from privfcd.runs.method import Method
from privfcd.runs.study_run import run_study
from privfcd.runs.wire import remote
from privfcd.runs.wire.envelope import ENVELOPES, Answer, Refusal, Request, differing, greeting
from privfcd.runs.wire.study_ledger import StudyLedger

from .conftest import EPSILON, PARTIES, Place, Wire

FAULTS: dict[str, Callable[[], Exception]] = {
    "locked": lambda: LedgerLocked("north.sqlite: another process holds it"),
    "full": lambda: LedgerFull("north.sqlite: the disk is full"),
    "error of the disk": lambda: OSError(errno.EIO, "input/output error"),
    "sqlite": lambda: sqlite3.OperationalError("database is locked"),
}
WRITES = ("store_answer", "record_draws", "reserve", "settle", "spent", "stored_answer", "left", "spent_units")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(remote, "LONGEST_PAUSE", 0.0)


def graph_of(place: Place, study: Any) -> Any:
    return run_study(study, Wire(place.halves(study))).model.adjacency_matrix_


@pytest.mark.parametrize(
    ("method", "fault"), [*(("notears", fault) for fault in FAULTS), ("fed-sparse", "locked"), ("fedacd", "full")]
)
def test_a_ledger_that_fails_for_a_while_anywhere_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, fault: str, method: str
) -> None:
    more = {"parameters": {"rounds": 2, "updates": 4}} if method == "fed-sparse" else {}
    study = place.study(method, **more)
    place.ledgers()
    expected = graph_of(place, study)
    spent = place.spent(study, "north")
    place.ledgers_again()
    calls, chance = 0, np.random.default_rng(3)

    def failing(original: Callable[..., Any]) -> Callable[..., Any]:
        def called(self: Any, *args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if chance.random() < 0.1:  # any use of a ledger may fail, whichever it is
                raise FAULTS[fault]()
            return original(self, *args, **options)

        return called

    halves = place.halves(study)
    for name in WRITES:
        monkeypatch.setattr(StudyLedger, name, failing(getattr(StudyLedger, name)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotWritten)
        run = run_study(study, Wire(halves), timeout=20)
    monkeypatch.undo()
    assert calls > 20 and run.parties == PARTIES
    np.testing.assert_array_equal(run.model.adjacency_matrix_, expected)
    assert place.spent(study, "north") == spent
    assert verify(place.ledger("north")).ok


def test_a_party_whose_ledger_stays_locked_is_told_truly_and_the_run_can_go_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = place.study()
    place.ledgers()
    expected = graph_of(place, study)
    place.ledgers_again()
    halves, checkpoint = place.halves(study), place.folder / "run.sqlite"
    locked = [False]
    original = StudyLedger.store_answer

    def store(self: StudyLedger, request: str, answer: bytes, label: str, **options: Any) -> bytes:
        if locked[0] and self.name == "south" and "answer" in label:
            raise LedgerLocked("held")
        return original(self, request, answer, label, **options)

    def lock(name: str, body: bytes, answer: bytes) -> bytes:
        locked[0] = locked[0] or ENVELOPES.decode(body).sequence == 3
        return answer

    monkeypatch.setattr(StudyLedger, "store_answer", store)
    with pytest.raises(PartyFailed, match=r"south: its ledger could not be used .* nothing is charged twice") as caught:
        run_study(study, Wire(halves, lock), checkpoint=checkpoint, timeout=0.1)
    assert "gone" not in str(caught.value) and "stopped after" not in str(caught.value)
    monkeypatch.undo()
    run = run_study(study, Wire(halves), checkpoint=checkpoint)
    np.testing.assert_array_equal(run.model.adjacency_matrix_, expected)


@pytest.mark.parametrize("sequence", [1, 3, 4])
def test_one_question_from_eight_threads_is_answered_once(place: Place, sequence: int) -> None:
    study = place.study("notears")
    place.ledgers()
    half = place.desk(study, "north").party()
    codec = Method(study).codec
    offer = Method(study).agreed()[release.Offer][0]
    asked = [offer, release.Plan((("m", 1.0),)), release.Charge(), release.AskMoments("m", 1.0, None, None)]
    bodies = [
        ENVELOPES.encode(Request(study.digest, "r", number, codec.encode(message)))
        for number, message in enumerate(asked, 1)
    ]
    for body in bodies[: sequence - 1]:
        assert isinstance(ENVELOPES.decode(half.handle(body)), Answer)
    answers: list[bytes] = []
    threads = [threading.Thread(target=lambda: answers.append(half.handle(bodies[sequence - 1]))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(answers)) == 1 and isinstance(ENVELOPES.decode(answers[0]), Answer)
    charges = [entry for entry in open_ledger(place.ledger("north"), "north").entries() if entry.kind == "reserve"]
    assert len(charges) == (sequence >= 3) and place.spent(study, "north") <= EPSILON


def test_an_opening_asked_over_and_over_makes_no_ledger_grow(place: Place) -> None:
    study = place.study("notears")
    place.ledgers()
    half = place.desk(study, "north").party()
    codec = Method(study).codec
    offer, plan = Method(study).agreed()[release.Offer][0], release.Plan((("m", 1.0),))

    def ask(number: int, message: Any) -> Any:
        return ENVELOPES.decode(
            half.handle(ENVELOPES.encode(Request(study.digest, "r", number, codec.encode(message))))
        )

    for number, message in enumerate((offer, plan, release.Charge()), 1):
        assert isinstance(ask(number, message), Answer)
    entries = len(open_ledger(place.ledger("north"), "north").entries())
    for number in range(4, 300):
        assert isinstance(ask(number, offer if number % 2 else plan), Answer)
    assert len(open_ledger(place.ledger("north"), "north").entries()) == entries
    assert isinstance(ask(300, release.AskMoments("m", 1.0, None, None)), Answer)


def test_charges_that_fail_over_and_over_make_no_ledger_grow_without_end(place: Place) -> None:
    study = place.study("notears")
    place.ledgers()
    half = place.desk(study, "north").party()
    codec = Method(study).codec
    kinds = set()
    for number in range(30):
        body = ENVELOPES.encode(Request(study.digest, f"run {number}", 1, codec.encode(release.Charge())))
        kinds.add(ENVELOPES.decode(half.handle(body)).kind)
    assert kinds == {"protocol"} and place.spent(study, "north") == 0
    assert len(open_ledger(place.ledger("north"), "north").entries()) <= 45
    run_study(study, Wire(place.halves(study)))  # nothing was charged, so that the study still begins


def test_a_question_that_cannot_be_answered_ends_no_run_that_was_paid_for(place: Place) -> None:
    study = place.study("notears")
    place.ledgers()
    half = place.desk(study, "north").party()
    codec = Method(study).codec
    offer = Method(study).agreed()[release.Offer][0]

    def ask(number: int, message: Any) -> Any:
        return ENVELOPES.decode(
            half.handle(ENVELOPES.encode(Request(study.digest, "r", number, codec.encode(message))))
        )

    for number, message in enumerate((offer, release.Plan((("m", 1.0),)), release.Charge()), 1):
        assert isinstance(ask(number, message), Answer)
    assert ask(4, release.AskMoments("never planned", 1.0, None, None)).kind == "protocol"
    assert isinstance(ask(4, release.AskMoments("m", 1.0, None, None)), Answer)


STORE = StudyLedger.store_answer


def killed(self: Any, request: str, answer: bytes, label: str, **options: Any) -> bytes:
    if "begun" not in label:
        os._exit(9)
    return STORE(self, request, answer, label, **options)


def in_another_process(place: Place, study: Any, bodies: list[bytes], die_at: int, out: Any) -> None:
    half = place.desk(study, "north").party()
    for number, body in enumerate(bodies, 1):
        if number == die_at:
            StudyLedger.store_answer = killed  # type: ignore[method-assign]
        out.put(half.handle(body))
    out.close()
    out.join_thread()


@pytest.mark.parametrize("die_at", [3, 4])
def test_killed_between_charge_and_answer_and_started_again(place: Place, tmp_path: Path, die_at: int) -> None:
    study = place.study("notears")
    place.ledgers()
    codec = Method(study).codec
    offer = Method(study).agreed()[release.Offer][0]
    asked = [offer, release.Plan((("m", 1.0),)), release.Charge(), release.AskMoments("m", 1.0, None, None)]
    bodies = [
        ENVELOPES.encode(Request(study.digest, "r", number, codec.encode(message)))
        for number, message in enumerate(asked, 1)
    ]
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    child = context.Process(target=in_another_process, args=(place, study, bodies, die_at, out))
    child.start()
    seen = [out.get(timeout=60) for _ in range(min(die_at - 1, 4))]
    child.join(60)
    assert child.exitcode == (9 if die_at < 9 else 0)
    spent = place.spent(study, "north")
    assert 0 < spent <= EPSILON
    restarted = [ENVELOPES.decode(place.desk(study, "north").party().handle(body)) for body in bodies]
    stored = [ENVELOPES.decode(answer) for answer in seen[2:]]
    assert restarted[2 : 2 + len(stored)] == stored  # what was stored is given again, to the byte
    assert all(isinstance(each, Refusal) for each in restarted[2 + len(stored) :])
    assert place.spent(study, "north") == spent and verify(place.ledger("north")).ok


def test_a_charge_whose_end_is_not_known_is_looked_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The charge is on disk, and its call fails all the same: the run is over, and nobody says that nothing was charged."""
    study = place.study("notears")
    place.ledgers()
    lines: list[str] = []
    half = place.desk(study, "north").party(log=lines.append)
    original = StudyLedger.reserve

    def reserve(self: StudyLedger, *args: Any, **options: Any) -> Any:
        original(self, *args, **options)
        raise LedgerUnavailable("the disk went away after the commit")

    monkeypatch.setattr(StudyLedger, "reserve", reserve)
    with pytest.raises(PartyFailed, match="north: it stopped after it was charged"):
        run_study(study, Wire({**place.halves(study), "north": half}))
    assert half.finished and place.spent(study, "north") > 0
    assert not any("nothing was charged" in line for line in lines)


def test_sides_with_other_files_are_told_what_differs(place: Place) -> None:
    own = place.study(parameters={"threshold": 0.3})
    place.ledgers()
    lines: list[str] = []
    half = place.desk(own, "north").party(log=lines.append)
    others = {
        "columns": place.study(columns=["v1", "v0", "v2", "v3", "v4"], parameters={"threshold": 0.3}),
        "budget.epsilon": place.study(budget={"epsilon": 1.9, "delta": 1e-6}, parameters={"threshold": 0.3}),
        "parameters.threshold": place.study(parameters={"threshold": 0.2}),
        "min_parties": place.study(min_parties=1, parameters={"threshold": 0.3}),
    }
    for key, other in others.items():
        refusal = ENVELOPES.decode(half.handle(greeting(other.digest, other.keys)))
        assert refusal.kind == "study" and refusal.keys == (key,) and key in lines[-1]
    assert "update one side" not in " ".join(lines)
    assert half.handle(greeting(own.digest, own.keys)).endswith(b"north")
    assert differing(own.keys, b"x" * 10**5) is None and differing(own.keys, b"\xff:,,:::") is not None


def test_a_copy_of_the_folder_answers_nothing_new(place: Place) -> None:
    """A second process on a copied table but the same ledger is not the process that was charged."""
    study = place.study("notears")
    place.ledgers()
    run_study(study, Wire(place.halves(study)))
    shutil.copy(place.folder / "north.csv", place.folder / "copy.csv")
    half = place.desk(study, "north").party()
    body = ENVELOPES.encode(
        Request(
            study.digest, "another", 1, Method(study).codec.encode(Method(study).agreed()[release.Offer][0])
        )
    )
    assert ENVELOPES.decode(half.handle(body)).kind == "run"


@pytest.mark.parametrize("fault", ["locked", "full"])
def test_a_run_in_one_process_goes_on_where_its_ledger_cannot_be_written(
    place: Place, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The lock is a real one: another connection takes the ledger after the charge, and keeps it."""
    import privfcd as pf
    from privfcd.ledger import Ledger
    from privfcd.ledger.sqlite_journal import SqliteJournal

    place.ledgers()
    budget = pf.Budget(EPSILON, 1e-6)

    def tables() -> list[Any]:
        return [
            pf.PrivateTable(
                rows, [f"v{j}" for j in range(5)], noise=pf.SimulatedNoise(5), bounds=12.0,
                ledger=Ledger(budget, name=name, journal=SqliteJournal(place.ledger(name), timeout=0.05)),
            )
            for name, rows in zip(PARTIES, place.parts, strict=True)
        ]  # fmt: skip

    def model() -> Any:
        return pf.FedSparseBNSL(rounds=3, updates=4, epsilon=2.0)

    expected = model().fit(tables()).adjacency_matrix_
    holders = []

    def hold(record: Any) -> None:
        if record.number == 1 and fault == "locked":
            for name in PARTIES:
                holders.append(sqlite3.connect(place.ledger(name), isolation_level=None))
                holders[-1].execute("BEGIN IMMEDIATE")
        elif record.number == 1:
            monkeypatch.setattr(Ledger, "record_draws", full)
            monkeypatch.setattr(Ledger, "settle", full)

    def full(*args: Any, **options: Any) -> Any:
        raise LedgerFull("the disk is full")

    place.ledgers_again()
    with pytest.warns(NotWritten, match="the run is paid for and goes on"):
        found = model().fit(tables(), on_round=hold)
    for holder in holders:
        holder.execute("ROLLBACK")
        holder.close()
    np.testing.assert_array_equal(found.adjacency_matrix_, expected)
    assert 0 < place.spent(place.study(), "north") <= EPSILON and verify(place.ledger("north")).ok
