"""What is made with simulated noise is marked in the ledger, whatever the way to it; and what a run says that it charged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import privfcd as pf
from privfcd.cli.interrupts import accounted
from privfcd.data.queries import ClippedMean
from privfcd.errors import BudgetExceeded
from privfcd.ledger import Ledger, MemoryJournal, PlanPart
from privfcd.mechanisms import Gaussian

QUERY, MECHANISM = ClippedMean((1.0, 1.0)), Gaussian(1.0)


def table(noise: Any, journal: MemoryJournal | None = None) -> pf.PrivateTable:
    ledger = Ledger(pf.Budget(rho=1.0), name="n", journal=journal)
    return pf.PrivateTable(np.zeros((50, 2)), ["a", "b"], ledger=ledger, noise=noise)


@pytest.mark.parametrize("reserved", [False, True])
@pytest.mark.parametrize("simulated", [False, True])
def test_direct_releases_with_simulated_noise_are_marked(simulated: bool, reserved: bool) -> None:
    own = table(pf.SimulatedNoise(1) if simulated else pf.SecureNoise())
    reservation = None
    if reserved:
        reservation = own.ledger.reserve([PlanPart("mean", own.event(QUERY, MECHANISM), 3)], "a plan")
    for _ in range(2):
        own.release(QUERY, MECHANISM, label="mean", reservation=reservation)
    marks = [entry.label for entry in own.ledger.entries() if "SIMULATED" in entry.label]
    assert len(marks) == simulated * (1 if reserved else 2)


def test_a_refused_run_does_not_say_what_another_was_charged() -> None:
    journal = MemoryJournal()
    mine, other = (table(pf.SecureNoise(), journal) for _ in range(2))
    with pytest.raises(BudgetExceeded) as caught, accounted([mine]):
        other.release(QUERY, MECHANISM)  # another run on the same account, at the same time
        mine.ledger.charge(BIG)
    assert not getattr(caught.value, "__notes__", [])
    with pytest.raises(BudgetExceeded) as caught, accounted([mine]):
        mine.release(QUERY, MECHANISM)
        mine.ledger.charge(BIG)
    assert "stays spent" in caught.value.__notes__[0]


BIG = Gaussian(1e-3).event(1.0)
