"""The journal in memory: all or nothing, asking changes nothing, and the budget that was declared first holds."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.errors import InvalidParameter
from privfcd.ledger import Entry, MemoryJournal
from privfcd.ledger.journal import OverCap

LAWS = settings(max_examples=100, deadline=None, derandomize=True)


def test_entries_are_numbered_within_their_scope_and_keep_what_they_were_told() -> None:
    journal = MemoryJournal()
    journal.post("a", "charge", "first", "Event()", {"epsilon": 3}, {"epsilon": 10})
    journal.post("b", "charge", "other", "", {})
    last = journal.post("a", "charge", "second", "Event()", {"epsilon": 4})
    assert [entry.sequence for entry in journal.entries("a")] == [1, 2]
    assert [entry.sequence for entry in journal.entries("b")] == [1]
    assert (last.scope, last.kind, last.label, last.event, dict(last.spent)) == (
        "a",
        "charge",
        "second",
        "Event()",
        {"epsilon": 4},
    )
    assert journal.entries("a")[-1] == last
    assert isinstance(last, Entry)
    assert last.time.endswith("+00:00")
    assert journal.balance("a") == {"epsilon": (7, 10)}
    assert journal.balance("b") == journal.balance("nobody") == {}
    assert journal.entries("nobody") == ()


def test_an_amount_that_does_not_fit_changes_nothing_and_says_what_was_asked() -> None:
    journal = MemoryJournal()
    caps = {"epsilon": 10, "delta": 5}
    journal.post("a", "charge", "x", "", {"epsilon": 6, "delta": 1}, caps)
    before = (journal.balance("a"), journal.entries("a"))
    with pytest.raises(OverCap) as refusal:
        journal.post("a", "charge", "x", "", {"epsilon": 4, "delta": 5}, {"new": 3})
    assert (refusal.value.account, refusal.value.asked, refusal.value.spent, refusal.value.cap) == ("delta", 5, 1, 5)
    assert (journal.balance("a"), journal.entries("a")) == before
    journal.post("a", "charge", "x", "", {"epsilon": 4, "delta": 4})
    assert journal.balance("a") == {"epsilon": (10, 10), "delta": (5, 5)}


def test_an_account_keeps_the_cap_that_it_was_opened_with() -> None:
    journal = MemoryJournal()
    journal.post("a", "charge", "x", "", {"epsilon": 6}, {"epsilon": 10})
    with pytest.raises(OverCap):
        journal.post("a", "charge", "x", "", {"epsilon": 6}, {"epsilon": 1000})
    assert journal.balance("a") == {"epsilon": (6, 10)}
    journal.post("a", "charge", "x", "", {"free": 10**30})
    assert journal.balance("a")["free"] == (10**30, None)


def test_what_is_handed_out_is_a_copy() -> None:
    journal = MemoryJournal()
    spend = {"epsilon": 3}
    journal.post("a", "charge", "x", "", spend, {"epsilon": 10})
    spend["epsilon"] = 0
    balance: Any = journal.balance("a")
    balance["epsilon"] = (0, 10)
    assert journal.balance("a") == {"epsilon": (3, 10)}
    assert dict(journal.entries("a")[0].spent) == {"epsilon": 3}


@LAWS
@given(
    cap=st.integers(0, 60),
    asks=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=30),
)
def test_balances_are_the_sums_of_the_entries_and_never_above_the_caps(cap: int, asks: list[tuple[str, int]]) -> None:
    journal = MemoryJournal()
    for scope, amount in asks:
        spent = journal.balance(scope).get("epsilon", (0, cap))[0]
        try:
            journal.post(scope, "charge", "x", "", {"epsilon": amount}, {"epsilon": cap})
        except OverCap:
            assert spent + amount > cap
        else:
            assert spent + amount <= cap
    for scope in "ab":
        total = sum(entry.spent["epsilon"] for entry in journal.entries(scope))
        assert journal.balance(scope).get("epsilon", (0, cap)) == (total, cap)


def test_threads_that_race_for_the_last_units_get_exactly_those() -> None:
    journal = MemoryJournal()
    start = threading.Barrier(16)
    granted: list[int] = []

    def spend() -> None:
        start.wait()
        for _ in range(20):
            try:
                granted.append(journal.post("a", "charge", "x", "", {"epsilon": 1}, {"epsilon": 100}).sequence)
            except OverCap:
                pass

    threads = [threading.Thread(target=spend) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(granted) == list(range(1, 101))
    assert journal.balance("a") == {"epsilon": (100, 100)}


def test_a_declared_budget_cannot_be_declared_otherwise() -> None:
    journal = MemoryJournal()
    assert journal.declared("a") is None
    journal.open("a", {"epsilon": 10})
    journal.open("a", {"epsilon": 10})
    for other in ({"epsilon": 11}, {}, {"rho": 10}, {"epsilon": 10, "delta": 1}):
        with pytest.raises(InvalidParameter, match="budget of 'a'"):
            journal.open("a", other)
    assert dict(journal.declared("a") or {}) == {"epsilon": 10}


@pytest.mark.parametrize("amount", [-1, 1.5, True, "1", None])
def test_amounts_that_are_no_units_are_refused_by_name(amount: Any) -> None:
    journal = MemoryJournal()
    with pytest.raises(InvalidParameter, match="spend"):
        journal.post("a", "charge", "x", "", {"epsilon": amount}, {"epsilon": 10})
    with pytest.raises(InvalidParameter, match="open_caps"):
        journal.post("a", "charge", "x", "", {}, {"epsilon": amount})
    assert journal.balance("a") == {}
    assert journal.entries("a") == ()


def test_a_reservation_is_settled_once_and_gives_back_at_most_what_it_took() -> None:
    journal = MemoryJournal()
    journal.post("a", "charge", "x", "", {"epsilon": 1}, {"epsilon": 10})
    entry = journal.post("a", "reserve", "run", "", {"epsilon": 5})
    with pytest.raises(InvalidParameter, match="refund"):
        journal.settle("a", entry.sequence, "end", {"epsilon": 6})
    with pytest.raises(InvalidParameter, match="refund"):
        journal.settle("a", entry.sequence, "end", {"epsilon": -1})
    with pytest.raises(InvalidParameter, match="reservation"):
        journal.settle("a", 1, "end", {"epsilon": 1})
    assert journal.balance("a") == {"epsilon": (6, 10)}
    journal.settle("a", entry.sequence, "end", {"epsilon": 2})
    assert journal.balance("a") == {"epsilon": (4, 10)}
    with pytest.raises(InvalidParameter, match="closed"):
        journal.settle("a", entry.sequence, "end", {"epsilon": 1})


def test_the_first_answer_to_a_request_is_the_answer() -> None:
    journal = MemoryJournal()
    assert journal.answer("a", "m1") is None
    assert journal.store("a", "m1", b"first") == b"first"
    assert journal.store("a", "m1", b"second") == b"first"
    assert journal.answer("a", "m1") == b"first"
    assert journal.answer("b", "m1") is None


def test_the_history_cannot_be_rewritten_through_an_entry() -> None:
    journal = MemoryJournal()
    spent: Any = journal.post("a", "charge", "x", "", {"epsilon": 3}, {"epsilon": 10}).spent
    try:
        spent["epsilon"] = 0
    except TypeError:
        pass
    assert journal.entries("a")[0].spent["epsilon"] == 3
