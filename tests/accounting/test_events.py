"""Events: what one release costs, flattened compositions, and what is no event."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import attr
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    BoundedRangeDpEvent,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    ZCDpEvent,
    compose,
    gaussian_event,
    laplace_event,
    leaves,
    selection_event,
)
from privfcd.errors import InvalidParameter

LAWS = settings(max_examples=80, deadline=None, derandomize=True)
AMOUNTS = st.floats(-8, 8).map(lambda x: 10.0**x)
DECIMALS = st.decimals(min_value="0.001", max_value="1000", places=3).map(float)


def decimal(value: float) -> Fraction:
    return Fraction(repr(value))


@LAWS
@given(sensitivity=AMOUNTS, scale=AMOUNTS)
def test_noise_multipliers_are_rounded_down_by_at_most_a_step(sensitivity: float, scale: float) -> None:
    exact = decimal(scale) / decimal(sensitivity)
    for event in (gaussian_event(sensitivity, scale), laplace_event(sensitivity, scale)):
        multiplier = event.noise_multiplier
        assert decimal(multiplier) <= exact
        assert decimal(math.nextafter(math.nextafter(multiplier, math.inf), math.inf)) > exact


@LAWS
@given(sensitivity=AMOUNTS, scale=AMOUNTS, monotone=st.booleans())
def test_ranges_are_rounded_up_by_at_most_a_step(sensitivity: float, scale: float, monotone: bool) -> None:
    exact = decimal(sensitivity) / decimal(scale) * (1 if monotone else 2)
    event = selection_event(sensitivity, scale, monotone=monotone)
    assert decimal(event.eta) >= exact
    assert decimal(math.nextafter(math.nextafter(event.eta, 0), 0)) < exact


@LAWS
@given(sensitivity=DECIMALS, ratio=st.integers(1, 1000))
def test_ratios_of_decimals_are_exact_where_doubles_would_not_be(sensitivity: float, ratio: int) -> None:
    scale = float(decimal(sensitivity) * ratio)
    if decimal(scale) == decimal(sensitivity) * ratio:
        assert gaussian_event(sensitivity, scale) == GaussianDpEvent(float(ratio))
    assert laplace_event(0.1, 0.3) == LaplaceDpEvent(3.0)
    assert selection_event(0.05, 0.1) == BoundedRangeDpEvent(1.0)


def test_the_exponential_mechanism_has_range_two_d_over_b_and_half_if_monotone() -> None:
    assert selection_event(1.0, 2.0) == BoundedRangeDpEvent(1.0)
    assert selection_event(1.0, 2.0, monotone=True) == BoundedRangeDpEvent(0.5)


@pytest.mark.parametrize("make", [selection_event, gaussian_event, laplace_event])
def test_no_noise_is_non_private_and_sensitivity_0_is_free(make: Any) -> None:
    assert make(1.0, 0.0) == NonPrivateDpEvent()
    assert make(math.inf, 1.0) == NonPrivateDpEvent()
    assert make(math.inf, 0.0) == NonPrivateDpEvent()
    assert make(0.0, 1.0) == NoOpDpEvent()
    assert make(0.0, 0.0) == NoOpDpEvent()


@pytest.mark.parametrize("make", [selection_event, gaussian_event, laplace_event])
@pytest.mark.parametrize("value", [math.nan, -1.0, -math.inf, True, "1", None, [1.0], 1j, 10**400])
def test_sensitivities_and_scales_that_are_no_amounts_are_refused_by_name(make: Any, value: Any) -> None:
    with pytest.raises(InvalidParameter, match="sensitivity"):
        make(value, 1.0)
    with pytest.raises(InvalidParameter, match="scale"):
        make(1.0, value)


def test_an_infinite_scale_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        gaussian_event(1.0, math.inf)


def test_overflow_and_underflow_err_on_the_side_of_more_cost() -> None:
    assert gaussian_event(1e300, 1e-300).noise_multiplier == 0
    assert gaussian_event(1e-300, 1e300).noise_multiplier <= 1.8e308
    assert selection_event(1e-300, 1e300).eta > 0
    assert selection_event(1e300, 1e-300).eta == math.inf


def test_events_are_frozen_values() -> None:
    assert BoundedRangeDpEvent(1.0) == BoundedRangeDpEvent(1.0) != BoundedRangeDpEvent(2.0)
    assert len({BoundedRangeDpEvent(1.0), BoundedRangeDpEvent(1.0), EpsilonDeltaDpEvent(1.0, 0.0)}) == 2
    with pytest.raises(attr.exceptions.FrozenInstanceError):
        BoundedRangeDpEvent(1.0).eta = 2.0
    assert isinstance(BoundedRangeDpEvent(1.0), DpEvent)
    assert "eta=1.0" in repr(BoundedRangeDpEvent(1.0))


LEAVES = st.sampled_from(
    [GaussianDpEvent(2.0), LaplaceDpEvent(3.0), BoundedRangeDpEvent(0.5), ZCDpEvent(0.1), NonPrivateDpEvent()]
)
TREES = st.recursive(
    LEAVES | st.just(NoOpDpEvent()),
    lambda inner: (
        st.builds(SelfComposedDpEvent, inner, st.integers(0, 4))
        | st.lists(inner, max_size=3).map(lambda parts: ComposedDpEvent(list(parts)))
    ),
    max_leaves=8,
)


def spelled_out(event: DpEvent) -> list[DpEvent]:
    if isinstance(event, SelfComposedDpEvent):
        return spelled_out(event.event) * event.count
    if isinstance(event, ComposedDpEvent):
        return [leaf for part in event.events for leaf in spelled_out(part)]
    return [] if isinstance(event, NoOpDpEvent) else [event]


@LAWS
@given(event=TREES)
def test_leaves_of_a_composition_are_its_events_spelled_out(event: DpEvent) -> None:
    pairs = leaves(event)
    counted: dict[DpEvent, int] = {}
    for leaf, count in pairs:
        assert count > 0
        counted[leaf] = counted.get(leaf, 0) + count
    expected: dict[DpEvent, int] = {}
    for leaf in spelled_out(event):
        expected[leaf] = expected.get(leaf, 0) + 1
    assert counted == expected


@LAWS
@given(parts=st.lists(st.tuples(LEAVES, st.integers(0, 5)), max_size=4))
def test_compose_is_undone_by_leaves(parts: list[tuple[DpEvent, int]]) -> None:
    counted: Counter[DpEvent] = Counter()  # keeps the order of first appearance, as `leaves` does
    for event, count in parts:
        if count:
            counted[event] += count
    assert leaves(compose(parts)) == list(counted.items())


BROKEN: list[tuple[Any, str]] = [
    (GaussianDpEvent(math.nan), "noise_multiplier of GaussianDpEvent"),
    (GaussianDpEvent(-1.0), "noise_multiplier of GaussianDpEvent"),
    (GaussianDpEvent(True), "noise_multiplier of GaussianDpEvent"),
    (LaplaceDpEvent(math.nan), "noise_multiplier of LaplaceDpEvent"),
    (LaplaceDpEvent(-0.1), "noise_multiplier of LaplaceDpEvent"),
    (ZCDpEvent(math.nan), "rho of ZCDpEvent"),
    (ZCDpEvent(-1.0), "rho of ZCDpEvent"),
    (ZCDpEvent(1.0, 0.1), "xi of ZCDpEvent"),
    (BoundedRangeDpEvent(math.nan), "eta of BoundedRangeDpEvent"),
    (BoundedRangeDpEvent(-1.0), "eta of BoundedRangeDpEvent"),
    (BoundedRangeDpEvent("1"), "eta of BoundedRangeDpEvent"),
    (EpsilonDeltaDpEvent(math.nan, 0.0), "epsilon of EpsilonDeltaDpEvent"),
    (EpsilonDeltaDpEvent(-1.0, 0.0), "epsilon of EpsilonDeltaDpEvent"),
    (EpsilonDeltaDpEvent(1.0, math.nan), "delta of EpsilonDeltaDpEvent"),
    (EpsilonDeltaDpEvent(1.0, 1.5), "delta of EpsilonDeltaDpEvent"),
    (EpsilonDeltaDpEvent(1.0, -1e-9), "delta of EpsilonDeltaDpEvent"),
    (SelfComposedDpEvent(GaussianDpEvent(1.0), -1), "count"),
    (SelfComposedDpEvent(GaussianDpEvent(1.0), 1.5), "count"),
    (SelfComposedDpEvent(GaussianDpEvent(1.0), True), "count"),
    ("gaussian", "event"),
    (None, "event"),
    (1.0, "event"),
]


@pytest.mark.parametrize(("event", "name"), BROKEN, ids=[repr(event) for event, _ in BROKEN])
def test_events_without_a_cost_are_refused_by_name_at_any_depth(event: Any, name: str) -> None:
    with pytest.raises(InvalidParameter, match=name):
        leaves(event)
    if isinstance(event, DpEvent):
        for outer in (ComposedDpEvent([NoOpDpEvent(), event]), SelfComposedDpEvent(event, 3)):
            with pytest.raises(InvalidParameter, match=name):
                leaves(outer)


# --- what went wrong once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["no", 1.0, [False]])
def test_monotone_must_be_a_boolean(value: Any) -> None:
    with pytest.raises(InvalidParameter, match="monotone"):
        selection_event(1.0, 1.0, monotone=value)


def test_an_array_of_sensitivities_is_refused_by_name() -> None:
    try:
        gaussian_event(np.array([1.0, 2.0]), 1.0)
    except InvalidParameter:
        return


def test_a_boolean_delta_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        leaves(EpsilonDeltaDpEvent(1.0, True))


def test_a_foreign_event_has_leaves_and_is_for_the_accountant_to_refuse() -> None:
    class Foreign(DpEvent):
        """An event that is a plain class."""

    event = Foreign()
    assert leaves(event) == [(event, 1)]


@pytest.mark.parametrize("multiplier", [np.int64(2), np.float32(2)])
def test_numbers_of_numpy_are_numbers(multiplier: Any) -> None:
    assert leaves(GaussianDpEvent(multiplier)) == [(GaussianDpEvent(2.0), 1)]
