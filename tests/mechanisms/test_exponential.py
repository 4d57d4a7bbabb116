"""The exponential mechanism: its law, its range by brute force, and why one scale must serve all candidates."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_softmax, softmax

from privfcd.accounting import BoundedRangeDpEvent, NonPrivateDpEvent, NoOpDpEvent
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import GumbelMax, NoiseStream, SecureNoise, SimulatedNoise

LEVELS = {"simulated": 1e-6 / 30, "secure": 1e-9}
"""The first over all tests of one seeded file, the second so that a right sampler never fails a suite."""


@pytest.fixture(params=["simulated", "secure"])
def stream(request: pytest.FixtureRequest) -> NoiseStream:
    return SimulatedNoise(13).stream(1) if request.param == "simulated" else SecureNoise().stream()


def level(stream: NoiseStream) -> float:
    return LEVELS["secure" if stream.secure else "simulated"]


def goodness(picks: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    counts = np.bincount(picks, minlength=len(probabilities))
    kept = probabilities * len(picks) > 5
    observed = np.append(counts[kept], counts[~kept].sum())
    expected = np.append(probabilities[kept], probabilities[~kept].sum()) * len(picks)
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    return float(stats.chi2.sf(np.sum((observed - expected) ** 2 / expected), len(expected) - 1))


SCORES = [
    [0.0, 0.0],
    [1.0, -1.0],
    [0.0, 0.5, 1.0, 1.5, 2.0],
    [3.0],
    [-1e3, -1e3 + 1, -1e3 - 1],
    list(np.linspace(0, 2, 40)),
]


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_candidates_are_selected_with_the_softmax_of_their_scores(
    stream: NoiseStream, scores: list[float], scale: float
) -> None:
    probabilities = softmax(np.array(scores) / scale)
    mechanism = GumbelMax(scale)
    many = mechanism.release_many(scores, 50_000, stream)
    single = np.array([mechanism.release(scores, stream) for _ in range(600)])
    for picks in (many, single):
        assert picks.dtype == np.int64
        assert (len(scores) == 1 and not picks.any()) or goodness(picks, probabilities) > level(stream)


def test_selection_is_the_exponential_mechanism_and_not_permute_and_flip(stream: NoiseStream) -> None:
    """On scores 1, -1 at scale 1 the two mechanisms pick the second with probability 0.1192 and 0.0677."""
    mechanism = GumbelMax(1.0)
    singles = [mechanism.release([1.0, -1.0], stream) for _ in range(6000)]
    for picks in (np.array(singles), mechanism.release_many([1.0, -1.0], 6000, stream)):
        second = int(picks.sum())
        assert stats.binomtest(second, 6000, 1 / (1 + math.exp(2))).pvalue > level(stream)
        assert stats.binomtest(second, 6000, 0.0677).pvalue < 1e-9
    assert GumbelMax(1.0).event(1.0) == BoundedRangeDpEvent(2.0)  # rho is at most 2²/8 = 0.5, as claimed


# --- the range ----------------------------------------------------------------------------------------------------


def range_of_losses(scores: NDArray[np.float64], moved: NDArray[np.float64], scale: float) -> float:
    losses = log_softmax(scores / scale) - log_softmax(moved / scale)
    return float(losses.max() - losses.min())


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    scores=st.lists(st.floats(-20, 20), min_size=2, max_size=6),
    scale=st.floats(0.1, 10),
    sensitivity=st.floats(0.01, 5),
    seed=st.integers(0, 10**6),
)
def test_the_loss_stays_in_an_interval_of_width_eta(
    scores: list[float], scale: float, sensitivity: float, seed: int
) -> None:
    values, draw = np.array(scores), np.random.default_rng(seed)
    both = GumbelMax(scale).event(sensitivity).eta
    one_way = GumbelMax(scale).event(sensitivity, monotone=True).eta
    assert both == pytest.approx(2 * sensitivity / scale, rel=1e-12)
    assert one_way == pytest.approx(sensitivity / scale, rel=1e-12)
    for _ in range(20):
        step = draw.uniform(-sensitivity, sensitivity, len(values))
        assert range_of_losses(values, values + step, scale) <= both + 1e-12
        assert range_of_losses(values, values + np.abs(step), scale) <= one_way + 1e-12
        assert range_of_losses(values, values - np.abs(step), scale) <= one_way + 1e-12


@pytest.mark.parametrize(("monotone", "corners"), [(False, (-1.0, 0.0, 1.0)), (True, (0.0, 1.0))])
def test_the_range_is_attained_at_a_corner_and_exceeded_at_none(monotone: bool, corners: tuple[float, ...]) -> None:
    for scale, sensitivity in ((1.0, 1.0), (0.3, 2.0), (5.0, 0.1)):
        eta = GumbelMax(scale).event(sensitivity, monotone=monotone).eta
        scores = np.array([0.0, 1.3, -0.4, 0.9])
        widest = max(
            range_of_losses(scores, scores + sensitivity * np.array(step), scale)
            for step in itertools.product(corners, repeat=4)
        )
        assert widest == pytest.approx(eta, rel=1e-9)


def test_different_scales_for_different_candidates_have_no_such_bound_and_are_refused() -> None:
    """Sensitivities (0.5, 0.05), scales (1, 0.1): each candidate's ratio is 0.5, so a loss of 1 would be claimed."""

    def second_wins(scores: tuple[float, float], scales: tuple[float, float]) -> float:
        def density(g: float) -> float:  # of the second's standard Gumbel, times P(first is below)
            first = (scores[1] + scales[1] * g - scores[0]) / scales[0]
            return math.exp(-g - math.exp(-g) - math.exp(-first))

        return quad(density, -7, 200, epsabs=1e-14, limit=500)[0]

    before = second_wins((1.5, 0.0), (1.0, 0.1))
    after = second_wins((2.0, -0.05), (1.0, 0.1))
    assert before == pytest.approx(0.016309, abs=5e-6)
    assert after == pytest.approx(0.001003, abs=5e-6)
    assert math.log(before / after) > 2.78  # where 1.0 would be claimed
    same = [second_wins(scores, (1.0, 1.0)) for scores in ((1.5, 0.0), (2.0, -0.5))]
    assert math.log(same[0] / same[1]) <= 1.0
    for scale in ([1.0, 0.1], (1.0, 1.0), np.array([1.0, 0.1]), np.array([1.0]), np.ones((2, 2))):
        with pytest.raises(InvalidParameter, match="one number for all candidates"):
            GumbelMax(scale)  # type: ignore[arg-type]


# --- edges --------------------------------------------------------------------------------------------------------


def test_no_noise_is_non_private_and_sensitivity_0_is_free() -> None:
    assert GumbelMax(0.0).event(1.0) == GumbelMax(1.0).event(math.inf) == NonPrivateDpEvent()
    assert GumbelMax(1.0).event(0.0) == GumbelMax(0.0).event(0.0) == NoOpDpEvent()


def test_scale_0_takes_the_first_largest_score(stream: NoiseStream) -> None:
    assert GumbelMax(0.0).release([1.0, 3.0, 3.0], stream) == 1
    assert GumbelMax(0.0).release_many([1.0, 3.0, 3.0], 4, stream).tolist() == [1] * 4


@pytest.mark.parametrize(
    ("scores", "best"), [([0.0, -1e6, -2e6], 0), ([1e308, -1e308], 0), ([-1e300, 1e300], 1), ([-1e6, -1e6 - 800], 0)]
)
def test_probabilities_that_underflow_select_the_best(stream: NoiseStream, scores: list[float], best: int) -> None:
    assert {GumbelMax(1.0).release(scores, stream) for _ in range(20)} == {best}
    if max(scores) - min(scores) < 1e308:
        assert set(GumbelMax(1.0).release_many(scores, 20, stream).tolist()) == {best}


@pytest.mark.parametrize("scores", [[], [[1.0, 2.0]], 3.0, [math.nan, 1.0], [math.inf, 1.0], [1.0, -math.inf]])
def test_scores_that_mean_nothing_are_refused_by_name(stream: NoiseStream, scores: Any) -> None:
    with pytest.raises(InvalidParameter, match="scores"):
        GumbelMax(1.0).release(scores, stream)
    with pytest.raises(InvalidParameter, match="scores"):
        GumbelMax(1.0).release_many(scores, 3, stream)


@pytest.mark.parametrize("scale", [math.nan, math.inf, -1.0, True, "1", None, 1j, np.array(1.0), 10**400])
def test_scales_that_are_no_amounts_are_refused_by_name(scale: Any) -> None:
    with pytest.raises(InvalidParameter, match="scale"):
        GumbelMax(scale)


@pytest.mark.parametrize("runs", [0, -1, 1.5, True, None])
def test_runs_that_are_no_count_are_refused_by_name(runs: Any) -> None:
    with pytest.raises(InvalidParameter, match="runs"):
        GumbelMax(1.0).release_many([1.0, 2.0], runs, SimulatedNoise(1).stream())


# --- what went wrong once ------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_simulated_selection_finds_the_best_where_quotients_overflow() -> None:
    assert GumbelMax(1e-10).release([0.5e308, 1e308], SimulatedNoise(1).stream()) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_simulated_selections_do_not_warn_of_overflow() -> None:
    assert GumbelMax(1.0).release_many([1e308, -1e308], 5, SimulatedNoise(1).stream()).tolist() == [0] * 5
