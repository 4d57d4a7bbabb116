"""Runs that are refused: as a whole, before any row is read, and with every ledger as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable, PrivfcdError
from privfcd.ledger import Ledger, MemoryJournal
from privfcd.mechanisms import Gaussian

Tables = Callable[..., list[PrivateTable]]
Model = Callable[..., FedSparseBNSL]
ROOMY = Budget(rho=1e9)


def spent(tables: list[PrivateTable]) -> list[dict[str, int]]:
    return [{name: units for name, units in table.ledger.spent_units().items() if units} for table in tables]


def exact_cost(tables: Tables, model: Model, **parameters: Any) -> int:
    probe = tables(budget=ROOMY)
    model(**parameters).fit(probe)
    return probe[0].ledger.spent_units()["rho"]


def test_the_last_unit_decides(tables: Tables, model: Model, arm: Any, rows_touched: type[BaseException]) -> None:
    parameters: dict[str, Any] = {"center": True, "noise_multiplier": 3.0}
    cost = exact_cost(tables, model, **parameters)
    enough, short = Budget.from_units(rho_units=cost), Budget.from_units(rho_units=cost - 1)
    made = tables(budget=enough)
    model(**parameters).fit(made)
    assert all(table.ledger.left() is None for table in made)
    for budgets in ([short] * 3, [enough, enough, short], [short, enough, enough]):
        made = [arm(table) for table in tables(budget=budgets)]
        with pytest.raises(BudgetExceeded, match="Fed-Sparse-BNSL"):
            model(**parameters).fit(made)
        assert spent(made) == [{}, {}, {}] and not any(table.ledger.entries() for table in made)
    made = [arm(table) for table in tables(budget=enough)]
    with pytest.raises(rows_touched):
        model(**parameters).fit(made)


REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], type[Exception]]] = [
    ("a pure budget at the end", {"budget": [ROOMY, ROOMY, Budget(epsilon=9)]}, {}, InvalidParameter),
    ("all pure", {"budget": Budget(epsilon=9)}, {}, InvalidParameter),
    ("no clip", {"budget": ROOMY}, {"clip": math.inf}, InvalidParameter),
    ("no clip, open parties first", {"budget": [None, None, ROOMY]}, {"clip": math.inf}, InvalidParameter),
    ("other columns", {"budget": ROOMY, "columns": [tuple("abcd"), tuple("abcd"), tuple("abcx")]}, {}, InvalidTable),
    ("epsilon 0", {"budget": Budget(epsilon=1, delta=1e-6)}, {"epsilon": 0.0}, InvalidParameter),
    ("epsilon nan", {"budget": Budget(epsilon=1, delta=1e-6)}, {"epsilon": math.nan}, InvalidParameter),
    ("epsilon inf", {"budget": Budget(epsilon=1, delta=1e-6)}, {"epsilon": math.inf}, InvalidParameter),
    ("epsilon negative", {"budget": Budget(epsilon=1, delta=1e-6)}, {"epsilon": -1.0}, InvalidParameter),
    ("epsilon above the budget", {"budget": Budget(epsilon=1, delta=1e-6)}, {"epsilon": 1.0001}, BudgetExceeded),
    ("delta above the budget", {"budget": Budget(epsilon=1, delta=1e-6)}, {"delta": 1.1e-6}, BudgetExceeded),
    ("delta 1", {"budget": Budget(epsilon=1, delta=1e-6)}, {"delta": 1.0}, InvalidParameter),
    ("delta 0", {"budget": Budget(epsilon=1, delta=1e-6)}, {"delta": 0.0}, InvalidParameter),
    ("no rounds", {"budget": ROOMY}, {"rounds": 0}, InvalidParameter),
    ("no updates", {"budget": ROOMY}, {"updates": 0}, InvalidParameter),
    ("too little noise", {"budget": Budget(rho=1.0)}, {"noise_multiplier": 0.5}, BudgetExceeded),
    ("hardly any noise", {"budget": Budget(rho=1.0)}, {"noise_multiplier": 1e-6}, BudgetExceeded),
    ("one poor party", {"budget": [ROOMY, Budget(rho=1e-6), ROOMY]}, {"noise_multiplier": 1.0}, BudgetExceeded),
    ("rho without delta", {"budget": Budget(rho=1.0)}, {"epsilon": 1.0}, InvalidParameter),
]


@pytest.mark.parametrize(("each", "parameters", "error"), [case[1:] for case in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused_runs_read_no_row_and_charge_nobody(
    tables: Tables, model: Model, arm: Any, each: dict[str, Any], parameters: dict[str, Any], error: type[Exception]
) -> None:
    made = [arm(table) for table in tables(**each)]
    for _ in range(2):
        with pytest.raises(error):
            model(center=True, **parameters).fit(made)
    assert spent(made) == [{}, {}, {}]
    assert not any(table.ledger.entries() for table in made)


@pytest.mark.parametrize("budget", [Budget(rho=1.0), Budget(epsilon=1, delta=1e-6)])
def test_one_partys_spent_ledger_stops_all(tables: Tables, model: Model, arm: Any, budget: Budget) -> None:
    made = tables(budget=budget, bounds=9.0)
    poor = made[1]
    model().fit([poor])
    assert poor.ledger.left() is None or (poor.ledger.left().epsilon or 0) < 1e-3  # type: ignore[union-attr]
    before = spent(made)
    for table in made:
        arm(table)
    with pytest.raises(BudgetExceeded):
        model(noise_multiplier=5.0).fit(made)
    assert spent(made) == before
    assert not made[0].ledger.entries() and not made[2].ledger.entries()


def test_every_ledger_is_charged_before_any_row_is_read(
    tables: Tables, model: Model, arm: Any, rows_touched: type[BaseException]
) -> None:
    made = tables(budget=ROOMY)
    arm(made[0])
    with pytest.raises(rows_touched):
        model().fit(made)
    assert all(table.ledger.entries() for table in made)


def test_parties_on_one_account_are_refused_before_anybody_is_charged(
    tables: Tables, model: Model, parts: list[np.ndarray]
) -> None:
    journal = MemoryJournal()
    made = [PrivateTable(part, ledger=Ledger(Budget(rho=1.0), name="registry", journal=journal)) for part in parts[:2]]
    with pytest.raises(PrivfcdError):
        model().fit(made)
    assert not any(made[0].ledger.spent_units().values()) and not made[0].ledger.entries()


def test_a_run_can_be_paid_from_what_an_adaptive_release_left(tables: Tables, model: Model) -> None:
    made = tables(budget=Budget(epsilon=5, delta=1e-5), bounds=9.0)
    for table in made:
        table.release(ClippedMean((9.0,) * 4), Gaussian(100.0))
    model(noise_multiplier=100.0).fit(made)


@pytest.mark.parametrize(
    ("parameters", "bounds"),
    [
        ({"rho2": 1e308}, 9.0),
        ({"smoothness": [1e308] * 4}, 9.0),
        ({"clip": 1e-320}, 9.0),
        ({"l1": 1e200}, 9.0),
    ],
    ids=str,
)
def test_constants_that_cannot_be_computed_with_are_refused_before_the_charge(
    tables: Tables, model: Model, parameters: dict[str, Any], bounds: float
) -> None:
    made = tables(budget=Budget(epsilon=5, delta=1e-5), bounds=bounds)
    with pytest.raises(InvalidParameter):
        model(**parameters).fit(made)
    assert spent(made) == [{}, {}, {}]


@pytest.mark.parametrize("bound", [1e160, 1e30, 1e-30])
def test_bounds_that_cannot_be_computed_with_are_refused_when_the_table_is_made(tables: Tables, bound: float) -> None:
    with pytest.raises(InvalidParameter, match="bound of 'a'"):
        tables(budget=Budget(epsilon=5, delta=1e-5), bounds=bound)


@pytest.mark.parametrize(
    "case",
    [
        "epsilon 1e308",
        "multiplier 1e305",
    ],
)
def test_extreme_budgets_are_refused_by_name_or_served(tables: Tables, model: Model, case: str) -> None:
    try:
        budget = Budget(epsilon=1e308 if case.startswith("epsilon") else 5.0, delta=1e-5)
        model(noise_multiplier=None if case.startswith("epsilon") else 1e305).fit(tables(budget=budget))
    except PrivfcdError:
        return


def test_a_histogram_that_noise_will_drown_is_refused_before_the_charge(tables: Tables, model: Model) -> None:
    """What is public (rows, columns, budget) says beforehand that the bounds will be nonsense."""
    made = tables(budget=Budget(epsilon=1, delta=1e-5))
    with pytest.raises(BudgetExceeded, match="declare bounds, or give a larger budget"):
        model().fit(made)
    assert not any(table.ledger.entries() for table in made)
    model(rounds=1, updates=1).fit(tables(budget=Budget(epsilon=1, delta=1e-5), bounds=9.0))
