"""Charges before reads, refusals without answers, and noise that is nobody else's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.audits import check_independence, check_order
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean
from privfcd.data.second_moments import table_moments
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.mechanisms import Gaussian, SimulatedNoise

QUERY = ClippedMean((1.0, 1.0))


def right(tables: list[PrivateTable]) -> Any:
    return tables[0].release(QUERY, Gaussian(1.0))


def table(budget: Budget | None = None) -> PrivateTable:
    return PrivateTable(np.zeros((20, 2)), bounds=1.0, budget=budget or Budget(rho=5.0))


def test_the_librarys_own_releases_keep_the_order() -> None:
    assert check_order(right, table()).ok
    approximate = table(Budget(epsilon=1.0, delta=1e-5))
    assert check_order(lambda tables: table_moments(tables[0], epsilon=0.5, delta=1e-6), approximate).ok
    assert check_order(FedSparseBNSL(rounds=1, updates=1, clip=1.0), table(Budget(rho=1.0))).ok


def test_each_fault_of_the_order_is_named() -> None:
    def early(tables: list[PrivateTable]) -> Any:
        tables[0]._rows.mean()
        return right(tables)

    def stubborn(tables: list[PrivateTable]) -> Any:
        try:
            return right(tables)
        except BudgetExceeded:
            return tables[0]._read().mean()

    def free(tables: list[PrivateTable]) -> Any:
        return 1.0 if tables[0].n_rows else 0.0

    found = check_order(early, table())
    assert found.read_before_charge and found.read_after_refusal and not found.answered_after_refusal
    found = check_order(stubborn, table())
    assert not found.read_before_charge and found.read_after_refusal and found.answered_after_refusal
    assert "after a refusal" in str(found)
    assert check_order(free, table()).answered_after_refusal
    with pytest.raises(InvalidParameter, match="budget"):
        check_order(right, PrivateTable(np.zeros((20, 2))))


def test_shared_noise_is_seen_at_ten_draws_and_independent_noise_is_left_alone() -> None:
    sources = [SimulatedNoise(seed).stream(0) for seed in (1, 1, 2)]
    one, same, other = (source.gaussian(np.zeros(10), 2.0) for source in sources)
    assert not check_independence(one, same).independent
    assert not check_independence(one, -3 * same).independent
    assert check_independence(one, other).independent
    alarms = 0
    for seed in range(400):
        pair = [SimulatedNoise(seed).stream(key).gaussian(np.zeros(30), 1.0) for key in (0, 1)]
        alarms += not check_independence(*pair, level=0.01).independent
    assert alarms <= 13  # 4 are expected; more than 13 have a chance below 1e-4
    with pytest.raises(InvalidParameter, match="5 finite residuals"):
        check_independence([1.0, 2.0], [1.0, 2.0])
