"""The study of tightness: each measurement on few runs."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from benchmarks import audits
from benchmarks.__main__ import studies


@pytest.mark.parametrize("aim", [aim for aim in audits.AIMS if not aim.slow], ids=lambda aim: aim.name)
def test_shares_of_the_truth(aim: audits.Aim) -> None:
    found = aim.measure(100_000, 1000)
    assert aim.least - 0.15 < found.share <= 1.0 and found.seconds > 0


def test_the_true_pair_of_selections() -> None:
    """One selection of range e loses e at delta = 0; fifty lose less than the sum at 1e-5."""
    assert 1.0 < audits.selections_epsilon(audits.RANGE) < audits.SELECTIONS * audits.RANGE
    assert audits.alarms(("Laplace", 3, 1000, 1e-6)) == 0


@pytest.mark.slow
def test_the_command() -> None:
    result = CliRunner().invoke(studies, ["audits", "--quick", "--false-alarms", "10"])
    assert result.exit_code == 0, result.output
    assert "alpha = 1e-06: 0 alarms" in result.output
