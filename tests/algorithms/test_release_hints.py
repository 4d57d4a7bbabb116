"""What a refusal of a histogram advises is true: whoever follows it is not refused for a histogram again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privfcd import PC, Budget, PrivateTable, SimulatedNoise, release_moments
from privfcd.errors import BudgetExceeded


def table(*, bounds: float | None = None, epsilon: float = 0.4) -> PrivateTable:
    rows = np.random.default_rng(1).normal(size=(60, 3))
    return PrivateTable(rows, name="t", budget=Budget(epsilon, 1e-6), bounds=bounds, noise=SimulatedNoise(1))


def refusal(bounds: float | None = None, **options: Any) -> str:
    armed = table(bounds=bounds)
    with pytest.raises(BudgetExceeded) as error:
        release_moments([armed], **options)
    assert not armed.ledger.entries()
    return str(error.value)


def test_of_one_covariance() -> None:
    said = refusal(method="covariance", center=False)
    assert "declare bounds, or a row norm, or give larger budgets" in said and "center" not in said
    release_moments([table(bounds=5.0)], method="covariance")
    release_moments([table()], method="covariance", row_norm=5.0, center=False)
    said = refusal(method="covariance", center=True)
    assert "declare bounds, or a row norm with center=False" in said
    refusal(method="covariance", center=True, row_norm=5.0)  # a row norm alone does not help
    said = refusal(method="covariance", center=True, row_norm=5.0)
    assert "declare bounds, or take off public values near the means and leave them (center=False)" in said
    release_moments([table(bounds=5.0)], method="covariance", center=True)
    release_moments([table()], method="covariance", row_norm=5.0, center=False)


@pytest.mark.parametrize("center", [True, False])
def test_of_rounds(center: bool) -> None:
    for bounds, words in ((None, ": declare bounds: one clipped"), (5.0, ": one clipped covariance instead of rounds")):
        said = refusal(bounds, center=center)
        assert words in said and "center" not in said  # no mean more or less would help
    release_moments([table(bounds=5.0)], method="covariance", center=center)
    PC(release="covariance", center=center).fit([table(bounds=5.0)])
    with pytest.raises(BudgetExceeded, match="release='covariance' of most learners"):
        PC().fit([table(bounds=5.0)])
    with pytest.raises(BudgetExceeded, match="declare bounds, or a row norm"):
        PC(release="covariance", center=False).fit([table()])


def test_of_a_share_that_is_too_small() -> None:
    rich = {"epsilon": 60.0, "bounds": 5.0}
    with pytest.raises(BudgetExceeded, match=r"leave out histogram_share, which is 0\.0001,"):
        release_moments([table(**rich)], histogram_share=0.0001)
    release_moments([table(**rich)])


def test_of_a_mean_that_makes_the_difference() -> None:
    """Rounds without a mean look at differences of records, which one record moves further."""
    rows = np.random.default_rng(1).normal(size=(350, 3))

    def made() -> PrivateTable:
        return PrivateTable(rows, name="t", budget=Budget(1.0, 1e-6), bounds=5.0, noise=SimulatedNoise(1))

    with pytest.raises(
        BudgetExceeded,
        match=r"found with: take off public values near the means and leave them \(center=False\); or one clipped",
    ):
        release_moments([made()], center=True)
    release_moments([made()], center=False)
