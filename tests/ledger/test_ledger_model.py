"""Pure and zCDP ledgers against a model: sums of fractions, each rounded up to a unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from dp_accounting import PoissonSampledDpEvent, SelfComposedDpEvent
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    ZCDpEvent,
)
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger, PlanPart

UNITS = 10**24
AMOUNTS = st.sampled_from([0.1, 0.05, 0.3, 1 / 3, 0.7, 1e-9, 1 / 11, 0.25])


def decimal(value: float) -> Fraction:
    return Fraction(repr(value))


def state(ledger: Ledger) -> tuple[Any, ...]:
    return ledger.spent_units(), ledger.left(), tuple(ledger.entries())


def unchanged(ledger: Ledger, call: Callable[[], object], error: type[Exception], match: str | None = None) -> None:
    before = state(ledger)
    with pytest.raises(error, match=match):
        call()
    assert state(ledger) == before


class SummingLedger(RuleBasedStateMachine):
    """Random charges, reservations and refusals against a sum of rounded-up fractions."""

    budget = Budget(epsilon=1)
    account = "epsilon"

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(self.budget)
        self.cap = getattr(self.budget, f"{self.account}_units")
        self.model = 0
        self.entries = 0

    @staticmethod
    def costs(amount: float) -> list[tuple[DpEvent, Fraction]]:
        return [
            (BoundedRangeDpEvent(amount), decimal(amount)),
            (EpsilonDeltaDpEvent(amount, 0.0), decimal(amount)),
            (LaplaceDpEvent(1 / amount), 1 / decimal(1 / amount)),
        ]

    @staticmethod
    def foreign() -> list[Any]:
        return [GaussianDpEvent(5.0), EpsilonDeltaDpEvent(0.1, 1e-9), ZCDpEvent(1e-9), GaussianDpEvent(math.nan)]

    def attempt(self, call: Callable[[], object], cost: Fraction) -> None:
        units = math.ceil(cost * UNITS)
        if self.model + units <= self.cap:
            call()
            self.model += units
            self.entries += 1
        else:
            unchanged(self.ledger, call, BudgetExceeded)

    @rule(amount=AMOUNTS, kind=st.integers(0, 2))
    def charge(self, amount: float, kind: int) -> None:
        event, cost = self.costs(amount)[kind]
        self.attempt(lambda: self.ledger.charge(event), cost)

    @rule(amount=AMOUNTS, kind=st.integers(0, 2), count=st.integers(0, 9))
    def charge_many(self, amount: float, kind: int, count: int) -> None:
        event, cost = self.costs(amount)[kind]
        self.attempt(lambda: self.ledger.charge(SelfComposedDpEvent(event, count)), count * cost)

    @rule(amounts=st.lists(st.tuples(AMOUNTS, st.integers(0, 2), st.integers(0, 5)), max_size=3), data=st.data())
    def reserve_and_draw(self, amounts: list[tuple[float, int, int]], data: st.DataObject) -> None:
        priced = [(*self.costs(amount)[kind], count) for amount, kind, count in amounts]
        plan = [PlanPart(f"part {i}", event, count) for i, (event, _, count) in enumerate(priced)]
        cost = sum((part_cost * count for _, part_cost, count in priced), Fraction(0))
        drawn: list[Any] = []
        before = state(self.ledger)
        asked = None
        with suppress(BudgetExceeded):
            asked = self.ledger.check(plan)
        assert state(self.ledger) == before
        self.attempt(lambda: drawn.append(self.ledger.reserve(plan)), cost)
        assert (asked is not None) == bool(drawn)
        for reservation in drawn:
            assert {name: units / UNITS for name, units in reservation.entry.spent.items()} == asked
            for part in plan:
                count = data.draw(st.integers(0, part.count))
                if count:
                    reservation.draw(part.label, count)
                assert reservation.left(part.label) == part.count - count
                with pytest.raises(BudgetExceeded, match=part.label):
                    reservation.draw(part.label, part.count - count + 1)
                assert reservation.drawn()[part.label] == count

    @rule(index=st.integers(0, 3))
    def refuse(self, index: int) -> None:
        event = self.foreign()[index]
        unchanged(self.ledger, lambda: self.ledger.charge(event), InvalidParameter, type(event).__name__)
        unchanged(self.ledger, lambda: self.ledger.reserve(event), InvalidParameter, type(event).__name__)

    @rule()
    def non_private(self) -> None:
        unchanged(self.ledger, lambda: self.ledger.charge(NonPrivateDpEvent()), BudgetExceeded, "infinite")
        unchanged(self.ledger, lambda: self.ledger.reserve(NonPrivateDpEvent()), BudgetExceeded, "infinite")

    @invariant()
    def sums_agree(self) -> None:
        assert self.ledger.spent_units().get(self.account, 0) == self.model <= self.cap
        left = self.ledger.left()
        assert (0 if left is None else getattr(left, f"{self.account}_units")) == self.cap - self.model
        assert len(self.ledger.entries()) == self.entries
        assert sum(entry.spent.get(self.account, 0) for entry in self.ledger.entries()) == self.model


class SummingRhoLedger(SummingLedger):
    budget = Budget(rho=0.5)
    account = "rho"

    @staticmethod
    def costs(amount: float) -> list[tuple[DpEvent, Fraction]]:
        return [
            (GaussianDpEvent(1 / amount), 1 / (2 * decimal(1 / amount) ** 2)),
            (EpsilonDeltaDpEvent(amount, 0.0), decimal(amount) ** 2 / 2),
            (ZCDpEvent(amount), decimal(amount)),
        ]

    @staticmethod
    def foreign() -> list[Any]:
        return [
            EpsilonDeltaDpEvent(0.1, 1e-9),
            PoissonSampledDpEvent(0.1, GaussianDpEvent(5.0)),
            ZCDpEvent(math.nan),
            BoundedRangeDpEvent(-1.0),
        ]


for machine in (SummingLedger, SummingRhoLedger):
    machine.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None, derandomize=True)
TestPureLedger = SummingLedger.TestCase
TestRhoLedger = SummingRhoLedger.TestCase
