"""Moments of a table: exact on an open one, one charged covariance release on one with a budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget, gaussian_delta
from privfcd.data.private import PrivateTable
from privfcd.data.queries import SecondMoments
from privfcd.data.second_moments import table_moments
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.mechanisms import SimulatedNoise

ROWS = np.random.default_rng(0).normal(size=(50, 3))
ROOMY = Budget(rho=1e6)


def made(**changes: Any) -> PrivateTable:
    return PrivateTable(
        ROWS, **{"columns": ["a", "b", "c"], "name": "ward", "budget": ROOMY, "noise": SimulatedNoise(1), **changes}
    )


def test_an_open_table_gives_exact_moments_and_says_so() -> None:
    table = made(budget=None)
    moments = table_moments(table, offset=(0.5, 0.0, -1.0))
    shifted = ROWS - np.array([0.5, 0.0, -1.0])
    np.testing.assert_allclose(moments.matrix, shifted.T @ shifted / 50, rtol=1e-12)
    assert moments.exact and moments.rows == 50 and moments.columns == ("a", "b", "c")
    assert moments.mean is not None and moments.mean.tolist() == [0.5, 0.0, -1.0]
    assert [entry.event for entry in table.ledger.entries()] == ["NonPrivateDpEvent()"]
    assert table_moments(made(budget=None)).mean is None


def test_a_private_release_is_one_charge_with_the_stated_noise(spy: Any) -> None:
    table = made(noise=spy)
    moments = table_moments(table, row_norm=2.0, epsilon=1.0, delta=1e-6)
    (entry,) = table.ledger.entries()
    assert entry.kind == "charge" and "GaussianDpEvent" in entry.event
    sensitivity = SecondMoments(2.0).sensitivity(50)
    (draw,) = spy.draws
    assert draw.value.size == 6, "the upper triangle, once"
    diagonal = draw.scale[np.isclose(draw.scale, draw.scale.max())]
    assert len(diagonal) == 3 and np.allclose(np.sort(draw.scale)[:3] * math.sqrt(2), diagonal)
    assert gaussian_delta(float(diagonal[0]), 1.0, sensitivity) <= 1e-6 * (1 + 1e-12)
    assert gaussian_delta(float(diagonal[0]) * 0.999, 1.0, sensitivity) > 1e-6
    assert moments.noise_sd is not None and not moments.exact
    np.testing.assert_allclose(np.diag(moments.noise_sd), diagonal)
    np.testing.assert_allclose(moments.noise_sd[0, 1] * math.sqrt(2), diagonal[0])
    assert np.array_equal(moments.matrix, moments.matrix.T)


def test_the_noise_is_what_the_moments_say() -> None:
    exact = SecondMoments(2.0).evaluate(ROWS)
    table = made(budget=Budget(rho=1e9))
    releases = [table_moments(table, row_norm=2.0, epsilon=1.0, delta=1e-6) for _ in range(800)]
    errors = np.array([release.matrix - exact for release in releases])
    assert releases[0].noise_sd is not None
    np.testing.assert_allclose(errors.std(axis=0), releases[0].noise_sd, rtol=0.12)
    assert (np.abs(errors.mean(axis=0)) < 5 * releases[0].noise_sd / math.sqrt(800)).all()


def test_declared_bounds_supply_the_row_norm() -> None:
    wide = table_moments(made(bounds=[3.0, 4.0, 12.0]), epsilon=1.0, delta=1e-6)
    same = table_moments(made(), row_norm=13.0, epsilon=1.0, delta=1e-6)
    np.testing.assert_array_equal(wide.matrix, same.matrix)


def test_refused_releases_read_nothing(arm: Callable[..., PrivateTable]) -> None:
    table = arm(made(budget=Budget(epsilon=1, delta=1e-6)))
    with pytest.raises(BudgetExceeded):
        table_moments(table, row_norm=2.0, epsilon=2.0, delta=1e-6)
    for arguments, message in (
        ({"epsilon": 0.5, "delta": 1e-7}, "row_norm must be given for 'ward', which declares no bounds"),
        ({"row_norm": 2.0}, "epsilon and delta must be given"),
        ({"row_norm": 2.0, "epsilon": 1.0}, "epsilon and delta must be given"),
        ({"row_norm": 0.0, "epsilon": 1.0, "delta": 1e-7}, "row_norm must be"),
        ({"row_norm": math.inf, "epsilon": 1.0, "delta": 1e-7}, "row_norm must be"),
        ({"row_norm": 2.0, "epsilon": -1.0, "delta": 1e-7}, "epsilon must be"),
        ({"row_norm": 2.0, "epsilon": math.nan, "delta": 1e-7}, "epsilon must be"),
        ({"row_norm": 2.0, "epsilon": 1.0, "delta": 0.0}, "delta must be"),
        ({"row_norm": 2.0, "epsilon": 1.0, "delta": 1.0}, "delta must be"),
        ({"row_norm": 2.0, "epsilon": 1.0, "delta": 1e-7, "offset": (1.0,)}, "offset must be"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            table_moments(table, **arguments)
    assert not any(table.ledger.spent_units().values()) and not table.ledger.entries()


def test_a_release_takes_no_more_of_an_epsilon_delta_budget_than_it_asks_for() -> None:
    table = made(budget=Budget(epsilon=5, delta=1e-5))
    table_moments(table, row_norm=2.0, epsilon=1.0, delta=1e-6)
    spent = table.ledger.spent()
    assert spent["epsilon"] <= 1.0 and spent["delta"] <= 1e-6


def test_the_whole_budget_buys_a_release_of_that_epsilon_and_delta() -> None:
    table_moments(made(budget=Budget(epsilon=1, delta=1e-6)), row_norm=2.0, epsilon=1.0, delta=1e-6)


def test_a_declared_offset_does_not_cut_rows_that_keep_the_bounds() -> None:
    rows = np.full((20, 2), [-3.0, 4.0])
    arguments = {"bounds": [3.0, 4.0], "noise": SimulatedNoise(1), "budget": Budget(rho=1e12)}
    moments = table_moments(PrivateTable(rows, **arguments), epsilon=1e5, delta=1e-6, offset=(3.0, -4.0))
    assert moments.noise_sd is not None and moments.noise_sd.max() < 0.2
    np.testing.assert_allclose(moments.matrix, [[36.0, -48.0], [-48.0, 64.0]], atol=2)
