"""Rounding of value + scale * Z: against the definition in exact numbers, at the edges, and on lattices."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.mechanisms import grid
from privfcd.mechanisms.cells import LAPLACE, NORMAL, Draws, StandardLaw
from privfcd.mechanisms.lazy import Lazy
from tests.support.helpers import seeded

LARGEST = sys.float_info.max


def defined(value: float, scale: float, z: mpmath.mpf, bits: int = grid.GRID_BITS) -> float:
    """R(value + scale * z) as the module's text defines it, in 6000 binary digits."""
    with mpmath.workprec(6000):
        mantissa, shift = mpmath.mpf(scale).man_exp
        power = max(shift + mantissa.bit_length() - 1 - bits, -1074)
        unit = mpmath.mpf(2) ** power
        point = int(mpmath.floor((mpmath.mpf(value) + mpmath.mpf(scale) * z) / unit + mpmath.mpf(1) / 2))
    try:
        return float(Fraction(point) * Fraction(2) ** power)
    except OverflowError:
        return math.copysign(LARGEST, point)


def ends(law: StandardLaw, z: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    with mpmath.workprec(6000):
        low = mpmath.mpf(abs(z))
        sign = int(math.copysign(1, z))
        return sign * low, sign * (low + mpmath.mpf(2) ** -law.places)


magnitudes = st.floats(-LARGEST, LARGEST) | st.floats(-100, 100) | st.integers(-50, 50).map(float)
powers = st.integers(-1074, 1023).map(lambda k: math.ldexp(1.0, k))
scales = st.floats(5e-324, LARGEST) | st.floats(1e-3, 1e3) | powers


@given(magnitudes, scales, st.integers(0, 2**32), st.sampled_from([NORMAL, LAPLACE]))
@settings(max_examples=80, deadline=None)
def test_all_ways_round_as_defined(value: float, scale: float, seed: int, law: StandardLaw) -> None:
    draws = law.draw(seeded(seed), 1)
    z = float(draws.z[0])
    entropy = seeded(seed + 1)
    row = grid.add(entropy, law, np.array([value]), scale, draws)
    many = grid.add(entropy, law, np.array([value]), np.array([scale]), draws)
    one = grid.add_one(entropy, law, value, scale, z, None)
    low, high = (defined(value, scale, end) for end in ends(law, z))
    for got in (float(row[0]), float(many[0]), one):
        assert got in (low, high)
        assert math.isfinite(got)
        assert math.copysign(1, got) == 1 or got != 0


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_thousands_round_as_defined(law: StandardLaw) -> None:
    rng = np.random.default_rng(1)
    size = 4000
    value = rng.normal(size=size) * 10.0 ** np.where(rng.random(size) < 0.5, 0, rng.uniform(-9, 9, size))
    scale = 10.0 ** rng.uniform(-6, 6, size)
    draws = law.draw(seeded(2), size)
    got = grid.add(seeded(3), law, value, scale, draws)
    for i in range(size):
        low, high = (defined(float(value[i]), float(scale[i]), end) for end in ends(law, float(draws.z[i])))
        assert got[i] in (low, high)


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
@pytest.mark.parametrize("way", ["row", "one"])
def test_what_floats_cannot_decide_is_decided_by_further_bits(law: StandardLaw, way: str) -> None:
    """Values such that the sum is next to half a grid step, within the interval that the draw leaves open."""
    rng = np.random.default_rng(4)
    decided = {-1: 0, 0: 0, 1: 0}
    for trial in range(400):
        sign = 1 if trial & 1 else -1
        scale = math.ldexp(1.0, trial % 7 - 3)
        part = int(rng.integers(1, 1 << (law.places - 3)))  # |z| < 1/8: the value can hold three bits more
        z = sign * math.ldexp(part, -law.places)
        eighth = int(rng.integers(0, 9))
        unit = grid.spacing(scale)
        target = Fraction(unit) / 2 - sign * Fraction(scale) * Fraction(
            8 * part + eighth, 1 << (law.places + 3)
        )
        value = float(target)
        assert Fraction(value) == target
        entropy, twin = seeded(trial), seeded(trial)
        if way == "row":
            got = float(grid.add(entropy, law, np.array([value]), scale, Draws(np.array([z]), {}))[0])
        else:
            got = grid.add_one(entropy, law, value, scale, z, None)
        # |Z| = (part + U) 2^-places, U the bits that were read: y / unit is 1/2 + a multiple of U - eighth/8
        above = twin.bits(64) >= eighth << 61
        assert got == unit * (above if sign > 0 else not above)
        decided[0 if 0 < eighth < 8 else sign] += 1
    assert min(decided.values()) > 10


def test_numbers_that_floats_do_not_hold_are_used_in_full() -> None:
    """Special numbers, such as those beyond the cells: many bits, or fifty standard deviations."""
    for sign in (-1, 1):
        number = Lazy((50 << 113) + 12345678901234567890123, 113)
        z = sign * (mpmath.mpf(number.whole) / 2**113)
        draws = Draws(np.array([np.nan, 0.5]), {0: (sign, number)})
        for value, scale in (
            (0.0, 1.0),
            (1.5, 3.7),
            (-1e-5, 1e-3),
            (1e308, 1e308),
            (0.0, 1e308),
            (1.0, 1e-300),
        ):
            row = grid.add(seeded(1), NORMAL, np.array([value, value]), scale, draws)
            assert row[0] == defined(value, scale, z)
            assert grid.add_one(seeded(1), NORMAL, value, scale, np.nan, (sign, number)) == row[0]
            assert row[1] == defined(value, scale, mpmath.mpf("0.5") + mpmath.mpf(2) ** -51)


@pytest.mark.parametrize(("value", "scale"), [
    (1.0, 1e-300), (1e308, 5e-324), (-1e308, 1e-3), (5e-324, 5e-324), (1e-320, 1e-310), (0.0, 5e-324),
    (1e16, 1.0), (5e-324, 1e308), (LARGEST, LARGEST), (-LARGEST, LARGEST), (2.0**60 + 2**9, 1.0),
    (0.1, 2.0**1023),
])  # fmt: skip
def test_extremes_round_as_defined(value: float, scale: float) -> None:
    for law in (NORMAL, LAPLACE):
        draws = law.draw(seeded(5), 100)
        row = grid.add(seeded(6), law, np.full(100, value), scale, draws)
        for got, z in zip(row.tolist(), draws.z.tolist(), strict=True):
            assert got in {defined(value, scale, end) for end in ends(law, z)}
            assert grid.add_one(seeded(6), law, value, scale, z, None) == got


@pytest.mark.parametrize("value", [0.0, -0.0, -1e-9, 1e-9])
def test_zero_has_no_sign(value: float) -> None:
    z = np.array([1e-9, -1e-9, 0.0, -0.0])
    row = grid.add(seeded(1), NORMAL, np.full(4, value), 1.0, Draws(z, {}))
    ones = [grid.add_one(seeded(1), NORMAL, value, 1.0, one, None) for one in z.tolist()]
    exact = [grid.exactly(seeded(1), value, 1.0, sign, Lazy(1, 60)) for sign in (-1, 1)]
    for noisy in (*row.tolist(), *ones, *exact):
        assert str(noisy) == "0.0"


def test_the_spacing_depends_on_the_scale_only() -> None:
    assert grid.spacing(1.0) == grid.spacing(1.999) == 2.0**-20
    assert grid.spacing(2.0) == 2.0**-19
    assert grid.spacing(3.7307) == 2.0**-19
    assert grid.spacing(5e-324) == grid.spacing(1e-320) == 5e-324
    assert grid.spacing(1e-310) == 2.0**-1050
    assert grid.spacing(LARGEST) == 2.0**1003
    assert grid.spacing(0.0) == 0.0


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
@pytest.mark.parametrize("bits", [0, 1, 3])
@pytest.mark.parametrize("value", [0.0, 0.3, -17.123456789])
def test_lattice_points_have_their_probabilities(law: StandardLaw, bits: int, value: float) -> None:
    size, scale = 200_000, 1.7
    unit = math.ldexp(1.0, grid.exponent(scale, bits))
    noisy = grid.add(seeded(7), law, np.full(size, value), scale, law.draw(seeded(8), size), bits)
    steps = np.rint(noisy / unit)
    assert (steps * unit == noisy).all()
    name = stats.norm if law.gaussian else stats.laplace
    offset = round(value / unit)
    points = np.arange(offset - 60, offset + 61)
    expected = size * np.diff(name.cdf(((np.append(points, points[-1] + 1) - 0.5) * unit - value) / scale))
    observed = np.array([(steps == point).sum() for point in points])
    common = expected > 10
    observed = np.append(observed[common], size - observed[common].sum())
    expected = np.append(expected[common], size - expected[common].sum())
    assert stats.chisquare(observed, expected).pvalue > 1e-6 / 18


def by_arrays(law: StandardLaw, value: float, scale: float, size: int, seed: int) -> np.ndarray:
    return grid.add(seeded(seed), law, np.full(size, value), scale, law.draw(seeded(seed + 100), size))


@pytest.mark.parametrize("law", [NORMAL, LAPLACE])
def test_low_digits_say_nothing_about_the_value(law: StandardLaw) -> None:
    """The same grid for every value, and its last digits uniform (a grid of 2^-20 is that fine)."""
    for seed, value in enumerate((0.0, 1.0, 0.1, 1e-9, -123.456)):
        noisy = by_arrays(law, value, 1.0, 60_000, seed)
        steps = noisy * 2**20
        assert (steps == np.rint(steps)).all()
        assert stats.chisquare(np.bincount(steps.astype(np.int64) & 63, minlength=64)).pvalue > 1e-8
        inside = noisy[np.abs(noisy) < 0.5] * 2.0**53
        assert (inside == np.rint(inside)).all()


def test_plain_floats_would_fail_that_test() -> None:
    rng = np.random.default_rng(9)
    shares = []
    for value in (0.0, 1.0):
        noisy = value + rng.laplace(size=60_000)
        inside = noisy[np.abs(noisy) < 0.5] * 2.0**53
        shares.append((inside == np.rint(inside)).mean())
    assert shares[0] < 0.5 < shares[1] == 1.0
