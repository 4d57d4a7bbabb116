"""Accountants: published values, laws of composition, and what they refuse."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, UnsupportedEventError
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    REPLACE_ONE,
    BoundedRangeDpEvent,
    DpEvent,
    EpsilonDeltaDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PureDPAccountant,
    ZCDPAccountant,
    ZCDpEvent,
    bounded_range_rho,
    epsilon_of,
    gaussian_epsilon,
    selection_event,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from privfcd.errors import InvalidParameter

LAWS = settings(max_examples=80, deadline=None, derandomize=True)
AMOUNTS = st.floats(-3, 1).map(lambda x: 10.0**x)
DELTAS = st.floats(-12, -0.1).map(lambda x: 10.0**x)
PURE = (
    st.builds(BoundedRangeDpEvent, AMOUNTS)
    | st.builds(lambda e: LaplaceDpEvent(1 / e), AMOUNTS)
    | st.builds(lambda e: EpsilonDeltaDpEvent(e, 0.0), AMOUNTS)
)
ANY = PURE | st.builds(lambda m: GaussianDpEvent(1 / m), AMOUNTS) | st.builds(ZCDpEvent, AMOUNTS)


def zcdp(events: list[DpEvent], tight: bool = True) -> ZCDPAccountant:
    accountant = ZCDPAccountant(tight)
    for event in events:
        accountant.compose(event)
    return accountant


# --- published values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scale", "count", "delta", "range_", "rho", "epsilon", "least"),
    [
        (20.0, 1, 1e-6, 0.1, 0.00125, 0.1, 0.0982764),
        (41.71011470281543, 2000, 4e-8, 0.04795, 0.5748006250000001, 6.312504878462367, 5.97098),
        (1.0, 3, 1e-3, 2.0, 1.5, 6.0, 5.30312),
    ],
)
def test_selections_have_the_published_epsilon(
    scale: float, count: int, delta: float, range_: float, rho: float, epsilon: float, least: float
) -> None:
    event = SelfComposedDpEvent(selection_event(1.0, scale), count)
    assert event.event.eta == pytest.approx(range_, rel=1e-9)
    accountant = ZCDPAccountant().compose(event)
    assert least <= accountant.get_epsilon(delta) <= epsilon * (1 + 1e-9)
    assert accountant.rho == pytest.approx(count * bounded_range_rho(range_), rel=1e-9)
    assert accountant.rho <= rho * (1 + 1e-9)
    # the published reference is min(CKS20 at the loose rho, count * eta); the sharper rho may only be below it
    assert min(zcdp_to_epsilon(rho, delta), count * range_) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize(("loose", "tight"), [(1.0, 0.862), (5.0, 4.572), (10.0, 9.349), (50.0, 48.62)])
def test_selections_and_gaussians_together_have_the_published_epsilon(loose: float, tight: float) -> None:
    """2000 of each, with noise for which the loose formula says `loose` at delta = 4e-8."""
    root = math.sqrt(math.log(1 / 4e-8))
    rho = (math.sqrt(root * root + loose) - root) ** 2
    b = math.sqrt(2000 / rho)  # eta = 2/b and sigma = b cost 1/(2b²) each
    if loose == 10:
        assert b == pytest.approx(41.71, abs=5e-3)
    selections = SelfComposedDpEvent(BoundedRangeDpEvent(2 / b), 2000)
    event = ComposedDpEvent([selections, SelfComposedDpEvent(GaussianDpEvent(b), 2000)])
    assert epsilon_of(event, 4e-8, "zcdp-loose") == pytest.approx(loose, rel=2e-4)
    assert epsilon_of(event, 4e-8, "zcdp-loose") <= loose * (1 + 1e-9)
    assert epsilon_of(event, 4e-8, "zcdp") == pytest.approx(tight, rel=1e-3)


def test_gaussians_agree_with_dp_accountings_renyi_accountant() -> None:
    orders = np.concatenate([np.linspace(1.005, 30, 6000), np.linspace(30, 3000, 6000)])
    for multiplier, count, delta in ((1.0, 1, 1e-6), (10.0, 100, 1e-9), (41.71, 4000, 4e-8)):
        event = SelfComposedDpEvent(GaussianDpEvent(multiplier), count)
        other = RdpAccountant(orders, REPLACE_ONE).compose(event).get_epsilon(delta)
        assert epsilon_of(event, delta, "zcdp") == pytest.approx(other, rel=1e-4)
        assert epsilon_of(event, delta, "zcdp") >= gaussian_epsilon(multiplier, delta, 1.0, count)


# --- laws ---------------------------------------------------------------------------------------------------------


@LAWS
@given(events=st.lists(ANY, min_size=1, max_size=6), delta=DELTAS, tight=st.booleans(), data=st.data())
def test_the_order_of_composition_is_irrelevant(
    events: list[DpEvent], delta: float, tight: bool, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(events))
    expected = zcdp(events, tight).get_epsilon(delta)
    assert zcdp(shuffled, tight).get_epsilon(delta) == pytest.approx(expected, rel=1e-12)
    assert epsilon_of(ComposedDpEvent(list(shuffled)), delta, "zcdp" if tight else "zcdp-loose") == pytest.approx(
        expected, rel=1e-12
    )


@LAWS
@given(events=st.lists(ANY, max_size=5), more=ANY, delta=DELTAS, epsilon=AMOUNTS, tight=st.booleans())
def test_one_more_event_never_lowers_epsilon_or_delta(
    events: list[DpEvent], more: DpEvent, delta: float, epsilon: float, tight: bool
) -> None:
    fewer, all_ = zcdp(events, tight), zcdp([*events, more], tight)
    assert fewer.get_epsilon(delta) <= all_.get_epsilon(delta) * (1 + 1e-12)
    assert fewer.get_delta(epsilon) <= all_.get_delta(epsilon) * (1 + 1e-10)
    assert fewer.total < all_.total


@LAWS
@given(events=st.lists(PURE, min_size=1, max_size=6), delta=DELTAS, epsilon=AMOUNTS, tight=st.booleans())
def test_pure_events_never_cost_more_than_their_sum(
    events: list[DpEvent], delta: float, epsilon: float, tight: bool
) -> None:
    pure = PureDPAccountant()
    for event in events:
        pure.compose(event)
    total = pure.get_epsilon()
    accountant = zcdp(events, tight)
    assert accountant.get_epsilon(delta) <= total
    assert accountant.get_epsilon(0.0) == total
    assert accountant.get_delta(total) == 0
    assert accountant.get_delta(epsilon) <= 1
    assert accountant.get_delta(epsilon) <= pure.get_delta(epsilon)


@LAWS
@given(events=st.lists(ANY, min_size=1, max_size=5), delta=DELTAS, more=st.floats(1, 3))
def test_epsilon_falls_with_delta_and_tight_is_never_above_loose(
    events: list[DpEvent], delta: float, more: float
) -> None:
    tight, loose = zcdp(events), zcdp(events, tight=False)
    assert tight.get_epsilon(delta) <= loose.get_epsilon(delta)
    for accountant in (tight, loose):
        assert accountant.get_epsilon(min(0.99, delta * more)) <= accountant.get_epsilon(delta) * (1 + 1e-12)


@LAWS
@given(event=ANY, count=st.integers(1, 4000), delta=DELTAS)
def test_repetition_is_the_sum_of_its_parts(event: DpEvent, count: int, delta: float) -> None:
    one = ZCDPAccountant().compose(event).rho
    many = ZCDPAccountant().compose(SelfComposedDpEvent(event, count))
    assert many.rho == pytest.approx(count * one, rel=1e-14)
    assert ZCDPAccountant().compose(event, count).get_epsilon(delta) == many.get_epsilon(delta)


@LAWS
@given(rho=AMOUNTS, epsilon=AMOUNTS)
def test_delta_of_a_rho_is_the_conversions(rho: float, epsilon: float) -> None:
    tight = ZCDPAccountant().compose(ZCDpEvent(rho)).get_delta(epsilon)
    assert tight == pytest.approx(zcdp_to_delta(rho, epsilon), rel=1e-9)
    loose = ZCDPAccountant(tight=False).compose(ZCDpEvent(rho))
    assert tight <= loose.get_delta(epsilon) * (1 + 1e-12)
    if epsilon > rho and 1e-300 < loose.get_delta(epsilon) < 1:
        assert loose.get_epsilon(loose.get_delta(epsilon)) == pytest.approx(epsilon, rel=1e-6)


def test_less_noise_costs_more() -> None:
    costs = [epsilon_of(GaussianDpEvent(10.0**k), 1e-6, "zcdp") for k in range(-2, 6)]
    assert all(a > b for a, b in pairwise(costs))
    costs = [epsilon_of(LaplaceDpEvent(10.0**k), 1e-6, "zcdp") for k in range(-2, 6)]
    assert all(a > b for a, b in pairwise(costs))


# --- edges --------------------------------------------------------------------------------------------------------


def test_nothing_costs_nothing() -> None:
    for accountant in (PureDPAccountant(), ZCDPAccountant(), ZCDPAccountant(tight=False)):
        assert accountant.compose(NoOpDpEvent()).get_epsilon(0.0) == accountant.get_delta(0.0) == 0
        accountant.compose(SelfComposedDpEvent(GaussianDpEvent(1.0), 0) if accountant.total else NoOpDpEvent())
        assert accountant.total == 0


@pytest.mark.parametrize("event", [NonPrivateDpEvent(), GaussianDpEvent(0.0), LaplaceDpEvent(0.0), ZCDpEvent(math.inf)])
def test_no_noise_costs_infinitely_much(event: DpEvent) -> None:
    assert epsilon_of(event, 1e-6) == epsilon_of(event, 0.0) == math.inf
    assert ZCDPAccountant().compose(event).get_delta(100.0) == 1
    if not isinstance(event, GaussianDpEvent | ZCDpEvent):
        assert PureDPAccountant().compose(event).get_epsilon() == math.inf
        assert PureDPAccountant().compose(event).get_delta(100.0) == 1


def test_a_gaussian_at_delta_0_costs_infinitely_much() -> None:
    assert epsilon_of(GaussianDpEvent(1e6), 0.0) == math.inf
    assert epsilon_of(ComposedDpEvent([BoundedRangeDpEvent(0.1), GaussianDpEvent(1e6)]), 0.0) == math.inf


@pytest.mark.parametrize(
    ("accountant", "event", "name"),
    [
        ("pure", GaussianDpEvent(1.0), "GaussianDpEvent"),
        ("pure", ZCDpEvent(1.0), "ZCDpEvent"),
        ("pure", EpsilonDeltaDpEvent(1.0, 1e-6), "EpsilonDeltaDpEvent"),
        ("zcdp", EpsilonDeltaDpEvent(1.0, 1e-6), "EpsilonDeltaDpEvent"),
        ("zcdp-loose", PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0)), "PoissonSampledDpEvent"),
    ],
)
def test_events_that_prove_nothing_are_refused_by_name_and_leave_no_trace(
    accountant: str, event: DpEvent, name: str
) -> None:
    live: Any = PureDPAccountant() if accountant == "pure" else ZCDPAccountant(accountant == "zcdp")
    assert not live.supports(event)
    with pytest.raises(InvalidParameter, match=name):
        epsilon_of(ComposedDpEvent([LaplaceDpEvent(1.0), event]), 1e-6, accountant)
    with pytest.raises(UnsupportedEventError, match=name):
        live.compose(ComposedDpEvent([LaplaceDpEvent(1.0), event]))
    assert live.total == 0


@pytest.mark.parametrize("event", [GaussianDpEvent(math.nan), ZCDpEvent(math.nan), LaplaceDpEvent(math.nan)])
def test_nan_is_refused_where_others_answer_0(event: DpEvent) -> None:
    with pytest.raises(InvalidParameter, match="NaN"):
        epsilon_of(event, 1e-6)


@pytest.mark.parametrize("delta", [math.nan, -1e-9, 1.5, True, "x", None])
def test_deltas_and_epsilons_out_of_range_are_refused_by_name(delta: Any) -> None:
    for accountant in (PureDPAccountant(), ZCDPAccountant()):
        accountant.compose(BoundedRangeDpEvent(1.0))
        with pytest.raises(InvalidParameter, match="delta"):
            accountant.get_epsilon(delta)
    with pytest.raises(InvalidParameter, match="target_epsilon"):
        ZCDPAccountant().get_delta(-1.0)
    with pytest.raises(InvalidParameter, match="target_epsilon"):
        PureDPAccountant().get_delta(math.nan)


def test_unknown_accountants_are_refused_with_the_names_that_there_are() -> None:
    for unknown in ("renyi", "", None, 1, ["zcdp"]):
        with pytest.raises(InvalidParameter, match="accountant must be one of") as refusal:
            epsilon_of(GaussianDpEvent(1.0), 1e-6, unknown)  # type: ignore[arg-type]
        assert all(name in str(refusal.value) for name in ("pure", "zcdp", "zcdp-loose"))


# --- what went wrong once ------------------------------------------------------------------------------------------


def test_the_loose_delta_is_never_0_for_a_gaussian() -> None:
    assert ZCDPAccountant(tight=False).compose(GaussianDpEvent(10.0)).get_delta(10.0) > 0


def test_a_gaussian_with_very_much_noise_still_has_no_pure_epsilon() -> None:
    assert epsilon_of(GaussianDpEvent(1e160), 0.0, "zcdp") == math.inf


def test_a_single_pure_event_costs_its_epsilon() -> None:
    accountant = PureDPAccountant().compose(BoundedRangeDpEvent(0.1))
    assert accountant.get_epsilon() == 0.1
    assert accountant.get_delta(0.1) == 0


@pytest.mark.parametrize("event", [BoundedRangeDpEvent(0.0), EpsilonDeltaDpEvent(0.0, 0.0)])
def test_an_event_of_cost_0_costs_0(event: DpEvent) -> None:
    assert epsilon_of(event, 1e-6, "zcdp") == 0


@pytest.mark.parametrize(
    "event", [BoundedRangeDpEvent(math.inf), EpsilonDeltaDpEvent(math.inf, 0.0), LaplaceDpEvent(1e-320)]
)
def test_an_infinite_pure_cost_is_an_infinite_rho(event: DpEvent) -> None:
    assert ZCDPAccountant().compose(event).rho == math.inf


def test_the_rho_of_a_gaussian_is_never_below_the_exact_rho() -> None:
    for step in range(1, 4001):
        multiplier = round(1 + step / 997, 6)
        exact = 1 / (2 * Fraction(repr(multiplier)) ** 2)
        assert Fraction(repr(ZCDPAccountant().compose(GaussianDpEvent(multiplier)).rho)) >= exact
