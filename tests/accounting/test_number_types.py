"""Every event, in every type of number: the exact Python number's result, or a refusal by the field's name."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent, UnsupportedEventError
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    BoundedRangeDpEvent,
    Budget,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PureDPAccountant,
    TightAccountant,
    ZCDPAccountant,
    ZCDpEvent,
    calibrate,
    epsilon_of,
    gaussian_epsilon,
    gaussian_event,
    gdp_to_epsilon,
    laplace_event,
    leaves,
    selection_event,
    zcdp_to_epsilon,
)
from privfcd.amounts import as_float, decimal
from privfcd.errors import BudgetExceeded, InvalidParameter
from privfcd.ledger import Ledger

LAWS = settings(max_examples=150, deadline=None, derandomize=True)
KINDS: list[type[DpEvent]] = [
    GaussianDpEvent,
    LaplaceDpEvent,
    ZCDpEvent,
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    DiscreteLaplaceDpEvent,
    RandomizedResponseDpEvent,
]
USUAL: dict[str, Any] = {
    **{"noise_multiplier": 2.0, "rho": 0.1, "xi": 0.0, "eta": 0.5, "epsilon": 0.5, "delta": 1e-9},
    **{"noise_parameter": 0.5, "sensitivity": 1, "num_buckets": 2},
}
NUMBERS = [float, Fraction, Decimal, np.float64, np.float32, np.float16, np.longdouble]
WHOLE = [int, np.int64, np.int32, np.int16, np.uint8]
VALUES = [0.0, 5e-324, 1e-310, 1e-30, 0.1, 0.3, 1.0, 2.5, 3414.0, 1e5, 2.0**53, 1e30, 1.7e308, math.inf]
NOT_NUMBERS = [
    True,
    np.True_,
    "1",
    b"1",
    None,
    1j,
    np.complex128(1),
    [1.0],
    np.array([1.0]),
    math.nan,
    Decimal("nan"),
    np.timedelta64(1),
    np.timedelta64(1, "D"),
    -1,
]
FIELDS = [(kind, field.name) for kind in KINDS for field in attr.fields(kind)]


def made(kind: type[DpEvent], **fields: Any) -> DpEvent:
    return kind(**{field.name: fields.get(field.name, USUAL[field.name]) for field in attr.fields(kind)})


def outcome(event: DpEvent, delta: float = 1e-6) -> Any:
    """What all accountants say, or whom they refuse."""
    found: list[Any] = []
    for accountant in (TightAccountant, ZCDPAccountant, PureDPAccountant):
        try:
            found.append(accountant().compose(event, 3).get_epsilon(delta))
        except (InvalidParameter, UnsupportedEventError) as error:
            found.append(type(error))
    return found


@LAWS
@given(st.sampled_from(FIELDS), st.sampled_from(NUMBERS), st.sampled_from(VALUES))
@example((GaussianDpEvent, "noise_multiplier"), np.float16, 3414.0)
@example((RandomizedResponseDpEvent, "noise_parameter"), np.float16, 0.1)
@example((DiscreteLaplaceDpEvent, "noise_parameter"), np.float32, 0.3)
def test_results_are_those_of_the_exact_number(field: tuple[Any, str], number: Any, value: float) -> None:
    kind, name = field
    try:
        with np.errstate(over="ignore"):
            given_value = number(value)
    except (OverflowError, ValueError):
        return
    plain = given_value if isinstance(given_value, Decimal | Fraction) else float(given_value)
    event, same = made(kind, **{name: given_value}), made(kind, **{name: float(plain)})
    if isinstance(USUAL[name], int):
        with pytest.raises(InvalidParameter, match=name):
            leaves(event)
        return
    assert outcome(event) == outcome(same)
    for leaf, _ in leaves(event) if outcome(event)[0] is not InvalidParameter else []:
        assert {type(getattr(leaf, part.name)) for part in attr.fields(kind)} <= {float, int}


@LAWS
@given(
    st.sampled_from([one for one in FIELDS if isinstance(USUAL[one[1]], int)]),
    st.sampled_from(WHOLE),
    st.integers(1, 100),
)
def test_whole_numbers_of_every_type(field: tuple[Any, str], number: Any, value: int) -> None:
    kind, name = field
    assert outcome(made(kind, **{name: number(value)})) == outcome(made(kind, **{name: value}))


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: f"{field[0].__name__}.{field[1]}")
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused_by_name_everywhere(field: tuple[Any, str], value: Any) -> None:
    kind, name = field
    event = made(kind, **{name: value})
    for price in (
        leaves,
        lambda one: epsilon_of(one, 1e-6),
        lambda one: epsilon_of(one, 1e-6, "zcdp"),
        Ledger(Budget(1)).charge,
        Ledger(Budget(1, 1e-6)).reserve,
    ):
        with pytest.raises(InvalidParameter, match=f"{name} of {kind.__name__}"):
            price(ComposedDpEvent([SelfComposedDpEvent(event, 2)]))


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_that_no_double_holds_are_rounded_to_the_side_of_more_cost(kind: type[DpEvent]) -> None:
    third, long = Fraction(1, 3), np.longdouble(1) / 3
    lower = {"noise_multiplier"} | ({"noise_parameter"} if kind is RandomizedResponseDpEvent else set())
    for field in attr.fields(kind):
        if field.name == "xi" or isinstance(USUAL[field.name], int):
            continue
        for value, exact in ((third, third), (long, Fraction(*map(int, long.as_integer_ratio())))):
            ((leaf, _),) = leaves(made(kind, **{field.name: value}))
            got = decimal(getattr(leaf, field.name))
            assert got <= exact if field.name in lower else got >= exact
            assert abs(got - exact) < Fraction(1, 2**53)


@pytest.mark.parametrize("size", [10**400, Fraction(10) ** 400, Decimal("1e400"), Decimal("1e999999")])
def test_numbers_beyond_the_doubles(size: Any) -> None:
    assert epsilon_of(EpsilonDeltaDpEvent(size, 0.0), 1e-6) == math.inf
    assert epsilon_of(ZCDpEvent(size), 1e-6) == math.inf
    assert 0 < epsilon_of(GaussianDpEvent(1 / Fraction(10) ** 400 if isinstance(size, int) else 1e-300), 1e-6)
    assert epsilon_of(LaplaceDpEvent(size), 1e-6) < 1e-300
    with pytest.raises(BudgetExceeded):
        Ledger(Budget(1)).charge(EpsilonDeltaDpEvent(size, 0.0))
    for refused in (
        lambda: epsilon_of(SelfComposedDpEvent(GaussianDpEvent(1.0), 10**400), 1e-6),
        lambda: Ledger(Budget(rho=1)).charge(SelfComposedDpEvent(GaussianDpEvent(1.0), 10**400)),
        lambda: TightAccountant().compose(GaussianDpEvent(1.0), 10**400),
        lambda: calibrate(1, 1e-6, gaussians=10**400),
        lambda: gaussian_epsilon(1.0, 1e-6, count=10**400),
        lambda: gaussian_event(size, 1.0),
    ):
        with pytest.raises(InvalidParameter, match=r"count|gaussians|sensitivity"):
            refused()


def test_deep_wide_and_shared_compositions() -> None:
    event: DpEvent = GaussianDpEvent(4.0)
    for _ in range(3000):
        event = ComposedDpEvent([SelfComposedDpEvent(event, 1)])
    assert leaves(event) == [(GaussianDpEvent(4.0), 1)]
    assert epsilon_of(event, 1e-6) == epsilon_of(GaussianDpEvent(4.0), 1e-6)
    ledger = Ledger(Budget(rho=1))
    assert ledger.charge(event).event == repr(GaussianDpEvent(4.0))
    assert ledger.reserve(event).entry.event == repr(GaussianDpEvent(4.0))
    with pytest.raises(InvalidParameter, match="cannot price"):
        epsilon_of(ComposedDpEvent([event, DpEvent()]), 1e-6)
    shared: DpEvent = LaplaceDpEvent(8.0)
    for _ in range(45):
        shared = ComposedDpEvent([shared, shared])
    assert leaves(shared) == [(LaplaceDpEvent(8.0), 2**45)]
    many = [GaussianDpEvent(4.0) for _ in range(2**16)]
    assert leaves(ComposedDpEvent([*many, *many])) == [(GaussianDpEvent(4.0), 2**17)]
    with pytest.raises(InvalidParameter, match="noise_multiplier"):
        leaves(ComposedDpEvent([*many, GaussianDpEvent(True)]))  # type: ignore[arg-type]


def test_compositions_that_cannot_be_read_twice_or_hold_themselves_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="events"):
        leaves(ComposedDpEvent(iter([GaussianDpEvent(1.0)])))
    own = ComposedDpEvent([GaussianDpEvent(1.0)])
    own.events.append(own)
    with pytest.raises(InvalidParameter, match="itself"):
        leaves(own)


@LAWS
@given(st.sampled_from(NUMBERS), st.sampled_from([v for v in VALUES if 1e-3 < v < 1e5]))
def test_functions_and_budgets_take_every_type_of_number(number: Any, value: float) -> None:
    given_value = number(value)
    exact = as_float(given_value)
    assert exact is not None
    assert gdp_to_epsilon(given_value, 1e-6) == gdp_to_epsilon(exact, 1e-6)
    assert zcdp_to_epsilon(given_value, Decimal("1e-6")) == zcdp_to_epsilon(exact, 1e-6)
    assert gaussian_epsilon(given_value, 1e-6, count=np.int16(3)) == gaussian_epsilon(exact, 1e-6, count=3)
    assert Budget(given_value, np.float64(1e-6)) == Budget(exact, 1e-6)
    for make in (gaussian_event, laplace_event, selection_event):
        assert make(given_value, 2) == make(exact, 2.0)
        assert make(2, given_value) == make(2.0, exact)


def test_figures_that_were_wrong() -> None:
    event = SelfComposedDpEvent(GaussianDpEvent(np.float16(3414)), 100)  # type: ignore[arg-type]
    assert epsilon_of(event, 1e-6) == pytest.approx(0.00888, rel=1e-3)
