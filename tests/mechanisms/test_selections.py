"""Top-m, permute-and-flip and Laplace noisy max: laws against brute force, costs, extremes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent, NoOpDpEvent, SelfComposedDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad

from privfcd.accounting import BoundedRangeDpEvent, EpsilonDeltaDpEvent, epsilon_of
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import (
    GumbelMax,
    LaplaceNoisyMax,
    NoiseStream,
    OpenDPNoise,
    PermuteAndFlip,
    SecureNoise,
    SimulatedNoise,
    TopM,
    coins,
)
from privfcd.mechanisms.entropy import Entropy
from privfcd.mechanisms.noisy_max import ROUNDING

LEVEL = 1e-6 / 40
"""Family-wise 1e-6 over the tests of laws in this file."""

SCORES = [[0.0, 0.0], [1.0, -1.0], [0.0, 0.5, 1.0, 1.5], [3.0], [2.0, 2.0, 2.0, -9.0]]
PICKERS = [GumbelMax, PermuteAndFlip, LaplaceNoisyMax]


@pytest.fixture(params=["simulated", "secure"])
def stream(request: pytest.FixtureRequest) -> NoiseStream:
    return SimulatedNoise(17).stream(1) if request.param == "simulated" else SecureNoise().stream()


def peeling_law(scores: list[float], scale: float, m: int) -> dict[tuple[int, ...], float]:
    law = {}
    for order in itertools.permutations(range(len(scores)), m):
        left, probability = list(range(len(scores))), 1.0
        for pick in order:
            weights = {i: math.exp((scores[i] - max(scores)) / scale) for i in left}
            probability *= weights[pick] / sum(weights.values())
            left.remove(pick)
        law[order] = probability
    return law


def flip_law(scores: list[float], scale: float) -> NDArray[np.float64]:
    """Every order of the candidates in turn, as the mechanism is defined."""
    heads = [math.exp((score - max(scores)) / scale) for score in scores]
    law = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for pick in order:
            law[pick] += reached * heads[pick] / len(orders)
            reached *= 1 - heads[pick]
    return law


def noisy_max_law(scores: list[float], scale: float) -> NDArray[np.float64]:
    def below(x: float) -> float:
        return math.exp(x) / 2 if x < 0 else 1 - math.exp(-x) / 2

    def wins(i: int) -> float:
        def density(x: float) -> float:
            others = [below((x - s) / scale) for j, s in enumerate(scores) if j != i]
            return math.exp(-abs(x - scores[i]) / scale) / (2 * scale) * math.prod(others)

        points = sorted(set(scores))
        ends = [points[0] - 40 * scale, *points, points[-1] + 40 * scale]
        return sum(quad(density, a, b, limit=200)[0] for a, b in itertools.pairwise(ends))

    return np.array([wins(i) for i in range(len(scores))])


def p_value(counts: NDArray[Any], law: NDArray[Any]) -> float:
    assert counts[law == 0].sum() == 0
    if len(law) == 1:
        return 1.0
    order = np.argsort(law)[::-1]
    expected, observed = (law * counts.sum())[order], counts[order]
    first = int(np.count_nonzero(expected > 20)) - 1  # the rarest are pooled with the last frequent one
    expected = np.append(expected[:first], expected[first:].sum())
    observed = np.append(observed[:first], observed[first:].sum())
    return float(stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


@pytest.mark.parametrize("scores", SCORES)
def test_permute_and_flip_has_the_law_of_its_definition(stream: NoiseStream, scores: list[float]) -> None:
    picks = PermuteAndFlip(0.8).release_many(scores, 8_000, stream)
    assert p_value(np.bincount(picks, minlength=len(scores)), flip_law(scores, 0.8)) > LEVEL


@pytest.mark.parametrize("scores", SCORES)
def test_noisy_max_has_the_law_of_its_definition(stream: NoiseStream, scores: list[float]) -> None:
    picks = LaplaceNoisyMax(0.8).release_many(scores, 40_000, stream)
    assert p_value(np.bincount(picks, minlength=len(scores)), noisy_max_law(scores, 0.8)) > LEVEL


@pytest.mark.parametrize(("scores", "m"), [([0.0, 1.0], 2), ([0.0, 0.5, 1.0, 1.5], 2), ([1.0, 1.0, 0.0, -1.0], 3)])
def test_top_m_has_the_law_of_peeling(stream: NoiseStream, scores: list[float], m: int) -> None:
    law = peeling_law(scores, 0.8, m)
    for picks in (
        TopM(0.8, m).release_many(scores, 20_000, stream),
        np.array([TopM(0.8, m).release(scores, stream) for _ in range(4_000)]),
    ):
        found = {order: 0 for order in law}
        for row in picks.tolist():
            found[tuple(row)] += 1
        assert p_value(np.array(list(found.values())), np.array(list(law.values()))) > LEVEL


def test_opendp_agrees_about_permute_and_flip() -> None:
    scores = SCORES[2]
    picks = PermuteAndFlip(0.8).release_many(scores, 2_000, OpenDPNoise().stream())
    assert p_value(np.bincount(picks, minlength=4), flip_law(scores, 0.8)) > LEVEL


@pytest.mark.parametrize("certain", [0.0, coins.CERTAIN])
def test_coins_are_right_with_and_without_exact_arithmetic(monkeypatch: pytest.MonkeyPatch, certain: float) -> None:
    monkeypatch.setattr(coins, "CERTAIN", certain)
    gaps = np.repeat([0.0, -0.5, -3.0, -700.0, -math.inf], 3_000)
    shown = coins.heads(Entropy(np.random.default_rng(3).bytes), gaps, 1.0, 0.0).reshape(5, -1).sum(axis=1)
    assert shown[0] == 3_000 and shown[3] == 0 and shown[4] == 0
    for count, gap in ((shown[1], -0.5), (shown[2], -3.0)):
        assert stats.binomtest(int(count), 3_000, math.exp(gap)).pvalue > LEVEL


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-3, 3), min_size=2, max_size=5),
    st.lists(st.floats(-1, 1), min_size=5, max_size=5),
    st.floats(0.2, 5),
    st.booleans(),
)
def test_losses_stay_below_what_is_charged(
    scores: list[float], moves: list[float], scale: float, monotone: bool
) -> None:
    moved = [s + (abs(v) if monotone else v) for s, v in zip(scores, moves, strict=False)]
    for mechanism, law in ((PermuteAndFlip(scale), flip_law), (LaplaceNoisyMax(scale), noisy_max_law)):
        before, after = law(scores, scale), law(moved, scale)
        charged = mechanism.event(1.0, monotone=monotone).epsilon
        usual = (before > 1e-7) & (after > 1e-7)  # quadrature below
        assert np.abs(np.log(before[usual] / after[usual])).max() <= charged + 1e-5


def test_laplace_noisy_max_at_half_the_charge_would_be_wrong() -> None:
    before, after = noisy_max_law([0.0, 12.0], 1.0), noisy_max_law([1.0, 11.0], 1.0)
    assert math.log(after[0] / before[0]) > 1.7


def test_costs() -> None:
    assert TopM(2.0, 3).event(1.0) == SelfComposedDpEvent(BoundedRangeDpEvent(1.0), 3)
    assert TopM(2.0, 1).event(1.0) == GumbelMax(2.0).event(1.0)
    assert PermuteAndFlip(2.0).event(1.0) == EpsilonDeltaDpEvent(1.0, 0.0)
    assert PermuteAndFlip(2.0).event(1.0, monotone=True) == EpsilonDeltaDpEvent(0.5, 0.0)
    assert 1 + ROUNDING <= LaplaceNoisyMax(2.0).event(1.0).epsilon <= 1 + 1.01 * ROUNDING
    for make in (GumbelMax, PermuteAndFlip, LaplaceNoisyMax, lambda scale: TopM(scale, 2)):
        assert isinstance(make(0.0).event(1.0), NonPrivateDpEvent | SelfComposedDpEvent)
        assert isinstance(make(1.0).event(math.inf), NonPrivateDpEvent | SelfComposedDpEvent)
        assert isinstance(make(1.0).event(0.0), NoOpDpEvent) or epsilon_of(make(1.0).event(0.0), 0.0, "pure") == 0


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-3, 100), st.one_of(st.just(0.0), st.floats(1e-300, 0.1)), st.integers(1, 4))
def test_calibrated_costs_are_kept_at_extremes(epsilon: float, delta: float, m: int) -> None:
    for event in (
        TopM(2 * m / epsilon, m).event(1.0),
        PermuteAndFlip(2 / epsilon).event(1.0),
        LaplaceNoisyMax(2 / epsilon).event(1.0),
    ):
        assert epsilon_of(event, delta, "pure") <= epsilon * (1 + 1e-9) + 1.01 * ROUNDING


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(1e-300, 1e300), st.data())
def test_any_finite_scores_are_answered(n: int, scale: float, data: st.DataObject) -> None:
    scores = data.draw(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=n, max_size=n))
    stream = SecureNoise().stream()
    for make in PICKERS:
        assert 0 <= make(scale).release(scores, stream) < n
        assert make(0.0).release(scores, stream) == int(np.argmax(scores))
    picks = TopM(scale, n).release(scores, stream)
    assert sorted(picks.tolist()) == list(range(n))
    assert scores[TopM(0.0, 1).release(scores, stream)[0]] == max(scores)


@pytest.mark.parametrize("make", [*PICKERS, lambda scale: TopM(scale, 3)])
def test_a_million_candidates(make: Any) -> None:
    stream = SecureNoise().stream()
    scores = np.full(10**6, -1.0)
    assert len(np.unique([np.atleast_1d(make(1.0).release(scores, stream))[0] for _ in range(2)])) == 2
    scores[123_456] = 1000.0
    assert np.atleast_1d(make(1.0).release(scores, stream))[0] == 123_456


@pytest.mark.parametrize("make", [*PICKERS, lambda scale: TopM(scale, 1)])
def test_bad_input_is_refused(make: Any) -> None:
    stream = SecureNoise().stream()
    for scores in ([], [[1.0]], [-math.inf, -math.inf], [math.nan], [math.inf, 0.0]):
        with pytest.raises(InvalidParameter, match="scores"):
            make(1.0).release(scores, stream)
    for scale in (-1.0, math.nan, math.inf, np.ones(2), True):
        with pytest.raises(InvalidParameter, match="scale"):
            make(scale)
    with pytest.raises(InvalidParameter):
        make(1.0).event(-1.0)


def test_more_picks_than_candidates_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="m = 3"):
        TopM(1.0, 3).release([1.0, 2.0], SecureNoise().stream())
    with pytest.raises(InvalidParameter, match="m must"):
        TopM(1.0, 0)


def test_noisy_max_refuses_scales_for_which_the_grid_is_too_coarse() -> None:
    with pytest.raises(InvalidParameter, match="too coarse"):
        LaplaceNoisyMax(1e-310)
    assert LaplaceNoisyMax(1e-300).release([0.0, 1.0], SecureNoise().stream()) == 1
