"""k-fold Laplace noise: published values, an exact integral, dp_accounting's brackets, and laws."""

from __future__ import annotations

import logging
import math
import random
from typing import Any

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from privfcd.accounting import laplace_epsilon
from privfcd.errors import InvalidParameter

LAWS = settings(max_examples=15, deadline=None, derandomize=True)


def one_delta(x: float, e: float) -> float:
    """The exact delta of one release; also at epsilons below 0."""
    if x >= e:
        return 0.0
    return -math.expm1((x - e) / 2) if x >= -e else -math.expm1(x)


def two_delta(x: float, e: float) -> float:
    """The exact delta of two: the first one's loss has atoms at e and -e and a density between."""
    breaks = sorted({min(max(p, -e), e) for p in (x - e, x + e)})
    between = quad(
        lambda loss: 0.25 * math.exp((loss - e) / 2) * one_delta(x - loss, e),
        -e,
        e,
        points=breaks,
        epsabs=0,
        epsrel=1e-11,
    )[0]
    return 0.5 * one_delta(x - e, e) + 0.5 * math.exp(-e) * one_delta(x + e, e) + between


@pytest.mark.parametrize(
    ("scale", "count", "delta", "expected", "tolerance"),
    [
        (1.0, 1, 1e-6, 0.9999980000480008, 4.999878289169146e-11),
        (50.0, 2000, 4e-8, 4.85241335369771, 0.0009849035884643698),
        (0.5, 3, 1e-5, 5.999920002800018, 6.000180796661425e-09),
    ],
)
def test_the_published_values(scale: float, count: int, delta: float, expected: float, tolerance: float) -> None:
    answer = laplace_epsilon(scale, delta, 1.0, count)
    assert expected - tolerance <= answer <= max(expected + tolerance, expected * 1.001)
    assert answer <= count / scale


def test_one_release_has_the_closed_form() -> None:
    for e in (0.01, 0.3, 1.0, 7.0):
        for delta in (1e-12, 1e-6, 1e-3, 0.1):
            exact = max(0.0, e + 2 * math.log1p(-delta))
            assert exact <= laplace_epsilon(1 / e, delta) <= exact + 1e-14 * e


def test_two_releases_agree_with_the_exact_integral() -> None:
    draw = random.Random(6)
    for _ in range(40):
        e, delta = 10 ** draw.uniform(-2, 1.2), 10 ** draw.uniform(-9, -3)
        truth = brentq(lambda x, e=e, delta=delta: two_delta(x, e) - delta, 0, 2 * e, xtol=1e-14)
        assert truth * (1 - 1e-12) <= laplace_epsilon(1 / e, delta, 1.0, 2) <= truth * 1.001


@pytest.mark.parametrize(
    ("e", "count", "delta"), [(1.0, 10, 1e-6), (0.1, 100, 1e-6), (2.0, 5, 1e-5), (0.02, 2000, 4e-8)]
)
def test_the_answer_lies_above_dp_accountings_optimistic_epsilon(e: float, count: int, delta: float) -> None:
    logging.disable(logging.WARNING)  # of optimistic estimates, which dp_accounting makes by another method
    try:
        brackets = [
            privacy_loss_distribution.from_laplace_mechanism(
                1 / e,
                value_discretization_interval=e / (1000 if count < 500 else 200),
                pessimistic_estimate=pessimistic,
            )
            .self_compose(count)
            .get_epsilon_for_delta(delta)
            for pessimistic in (False, True)
        ]
    finally:
        logging.disable(logging.NOTSET)
    assert brackets[0] * (1 - 1e-9) <= laplace_epsilon(1 / e, delta, 1.0, count) <= brackets[1] * 1.001


def grid_brackets(e: float, count: int, delta: float, cells: int = 50) -> list[float]:
    """Epsilons of the loss rounded down and up to a grid, convolved term by term: no transform, no cancellation."""
    losses = e * (np.arange(2 * cells + 1) / cells - 1)
    below = 0.5 * np.exp((losses - e) / 2)
    between = np.diff(below)
    down, up = np.append(between, 0.5), np.insert(between, 0, below[0])
    down[0] += below[0]
    up[-1] += 0.5
    answers = []
    for masses in (down, up):
        total, square, left = np.ones(1), masses, count
        while left:
            total = np.convolve(total, square) if left % 2 else total
            left //= 2
            square = np.convolve(square, square) if left else square
        support = e / cells * (np.arange(len(total)) - count * cells)

        def excess(x: float, total: Any = total, support: Any = support) -> float:
            beyond = support > x
            return float(np.sum(total[beyond] * -np.expm1(x - support[beyond]))) - delta

        answers.append(brentq(excess, 0, count * e, xtol=1e-13 * e) if excess(0) > 0 else 0.0)
    return answers


@pytest.mark.parametrize(
    ("e", "count", "delta"),
    [(0.01, 200, 1e-12), (0.5, 50, 1e-12), (0.05, 100, 1e-14), (1.0, 30, 1e-15), (2.0, 20, 1e-9), (0.07, 58, 4.5e-5)],
)
def test_small_deltas_are_not_lost_in_the_transform(e: float, count: int, delta: float) -> None:
    low, high = grid_brackets(e, count, delta)
    assert low * (1 - 1e-12) <= laplace_epsilon(1 / e, delta, 1.0, count) <= high * (1 + 1e-6)


@LAWS
@given(
    scale=st.floats(-1, 2).map(lambda x: 10.0**x),
    delta=st.floats(-12, -3).map(lambda x: 10.0**x),
    count=st.integers(1, 12),
    more=st.floats(1, 3),
)
def test_epsilon_is_monotone_in_every_argument(scale: float, delta: float, count: int, more: float) -> None:
    epsilon = laplace_epsilon(scale, delta, 1.0, count)
    assert 0 <= epsilon <= count / scale * (1 + 1e-15)
    assert laplace_epsilon(scale * more, delta, 1.0, count) <= epsilon * 1.001
    assert laplace_epsilon(scale, delta * more, 1.0, count) <= epsilon * 1.001
    assert laplace_epsilon(scale, delta, more, count) * 1.001 >= epsilon
    assert laplace_epsilon(scale, delta, 1.0, count + 1) * 1.001 >= epsilon


def test_delta_0_is_the_pure_sum_and_delta_near_1_costs_nothing() -> None:
    assert laplace_epsilon(2.0, 0.0, 1.0, 10) == pytest.approx(5.0, rel=1e-15)
    assert laplace_epsilon(2.0, 0.0, 1.0, 10) >= 5.0
    assert laplace_epsilon(1e3, 0.999) == 0


@pytest.mark.parametrize("name", ["scale", "delta", "sensitivity", "count"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, True, "1", None, [1.0]])
def test_arguments_that_are_no_amounts_are_refused_by_name(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"scale": 1.0, "delta": 1e-6, "sensitivity": 1.0, "count": 2, name: value}
    with pytest.raises(InvalidParameter, match=name):
        laplace_epsilon(**arguments)
    with pytest.raises(InvalidParameter, match="scale"):
        laplace_epsilon(0.0, 1e-6)
    with pytest.raises(InvalidParameter, match="delta"):
        laplace_epsilon(1.0, 1.0)


# --- what went wrong once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("e", "count", "delta"), [(0.01, 12, 1e-4), (0.01, 12, 1e-5), (0.1, 5, 1e-2), (0.0739118, 2, 0.0356184)]
)
def test_the_bound_is_within_a_thousandth_for_small_epsilons_too(e: float, count: int, delta: float) -> None:
    low, high = grid_brackets(e, count, delta, 200)
    assert low <= laplace_epsilon(1 / e, delta, 1.0, count) <= high * 1.001


def test_one_more_release_never_costs_less() -> None:
    assert laplace_epsilon(10.0, 10**-3.75, 1.0, 13) >= laplace_epsilon(10.0, 10**-3.75, 1.0, 12)


def test_a_very_large_count_falls_back_to_zcdp_as_the_docstring_says() -> None:
    assert laplace_epsilon(1e6, 1e-6, 1.0, 10**14) > 0


def test_sensitivity_0_is_free() -> None:
    assert laplace_epsilon(2.0, 1e-6, 0.0, 10) == 0
