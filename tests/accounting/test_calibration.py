"""Calibration: never overspends, wastes nothing, and refuses what cannot be met."""

from __future__ import annotations

import math
from typing import Any

import pytest
from dp_accounting import ComposedDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    BoundedRangeDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    calibrate,
    compose,
    epsilon_of,
    gaussian_event,
    gaussian_sigma,
    laplace_event,
    selection_event,
)
from privfcd.errors import InvalidParameter

calibrated = calibrate
LAWS = settings(max_examples=60, deadline=None, derandomize=True)
EPSILONS = st.floats(-3, 2).map(lambda x: 10.0**x)
DELTAS = st.floats(-12, -3).map(lambda x: 10.0**x)  # for larger ones see the known fault
COUNTS = st.integers(0, 3) | st.integers(0, 3000)


def at_scale(scale: float, sensitivity: float, counts: tuple[int, int, int]) -> Any:
    makers = (selection_event, gaussian_event, laplace_event)
    return compose((make(sensitivity, scale), count) for make, count in zip(makers, counts, strict=True))


@LAWS
@given(
    epsilon=EPSILONS,
    delta=DELTAS,
    counts=st.tuples(COUNTS, COUNTS, COUNTS).filter(any),
    sensitivity=st.floats(-6, 6).map(lambda x: 10.0**x),
    accountant=st.sampled_from(["zcdp", "zcdp-loose"]),
)
def test_a_plan_never_overspends_and_is_tight_to_a_millionth(
    epsilon: float, delta: float, counts: tuple[int, int, int], sensitivity: float, accountant: str
) -> None:
    selections, gaussians, laplaces = counts
    plan = calibrate(
        epsilon,
        delta,
        selections=selections,
        gaussians=gaussians,
        laplaces=laplaces,
        sensitivity=sensitivity,
        accountant=accountant,
    )
    (scale,) = {plan.selection_scale, plan.gaussian_scale, plan.laplace_scale} - {None}
    assert plan.epsilon <= epsilon
    assert epsilon_of(plan.event, delta, accountant) == plan.epsilon
    assert epsilon_of(at_scale(scale, sensitivity, counts), delta, accountant) <= epsilon
    assert epsilon_of(at_scale(scale * (1 - 1e-6), sensitivity, counts), delta, accountant) > epsilon
    assert (plan.selection_scale is None, plan.gaussian_scale is None, plan.laplace_scale is None) == (
        not selections,
        not gaussians,
        not laplaces,
    )
    assert sum(count for _, count in plan.events) == sum(counts)
    assert (plan.delta, plan.accountant) == (delta, accountant)


@LAWS
@given(epsilon=EPSILONS, delta=DELTAS, more=st.floats(1, 4), count=st.integers(1, 500))
def test_a_larger_target_needs_less_noise_and_more_releases_need_more(
    epsilon: float, delta: float, more: float, count: int
) -> None:
    def scale_for(epsilon: float, delta: float, count: int, sensitivity: float = 1.0) -> float:
        plan = calibrate(
            epsilon, delta, selections=count, gaussians=1, sensitivity=sensitivity, accountant="zcdp"
        ).gaussian_scale
        assert plan is not None
        return plan

    scale = scale_for(epsilon, delta, count)
    assert scale_for(epsilon * more, delta, count) <= scale * (1 + 1e-9)
    assert scale_for(epsilon, min(delta * more, 0.99), count) <= scale * (1 + 1e-9)
    assert scale_for(epsilon, delta, count + 1) >= scale * (1 - 1e-9)
    assert scale_for(epsilon, delta, count, more) == pytest.approx(more * scale, rel=1e-8)


@pytest.mark.parametrize(
    "releases",
    [{"gaussians": 1}, {"selections": 5, "gaussians": 2}, {"selections": 2000, "gaussians": 2000}, {"laplaces": 6}],
)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-9), (5.0, 4e-8)])
def test_the_default_never_overspends_wastes_nothing_and_needs_no_more_noise_than_zcdp(
    releases: dict[str, int], epsilon: float, delta: float
) -> None:
    plan, other = calibrate(epsilon, delta, **releases), calibrate(epsilon, delta, accountant="zcdp", **releases)
    (scale,) = {plan.selection_scale, plan.gaussian_scale, plan.laplace_scale} - {None}
    (most,) = {other.selection_scale, other.gaussian_scale, other.laplace_scale} - {None}
    counts = (releases.get("selections", 0), releases.get("gaussians", 0), releases.get("laplaces", 0))
    assert plan.epsilon == epsilon_of(plan.event, delta) <= epsilon
    assert epsilon_of(at_scale(scale * (1 - 1e-6), 1.0, counts), delta) > epsilon
    assert scale <= most * (1 + 1e-8)


def test_the_spec_s_plan_of_2000_selections_and_2000_gaussians() -> None:
    loose = calibrate(10, 4e-8, selections=2000, gaussians=2000, accountant="zcdp-loose")
    tight = calibrate(10, 4e-8, selections=2000, gaussians=2000, accountant="zcdp")
    assert loose.gaussian_scale == pytest.approx(41.71, abs=6e-3)
    assert tight.gaussian_scale == pytest.approx(39.34, abs=6e-3)
    assert tight.gaussian_scale == tight.selection_scale
    assert epsilon_of(tight.event, 4e-8, "zcdp") <= 10
    assert tight.events == [
        (BoundedRangeDpEvent(pytest.approx(2 / tight.selection_scale)), 2000),
        (GaussianDpEvent(pytest.approx(tight.gaussian_scale)), 2000),
    ]


def test_2000_gaussians_never_get_less_noise_than_the_exact_calibration() -> None:
    exact = gaussian_sigma(10, 4e-8, math.sqrt(2000))
    assert exact == pytest.approx(26.575847551643704, rel=1e-9)
    assert calibrate(10, 4e-8, gaussians=2000, accountant="zcdp").gaussian_scale >= exact


def test_pure_plans_split_epsilon_evenly() -> None:
    plan = calibrate(1.0, 0.0, selections=2, laplaces=4, accountant="pure")
    assert plan.selection_scale == pytest.approx(8.0, rel=1e-9)  # 2 * 2/b + 4 * 1/b = 1
    assert plan.epsilon <= 1
    assert calibrate(1.0, 0.0, laplaces=10, accountant="zcdp").laplace_scale == pytest.approx(10.0, rel=1e-9)


def test_rho_is_the_plans_zcdp() -> None:
    plan = calibrate(3.0, 1e-7, gaussians=50)
    assert plan.rho == pytest.approx(50 / (2 * plan.gaussian_scale**2), rel=1e-9)
    assert LaplaceDpEvent not in {type(event) for event, _ in plan.events}


@pytest.mark.parametrize("name", ["epsilon", "delta", "selections", "gaussians", "laplaces", "sensitivity"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1, True, "1", None, 1j, [1.0]])
def test_arguments_that_are_no_amounts_are_refused_by_name(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "gaussians": 1, name: value}
    with pytest.raises(InvalidParameter, match=name):
        calibrate(**arguments)


def test_targets_that_cannot_be_met_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        calibrate(0.0, 1e-6, gaussians=1)
    with pytest.raises(InvalidParameter, match="delta"):
        calibrate(1.0, 1.0, gaussians=1)
    with pytest.raises(InvalidParameter, match="delta must be above 0"):
        calibrate(1.0, 0.0, gaussians=1, selections=3)
    with pytest.raises(InvalidParameter, match="sensitivity"):
        calibrate(1.0, 1e-6, gaussians=1, sensitivity=0.0)
    with pytest.raises(InvalidParameter, match="selections, gaussians and laplaces"):
        calibrate(1.0, 1e-6)
    with pytest.raises(InvalidParameter, match="gaussians"):
        calibrate(1.0, 1e-6, gaussians=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="accountant"):
        calibrate(1.0, 1e-6, gaussians=1, accountant="renyi")


def test_epsilon_of_takes_any_nesting() -> None:
    flat = [GaussianDpEvent(5.0)] * 6 + [BoundedRangeDpEvent(0.1)] * 3
    nested = ComposedDpEvent(
        [
            SelfComposedDpEvent(
                ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(5.0), 2), BoundedRangeDpEvent(0.1)]), 3
            )
        ]
    )
    assert epsilon_of(nested, 1e-6) == pytest.approx(epsilon_of(ComposedDpEvent(flat), 1e-6), rel=1e-12)


# --- what went wrong once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "releases", "sensitivity"),
    [(1.0, {"laplaces": 1}, 100.0), (2.0, {"selections": 1}, 100.0), (4.0, {"laplaces": 4}, 100.0)],
)
def test_round_numbers_have_a_plan(epsilon: float, releases: dict[str, int], sensitivity: float) -> None:
    for accountant in ("pure", "zcdp"):
        plan = calibrate(epsilon, 1e-6, sensitivity=sensitivity, accountant=accountant, **releases)
        assert epsilon * (1 - 1e-6) < plan.epsilon <= epsilon


def test_a_pure_plan_with_gaussians_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="pure"):
        calibrate(1.0, 1e-6, gaussians=1, accountant="pure")


def test_an_accountant_that_is_no_name_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="accountant"):
        calibrate(1.0, 1e-6, gaussians=1, accountant=["zcdp"])  # type: ignore[arg-type]


# --- known fault --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "releases"),
    [
        (0.01, 0.1, {"laplaces": 1}),
        (0.0118, 0.0463, {"gaussians": 50, "laplaces": 1}),
        (0.0025, 0.0128, {"selections": 1}),
    ],
)
def test_large_deltas_waste_nothing_either(epsilon: float, delta: float, releases: dict[str, int]) -> None:
    plan = calibrate(epsilon, delta, accountant="zcdp", **releases)
    assert epsilon * (1 - 1e-6) < plan.epsilon <= epsilon
