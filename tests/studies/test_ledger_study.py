"""The ledger's study in small: kill -9, races, a long history; the whole is `python -m privfcd.studies ledger`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from privfcd.accounting.ledger_tools import verify
from privfcd.studies import ledger as study


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


def test_a_charge_takes_as_long_after_many_as_after_few(tmp_path: Path) -> None:
    rows = study.history_times(tmp_path, total=1500, window=60)
    assert [before for before, _, _ in rows] == [0, 150, 750, 1380]
    assert rows[-1][2] < 2 * max(rows[0][2], rows[1][2])
    assert verify(tmp_path / "long.db").entries == 1501


@pytest.mark.slow
def test_the_whole_study_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert study.main(quick=True)
    assert "unpaid releases: 0" in capsys.readouterr().out
