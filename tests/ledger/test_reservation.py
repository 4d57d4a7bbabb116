"""Reservations: drawn down in memory, over once, and what goes back at a clean end."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    ZCDpEvent,
)
from privfcd.errors import BudgetExceeded, CopiedBudget, InvalidParameter
from privfcd.ledger import Ledger, MemoryJournal, PlanPart
from privfcd.ledger.journal_errors import BudgetMismatch
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import open_ledger, show, verify

UNITS = 10**24


def plan(event: Any, count: int = 10) -> list[PlanPart]:
    return [PlanPart("step", event, count)]


@pytest.mark.parametrize(
    ("budget", "event", "account", "price"),
    [
        (Budget(epsilon=1), LaplaceDpEvent(30.0), "epsilon", Fraction(1, 30)),
        (Budget(epsilon=1), BoundedRangeDpEvent(0.07), "epsilon", Fraction(7, 100)),
        (Budget(rho=1), GaussianDpEvent(3.0), "rho", Fraction(1, 18)),
        (Budget(rho=1), ZCDpEvent(0.1), "rho", Fraction(1, 10)),
    ],
)
def test_from_a_filter_the_cost_of_what_was_not_drawn_goes_back(
    budget: Budget, event: Any, account: str, price: Fraction
) -> None:
    ledger = Ledger(budget)
    run = ledger.reserve(plan(event))
    assert ledger.spent_units() == {account: math.ceil(10 * price * UNITS)}
    run.draw("step")
    run.draw("step", 2)
    entry = run.close("converged")
    assert (entry.kind, entry.label, entry.reference) == ("close", "converged", run.entry.sequence)
    assert ledger.spent_units() == {account: math.ceil(3 * price * UNITS)}
    assert run.close() == entry
    assert len(ledger.entries()) == 2


def test_from_the_adaptive_slice_its_rho_goes_back_and_nothing_of_epsilon_and_delta() -> None:
    ledger = Ledger(Budget(epsilon=3, delta=1e-6))
    ledger.charge(ZCDpEvent(0.01))
    before = ledger.spent_units()
    run = ledger.reserve(plan(ZCDpEvent(0.005)))
    run.draw("step", 4)
    run.close()
    after = ledger.spent_units()
    changed = {account for account in after if after[account] != before[account]}
    assert changed == {"rho of the adaptive slice"}
    assert after["rho of the adaptive slice"] == 3 * 10**22


def test_of_a_slice_nothing_goes_back_once_something_was_drawn_and_all_if_nothing_was() -> None:
    ledger = Ledger(Budget(epsilon=3, delta=1e-6))
    run = ledger.reserve(plan(GaussianDpEvent(60.0), 100), delta=5e-7)
    took = ledger.spent_units()
    run.draw("step")
    assert run.close().spent == {}
    assert ledger.spent_units() == took
    idle = ledger.reserve(plan(GaussianDpEvent(60.0), 100), delta=5e-7)
    assert ledger.spent_units()["delta"] == 2 * took["delta"]
    assert idle.close().spent == {account: -units for account, units in took.items()}
    assert ledger.spent_units() == took


def test_an_open_ledger_closes_without_amounts() -> None:
    ledger = Ledger()
    run = ledger.reserve(plan(NonPrivateDpEvent()))
    run.draw("step", 3)
    assert run.close().spent == {}


def test_nothing_is_drawn_after_the_end_nor_by_a_copy() -> None:
    ledger = Ledger(Budget(rho=1))
    run = ledger.reserve(plan(ZCDpEvent(0.01)))
    with pytest.raises(CopiedBudget, match="pickled"):
        pickle.dumps(run)
    if hasattr(os, "fork"):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                run.draw("step")
            except CopiedBudget:
                with contextlib.suppress(BaseException):
                    run.close()
                    code += 1
                code -= 1
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    for count in (-1, 1.5, True + 0.5):
        with pytest.raises(InvalidParameter, match="count"):
            run.draw("step", count)  # type: ignore[arg-type]
    assert run.left("step") == 10
    run.close()
    with pytest.raises(BudgetExceeded, match="closed"):
        run.draw("step")
    assert ledger.spent() == {"rho": 0}


def test_threads_draw_exactly_what_was_planned() -> None:
    run = Ledger(Budget(rho=1)).reserve(plan(ZCDpEvent(1e-6), 4000))
    granted: list[int] = []

    def work() -> None:
        mine = 0
        with contextlib.suppress(BudgetExceeded):
            while True:
                run.draw("step")
                mine += 1
        granted.append(mine)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 4000


def test_draws_touch_no_journal() -> None:
    ledger = Ledger(Budget(rho=1))
    run = ledger.reserve(plan(ZCDpEvent(1e-9), 80_000))
    entries, spent = ledger.entries(), ledger.spent_units()
    for _ in range(80_000):
        run.draw("step")
    assert run.left("step") == 0
    assert (ledger.entries(), ledger.spent_units()) == (entries, spent)


STEPS = st.lists(
    st.tuples(st.sampled_from([3.0, 7.0, 0.9, 11.5]), st.integers(0, 6), st.integers(0, 6), st.booleans()), max_size=12
)


@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_what_is_recorded_is_never_less_than_what_was_released(steps: list[tuple[float, int, int, bool]]) -> None:
    ledger, released, still_open = Ledger(Budget(epsilon=2)), Fraction(0), Fraction(0)
    for scale, count, drawn, clean in steps:
        price = 1 / Fraction(repr(scale))
        try:
            run = ledger.reserve(plan(LaplaceDpEvent(scale), count))
        except BudgetExceeded:
            continue
        with contextlib.suppress(BudgetExceeded):
            for _ in range(drawn):
                run.draw("step")
                released += price
        if clean:
            run.close()
        else:
            still_open += price * run.left("step")
    recorded = Fraction(ledger.spent_units().get("epsilon", 0), UNITS)
    assert released + still_open <= recorded <= released + still_open + Fraction(len(steps), UNITS)
    assert recorded <= 2


# --- requests -----------------------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_same_bytes_and_pays_nothing(tmp_path: Path) -> None:
    path, calls = tmp_path / "ledger.db", []

    def compute() -> bytes:
        calls.append(len(calls))
        return f"answer {len(calls)}".encode()

    with SqliteJournal(path) as journal:
        ledger = Ledger(Budget(rho=0.5), name="a", journal=journal)
        assert ledger.answer_once("m1", ZCDpEvent(0.5), compute) == b"answer 1"
        assert ledger.answer_once("m1", ZCDpEvent(0.5), compute) == b"answer 1"
        with pytest.raises(BudgetExceeded):
            ledger.answer_once("m2", ZCDpEvent(0.1), compute)
    again = open_ledger(path, "a")
    assert again.answer_once("m1", ZCDpEvent(0.5), compute) == b"answer 1"
    assert again.stored_answer("m2") is None
    assert (calls, again.spent()) == ([0], {"rho": 0.5})
    assert verify(path).ok and not verify(path).notes


def test_an_answer_that_was_lost_on_the_way_is_paid_again_and_said_so(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with SqliteJournal(path) as journal:
        ledger = Ledger(Budget(rho=0.5), name="a", journal=journal)
        with pytest.raises(ZeroDivisionError):
            ledger.answer_once("m1", ZCDpEvent(0.1), lambda: bytes(1 // 0))
        assert ledger.spent() == {"rho": 0.1}
        assert "request 'm1'" in verify(path).notes[0] and "never answered" in verify(path).notes[0]
        assert show(path)["data_sets"]["a"]["unanswered"][0]["request"] == "m1"
        assert ledger.answer_once("m1", ZCDpEvent(0.1), lambda: b"late") == b"late"
        assert ledger.spent() == {"rho": 0.2}
        assert verify(path).notes == ()


@pytest.mark.parametrize("make", [MemoryJournal, SqliteJournal])
def test_answers_of_a_run_are_drawn_once_and_noted(make: Any, tmp_path: Path) -> None:
    journal = make() if make is MemoryJournal else make(tmp_path / "ledger.db")
    ledger = Ledger(Budget(epsilon=2, delta=1e-6), name="a", journal=journal)
    run = ledger.reserve(plan(GaussianDpEvent(30.0), 10))

    def compute() -> bytes:
        run.draw("step", 4)
        return os.urandom(16)

    first = run.answer_once("round 1", compute, "round 1")
    assert run.answer_once("round 1", compute, "round 1") == first
    assert run.answer_once("round 2", compute, "round 2") != first
    assert run.left("step") == 2
    assert [(e.kind, e.reference) for e in ledger.entries()] == [("reserve", 0)] + [("draws", 1), ("answer", 1)] * 2
    run.close()


def test_a_crashed_run_stays_spent_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with SqliteJournal(path) as journal:
        run = Ledger(Budget(epsilon=1), name="a", journal=journal).reserve(plan(LaplaceDpEvent(20.0)), "night run")
        run.draw("step")
        run.checkpoint("round 1")
        del run
    ledger = open_ledger(path, "a")
    assert ledger.spent() == {"epsilon": 0.5}
    found = verify(path)
    assert found.ok
    assert len(found.notes) == 1 and "'night run'" in found.notes[0] and "reserved, never closed" in found.notes[0]
    assert [line["label"] for line in show(path)["data_sets"]["a"]["unfinished"]] == ["night run"]


# --- one data set, several ledgers --------------------------------------------------------------------------------


def test_a_name_keeps_its_budget_in_every_ledger_and_every_run(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for _ in range(2):
        with SqliteJournal(path) as journal:
            Ledger(Budget(epsilon=1), name="a", journal=journal).charge(LaplaceDpEvent(4.0))
            for other in (None, Budget(epsilon=2), Budget(rho=1), Budget(epsilon=1, delta=1e-9)):
                with pytest.raises(BudgetMismatch, match="epsilon = 1"):
                    Ledger(other, name="a", journal=journal)
            Ledger(Budget(rho=1), name="b", journal=journal).charge(ZCDpEvent(0.5))
    ledger = open_ledger(path, "a")
    assert ledger.budget == Budget(epsilon=1)
    assert ledger.spent() == {"epsilon": 0.5}
    with pytest.raises(BudgetExceeded):
        ledger.charge(LaplaceDpEvent(1.0))
    with pytest.raises(InvalidParameter, match="'c'"):
        open_ledger(path, "c")


def test_a_first_adaptive_charge_is_granted_also_when_another_one_opened_the_slice_meanwhile() -> None:
    class Overtaken(MemoryJournal):
        """Lets somebody else charge just before the first slice."""

        def post(self, scope: str, kind: str, *rest: Any, **named: Any) -> Any:
            if kind == "slice" and not self.entries(scope):
                super().post(scope, kind, *rest, **named)
            return super().post(scope, kind, *rest, **named)

    ledger = Ledger(Budget(epsilon=1, delta=1e-6), journal=Overtaken())
    ledger.charge(ZCDpEvent(1e-3))
    assert ledger.spent()["rho of the adaptive slice"] == 1e-3
    assert [entry.kind for entry in ledger.entries()] == ["slice", "charge"]


def test_a_slice_event_is_charged_by_request_too(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "ledger.db") as journal:
        ledger = Ledger(Budget(epsilon=1, delta=1e-6), name="a", journal=journal)
        ledger.answer_once("q1", EpsilonDeltaDpEvent(0.5, 5e-7), lambda: b"1")
        ledger.answer_once("q2", ZCDpEvent(1e-3), lambda: b"2")
        assert [(e.kind, e.request) for e in ledger.entries()] == [
            ("answer", "q1 claim 1"),
            ("charge", "q1"),
            ("answer", "q1"),
            ("answer", "q2 claim 1"),
            ("slice", ""),
            ("charge", "q2"),
            ("answer", "q2"),
        ]
