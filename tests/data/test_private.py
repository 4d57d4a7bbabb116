"""PrivateTable: check, charge, read, add noise, return; and nothing else leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from privfcd.accounting import (
    ADD_OR_REMOVE_ONE,
    REPLACE_ONE,
    Budget,
    GaussianDpEvent,
    NeighboringRelation,
    gaussian_event,
    selection_event,
)
from privfcd.algorithms.fed_sparse.greedy import SELECTION, UPDATE, GreedyDescent
from privfcd.data.private import PrivateTable
from privfcd.data.queries import ClippedMean, SecondMoments
from privfcd.errors import BudgetExceeded, InvalidParameter, InvalidTable
from privfcd.ledger import Ledger, PlanPart
from privfcd.mechanisms import AnalyticGaussian, Gaussian, GumbelMax, Laplace, SecureNoise, SimulatedNoise

ROWS = np.random.default_rng(0).normal(size=(40, 3))
MEAN = ClippedMean((1.0, 2.0, 3.0))
BUDGETS = [Budget(rho=0.5), Budget(epsilon=1, delta=1e-6)]


@dataclass(frozen=True)
class ColumnScores:
    """A query for selections: each column's mean, clipped to [-1, 1]."""

    norm: ClassVar[str] = "linf"
    kind: ClassVar[str] = "scores"
    name: ClassVar[str] = "scores"

    def check(self, d: int) -> None:
        """Fits every table."""

    def evaluate(self, rows: np.ndarray, n: int | None = None) -> np.ndarray:
        return np.clip(rows, -1, 1).sum(axis=0) / (n or len(rows))

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        return (2.0 if relation is REPLACE_ONE else 1.0) / n * (1 + 1e-12)


def made(rows: Any = ROWS, **changes: Any) -> PrivateTable:
    return PrivateTable(rows, **{"budget": Budget(rho=0.5), "noise": SimulatedNoise(1), **changes})


def test_what_is_public_is_what_was_declared() -> None:
    table = made(columns=["a", "b", "c"], name="ward", bounds={"c": 3.0, "a": 1, "b": 2.5})
    assert (table.n_rows, table.n_columns, table.columns) == (40, 3, ("a", "b", "c"))
    assert table.bounds == (1.0, 2.5, 3.0) and table.name == "ward" and not table.open
    assert made(bounds=4).bounds == (4.0, 4.0, 4.0) and made(bounds=[1, 2, 3]).bounds == (1.0, 2.0, 3.0)
    assert made().bounds is None and made(budget=None).open
    assert isinstance(PrivateTable(ROWS).noise, SecureNoise)
    assert not any(f"{value:.4f}"[:6] in repr(table) for value in ROWS.ravel())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"rows": np.full((4, 2), math.nan)}, InvalidTable, "missing"),
        ({"bounds": 0.0}, InvalidParameter, "bound of 'x0' must be .* got 0.0"),
        ({"bounds": math.inf}, InvalidParameter, "bound of 'x0' must be .* got inf"),
        ({"bounds": math.nan}, InvalidParameter, "got nan"),
        ({"bounds": True}, InvalidParameter, "got True"),
        ({"bounds": [1.0, 2.0]}, InvalidParameter, "each of 3 columns, got 2"),
        ({"bounds": {"x0": 1.0, "y": 2.0, "x2": 1.0}}, InvalidParameter, r"missing \['x1'\], unknown \['y'\]"),
        ({"relation": NeighboringRelation.REPLACE_SPECIAL}, InvalidParameter, "relation must be"),
        ({"relation": "replace"}, InvalidParameter, "relation must be"),
        ({"ledger": Ledger(Budget(rho=1.0))}, InvalidParameter, "not both"),
        ({"budget": 1.0}, InvalidParameter, "budget must be"),
        ({"name": ""}, InvalidParameter, "name must be"),
    ],
    ids=lambda value: str(value)[:30] if isinstance(value, dict) else "",
)
def test_tables_refuse_what_cannot_be_used(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        made(**changes)


def test_later_changes_to_the_source_do_not_reach_the_table() -> None:
    source = ROWS.copy()
    table = made(source, budget=None)
    source[:] = 1e9
    np.testing.assert_allclose(MEAN.decode(table.release(MEAN, Gaussian(0.0))), MEAN.decode(MEAN.evaluate(ROWS)))


def test_a_release_charges_exactly_its_event() -> None:
    table = made()
    scale = 0.3
    table.release(MEAN, Gaussian(scale), label="mean of the ward")
    (entry,) = table.ledger.entries()
    multiplier = Fraction(repr(scale)) / Fraction(repr(MEAN.sensitivity(40)))
    least = math.ceil(10**24 / (2 * multiplier**2))
    assert least <= table.ledger.spent_units()["rho"] == entry.spent["rho"] <= least * (1 + 1e-12)
    assert entry.label == "mean of the ward with SIMULATED noise" and "GaussianDpEvent" in entry.event


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_refused_releases_read_nothing_and_cost_nothing(budget: Budget, arm: Callable[..., PrivateTable]) -> None:
    table = arm(made(budget=budget))
    refused: list[Callable[[], Any]] = [
        lambda: table.release(MEAN, Gaussian(1e-4)),
        lambda: table.release(MEAN, Gaussian(0.0)),
        lambda: table.release(ClippedMean((1.0, math.inf, 1.0)), Gaussian(5.0)),
        lambda: table.select(ColumnScores(), GumbelMax(1e-4)),
        lambda: table.select(ColumnScores(), GumbelMax(0.0)),
        lambda: table.release(SecondMoments(1.0), AnalyticGaussian(1e-5)),
    ]
    for attempt in refused:
        with pytest.raises(BudgetExceeded):
            attempt()
    invalid: list[Callable[[], Any]] = [
        lambda: table.release(MEAN, GumbelMax(1.0)),
        lambda: table.select(ColumnScores(), Gaussian(1.0)),  # type: ignore[arg-type]
        lambda: table.release(ClippedMean((1.0,)), Gaussian(5.0)),
        lambda: table.release(MEAN, Gaussian(math.nan)),
        lambda: table.release(MEAN, Gaussian(-1.0)),
        lambda: table.release(MEAN, Gaussian(math.inf)),
        lambda: table.select(ColumnScores(), GumbelMax(np.array([1.0, 2.0, 3.0]))),  # type: ignore[arg-type]
    ]
    for attempt in invalid:
        with pytest.raises(InvalidParameter):
            attempt()
    assert not any(table.ledger.spent_units().values()) and not table.ledger.entries()
    fits = Gaussian(5.0)
    with pytest.raises(BaseException, match="__") as touched:
        table.release(MEAN, fits)
    assert type(touched.value).__name__ == "RowsTouched", "the tripwire works where a release is granted"
    assert len(table.ledger.entries()) >= 1, "and the charge came first"


def test_a_pure_budget_refuses_gaussians_by_name(arm: Callable[..., PrivateTable]) -> None:
    table = arm(made(budget=Budget(epsilon=1.0)))
    with pytest.raises(InvalidParameter, match="GaussianDpEvent cannot be paid from a pure-DP budget"):
        table.release(MEAN, Gaussian(5.0))
    assert not table.ledger.entries()


def test_the_last_unit_can_be_spent_and_no_more(arm: Callable[..., PrivateTable]) -> None:
    probe = made(budget=Budget(rho=1e6))
    event = probe.event(MEAN, Gaussian(0.5))
    probe.ledger.charge(event)
    cost = probe.ledger.spent_units()["rho"]
    exact = made(budget=Budget.from_units(rho_units=cost))
    exact.release(MEAN, Gaussian(0.5))
    assert exact.ledger.left() is None
    short = arm(made(budget=Budget.from_units(rho_units=cost - 1)))
    with pytest.raises(BudgetExceeded):
        short.release(MEAN, Gaussian(0.5))
    assert not short.ledger.spent_units().get("rho", 0)


def test_a_table_without_a_budget_is_open_and_says_so() -> None:
    table = made(budget=None)
    np.testing.assert_allclose(table.release(MEAN, Gaussian(0.0)), MEAN.evaluate(ROWS))
    table.release(MEAN, Gaussian(3.0))
    assert [entry.event for entry in table.ledger.entries()] == ["NonPrivateDpEvent()"] * 2


def test_noise_is_fresh_for_each_release_and_each_name() -> None:
    table, again, other = made(name="a"), made(name="a"), made(name="b")
    exact, mechanism = MEAN.evaluate(ROWS), Gaussian(0.5)
    first, second = (table.release(MEAN, mechanism) - exact for _ in range(2))
    assert not np.isclose(first, second).any()
    np.testing.assert_array_equal(again.release(MEAN, mechanism) - exact, first)
    assert not np.isclose(other.release(MEAN, mechanism) - exact, first).any()
    reseeded = made(name="a", noise=SimulatedNoise(2))
    assert not np.isclose(reseeded.release(MEAN, mechanism) - exact, first).any()


def test_released_noise_has_the_mechanisms_scale(spy: Any) -> None:
    table = made(budget=Budget(rho=1e6), noise=spy)
    table.release(MEAN, Gaussian(0.7))
    table.select(ColumnScores(), GumbelMax(0.9))
    assert [(draw.kind, float(draw.scale)) for draw in spy.draws] == [("gaussian", 0.7), ("select", 0.9)]
    np.testing.assert_allclose(spy.draws[0].value, MEAN.evaluate(ROWS))
    np.testing.assert_allclose(spy.draws[1].value, ColumnScores().evaluate(ROWS))
    assert len(set(spy.keys)) == 2


def test_noise_averages_out() -> None:
    table = made(budget=Budget(rho=1e9))
    answers = np.array([table.release(MEAN, Gaussian(0.5)) for _ in range(2000)])
    np.testing.assert_allclose(answers.mean(axis=0), MEAN.evaluate(ROWS), atol=4 * 0.5 / math.sqrt(2000))
    np.testing.assert_allclose(answers.std(axis=0), 0.5, rtol=0.08)
    assert np.abs(np.corrcoef(answers.T)[np.triu_indices(3, 1)]).max() < 0.1
    flat = answers.ravel() - np.tile(MEAN.evaluate(ROWS), 2000)
    assert abs(np.corrcoef(flat[:-1], flat[1:])[0, 1]) < 0.06, "one release's noise says nothing of the next"


def test_reservations_are_drawn_instead_of_charges() -> None:
    table = made()
    event = table.event(MEAN, Gaussian(0.5))
    reservation = table.ledger.reserve([PlanPart("mean", event, 2)])
    spent = table.ledger.spent_units()
    for _ in range(2):
        table.release(MEAN, Gaussian(0.5), label="mean", reservation=reservation)
    table_again = table.reordered(["x2", "x0", "x1"])
    for door in (table, table_again):
        with pytest.raises(BudgetExceeded, match="left 0 of the reservation"):
            door.release(MEAN, Gaussian(0.5), label="mean", reservation=reservation)
    assert table.ledger.spent_units() == spent and reservation.drawn() == {"mean": 2}


def test_reservations_must_cover_what_is_drawn(arm: Callable[..., PrivateTable]) -> None:
    table = arm(made(budget=Budget(rho=1e6)))
    event = table.event(MEAN, Gaussian(0.5))
    plan = [PlanPart("mean", event, 2), PlanPart("choice", selection_event(1.0, 2.0), 2)]
    reservation = table.ledger.reserve(plan)
    for wrong in (
        lambda: table.release(MEAN, Gaussian(0.4999), label="mean", reservation=reservation),
        lambda: table.release(MEAN, Gaussian(0.0), label="mean", reservation=reservation),
        lambda: table.release(MEAN, Gaussian(0.5), label="choice", reservation=reservation),
        lambda: table.release(MEAN, Gaussian(0.5), label="other", reservation=reservation),
        lambda: table.release(MEAN, Gaussian(0.5), reservation=reservation),
        lambda: table.select(ColumnScores(), GumbelMax(0.0499), label="choice", reservation=reservation),
        lambda: table.select(ColumnScores(), GumbelMax(9.0), label="mean", reservation=reservation),
        lambda: table.release(
            MEAN, Gaussian(0.5), label="mean", reservation=made(budget=Budget(rho=1e6)).ledger.reserve(plan)
        ),
    ):
        with pytest.raises(InvalidParameter):
            wrong()
    assert reservation.drawn() == {"mean": 0, "choice": 0}


def test_reordered_tables_are_the_same_account() -> None:
    table = made(columns=["a", "b", "c"], bounds=[1.0, 2.0, 3.0], budget=Budget(rho=1e6))
    turned = table.reordered(["c", "a", "b"])
    assert table.reordered(["a", "b", "c"]) is table
    assert turned.ledger is table.ledger and turned.columns == ("c", "a", "b") and turned.bounds == (3.0, 1.0, 2.0)
    open_table = made(columns=["a", "b", "c"], budget=None)
    query = ClippedMean((50.0,) * 3)
    straight, other = (t.release(query, Gaussian(0.0)) for t in (open_table, open_table.reordered(["c", "a", "b"])))
    np.testing.assert_array_equal(other, straight[[2, 0, 1]])
    for wrong in (["a", "b"], ["a", "b", "d"], ["a", "b", "b"], ["a", "b", "c", "c"]):
        with pytest.raises(InvalidParameter, match="columns must be the table's own"):
            table.reordered(wrong)


def test_sessions_are_checked_before_rows_are_read(arm: Callable[..., PrivateTable]) -> None:
    table = arm(made(budget=Budget(rho=1e6)))
    plan = [PlanPart(SELECTION, selection_event(1.0, 2.0), 1), PlanPart(UPDATE, gaussian_event(1.0, 2.0), 1)]
    other = made(budget=Budget(rho=1e6)).ledger.reserve(plan)
    mine = table.ledger.reserve(plan)
    fits = GreedyDescent((1.0,) * 3, 1.0, 0.1, 1.0, 2.0)
    for descent, reservation in (
        (GreedyDescent((1.0,) * 2, 1.0, 0.1, 1.0, 2.0), mine),
        (fits, other),
    ):
        with pytest.raises(InvalidParameter):
            table.session(descent, reservation)


def test_sensitivity_zero_is_free_and_exact() -> None:
    class Constant(ColumnScores):
        norm, kind = "l2", "numbers"

        def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
            return 0.0

        def evaluate(self, rows: np.ndarray, n: int | None = None) -> np.ndarray:
            return np.ones(2)

    table = made()
    assert table.release(Constant(), Gaussian(0.0)).tolist() == [1.0, 1.0]
    assert not table.ledger.spent_units().get("rho", 0)


def test_an_adaptive_sequence_stops_at_the_budget() -> None:
    table = made(budget=Budget(epsilon=1, delta=1e-6))
    event = table.event(MEAN, Gaussian(2.0))
    assert isinstance(event, GaussianDpEvent)
    granted = 0
    with pytest.raises(BudgetExceeded):
        for _ in range(10_000):
            table.release(MEAN, Gaussian(2.0))
            granted += 1
    from privfcd.accounting import zcdp_to_epsilon

    rho = granted / (2 * event.noise_multiplier**2)
    assert zcdp_to_epsilon(rho, 1e-6) <= 1 < zcdp_to_epsilon(rho * (granted + 1) / granted, 1e-6)


@pytest.mark.parametrize("count", [-1, -1000, 0.5])
def test_a_reservation_cannot_be_drawn_backwards(count: Any) -> None:
    table = made()
    reservation = table.ledger.reserve([PlanPart("mean", table.event(MEAN, Gaussian(0.5)), 1)])
    with pytest.raises(InvalidParameter):
        reservation.draw("mean", count)


def test_a_reordered_table_does_not_repeat_noise() -> None:
    table = made(columns=["a", "b", "c"], budget=Budget(rho=1e6))
    query = ClippedMean((1.0,) * 3)
    exact = query.evaluate(ROWS)
    first = table.release(query, Gaussian(0.5)) - exact
    second = table.reordered(["c", "a", "b"]).release(query, Gaussian(0.5)) - exact[[2, 0, 1]]
    assert not np.isclose(first, second).any()


def test_a_mechanism_gets_the_sensitivity_in_its_own_norm(arm: Callable[..., PrivateTable]) -> None:
    """An l2 sensitivity says too little of an l1 distance, by a factor of up to sqrt(d)."""
    table = arm(made(budget=Budget(rho=1e6)))
    for query, mechanism in (
        (MEAN, Laplace(1.0)),
        (SecondMoments(1.0), Laplace(1.0)),
        (ColumnScores(), Gaussian(1.0)),
        (ColumnScores(), Laplace(1.0)),
        (MEAN, GumbelMax(1.0)),
        (MEAN, AnalyticGaussian(1.0)),
        (ColumnScores(), AnalyticGaussian(1.0)),
    ):
        with pytest.raises(InvalidParameter):
            table.release(query, mechanism)
    assert not table.ledger.entries()


def test_a_mechanism_that_states_no_norm_is_refused() -> None:
    class Mute:
        def event(self, sensitivity: float) -> Any:
            return gaussian_event(sensitivity, 1.0)

        def release(self, value: Any, stream: Any) -> Any:
            return value

    with pytest.raises(InvalidParameter, match="Mute"):
        made().release(MEAN, Mute())  # type: ignore[arg-type]


def test_add_or_remove_holds_for_the_tables_that_differ_in_one_record() -> None:
    rows = np.ones((10, 1))
    rows[-1] = -1.0
    query = ClippedMean((1.0,))
    whole, less = (
        PrivateTable(table, budget=None, relation=ADD_OR_REMOVE_ONE, declared_rows=10) for table in (rows, rows[:-1])
    )
    assert whole.n_rows == less.n_rows == 10 and repr(whole).split(",")[1:] == repr(less).split(",")[1:]
    gap = whole.release(query, Gaussian(0.0)) - less.release(query, Gaussian(0.0))
    assert abs(gap).max() <= query.sensitivity(10, ADD_OR_REMOVE_ONE)
    assert whole.event(query, Gaussian(1.0)) == less.event(query, Gaussian(1.0))


@pytest.mark.parametrize(
    "changes",
    [
        {"relation": ADD_OR_REMOVE_ONE},
        {"declared_rows": 40},
        *({"relation": ADD_OR_REMOVE_ONE, "declared_rows": wrong} for wrong in (0, -1, 2.5, True, 2**53 + 1, 10**400)),
    ],
    ids=str,
)
def test_the_number_of_rows_is_declared_where_it_is_not_public_and_only_there(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidParameter, match="declared_rows must be"):
        made(**changes)


def test_two_tables_that_were_given_no_name_have_noise_of_their_own() -> None:
    tables = [made(bounds=[1.0, 2.0, 3.0]) for _ in range(2)]
    first, second = (table.release(MEAN, Gaussian(0.5)) for table in tables)
    assert not np.isclose(first, second).any() and tables[0].name != tables[1].name


@pytest.mark.parametrize("wrong", ["secure", SimulatedNoise, 7])
def test_a_noise_source_that_is_none_is_refused_when_the_table_is_made(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="noise must be a noise source"):
        made(noise=wrong)


def test_reordering_reads_no_rows_and_can_be_repeated(arm: Callable[..., PrivateTable]) -> None:
    turned = arm(made(columns=["a", "b", "c"])).reordered(["c", "a", "b"]).reordered(["b", "a", "c"])
    assert turned.columns == ("b", "a", "c")
    query = ClippedMean((50.0,) * 3)
    table = made(columns=["a", "b", "c"], budget=None)
    straight = table.release(query, Gaussian(0.0))
    twice = table.reordered(["c", "a", "b"]).reordered(["b", "a", "c"])
    for _ in range(2):
        np.testing.assert_array_equal(twice.release(query, Gaussian(0.0)), straight[[1, 0, 2]])
    np.testing.assert_array_equal(twice.reordered(["c", "b", "a"]).release(query, Gaussian(0.0)), straight[[2, 1, 0]])
    np.testing.assert_array_equal(table.release(query, Gaussian(0.0)), straight)
