"""The lemma on rounded shares of noise against exact convolution; whole numbers of any size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Exact, SecureNoise, SimulatedNoise, grid
from privfcd.mechanisms.distributed import MORE, NoiseShare, alone_event, largest, rounding_gap, whole_noisy


def rounded(ratio: float, offset: float, reach: int) -> np.ndarray:
    """Return the law of a Gaussian of sd `ratio` about `offset`, rounded, at -reach, ..., reach."""
    edges = np.arange(-reach, reach + 2) - 0.5
    upper = norm.sf((edges[:-1] - offset) / ratio) - norm.sf((edges[1:] - offset) / ratio)
    lower = norm.cdf((edges[1:] - offset) / ratio) - norm.cdf((edges[:-1] - offset) / ratio)
    return np.where(edges[:-1] > offset, upper, lower)


def ideal(ratio: float, total: float, honest: int, places: np.ndarray) -> np.ndarray:
    """Return the lemma's law: N(total, h ratio²) less h - 1 uniform numbers, rounded."""
    steps = 400
    uniform = (np.arange(steps) + 0.5) / steps - 0.5
    spread, weights = np.zeros(1), np.ones(1)
    for _ in range(honest - 1):  # the law of a sum of uniform numbers, on a fine lattice
        spread = (spread[:, None] + uniform).ravel()
        weights = np.repeat(weights, steps) / steps
        spread, places_of = np.unique(np.round(spread, 6), return_inverse=True)
        weights = np.bincount(places_of, weights)
    sd = math.sqrt(honest) * ratio
    centre = places[:, None] + spread - total
    mass = norm.cdf((centre + 0.5) / sd) - norm.cdf((centre - 0.5) / sd)
    return mass @ weights


@pytest.mark.parametrize("honest", [1, 2, 3])
@pytest.mark.parametrize("ratio", [0.4, 0.6, 1.0, 4.0])
def test_the_sums_law_is_within_the_lemmas_bound_of_a_function_of_the_noisy_sum(ratio: float, honest: int) -> None:
    rng = np.random.default_rng(7)
    gap, seen = rounding_gap(ratio, honest), 0.0
    for _ in range(3):
        offsets = rng.uniform(-0.5, 0.5, honest)
        law, reach = np.ones(1), 40
        for offset in offsets:
            law = np.convolve(law, rounded(ratio, offset, reach))
        places = np.arange(len(law)) - reach * honest
        near = np.abs(places) <= 4 * math.sqrt(honest) * ratio
        found = law[near] / ideal(ratio, float(offsets.sum()), honest, places[near]) - 1
        assert np.abs(found).max() <= gap + 2e-5  # the lattice's error
        seen = max(seen, float(np.abs(found).max()))
    if honest > 1 and ratio <= 0.6:  # the bound says something: the laws do differ by a good part of it
        assert seen >= gap / 20


def test_two_entries_of_two_parties() -> None:
    """Probabilities of independent entries multiply, and so do the factors."""
    one = np.convolve(rounded(0.5, 0.3, 30), rounded(0.5, -0.4, 30))
    near = np.abs(np.arange(len(one)) - 60) <= 2
    ratio = one[near] / ideal(0.5, -0.1, 2, np.arange(-2, 3))
    gap = rounding_gap(0.5, 2)
    assert (np.outer(ratio, ratio) <= (1 + gap) ** 2 + 1e-4).all()
    assert (np.outer(ratio, ratio) >= (1 - gap) ** 2 - 1e-4).all()


def test_the_gap_is_nothing_on_the_samplers_grid() -> None:
    assert rounding_gap(2.0**20, 1) == 0
    assert rounding_gap(2.0**20, 1000) == 0  # below every double
    assert rounding_gap(4.0, 2) < 1e-65
    assert rounding_gap(1.0, 8) > 1e-2


class NoNoise:
    """A stream whose noise is 0, rounded as a secure one rounds."""

    secure = True

    def gaussian(self, value: Any, scale: Any) -> np.ndarray:
        unit = 2.0 ** (np.frexp(scale)[1] - 1 - grid.GRID_BITS)
        return np.floor(np.asarray(value) / unit + 0.5) * unit


@given(
    st.lists(st.integers(-(2**90), 2**90), min_size=1, max_size=6),
    st.integers(-40, 73),
    st.floats(1.0, 1.999),
    st.booleans(),
)
def test_whole_numbers_of_any_size_move_by_half_a_step_at_most(
    numbers: list[int], power: int, mantissa: float, halved: bool
) -> None:
    sizes = np.full(len(numbers), min(math.ldexp(mantissa, power), 2.0**73))
    if halved:  # as off the diagonal of a matrix
        sizes[1:] /= math.sqrt(2)
    whole, fine = whole_noisy(np.array(numbers, dtype=object), NoNoise(), sizes)  # type: ignore[arg-type]
    for number, found, size in zip(numbers, whole, sizes, strict=True):
        step = grid.exponent(float(size))
        assert fine <= step
        moved = abs(found * 2 ** (fine + 200) - number * 2**200)  # exact, with 200 digits below the point
        assert moved * 2 <= 2 ** (step + 200)


def test_numbers_pass_through_int64_too() -> None:
    numbers = np.array([2**62, -(2**62), 0, 1], dtype=np.int64)
    whole, fine = whole_noisy(numbers, NoNoise(), np.full(4, 1.0))  # type: ignore[arg-type]
    assert [each * 2**fine if fine >= 0 else each // 2**-fine for each in whole] == numbers.tolist()


@pytest.mark.parametrize("source", [SecureNoise(), SimulatedNoise(5)])
def test_the_noise_is_the_size_that_is_charged(source: Any) -> None:
    share = NoiseShare(2.0, 3.0 * 2**30, 4)
    answer = share.release(Exact(np.zeros(20_000, np.int64), 1.0, 0), source.stream(1))
    found = np.array([float(each) for each in answer.numbers]) * 2.0**answer.power
    assert share.size == pytest.approx(2.0 * 3.0 * 2**30 / 2 * MORE)
    assert found.std() == pytest.approx(share.size, rel=0.03)  # 6 standard errors
    matrix = NoiseShare(2.0, 3.0 * 2**30, 4, symmetric=True)
    upper = matrix.release(Exact(np.zeros((150, 150), np.int64), 1.0, 0), source.stream(2))
    rows, columns = np.triu_indices(150)
    found = np.array([float(each) for each in upper.numbers]) * 2.0**upper.power
    assert found[rows != columns].std() == pytest.approx(share.size / math.sqrt(2), rel=0.045)


def test_one_share_alone_costs_more_by_the_root_of_their_number() -> None:
    share = NoiseShare(3.0, 1.0, 7)
    assert share.alone() == alone_event(share.event(99.0), 7)
    assert share.event(1.0).noise_multiplier == pytest.approx(3.0)
    assert share.alone().noise_multiplier == pytest.approx(3.0 / math.sqrt(7))


def test_the_largest_number_holds_every_answer() -> None:
    """One record adds at most the sensitivity: also in steps of the grid."""
    for multiplier, honest, size in ((0.01, 2, 1.0), (5.0, 7, 2.0**41), (300.0, 19, 1e3)):
        share = NoiseShare(multiplier, size, honest)
        step = 2.0 ** grid.exponent(share.size / math.sqrt(2))
        assert 2 * 1000 * size / step <= largest(multiplier, honest, 1000) - 2.0**36


@pytest.mark.parametrize("values", [(0.0, 1.0, 2), (1.0, 0.0, 2), (1.0, 1.0, 0), (math.inf, 1.0, 2)])
def test_shares_that_are_none_are_refused(values: tuple[float, float, int]) -> None:
    with pytest.raises(InvalidParameter):
        NoiseShare(*values)


def test_entries_that_cannot_move_and_plain_numbers_are_refused() -> None:
    share, stream = NoiseShare(1.0, 1.0, 2), SimulatedNoise(1).stream(1)
    with pytest.raises(InvalidParameter, match="exact"):
        share.release(np.zeros(3), stream)
    with pytest.raises(InvalidParameter, match="may move"):
        share.release(Exact(np.zeros(2, np.int64), 1.0, 0, np.array([1.0, np.nan])), stream)


@pytest.mark.parametrize("left_out", [0, 1])
def test_the_sum_of_shares_tells_neighbours_apart_as_the_charge_says_and_more_where_a_share_is_missing(
    left_out: int,
) -> None:
    """Colluders' noise is known and taken off; the score is the likelihood ratio. 12,000 draws, 5 standard errors."""
    honest, multiplier, moved, draws = 3, 2.0, 2.0**30, 12_000
    share, stream = NoiseShare(multiplier, moved, honest), SecureNoise().stream(1)
    answers = (Exact(np.zeros(draws, np.int64), 1.0, 0), Exact(np.full(draws, int(moved)), 1.0, 0))
    nothing = Exact(np.zeros(draws, np.int64), 1.0, 0)
    found = []
    for answer in answers:  # the record is in the first party's table
        parts = [share.release(each, stream) for each in (answer, *[nothing] * (honest - 1 - left_out))]
        found.append(np.array([float(each) for each in sum(part.numbers for part in parts)]) * 2.0 ** parts[0].power)
    mu = (found[1].mean() - found[0].mean()) / math.sqrt((found[0].var() + found[1].var()) / 2)
    error = math.sqrt(2 / draws + mu**2 / (4 * draws))
    charged = 1 / multiplier
    if left_out:  # a dropout that was not declared: what the protocol refuses to unmask
        assert mu > charged + 5 * error
    else:
        assert abs(mu - charged) < 5 * error
    alone = 1 / share.alone().noise_multiplier
    assert alone == pytest.approx(charged * math.sqrt(honest), rel=1e-9)
