"""Budgets: three notions in exact units, read from decimals, and split without loss."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import Budget, zcdp_to_epsilon
from privfcd.errors import InvalidParameter

LAWS = settings(max_examples=150, deadline=None, derandomize=True)
AMOUNTS = st.floats(1e-20, 1e6)
DELTAS = st.floats(1e-20, 0.999)
UNIT = Fraction(1, 10**24)


@LAWS
@given(epsilon=AMOUNTS, delta=DELTAS)
def test_amounts_are_the_written_decimals_rounded_down_to_a_unit(epsilon: float, delta: float) -> None:
    budget = Budget(epsilon, delta)
    assert 0 <= Fraction(repr(epsilon)) - budget.epsilon_units * UNIT < UNIT
    assert 0 <= Fraction(repr(delta)) - budget.delta_units * UNIT < UNIT
    assert budget.epsilon is not None
    assert Fraction(repr(budget.epsilon)) <= budget.epsilon_units * UNIT
    assert budget.epsilon == pytest.approx(epsilon, rel=1e-3 if epsilon < 1e-18 else 1e-5)


def test_the_ways_to_write_a_tenth() -> None:
    assert Budget(0.1) == Budget(Decimal("0.1")) == Budget(Fraction(1, 10)) == Budget(np.float64(0.1))
    assert Budget(0.1).epsilon_units == 10**23
    assert Budget(1).epsilon_units == 10**24
    assert Budget(Fraction(1, 3)).epsilon_units == (10**24 - 1) // 3


def test_notions() -> None:
    assert Budget(epsilon=1).notion == "pure"
    assert Budget(epsilon=1, delta=1e-6).notion == "approximate"
    assert Budget(rho=1).notion == "zcdp"
    assert (Budget(rho=0.5).epsilon, Budget(rho=0.5).rho, Budget(epsilon=0.5).rho) == (None, 0.5, None)
    assert "rho = 0.5" in str(Budget(rho=0.5))
    assert "pure" in str(Budget(epsilon=0.5))
    assert "(5, 4e-08)" in str(Budget(epsilon=5, delta=4e-8))


@LAWS
@given(epsilon=AMOUNTS, delta=DELTAS, parts=st.integers(1, 2000))
def test_parts_add_up_exactly_and_differ_by_at_most_a_unit(epsilon: float, delta: float, parts: int) -> None:
    for budget in (Budget(epsilon), Budget(epsilon, delta), Budget(rho=epsilon)):
        pieces = budget.split(parts)
        assert len(pieces) == parts
        for name in ("epsilon_units", "delta_units", "rho_units"):
            amounts = [getattr(piece, name) for piece in pieces]
            assert sum(amounts) == getattr(budget, name)
            assert max(amounts) - min(amounts) <= 1
        assert {piece.notion for piece in pieces} == {budget.notion}


def test_a_part_of_nothing_is_refused() -> None:
    smallest = Budget(1e-24)
    assert smallest.split(1) == [smallest]
    with pytest.raises(InvalidParameter, match="parts"):
        smallest.split(2)
    with pytest.raises(InvalidParameter, match="parts"):
        Budget(1.0, 1e-24).split(2)


@LAWS
@given(epsilon=st.floats(1e-3, 50), delta=st.floats(-15, -0.1).map(lambda x: 10.0**x))
def test_the_rho_of_an_approximate_budget_converts_back_below_it(epsilon: float, delta: float) -> None:
    budget = Budget(epsilon, delta)
    rho = Fraction(budget.zcdp_units(), 10**24)
    assert zcdp_to_epsilon(float(rho), delta) <= epsilon * (1 + 1e-14)
    assert zcdp_to_epsilon(float(rho) * (1 + 1e-6), delta) > epsilon
    assert Budget(rho=rho).zcdp_units() == budget.zcdp_units()


def test_budgets_are_frozen_values_that_can_be_sent_to_other_processes() -> None:
    budget = Budget(5, 4e-8)
    assert pickle.loads(pickle.dumps(budget)) == budget
    assert len({budget, Budget(5.0, Decimal("4e-8"))}) == 1
    with pytest.raises(AttributeError):
        budget.epsilon_units = 0  # type: ignore[misc]


BAD: list[Any] = [math.nan, math.inf, -math.inf, -1, True, "1", None, 1j, [1.0], 10**400]
BAD += [Decimal("NaN"), Decimal("Infinity"), Decimal(-1), Fraction(-1, 3)]


@pytest.mark.parametrize("value", [*BAD, 0, 0.0, 1e-25, 5e-324, Fraction(1, 10**25)])
def test_amounts_that_are_none_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        Budget(epsilon=value)
    with pytest.raises(InvalidParameter, match="rho"):
        Budget(rho=value)


@pytest.mark.parametrize("value", [*[v for v in BAD if v is not None], None, 1, 1.0, 1.5, Decimal(1), 1e-25])
def test_deltas_that_are_none_are_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        Budget(epsilon=1.0, delta=value)


def test_two_notions_at_once_or_none_are_refused() -> None:
    for arguments in ({}, {"epsilon": 1, "rho": 1}, {"rho": 1, "delta": 1e-6}, {"rho": 1, "delta": math.nan}):
        with pytest.raises(InvalidParameter):
            Budget(**arguments)


@pytest.mark.parametrize("parts", [0, -1, 1.5, True, "2", None, math.nan])
def test_parts_that_are_no_count_are_refused_by_name(parts: Any) -> None:
    with pytest.raises(InvalidParameter, match="parts"):
        Budget(1.0).split(parts)
