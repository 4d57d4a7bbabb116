"""The most that a budget buys, under every notion, and what is refused."""

from __future__ import annotations

import math

import pytest

from privfcd.accounting import Budget, compose, epsilon_of, gaussian_event, gaussian_sigma
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger, PlanPart
from privfcd.ledger.affordable import affordable_scale


def one(z: float) -> object:
    return gaussian_event(1.0, z)


def three(z: float) -> object:
    return compose((gaussian_event(1.0, z / math.sqrt(share)), 1) for share in (0.2, 0.3, 0.5))


@pytest.mark.parametrize("plan", [one, three])
def test_an_epsilon_delta_budget_buys_the_analytic_gaussian(plan: object) -> None:
    z, delta = affordable_scale(Ledger(Budget(1, 1e-6)), plan)  # type: ignore[arg-type]
    assert delta == 1e-6 and z == pytest.approx(gaussian_sigma(1, 1e-6, 1.0), rel=1e-8)
    assert epsilon_of(plan(z), 1e-6) <= 1  # type: ignore[operator]


def test_part_of_a_budget_takes_delta_in_proportion() -> None:
    ledger = Ledger(Budget(4, 1e-6))
    z, delta = affordable_scale(ledger, one, 1.0)
    assert delta == pytest.approx(2.5e-7) and z == pytest.approx(gaussian_sigma(1, 2.5e-7, 1.0), rel=1e-8)
    z, delta = affordable_scale(ledger, one, 1.0, 1e-7)
    ledger.reserve([PlanPart("x", one(z), 1)], delta=delta)
    left = ledger.left()
    assert left is not None and left.epsilon == pytest.approx(3) and left.delta == pytest.approx(9e-7)


def test_a_rho_budget() -> None:
    z, delta = affordable_scale(Ledger(Budget(rho=0.125)), three)
    assert delta is None and z == pytest.approx(2.0, rel=1e-9)
    z, delta = affordable_scale(Ledger(Budget(rho=1.0)), one, 1.0, 1e-6)
    assert delta is None and z == pytest.approx(gaussian_sigma(1, 1e-6, 1.0), rel=1e-8)


@pytest.mark.parametrize(
    ("budget", "arguments", "error", "message"),
    [
        (Budget(1, 1e-6), (2.0,), BudgetExceeded, "asked epsilon 2, spent 0, left 1"),
        (Budget(1, 1e-6), (1.0, 1e-5), BudgetExceeded, "asked delta 1e-05, spent 0, left 1e-06"),
        (Budget(rho=0.01), (5.0, 1e-6), BudgetExceeded, "asked rho"),
        (Budget(rho=0.01), (5.0,), InvalidParameter, "delta must be given"),
        (Budget(epsilon=1), (), InvalidParameter, "is pure"),
    ],
)
def test_refusals(budget: Budget, arguments: tuple[float, ...], error: type[Exception], message: str) -> None:
    ledger = Ledger(budget)
    with pytest.raises(error, match=message):
        affordable_scale(ledger, one, *arguments)
    assert not ledger.entries()


def test_nothing_left() -> None:
    ledger = Ledger(Budget(rho=0.5))
    ledger.charge(gaussian_event(1.0, 1.0))
    with pytest.raises(BudgetExceeded, match="'run' was refused: nothing is left"):
        affordable_scale(ledger, one)
