"""Conversions between notions: published values, laws, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privfcd.accounting import (
    advanced_composition,
    bounded_range_rho,
    epsilon_to_zcdp,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    gdp_to_delta,
    gdp_to_epsilon,
    laplace_rho,
    pure_rho,
    zcdp_to_delta,
    zcdp_to_epsilon,
)
from privfcd.errors import InvalidParameter

LAWS = settings(max_examples=120, deadline=None, derandomize=True)
SLACK = 1 + 1e-10


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high).map(lambda x: 10.0**x)


EPSILONS = powers(-4, 2.5)
DELTAS = powers(-14, -0.1)
SIGMAS = powers(-1.5, 3)
RHOS = powers(-7, 2)


# --- published values ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "expected"),
    [
        (0.001, 1e-12, 1.0, 5412.302193843927),
        (0.001, 0.1, 1.0, 3.961059966706276),
        (0.1, 1e-06, 1.0, 36.30469042619578),
        (1.0, 1e-12, 1.0, 6.55782206745885),
        (1.0, 0.1, 1.0, 1.0858777651918565),
        (10.0, 1e-06, 1.0, 0.541086831818366),
        (100.0, 1e-12, 1.0, 0.11354617555679383),
        (100.0, 0.1, 1.0, 0.07700940212232786),
        (0.5, 4e-08, 1e-06, 9.34864755980385e-06),
        (10.0, 4e-08, 0.000282842712474619, 0.00016808041802509208),
        (0.0, 1e-06, 1.0, 398942.280401433),
        (10.0, 4e-08, math.sqrt(2000), 26.575847551643704),
    ],
)
def test_gaussian_sigma_has_the_published_values(
    epsilon: float, delta: float, sensitivity: float, expected: float
) -> None:
    assert gaussian_sigma(epsilon, delta, sensitivity) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("sigma", "delta", "count", "expected"),
    [
        (0.1, 1e-06, 1, 96.71727196386769),
        (1.0, 1e-06, 1, 4.886554117462212),
        (4.0, 1e-06, 1, 1.0607018623282738),
        (50.0, 1e-06, 1, 0.07096068298543316),
        (0.05, 1e-10, 1, 326.3589505148827),
        (10.0, 1e-06, 100, 4.886554117462212),
        (41.71, 4e-08, 4000, 8.861911739760812),
    ],
)
def test_gaussian_epsilon_has_the_published_values(sigma: float, delta: float, count: int, expected: float) -> None:
    assert gaussian_epsilon(sigma, delta, 1.0, count) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("rho", "delta", "tight", "loose"),
    [
        (1e-06, 1e-06, 0.004496493980648612, 0.0074348443777),
        (0.01, 4e-08, 0.7153660433848731, 0.8354546961),
        (0.5, 1e-06, 5.221534444530169, 5.75652176976),
        (5.0, 1e-12, 27.63337669547988, 28.5078800048),
        (100.0, 1e-06, 172.1775514758994, 174.338443777),
    ],
)
def test_zcdp_to_epsilon_has_the_published_values(rho: float, delta: float, tight: float, loose: float) -> None:
    assert zcdp_to_epsilon(rho, delta) == pytest.approx(tight, rel=1e-9)
    assert zcdp_to_epsilon(rho, delta, tight=False) == pytest.approx(loose, rel=1e-10)


@pytest.mark.parametrize(
    ("rho", "epsilon", "expected"), [(0.1, 1.0, 0.008933245771818364), (0.005, 0.3, 0.00015032310195748453)]
)
def test_zcdp_to_delta_has_the_published_values(rho: float, epsilon: float, expected: float) -> None:
    assert expected <= zcdp_to_delta(rho, epsilon) <= expected * (1 + 1e-9)


@pytest.mark.parametrize(
    ("mu", "epsilon", "expected"), [(1.0, 1.0, 0.12693673750664394), (3.0, 10.0, 0.018589514315857807)]
)
def test_gdp_to_delta_has_the_published_values(mu: float, epsilon: float, expected: float) -> None:
    assert gdp_to_delta(mu, epsilon) == pytest.approx(expected, rel=1e-9)


def test_advanced_composition_has_the_published_value_and_stays_below_basic() -> None:
    formula = math.sqrt(2 * 100 * math.log(1e6)) * 0.01 + 100 * 0.01 * math.expm1(0.01)
    assert formula == pytest.approx(0.5357, abs=5e-5)
    assert advanced_composition(0.01, 1e-6, 100) == pytest.approx(formula, rel=1e-12)
    assert advanced_composition(1.0, 1e-6, 3) == pytest.approx(3.0, rel=1e-12)


def test_rho_of_the_exponential_mechanism_has_the_published_values() -> None:
    assert bounded_range_rho(1.0) <= 0.125
    assert bounded_range_rho(10.0) == pytest.approx(6.70, abs=5e-3)


def test_many_gaussians_at_large_epsilon_have_a_finite_answer() -> None:
    for epsilon in (50.0, 200.0, 500.0):
        sigma = gaussian_sigma(epsilon, 1e-6, math.sqrt(2000))
        assert gaussian_epsilon(sigma, 1e-6, 1.0, 2000) == pytest.approx(epsilon, rel=1e-9)
    assert 0 < gdp_to_epsilon(math.sqrt(60) / 20, 1 / 500) < 2


# --- laws ---------------------------------------------------------------------------------------------------------


@LAWS
@given(mu=powers(-4, 2), more=st.floats(1, 3), epsilon=EPSILONS)
def test_gdp_delta_rises_with_mu_and_falls_with_epsilon(mu: float, more: float, epsilon: float) -> None:
    assert gdp_to_delta(mu, epsilon) <= gdp_to_delta(mu * more, epsilon) * SLACK
    assert gdp_to_delta(mu, epsilon * more) <= gdp_to_delta(mu, epsilon) * SLACK
    assert 0 <= gdp_to_delta(mu, epsilon) <= 1


@LAWS
@given(epsilon=EPSILONS, delta=DELTAS, sensitivity=powers(-6, 6), more=st.floats(1, 3))
def test_gaussian_sigma_is_monotone_in_every_argument(
    epsilon: float, delta: float, sensitivity: float, more: float
) -> None:
    sigma = gaussian_sigma(epsilon, delta, sensitivity)
    assert gaussian_sigma(epsilon * more, delta, sensitivity) <= sigma * SLACK
    assert gaussian_sigma(epsilon, min(delta * more, 0.99), sensitivity) <= sigma * SLACK
    assert gaussian_sigma(epsilon, delta, sensitivity * more) >= sigma / SLACK
    assert gaussian_sigma(epsilon, delta, sensitivity) == pytest.approx(
        sensitivity * gaussian_sigma(epsilon, delta), rel=1e-12
    )
    assert gaussian_delta(sigma, epsilon, sensitivity) <= delta * (1 + 1e-12)


@LAWS
@given(sigma=SIGMAS, delta=DELTAS, count=st.integers(1, 5000), more=st.floats(1, 3))
def test_gaussian_epsilon_is_monotone_in_every_argument(sigma: float, delta: float, count: int, more: float) -> None:
    epsilon = gaussian_epsilon(sigma, delta, 1.0, count)
    assert gaussian_epsilon(sigma * more, delta, 1.0, count) <= epsilon * SLACK
    assert gaussian_epsilon(sigma, min(delta * more, 0.99), 1.0, count) <= epsilon * SLACK
    assert gaussian_epsilon(sigma, delta, more, count) >= epsilon / SLACK
    assert gaussian_epsilon(sigma, delta, 1.0, count + 1) >= epsilon / SLACK
    assert gaussian_delta(sigma, epsilon, 1.0, count) <= delta


@LAWS
@given(rho=RHOS, delta=DELTAS, epsilon=EPSILONS, more=st.floats(1, 3))
def test_zcdp_conversions_are_monotone_and_tight_is_below_loose(
    rho: float, delta: float, epsilon: float, more: float
) -> None:
    assert zcdp_to_epsilon(rho, delta) <= zcdp_to_epsilon(rho * more, delta) * SLACK
    assert zcdp_to_epsilon(rho, min(delta * more, 1.0)) <= zcdp_to_epsilon(rho, delta) * SLACK
    assert zcdp_to_delta(rho, epsilon) <= zcdp_to_delta(rho * more, epsilon) * SLACK
    assert zcdp_to_delta(rho, epsilon * more) <= zcdp_to_delta(rho, epsilon) * SLACK
    assert zcdp_to_epsilon(rho, delta) <= zcdp_to_epsilon(rho, delta, tight=False)


@LAWS
@given(rho=RHOS, delta=DELTAS)
def test_epsilon_and_delta_of_a_rho_are_inverse_to_each_other(rho: float, delta: float) -> None:
    epsilon = zcdp_to_epsilon(rho, delta)
    assume(epsilon > 1e-9)
    assert zcdp_to_delta(rho, epsilon) == pytest.approx(delta, rel=1e-8)


@LAWS
@given(epsilon=EPSILONS, delta=DELTAS, tight=st.booleans())
def test_the_rho_of_a_target_is_the_largest_one_that_keeps_it(epsilon: float, delta: float, tight: bool) -> None:
    rho = epsilon_to_zcdp(epsilon, delta, tight)
    assert zcdp_to_epsilon(rho, delta, tight) <= epsilon
    assert zcdp_to_epsilon(rho * (1 + 1e-6), delta, tight) > epsilon


@LAWS
@given(mu=powers(-3, 1.5), delta=DELTAS)
def test_a_gaussian_costs_at_most_what_its_rho_costs(mu: float, delta: float) -> None:
    assert gdp_to_epsilon(mu, delta) <= zcdp_to_epsilon(mu * mu / 2, delta) * SLACK


@LAWS
@given(cost=powers(-9, 3), more=st.floats(1, 3))
def test_rhos_rise_with_the_cost_and_pure_is_the_weakest(cost: float, more: float) -> None:
    for rho in (bounded_range_rho, laplace_rho, pure_rho):
        assert 0 < rho(cost) <= rho(cost * more) * SLACK
    assert bounded_range_rho(cost) <= laplace_rho(cost) * SLACK
    assert laplace_rho(cost) <= pure_rho(cost)


@LAWS
@given(epsilon=powers(-6, 2), delta=DELTAS, count=st.integers(1, 10**6), more=st.floats(1, 3))
def test_advanced_composition_is_monotone_and_never_above_basic(
    epsilon: float, delta: float, count: int, more: float
) -> None:
    total = advanced_composition(epsilon, delta, count)
    assert 0 < total <= count * epsilon * (1 + 1e-15)
    assert total <= advanced_composition(epsilon * more, delta, count) * SLACK
    assert total <= advanced_composition(epsilon, delta, count + 1) * SLACK
    assert advanced_composition(epsilon, min(delta * more, 0.99), count) <= total * SLACK


# --- delta 0 and 1 ------------------------------------------------------------------------------------------------


def test_delta_0_needs_infinite_epsilon_and_infinite_noise() -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        gaussian_sigma(1.0, 0.0)
    assert gaussian_epsilon(1.0, 0.0) == gdp_to_epsilon(1.0, 0.0) == zcdp_to_epsilon(1.0, 0.0) == math.inf
    assert zcdp_to_epsilon(0.0, 0.0) == gdp_to_epsilon(0.0, 0.0) == 0
    assert epsilon_to_zcdp(1.0, 0.0) == 0
    assert advanced_composition(0.1, 0.0, 7) == pytest.approx(0.7, rel=1e-15)


@pytest.mark.parametrize("delta", [1.0, 1, 0.99, math.nextafter(1, 0)])
def test_epsilon_is_never_negative_when_delta_is_near_1(delta: float) -> None:
    assert zcdp_to_epsilon(0.5, delta) == 0
    assert zcdp_to_epsilon(0.5, delta, tight=False) >= 0
    if delta < 1:
        assert gdp_to_epsilon(0.5, delta) == 0


def test_deltas_never_exceed_1() -> None:
    assert zcdp_to_delta(100.0, 0.0) <= 1
    assert gdp_to_delta(1e3, 0.0) == 1


# --- what is refused ----------------------------------------------------------------------------------------------

CALLS: list[tuple[Callable[..., float], dict[str, Any]]] = [
    (gaussian_sigma, {"epsilon": 1.0, "delta": 1e-6, "sensitivity": 1.0}),
    (gaussian_epsilon, {"sigma": 1.0, "delta": 1e-6, "sensitivity": 1.0, "count": 2}),
    (gaussian_delta, {"sigma": 1.0, "epsilon": 1.0, "sensitivity": 1.0, "count": 2}),
    (gdp_to_delta, {"mu": 1.0, "epsilon": 1.0}),
    (gdp_to_epsilon, {"mu": 1.0, "delta": 1e-6}),
    (zcdp_to_epsilon, {"rho": 1.0, "delta": 1e-6}),
    (zcdp_to_delta, {"rho": 1.0, "epsilon": 1.0}),
    (epsilon_to_zcdp, {"epsilon": 1.0, "delta": 1e-6}),
    (advanced_composition, {"epsilon": 1.0, "delta": 1e-6, "count": 2}),
    (bounded_range_rho, {"eta": 1.0}),
    (laplace_rho, {"epsilon": 1.0}),
    (pure_rho, {"epsilon": 1.0}),
]
BAD = [math.nan, math.inf, -math.inf, -1.0, -5e-324, True, False, np.True_, "1", None, 1j, [1.0], np.array([1.0, 2.0])]


@pytest.mark.parametrize(("call", "good"), CALLS, ids=[call.__name__ for call, _ in CALLS])
def test_arguments_that_are_no_amounts_are_refused_by_name(call: Callable[..., float], good: dict[str, Any]) -> None:
    for name in good:
        extra = {"count": [0, 1.5], "delta": [1.5], "sigma": [0.0]}.get(name, [])
        for value in BAD + extra:
            if name == "delta" and call is zcdp_to_epsilon and isinstance(value, np.ndarray | np.bool_):
                continue  # below
            with pytest.raises(InvalidParameter, match=name):
                call(**{**good, name: value})


def test_delta_1_is_refused_where_it_would_promise_nothing() -> None:
    for call in (gaussian_sigma, epsilon_to_zcdp):
        with pytest.raises(InvalidParameter, match="delta"):
            call(1.0, 1.0)


def test_integers_beyond_the_doubles_are_refused_by_name() -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        gaussian_sigma(10**400, 1e-6)


# --- what went wrong once -------------------------------------------------------------------------------------------------


def test_the_delta_of_every_calibrated_sigma_is_within_the_target() -> None:
    for epsilon in (1e-3, 0.1, 1.0, 10.0, 100.0):
        for delta in (1e-12, 1e-6, 1e-3, 0.1):
            sigma = gaussian_sigma(epsilon, delta)
            assert gaussian_delta(sigma, epsilon) <= delta
            assert gaussian_epsilon(sigma, delta) <= epsilon


@pytest.mark.parametrize("rho", [700.0, 1e4])
def test_zcdp_to_delta_answers_for_a_large_rho(rho: float) -> None:
    assert zcdp_to_delta(rho, 1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0])
def test_gdp_to_epsilon_answers_just_below_the_delta_of_epsilon_0(mu: float) -> None:
    assert 0 <= gdp_to_epsilon(mu, math.nextafter(gdp_to_delta(mu, 0.0), 0)) < 1e-12


def test_no_cost_stays_no_cost() -> None:
    assert bounded_range_rho(0.0) == laplace_rho(0.0) == pure_rho(0.0) == 0
    assert advanced_composition(0.0, 1e-6, 5) == 0


def test_the_delta_of_no_release_is_0() -> None:
    assert gdp_to_delta(0.0, 1.0) == gaussian_delta(1.0, 1.0, sensitivity=0.0) == 0


def test_numpy_booleans_are_no_delta() -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        zcdp_to_epsilon(0.5, np.True_)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian_epsilon(1e-11, 1e-6),
        lambda: gaussian_sigma(1e17, 1e-6),
        lambda: zcdp_to_epsilon(1e-320, 1e-6),
        lambda: zcdp_to_epsilon(1e31, 1e-6),
        lambda: epsilon_to_zcdp(0.0, 0.1),
        lambda: epsilon_to_zcdp(1e33, 1e-6),
        lambda: zcdp_to_delta(1e-300, 1e300),
    ],
)
def test_extreme_amounts_have_an_answer(call: Callable[[], float]) -> None:
    assert call() >= 0
