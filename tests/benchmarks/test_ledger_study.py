"""The ledger's study in small: kill -9, races, a long history; the whole is `python -m benchmarks ledger`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import ledger as study
from benchmarks import ledger_faults as faults
from benchmarks.ledger_faults import Row
from privfcd.ledger.tools import verify


@pytest.mark.skipif(os.name != "posix", reason="kills")
def test_nothing_is_released_unpaid_however_the_process_ends(tmp_path: Path) -> None:
    killed = study.kill_often(tmp_path, kills=25, seed=7)
    assert killed.problems == ()
    assert killed.unpaid == 0
    assert killed.entries > 25
    assert set(killed.releases) == {"charges", "draws", "answers"}


def test_the_comparison_would_see_an_unpaid_release(tmp_path: Path) -> None:
    study.init_ledger(tmp_path / "ledger.db", study.NAME, study.Budget(rho=1))
    lines = study.sent_line("charges", "neverpaid", "-") + study.sent_line("answers", "unknown", "00")
    (tmp_path / "sent.txt").write_bytes(lines)
    assert study._compare(tmp_path / "ledger.db", tmp_path / "sent.txt", 0).unpaid == 3


def test_processes_that_race_get_exactly_what_there_is(tmp_path: Path) -> None:
    granted, each, intact = study.race(tmp_path, units=120, processes=4)
    assert (granted, sum(each), len(each), intact) == (120, 120, 4, True)


def test_a_naive_store_grants_at_least_as_much_as_there_is(tmp_path: Path) -> None:
    assert study.naive_race(tmp_path, units=120, processes=4) >= 120


def test_times_along_a_history_are_measured(tmp_path: Path) -> None:
    rows = study.history_times(tmp_path, total=300, window=12)
    assert [before for before, _, _ in rows] == [0, 30, 150, 276]
    assert all(durable > 0 and alone > 0 for _, durable, alone in rows)
    assert verify(tmp_path / "long.db").entries == 301


def test_a_charge_is_as_much_work_after_many_as_after_few(
    tmp_path: Path, calls: Callable[[Callable[[], object]], int]
) -> None:
    study.init_ledger(tmp_path / "long.db", study.NAME, study.Budget(rho=100))
    found = []
    with study.HastyJournal(tmp_path / "long.db") as journal:
        ledger = study.Ledger(study.Budget(rho=100), name=study.NAME, journal=journal)
        steps = [0]  # of SQLite's machine, which no clock is needed for

        def step() -> None:
            steps[0] += 1

        for before in (50, 1000):
            study.charge_times(ledger, before)
            assert journal._connection is not None
            journal._connection.set_progress_handler(step, 1)
            steps[0] = 0
            called = calls(lambda: study.charge_times(ledger, 20))
            found.append((called, steps[0]))
            journal._connection.set_progress_handler(None, 0)
    (few_calls, few_steps), (many_calls, many_steps) = found
    assert few_steps > 100 and many_steps < 1.2 * few_steps and many_calls < 1.2 * few_calls


def held(row: Row) -> Row:
    assert row.holds() and row.tried, row
    return row


@pytest.mark.skipif(os.name != "posix", reason="forks and limits")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_fault_loses_a_charge_or_a_word(tmp_path: Path) -> None:
    for row in faults.forks(tmp_path, 2):
        held(row)
    assert held(faults.links(tmp_path, 4)).refused > 4
    held(faults.power_cuts(tmp_path, 24))
    assert held(faults.failing_writes(tmp_path, 12)).refused > 3
    (tmp_path / "flips").mkdir()
    ledger, beside, journal = faults.flipped_bytes(tmp_path / "flips", 16)
    assert held(ledger).refused and held(journal).refused and held(beside).refused == 0  # it has two slots


def test_the_faults_would_see_a_loss(tmp_path: Path) -> None:
    path = faults.made(tmp_path / "l.db", 5)
    tally = faults.Tally("")
    tally.compare(path, granted=7, cap=4)
    assert (tally.row.unpaid, tally.row.overspent) == (2, 1)
    tally.attempt(lambda: 1 / 0)
    assert tally.row.tracebacks == 1 and not tally.row.holds()


@pytest.mark.slow
def test_the_whole_study_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(quick=True)
    assert "unpaid releases: 0" in capsys.readouterr().out
