"""Integer enclosures against mpmath, and exact coins."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privfcd.mechanisms import lazy
from privfcd.mechanisms.lazy import Lazy
from tests.support.helpers import seeded


@given(st.fractions(0, 2000, max_denominator=10**12), st.integers(1, 300))
@settings(max_examples=80, deadline=None)
def test_exponentials_are_enclosed_closely(gamma: Fraction, bits: int) -> None:
    low, high = lazy.exp_bounds(gamma, bits)
    with mpmath.workprec(4000):
        exact = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * mpmath.mpf(2) ** bits
        assert low <= exact <= high
    assert high - low <= 3


@given(
    st.fractions(0, 100, max_denominator=10**6),
    st.fractions(Fraction(1, 10**9), 10**9, max_denominator=10**9),
    st.integers(1, 200),
)
@settings(max_examples=80, deadline=None)
def test_scaled_exponentials_are_enclosed_closely(gamma: Fraction, factor: Fraction, bits: int) -> None:
    low, high = lazy.scaled_exp(factor, gamma, bits)
    with mpmath.workprec(1000):
        exact = mpmath.exp(-mpmath.mpf(gamma.numerator) / gamma.denominator) * mpmath.mpf(2) ** bits
        exact *= mpmath.mpf(factor.numerator) / factor.denominator
        assert low <= exact <= high
    assert high - low <= 4


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(10**400), Fraction(1, 10**400), Fraction(1)])
def test_extreme_exponents(gamma: Fraction) -> None:
    low, high = lazy.exp_bounds(gamma, 64)
    expected = {Fraction(0): 1 << 64, Fraction(10**400): 0, Fraction(1, 10**400): 1 << 64}.get(gamma)
    if expected is not None:
        assert low <= expected <= high <= low + 3


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_a_coin_falls_with_its_probability_from_any_number_of_first_bits(gamma: Fraction) -> None:
    """With no bits drawn beforehand every decision goes through refinement."""
    entropy = seeded(1)
    hits = sum(lazy.below(entropy, Lazy(0, 0), Fraction(1), gamma) for _ in range(4000))
    assert stats.binomtest(hits, 4000, float(np.exp(-float(gamma)))).pvalue > 1e-7


def test_a_coin_agrees_with_mpmath_on_its_bits() -> None:
    entropy, twin = seeded(2), seeded(2)
    for k in range(1, 300):
        gamma, factor = Fraction(k, 97), Fraction(97, 100)
        got = lazy.below(entropy, Lazy(entropy.bits(64), 64), factor, gamma)
        with mpmath.workprec(300):
            wanted = mpmath.mpf(twin.bits(64)) / 2**64 < mpmath.mpf(97) / 100 * mpmath.exp(
                -mpmath.mpf(k) / 97
            )
        assert got == wanted


def test_the_exponential_law_and_the_bits_that_are_drawn_later() -> None:
    entropy = seeded(3)
    numbers = [lazy.exponential(entropy) for _ in range(6000)]
    assert stats.kstest([float(n.low) for n in numbers], "expon").pvalue > 1e-7
    coarse = [Lazy(n.whole >> (n.places - 1), 1).more(entropy) for n in numbers]
    assert all(n.places == 65 for n in coarse)
    assert stats.kstest([(n.whole & (2**64 - 1)) / 2**64 for n in coarse], "uniform").pvalue > 1e-7


def test_refining_keeps_what_is_known() -> None:
    number = Lazy(5, 3).more(seeded(4))
    assert Fraction(5, 8) <= number.low < number.high <= Fraction(6, 8)
    assert number.places == 67


@pytest.mark.parametrize("places", [0, 64])
def test_numbers_that_are_weighed_are_drawn_from_the_weighed_law(places: int) -> None:
    """A number of which no bit is known, kept with probability exp(-x), has density exp(-x) on [0, 1)."""
    entropy = seeded(5)
    kept = []
    while len(kept) < 3000:
        coin = Lazy(entropy.bits(places), places)
        yes, number = lazy.accept(entropy, coin, Lazy(0, 0), Fraction(1), lambda x: x)
        if yes:
            kept.append(number.more(entropy))
    values = np.array([float(n.low) for n in kept])
    assert stats.kstest(values, lambda x: np.expm1(-x) / np.expm1(-1)).pvalue > 1e-7
