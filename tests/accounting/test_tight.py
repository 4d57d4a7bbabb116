"""The tight accountant: published values, brute-force games, and laws."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, UnsupportedEventError
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from privfcd.accounting import (
    ADD_OR_REMOVE_ONE,
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
    gaussian_epsilon,
    laplace_epsilon,
    zcdp_to_epsilon,
)
from privfcd.accounting.composition import GRID_LIMIT, Composition, why_not
from privfcd.accounting.curves import gaussian_values
from privfcd.accounting.roots import falling_root
from privfcd.accounting.tight import TightAccountant, exponential_epsilon, tight_epsilon
from privfcd.errors import InvalidParameter

Array = NDArray[np.float64]
LAWS = settings(max_examples=25, deadline=None, derandomize=True)
DELTA = 4e-8


def tight(*events: tuple[DpEvent, int]) -> TightAccountant:
    accountant = TightAccountant()
    for event, count in events:
        accountant.compose(event, count)
    return accountant


def selection_and_gaussian(loose: float) -> TightAccountant:
    """2000 selections and 2000 Gaussian releases of one scale for which the loose zCDP formula says `loose`."""
    log_inverse = math.log(1 / DELTA)
    rho = (math.sqrt(log_inverse + loose) - math.sqrt(log_inverse)) ** 2
    scale = math.sqrt(2000 / rho)
    return tight((BoundedRangeDpEvent(2 / scale), 2000), (GaussianDpEvent(scale), 2000))


# Lower and upper bounds on the adaptive optimum by an independent grid recursion, rounded to three or four digits
@pytest.mark.parametrize(
    "loose,lower,upper", [(1, 0.809, 0.820), (5, 4.318, 4.380), (10, 8.860, 8.894), (50, 46.58, 47.39)]
)
def test_two_thousand_pairs(loose: float, lower: float, upper: float) -> None:
    accountant = selection_and_gaussian(loose)
    epsilon = accountant.get_epsilon(DELTA)
    assert lower <= epsilon <= upper
    below, above = accountant.gap(DELTA)
    assert above == epsilon
    assert below <= above <= 1.01 * below
    assert accountant.get_delta(epsilon) == pytest.approx(DELTA, rel=1e-6)


# (eta, count, delta, the optimum's interval by that recursion, the least of zCDP's epsilon and count * eta)
@pytest.mark.parametrize(
    "eta,count,delta,lower,upper,reference",
    [
        (0.1, 1, 1e-6, 0.0982764, 0.0999423, 0.1),
        (0.04795, 2000, 4e-8, 5.97098, 6.08305, 6.312504878462367),
        (2.0, 3, 1e-3, 5.30312, 5.39983, 6.0),
    ],
)
def test_selections_alone(eta: float, count: int, delta: float, lower: float, upper: float, reference: float) -> None:
    epsilon = exponential_epsilon(eta, delta, count)
    assert lower <= epsilon <= upper
    assert epsilon <= reference
    below, above = tight((BoundedRangeDpEvent(eta), count)).gap(delta)
    assert above == epsilon
    assert below <= above <= 1.01 * below


def test_one_selection_is_exact() -> None:
    for eta, delta in ((0.1, 1e-3), (1.0, 1e-6), (5.0, 0.1)):
        exact = max(0.0, eta + 2 * math.log1p(-math.sqrt(-delta * math.expm1(-eta))))
        epsilon = exponential_epsilon(eta, delta)
        assert exact <= epsilon <= exact * 1.001
        assert delta <= tight((BoundedRangeDpEvent(eta), 1)).get_delta(exact) <= 1.1 * delta


def game(last: Callable[[Array], Array], etas: list[float], e: Array) -> Array:
    """The best play of selections of ranges `etas`, in an order that is chosen on the way, before `last`."""
    if not etas:
        return last(e)
    best = np.zeros_like(e)
    for i, eta in enumerate(etas):
        if eta in etas[:i]:
            continue
        rest = etas[:i] + etas[i + 1 :]
        t = np.linspace(0.0, eta, 41)
        share = np.expm1(t - eta) / math.expm1(-eta)
        shifted = e[..., None] - t
        value = share * game(last, rest, shifted) + (1 - share) * game(last, rest, shifted + eta)
        best = np.maximum(best, value.max(axis=-1))
    return best


def nothing_left(e: Array) -> Array:
    return np.maximum(-np.expm1(e), 0.0)


@pytest.mark.parametrize("etas", [[0.5, 0.3], [1.0, 0.2, 0.2], [0.4, 0.4, 0.4], [2.0, 0.5]])
def test_no_play_beats_the_bound(etas: list[float]) -> None:
    accountant = tight(*((BoundedRangeDpEvent(eta), 1) for eta in etas))
    epsilons = np.array([0.0, 0.2, 0.6, 1.2])
    played = game(nothing_left, etas, epsilons)
    bounds = np.array([accountant.get_delta(epsilon) for epsilon in epsilons])
    assert np.all(played <= bounds * (1 + 1e-12))
    if len(set(etas)) == 1:
        assert np.allclose(bounds, played, rtol=0.01, atol=1e-6)


@pytest.mark.parametrize("etas", [[0.5, 0.3], [0.4, 0.4]])
def test_no_play_with_a_gaussian_beats_the_bound(etas: list[float]) -> None:
    variance = 0.4
    accountant = tight(*((BoundedRangeDpEvent(eta), 1) for eta in etas), (GaussianDpEvent(1 / math.sqrt(variance)), 1))
    loss = np.linspace(-6, 6, 181) * math.sqrt(variance) + variance / 2
    weights = np.exp(-((loss - variance / 2) ** 2) / (2 * variance))
    for epsilon in (0.1, 0.8):
        last = float(game(lambda e: gaussian_values(variance, e), etas, np.array([epsilon]))[0])
        first = float(weights @ game(nothing_left, etas, epsilon - loss) / weights.sum())
        bound = accountant.get_delta(epsilon)
        assert last <= first * (1 + 1e-6)
        assert first <= bound * (1 + 1e-9)
        if len(set(etas)) == 1:
            assert bound <= 1.01 * first


def test_gaussians_alone_are_exact() -> None:
    for scale, count, delta in ((41.71, 4000, 4e-8), (1.0, 1, 1e-6), (0.05, 1, 1e-10), (100.0, 3, 1e-300)):
        accountant = tight((GaussianDpEvent(scale), count))
        exact = gaussian_epsilon(scale, delta, count=count)
        assert accountant.get_epsilon(delta) == pytest.approx(exact, rel=1e-12)
        assert accountant.get_epsilon(delta) >= exact * (1 - 1e-14)
        assert accountant.method(delta) == "gaussian"


# References: the interval of optimistic and pessimistic estimates of a privacy-loss accountant
@pytest.mark.parametrize(
    "scale,count,delta,reference,tolerance",
    [
        (1.0, 1, 1e-6, 0.9999980000480008, 1e-7),
        (50.0, 2000, 4e-8, 4.85241335369771, 0.001),
        (0.5, 3, 1e-5, 5.999920002800018, 1e-5),
    ],
)
def test_laplace_alone(scale: float, count: int, delta: float, reference: float, tolerance: float) -> None:
    epsilon = tight((LaplaceDpEvent(scale), count)).get_epsilon(delta)
    assert reference - tolerance <= epsilon <= reference + tolerance
    assert epsilon == pytest.approx(laplace_epsilon(scale, delta, count=count), rel=1e-3)


def test_discrete_releases() -> None:
    one = tight((DiscreteLaplaceDpEvent(0.3, 1), 4)).get_epsilon(1e-3)
    same = tight((EpsilonDeltaDpEvent(0.3, 0.0), 4)).get_epsilon(1e-3)
    assert one == pytest.approx(same, rel=1e-9)
    # 4 answers of randomised response: delta(e) over the binomial law
    right = 1 / (1 + math.exp(-0.3))
    exact = sum(
        math.comb(4, k) * right**k * (1 - right) ** (4 - k) * max(0.0, -math.expm1(one - 0.3 * (2 * k - 4)))
        for k in range(5)
    )
    assert exact == pytest.approx(1e-3, rel=1e-6)
    wide = tight((DiscreteLaplaceDpEvent(0.1, 5), 3))
    assert wide.get_epsilon(1e-5) < tight((EpsilonDeltaDpEvent(0.5, 0.0), 3)).get_epsilon(1e-5)
    assert wide.get_epsilon(0.0) == pytest.approx(1.5)
    coarse = tight((DiscreteLaplaceDpEvent(0.01, 500), 1))
    assert 4.9 < coarse.get_epsilon(1e-5) <= 5.0000001
    assert coarse.gap(1e-5)[0] == 0.0
    answer = tight((RandomizedResponseDpEvent(0.5, 2), 2))
    assert answer.get_epsilon(0.0) == pytest.approx(2 * math.log(3))
    assert not TightAccountant(ADD_OR_REMOVE_ONE).supports(RandomizedResponseDpEvent(0.5, 2))
    assert tight((RandomizedResponseDpEvent(1.0, 3), 2)).get_epsilon(0.0) == 0.0


def test_failures_take_their_share_of_delta() -> None:
    event = EpsilonDeltaDpEvent(0.5, 1e-6)
    accountant = tight((event, 3), (GaussianDpEvent(2.0), 1))
    lost = -math.expm1(3 * math.log1p(-1e-6))
    rest = (1e-5 - lost) / (1 - lost)
    assert accountant.get_epsilon(1e-5) == pytest.approx(
        tight((EpsilonDeltaDpEvent(0.5, 0.0), 3), (GaussianDpEvent(2.0), 1)).get_epsilon(rest), rel=1e-9
    )
    assert accountant.get_epsilon(2.9e-6) == math.inf
    assert lost <= accountant.get_delta(100.0) <= lost * (1 + 1e-12)
    assert tight((EpsilonDeltaDpEvent(0.0, 1e-3), 1)).get_epsilon(2e-3) == 0.0
    assert tight((EpsilonDeltaDpEvent(1.0, 1.0), 1)).get_epsilon(0.5) == math.inf


def test_what_is_not_private_and_what_is_refused() -> None:
    assert tight((NonPrivateDpEvent(), 1)).get_epsilon(0.1) == math.inf
    assert tight((NonPrivateDpEvent(), 1)).get_delta(5.0) == 1.0
    assert tight((GaussianDpEvent(0.0), 1)).get_epsilon(0.1) == math.inf
    assert tight((NoOpDpEvent(), 5)).get_epsilon(0.1) == 0.0
    assert tight((BoundedRangeDpEvent(0.0), 5)).get_epsilon(0.0) == 0.0
    assert tight((GaussianDpEvent(math.inf), 5), (ZCDpEvent(0.0), 1)).get_epsilon(0.0) == 0.0
    assert tight((BoundedRangeDpEvent(1e-200), 5)).get_epsilon(1e-9) == pytest.approx(5e-200)
    assert tight((GaussianDpEvent(1.0), 1)).gap(0.0) == (math.inf, math.inf)
    refused = PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))
    assert not TightAccountant().supports(ComposedDpEvent([GaussianDpEvent(1.0), refused]))
    assert why_not(refused) is not None
    with pytest.raises(UnsupportedEventError):
        TightAccountant().compose(refused)
    with pytest.raises(InvalidParameter):
        Composition.of([(refused, 1)])
    for event in (BoundedRangeDpEvent(math.nan), GaussianDpEvent(math.nan), ZCDpEvent(math.nan)):
        with pytest.raises(InvalidParameter):
            tight((event, 1))
    accountant = tight((BoundedRangeDpEvent(1.0), 1))
    for value in (math.nan, -0.1, 1.0, True):
        with pytest.raises(InvalidParameter):
            accountant.get_epsilon(value)
    for value in (math.nan, -0.1, math.inf):
        with pytest.raises(InvalidParameter):
            accountant.get_delta(value)
    with pytest.raises(InvalidParameter):
        exponential_epsilon(math.nan, 1e-6)
    with pytest.raises(InvalidParameter):
        exponential_epsilon(1.0, 1e-6, 0)
    with pytest.raises(InvalidParameter):
        tight_epsilon(math.nan, [(0.1, 1)], (), 1e-6)


def test_delta_zero_is_the_pure_sum_or_inf() -> None:
    assert exponential_epsilon(0.3, 0.0, 500) == pytest.approx(150.0)
    assert tight((BoundedRangeDpEvent(0.3), 500), (GaussianDpEvent(9.0), 1)).get_epsilon(0.0) == math.inf


def test_only_a_rho_leaves_zcdp() -> None:
    accountant = tight((ZCDpEvent(0.1), 2), (BoundedRangeDpEvent(0.2), 10))
    assert accountant.method(1e-6) == "zcdp"
    assert accountant.get_epsilon(1e-6) == pytest.approx(zcdp_to_epsilon(0.2 + 10 * bounded_range_rho(0.2), 1e-6))


def test_methods_and_long_compositions() -> None:
    assert tight((BoundedRangeDpEvent(0.1), GRID_LIMIT)).method(1e-6) == "grid"
    assert tight((BoundedRangeDpEvent(0.1), 3)).method(1e-290) == "pure"
    long = tight((BoundedRangeDpEvent(0.002), 10**6), (GaussianDpEvent(1000.0), 10**6))
    assert long.method(DELTA) == "gaussian"
    below, above = long.gap(DELTA)
    assert below <= above <= 1.002 * below
    just, beyond = (exponential_epsilon(0.05, DELTA, count) for count in (GRID_LIMIT, GRID_LIMIT + 1))
    assert just < beyond < 1.006 * just


def test_many_unequal_ranges() -> None:
    etas = [0.02 * 1.003**i for i in range(300)]
    accountant = tight(*((BoundedRangeDpEvent(eta), 1 + i % 3) for i, eta in enumerate(etas)))
    epsilon = accountant.get_epsilon(1e-6)
    below, above = accountant.gap(1e-6)
    assert below <= above == epsilon <= 1.2 * below
    # a few larger ones among many small ones: their groups meet on a grid
    mixed = tight((BoundedRangeDpEvent(1.0), 2), (BoundedRangeDpEvent(0.05), 400))
    assert mixed.method(DELTA) == "grid"
    below, above = mixed.gap(DELTA)
    assert below <= above <= 1.03 * below


@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-20, 1e-2, 0.1])
def test_from_the_smallest_deltas_to_the_largest(delta: float) -> None:
    accountant = tight((BoundedRangeDpEvent(0.2), 40), (GaussianDpEvent(5.0), 10))
    below, above = accountant.gap(delta)
    assert 0 < below <= above <= 1.02 * below
    assert accountant.get_delta(above) <= delta * (1 + 1e-9)


EVENTS: st.SearchStrategy[DpEvent] = (
    st.builds(BoundedRangeDpEvent, st.floats(-2, 0.3).map(lambda x: 10.0**x))
    | st.builds(GaussianDpEvent, st.floats(-0.3, 1.5).map(lambda x: 10.0**x))
    | st.builds(LaplaceDpEvent, st.floats(0, 1.5).map(lambda x: 10.0**x))
    | st.builds(EpsilonDeltaDpEvent, st.floats(0.01, 1.0), st.sampled_from([0.0, 1e-12]))
)
PLANS = st.lists(st.tuples(EVENTS, st.integers(1, 60)), min_size=1, max_size=3)
DELTAS = st.floats(-11, -1).map(lambda x: 10.0**x)
ROUNDING = 1 - 1e-10


@LAWS
@given(PLANS, EVENTS, st.integers(1, 40), DELTAS)
def test_adding_never_lowers(plan: list[tuple[DpEvent, int]], more: DpEvent, count: int, delta: float) -> None:
    epsilon = tight(*plan).get_epsilon(delta)
    assert tight(*plan, (more, count)).get_epsilon(delta) >= epsilon * ROUNDING
    (event, often), *others = plan
    assert tight((event, often + 1), *others).get_epsilon(delta) >= epsilon * ROUNDING


@LAWS
@given(PLANS, DELTAS, st.floats(0.01, 0.999), st.floats(1.0001, 2.0))
def test_monotone_in_delta_and_epsilon(
    plan: list[tuple[DpEvent, int]], delta: float, share: float, longer: float
) -> None:
    accountant = tight(*plan)
    epsilon = accountant.get_epsilon(delta)
    assert accountant.get_epsilon(delta * share) >= epsilon * ROUNDING
    if math.isfinite(epsilon):
        assert accountant.get_delta(epsilon) <= delta * (1 + 1e-9)
        assert accountant.get_delta(epsilon * longer) <= accountant.get_delta(epsilon) * (1 + 1e-9)
    below, above = accountant.gap(delta)
    assert 0 <= below <= above == epsilon


@LAWS
@given(PLANS, DELTAS)
def test_order_and_nesting_do_not_matter(plan: list[tuple[DpEvent, int]], delta: float) -> None:
    epsilon = tight(*plan).get_epsilon(delta)
    assert tight(*plan[::-1]).get_epsilon(delta) == epsilon
    nested = ComposedDpEvent([SelfComposedDpEvent(event, count) for event, count in plan])
    assert tight((nested, 1)).get_epsilon(delta) == epsilon


@LAWS
@given(PLANS, DELTAS)
def test_never_above_the_other_accountants(plan: list[tuple[DpEvent, int]], delta: float) -> None:
    epsilon = tight(*plan).get_epsilon(delta)
    for other in (PureDPAccountant(), ZCDPAccountant()):
        if all(other.supports(event) for event, _ in plan):
            for event, count in plan:
                other.compose(event, count)
            assert epsilon <= other.get_epsilon(delta)


@LAWS
@given(st.floats(-3, 1).map(lambda x: 10.0**x), st.integers(1, 80), DELTAS, st.floats(1e-6, 0.1))
def test_monotone_in_eta(eta: float, count: int, delta: float, more: float) -> None:
    assert exponential_epsilon(eta * (1 + more), delta, count) >= exponential_epsilon(eta, delta, count) * ROUNDING


def test_tight_epsilon_is_the_accountant() -> None:
    direct = tight_epsilon(0.5, [(0.1, 20), (0.3, 2)], [(LaplaceDpEvent(8.0), 3)], 1e-6)
    accountant = tight(
        (GaussianDpEvent(2.0), 1),
        (BoundedRangeDpEvent(0.1), 20),
        (BoundedRangeDpEvent(0.3), 2),
        (LaplaceDpEvent(8.0), 3),
    )
    assert direct == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)


def counted(cost: Callable[[float], float]) -> tuple[Callable[[float], float], list[float]]:
    asked: list[float] = []

    def ask(scale: float) -> float:
        asked.append(scale)
        return cost(scale)

    return ask, asked


def test_calibration_of_the_papers_plan() -> None:
    cost, asked = counted(lambda b: tight_epsilon(math.sqrt(2000) / b, [(2 / b, 2000)], (), DELTA))
    scale = falling_root(cost, 10.0, 39.34)
    assert len(asked) <= 8
    assert cost(scale) <= 10.0 < cost(scale * (1 - 1e-6))
    assert 0.895 <= scale / 41.71011470281543 <= 0.91


@pytest.mark.parametrize("target", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize("start", [1e-3, 1.0, 1e6])
def test_falling_root_from_any_start(target: float, start: float) -> None:
    cost, asked = counted(lambda b: zcdp_to_epsilon(3 / b**2 + bounded_range_rho(2 / b), 1e-6))
    scale = falling_root(cost, target, start)
    assert cost(scale) <= target < cost(scale * (1 - 1e-8))
    assert scale in asked
    assert len(asked) < 40


def test_falling_root_over_a_jump_and_without_an_answer() -> None:
    scale = falling_root(lambda b: 2.0 if b < 3 else 0.5, 1.0, 1.0)
    assert 3 <= scale <= 3 * (1 + 1e-8)
    with pytest.raises(InvalidParameter):
        falling_root(lambda b: 2.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("event", "count", "delta", "least"),
    [
        (BoundedRangeDpEvent(3.0), 450, 1e-9, 621.0),
        (BoundedRangeDpEvent(3.0), 450, 1e-20, 707.0),
        (BoundedRangeDpEvent(3.0), 300, 1e-140, 781.0),
        (EpsilonDeltaDpEvent(0.5, 0.0), 4096, 1e-6, 647.0),
    ],
)
def test_epsilons_beyond_600_are_not_cut_off(event: DpEvent, count: int, delta: float, least: float) -> None:
    """What a fixed strategy of the adversary reaches; for randomised response exactly, by the binomial law."""
    accountant = TightAccountant().compose(event, count)
    assert accountant.get_epsilon(delta) >= least
    lower, upper = accountant.gap(delta)
    assert least - 0.5 <= lower <= upper


@pytest.mark.parametrize(("eta", "count"), [(40.0, 512), (50.0, 300), (30.0, 512)])
def test_very_wide_ranges_have_an_answer(eta: float, count: int) -> None:
    assert 0 < TightAccountant().compose(BoundedRangeDpEvent(eta), count).get_epsilon(1e-6) <= eta * count
