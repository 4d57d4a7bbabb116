"""Reservations: drawn down to nothing and never below, by one process, and closed once."""

from __future__ import annotations

import copy
import math
import os
import pickle
import threading
import time
from typing import Any

import pytest

from privfcd.accounting import BoundedRangeDpEvent, Budget, GaussianDpEvent, NonPrivateDpEvent
from privfcd.errors import BudgetExceeded, CopiedBudget, InvalidParameter
from privfcd.ledger import Ledger, PlanPart, Reservation

UNITS = 10**24
TENTHS = [PlanPart("select", BoundedRangeDpEvent(0.1), 4), PlanPart("again", BoundedRangeDpEvent(0.1), 2, "a remark")]


def reserved(count: int = 4, budget: Budget | None = None) -> Reservation:
    part = PlanPart("select", BoundedRangeDpEvent(0.1), count)
    return Ledger(budget or Budget(epsilon=1000)).reserve([part])


def test_draws_are_counted_by_label_and_end_at_the_plan() -> None:
    ledger = Ledger(Budget(epsilon=1))
    reservation = ledger.reserve(TENTHS)
    spent = ledger.spent_units()
    reservation.draw("select", 3)
    reservation.draw("select")
    for label in ("select", "unknown"):
        with pytest.raises(BudgetExceeded, match=f"'{label}' on 'table' was refused: asked 1, left 0"):
            reservation.draw(label)
    reservation.draw("again")
    assert reservation.drawn() == {"select": 4, "again": 1}
    assert (reservation.left("select"), reservation.left("again"), reservation.left("unknown")) == (0, 1, 0)
    assert ledger.spent_units() == spent == {"epsilon": 6 * UNITS // 10}
    assert reservation.event_named("again") == BoundedRangeDpEvent(0.1)
    with pytest.raises(InvalidParameter, match="label"):
        reservation.event_named("unknown")


@pytest.mark.parametrize("count", [-1, -100, 0.001, 1.5, math.nan, -math.inf, False, "2", None])
def test_draws_that_are_no_count_are_refused_and_give_nothing_back(count: Any) -> None:
    reservation = reserved()
    with pytest.raises(InvalidParameter, match="count"):
        reservation.draw("select", count)
    assert reservation.left("select") == 4


class Slow(str):
    """A label that lets other threads run whenever it is looked up: before a counter is read and before it is set."""

    __slots__ = ()

    def __hash__(self) -> int:
        time.sleep(0.002)
        return super().__hash__()


def test_threads_cannot_draw_more_than_the_plan() -> None:
    reservation, drawn = reserved(10), [0] * 6
    start = threading.Barrier(6)

    def draw(index: int) -> None:
        start.wait()
        try:
            while True:
                reservation.draw(Slow("select"))
                drawn[index] += 1
        except BudgetExceeded:
            return

    threads = [threading.Thread(target=draw, args=(index,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(drawn) == 10
    assert reservation.left("select") == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_cannot_spend_the_plan_a_second_time() -> None:
    reservation = reserved()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            reservation.draw("select")
            os.write(writing, b"drawn")
        except CopiedBudget:
            os.write(writing, b"refused")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        assert answer.read() == b"refused"
    os.waitpid(child, 0)
    reservation.draw("select", 4)


def test_a_plan_cannot_be_sent_to_another_process() -> None:
    with pytest.raises(CopiedBudget):
        pickle.dumps(reserved())
    with pytest.raises(CopiedBudget):
        copy.deepcopy(reserved())


def test_checkpoints_note_what_was_drawn_since_the_last_and_cost_nothing() -> None:
    ledger = Ledger(Budget(epsilon=1))
    reservation = ledger.reserve(TENTHS)
    spent = ledger.spent_units()
    reservation.checkpoint("round 0")
    reservation.draw("select", 2)
    reservation.checkpoint("round 1")
    reservation.draw("select")
    reservation.draw("again")
    reservation.checkpoint("round 2")
    reservation.checkpoint("round 2")
    assert [entry.label for entry in ledger.entries()] == ["run", "round 1: 2 select", "round 2: 1 select, 1 again"]
    assert [entry.kind for entry in ledger.entries()] == ["reserve", "draws", "draws"]
    assert ledger.spent_units() == spent


@pytest.mark.parametrize("budget", [Budget(epsilon=1), Budget(rho=1)])
def test_closing_a_filters_reservation_gives_back_what_was_not_drawn(budget: Budget) -> None:
    ledger = Ledger(budget)
    reservation = ledger.reserve(TENTHS)
    (account,) = ledger.spent_units()
    whole = ledger.spent_units()[account]
    reservation.draw("select", 2)
    reservation.close()
    assert ledger.spent_units()[account] == pytest.approx(whole / 3, rel=1e-15)
    assert ledger.spent_units()[account] * 3 >= whole
    with pytest.raises(BudgetExceeded, match="closed"):
        reservation.draw("select")
    assert reservation.close() == reservation.close()
    assert ledger.spent_units()[account] == pytest.approx(whole / 3, rel=1e-15)


def test_a_slice_stays_spent_once_something_was_drawn_and_only_then() -> None:
    for drawn, expected in ((0, 0), (1, UNITS // 10**7)):
        ledger = Ledger(Budget(epsilon=1, delta=1e-6))
        reservation = ledger.reserve([PlanPart("noise", GaussianDpEvent(100.0), 5)], delta=1e-7)
        if drawn:
            reservation.draw("noise")
        before = ledger.spent_units()
        reservation.close()
        assert ledger.spent_units() == (before if drawn else dict.fromkeys(before, 0))
        assert ledger.spent_units()["delta"] == expected


def test_an_open_ledgers_reservation_counts_too() -> None:
    reservation = Ledger(None).reserve([PlanPart("exact", NonPrivateDpEvent(), 2)])
    reservation.draw("exact", 2)
    with pytest.raises(BudgetExceeded):
        reservation.draw("exact")
    reservation.close()


# --- what went wrong once ------------------------------------------------------------------------------------------


def test_a_copy_cannot_draw_what_closing_gave_back() -> None:
    reservation = reserved()
    try:
        twin = copy.copy(reservation)
    except CopiedBudget:
        return
    reservation.close()
    with pytest.raises(BudgetExceeded):
        twin.draw("select")
