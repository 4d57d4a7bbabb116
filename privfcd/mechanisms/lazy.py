"""Real numbers that are known to as many bits as were needed so far, and coins whose bias is an exponential.

A `Lazy` number is uniform on an interval [m, m + 1) / 2^p; more bits of it can be drawn at any time, and
never have to be if nothing depends on them. A uniform V is compared with a real number r that is not a float
(exp(-x), say) by enclosing r between integers over 2^b, and by drawing more bits of V and tightening the
enclosure until V's interval lies on one side. The comparison is exact, not approximate: with b bits it is
undecided with probability of the order of 2^-b, so the loop ends with probability 1. Only Python integers are
used, rounded outwards.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from privfcd.mechanisms.entropy import Entropy

_MORE = 64


class Lazy(NamedTuple):
    """A number that is uniform on [whole, whole + 1) / 2^places, given everything decided so far."""

    whole: int
    places: int

    @property
    def low(self) -> Fraction:
        """The lower end of the interval (included)."""
        return Fraction(self.whole, 1 << self.places)

    @property
    def high(self) -> Fraction:
        """The upper end of the interval (not included)."""
        return Fraction(self.whole + 1, 1 << self.places)

    def more(self, entropy: Entropy) -> Lazy:
        """Draw 64 more bits."""
        return Lazy((self.whole << _MORE) | entropy.bits(_MORE), self.places + _MORE)


def exp_bounds(gamma: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits * exp(-gamma), gamma >= 0, between two integers.

    exp(-gamma) = exp(-gamma / 2^k)^(2^k), with gamma / 2^k < 2^-8; the inner exponential by its alternating
    series in fixed point. Every term is rounded down, so it is short by less than 1 + 2^-8 + 2^-16 + ... < 2
    units, and what follows the first term that vanishes adds less than 2 units more. The squarings are
    rounded outwards.
    """
    if gamma >= bits + 1:
        return 0, 1
    halvings = (gamma.numerator // gamma.denominator).bit_length() + 8
    guard = halvings + 16
    point = bits + guard
    argument = (gamma.numerator << (point - halvings)) // gamma.denominator
    term = total = 1 << point
    count = 0
    while term:
        count += 1
        term = (term * argument >> point) // count
        total += -term if count & 1 else term
    slack = 2 * count + 4
    # the argument was rounded down by less than a unit, so the exponential may be a unit lower
    low, high = max(total - slack - 1, 0), total + slack
    for _ in range(halvings):
        low = low * low >> point
        high = (high * high >> point) + 1
    return low >> guard, (high >> guard) + 1


def scaled_exp(factor: Fraction, gamma: Fraction, bits: int) -> tuple[int, int]:
    """Enclose 2^bits * factor * exp(-gamma), factor > 0 and gamma >= 0, between two integers."""
    extra = max(factor.numerator.bit_length() - factor.denominator.bit_length(), 0) + 2
    low, high = exp_bounds(gamma, bits + extra)
    divisor = factor.denominator << extra
    return low * factor.numerator // divisor, -(-high * factor.numerator // divisor)


def below(entropy: Entropy, coin: Lazy, factor: Fraction, gamma: Fraction) -> bool:
    """Decide whether the uniform `coin` is below factor * exp(-gamma)."""
    while True:
        low, high = scaled_exp(factor, gamma, coin.places)
        if coin.whole + 1 <= low:
            return True
        if coin.whole >= high:
            return False
        coin = coin.more(entropy)


def accept(
    entropy: Entropy, coin: Lazy, number: Lazy, factor: Fraction, gamma: Callable[[Fraction], Fraction]
) -> tuple[bool, Lazy]:
    """Decide whether the uniform `coin` is below factor * exp(-gamma(number)), gamma increasing.

    Bits of `number` are drawn only while the answer is not the same on its whole interval. The number that
    comes back is therefore uniform on its interval given the answer, and can be refined further.
    """
    while True:
        low = scaled_exp(factor, gamma(number.high), coin.places)[0]
        if coin.whole + 1 <= low:
            return True, number
        high = scaled_exp(factor, gamma(number.low), coin.places)[1]
        if coin.whole >= high:
            return False, number
        coin = coin.more(entropy)
        if number.places < coin.places:
            number = number.more(entropy)


def exponential(entropy: Entropy) -> Lazy:
    """Draw from the exponential law of rate 1, exactly.

    Its whole part n and its fraction x are independent; P(n >= k) = exp(-k), and x has density proportional
    to exp(-x) on [0, 1) (von Neumann 1951; Karney 2016, "Sampling exactly from the normal distribution").
    """
    whole = 0
    while below(entropy, Lazy(entropy.bits(_MORE), _MORE), Fraction(1), Fraction(1)):
        whole += 1
    while True:
        coin = Lazy(entropy.bits(_MORE), _MORE)
        accepted, part = accept(entropy, coin, Lazy(entropy.bits(_MORE), _MORE), Fraction(1), lambda x: x)
        if accepted:
            return Lazy((whole << part.places) + part.whole, part.places)
