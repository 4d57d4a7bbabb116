"""Runs on ledgers of their own: charged there, closed at a clean end only, reported with their heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger, MemoryJournal, SqliteJournal
from privfcd.ledger.journal_errors import SameRows
from privfcd.ledger.tools import init_ledger, open_ledger, show, verify
from privfcd.runs import learn, private_tables

SMALL: dict[str, Any] = {"rounds": 2, "updates": 3, "clip": 20.0, "step": 0.5, "bounds": 9.0}
NOISE = pf.SimulatedNoise(3)
BUDGET = pf.Budget(epsilon=5, delta=1e-5)


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(80, 3))


@pytest.fixture
def stored(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.sqlite" for name in ("one", "two")]
    for path in paths:
        init_ledger(path, path.stem, BUDGET)
    return paths


def test_paths_and_ledgers_are_charged(stored: list[Path]) -> None:
    ledgers = [stored[0], open_ledger(stored[1], "two")]
    model = learn([rows(0), rows(1)], epsilon=2.0, ledgers=ledgers, noise=NOISE, **SMALL)
    for path, report in zip(stored, model.privacy_report_, strict=True):
        spent = open_ledger(path, path.stem).spent()
        assert spent == pytest.approx({"epsilon": 2, "delta": 4e-6}) and report.epsilon == pytest.approx(2)
        assert report.head == show(path)["head"] and verify(path, report.head).ok and not verify(path).notes
        assert f"Ledger: head {report.head}" in str(report) and report.as_dict()["head"] == report.head
        kinds = [entry.kind for entry in open_ledger(path, path.stem).entries()]
        assert kinds == ["reserve", "draws", "draws", "close"]
    with pytest.raises(BudgetExceeded):
        learn([rows(0), rows(1)], epsilon=4.0, ledgers=stored, noise=NOISE, **SMALL)


def test_memory_has_no_head() -> None:
    model = learn([rows(0)], epsilon=2.0, noise=NOISE, **SMALL)
    assert model.privacy_report_[0].head == "" and "Ledger:" not in str(model.privacy_report_[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ledgers": "one.sqlite"}, "ledgers must be one for each of 2 tables"),
        ({"ledgers": [None, None]}, "ledgers must be Ledgers or paths, got None"),
        ({"names": ["a", "b"]}, "either names or ledgers"),
        ({"private": False}, "from which a run without privacy cannot be paid"),
        ({"epsilon": -1.0}, "epsilon must be a finite number above 0"),
    ],
)
def test_what_does_not_go_together_is_refused(stored: list[Path], changes: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"ledgers": stored, "noise": NOISE, **SMALL, **changes}
    with pytest.raises(InvalidParameter, match=message):
        learn([rows(0), rows(1)], **given)
    tables = private_tables([rows(0), rows(1)], ledgers=stored, noise=NOISE)
    with pytest.raises(InvalidParameter, match="belong to the PrivateTables"):
        learn(tables, ledgers=stored)
    with pytest.raises(InvalidParameter, match="twice"):
        private_tables([rows(0), rows(1)], ledgers=[stored[0], stored[0].parent / "." / "one.sqlite"])
    ledger = Ledger(BUDGET, name="both")
    with pytest.raises(InvalidParameter, match="twice"):
        private_tables([rows(0), rows(1)], ledgers=[ledger, ledger])


def test_an_error_closes_nothing(stored: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = FedSparseParty._update, [0]

    def failing(self: FedSparseParty, message: messages.Round) -> messages.LocalUpdate:
        calls[0] += 1
        if calls[0] == 3:
            raise RuntimeError("in the second round")
        return real(self, message)

    monkeypatch.setattr(FedSparseParty, "_update", failing)
    with pytest.raises(RuntimeError):
        learn([rows(0), rows(1)], epsilon=2.0, ledgers=stored, noise=NOISE, **SMALL)
    for path in stored:
        assert "close" not in [entry.kind for entry in open_ledger(path, path.stem).entries()]
        assert open_ledger(path, path.stem).spent()["epsilon"] == pytest.approx(2)
        assert len(show(path)["data_sets"][path.stem]["unfinished"]) == 1 and verify(path).notes


@pytest.mark.parametrize("budget", [pf.Budget(rho=0.5), BUDGET])
def test_a_clean_end_gives_back_what_was_never_drawn_where_that_is_valid(budget: pf.Budget) -> None:
    ledger = Ledger(budget, name="one")
    table = pf.PrivateTable(rows(0), ledger=ledger, bounds=9.0, noise=NOISE)
    party = FedSparseParty(table, 0)
    model = pf.FedSparseBNSL(rounds=2, updates=3, clip=20.0, step=0.5)
    settings = model.settings_for(model.facts_of([table]))
    party.answer(messages.Offer(settings, table.columns))
    party.answer(messages.Charge())
    party.answer(messages.Start(False))
    account = "rho" if budget.rho else "epsilon"
    taken = ledger.spent()[account]
    from privfcd.algorithms.protocol import SparseMatrix

    party.answer(messages.Finish(SparseMatrix.of(np.zeros((3, 3)))))
    assert party.reservation is not None
    assert ledger.entries()[-1].kind == "close"
    with pytest.raises(BudgetExceeded):
        party.reservation.draw("coordinate selection")
    left = ledger.spent()[account]
    assert left == taken if account == "epsilon" else left < taken, "a slice is spent once something was drawn"


def test_the_owner_is_told_of_the_same_rows_where_another_data_set_may_have_them(tmp_path: Path) -> None:
    path = tmp_path / "all.sqlite"
    for name in ("one", "two"):
        init_ledger(path, name, BUDGET)
    pf.PrivateTable(rows(0), ledger=open_ledger(path, "one"))
    pf.PrivateTable(rows(0)[::-1], ledger=open_ledger(path, "one"))
    pf.PrivateTable(rows(1), ledger=open_ledger(path, "two"))
    with pytest.warns(SameRows, match="the rows of 'two' are also those of 'one'"):
        pf.PrivateTable(rows(0)[::-1], ledger=open_ledger(path, "two"))
    journal = MemoryJournal()
    pf.PrivateTable(rows(0), ledger=Ledger(BUDGET, name="one", journal=journal))
    with pytest.warns(SameRows):
        pf.PrivateTable(rows(0), ledger=Ledger(BUDGET, name="two", journal=journal))


def test_rows_are_not_sorted_for_a_ledger_that_knows_no_other_data_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("the rows were fingerprinted")

    monkeypatch.setattr(MemoryJournal, "note_rows", asked)
    monkeypatch.setattr(SqliteJournal, "note_rows", asked)
    pf.PrivateTable(rows(0), name="one", budget=BUDGET)
    pf.PrivateTable(rows(0))
