"""Compositions of fixed pairs of laws on a grid of losses: upper bounds that keep their relative accuracy in the tail.

A release with a fixed worst pair (P, Q) is known by the law of its privacy loss l = log(P/Q) under P. The composition of
independent pairs has the sum of the losses, and with Gaussian noise of total variance v beside them

    delta(e) = E[G_v(e - l)],   G_v the curve of the Gaussian pair in closed form, G_0(e) = max(0, 1 - exp(e)).

**Onto the grid.** A mass m at a loss between the nodes a < b becomes masses x_a and x_b with x_a + x_b = m and
x_a exp(-a) + x_b exp(-b) = m exp(-l): the masses under P and under Q both stay. The curve of a pair is a sum of such masses
times functions of l that are convex in exp(-l), so it only rises ("connecting the dots": Doroshenko, Ghazi, Kamath, Kumar
and Manurangsi 2022). The mean of exp(-l) is kept, so that what is added is of second order in the step: a variance of at
most step²/4 for each law. The grid is wide enough for all sums: it is never cut at the largest loss of the laws themselves,
because masses that were moved up by less than a step lie beyond it.

**Tilting.** For any t >= 0 let w be the masses times exp(t l), divided by their sum exp(K(t)). The sums of losses under the
product of all w are computed by FFT, and P(l) = w(l) exp(K(t) - t l) afterwards. t is chosen so that the tilted law has its
bulk where epsilon is read. Errors of the transforms, which are relative to the largest entries, are then relative to
what counts, also at delta = 1e-300.

**What is added**, so that the answer is a bound:

- Each entry of the tilted law is raised by 8 · 2⁻⁵² (log2(length) + 4) for each transform that went into it: a transform
  errs by at most 3.3 · 2⁻⁵² log2(length) in the 2-norm (Higham 2002, Theorem 24.2), all entries of a transform of masses
  are at most 1, and a product of numbers of at most 1 errs by the sum of their errors. A power by squaring counts as
  often as it is taken.
- The transforms are circular: what lies beyond the window's upper end comes back at its lower end. Let tau be the tilted
  probability of lying outside the window, bounded by Chernoff's inequality. As max(0, 1 - exp(-x)) <= exp(t x), this adds
  at most E[exp(t (L - e)); outside] <= exp(K(t) - t e) tau to delta, L being all losses, the Gaussian ones too and K(t)
  of all. What lies beyond the lower end is cut off, and counted in tau, or comes back at the upper one, which only raises
  delta.
- Masses of P that are larger than 1 after that are cut to 1.
"""

from __future__ import annotations

import heapq
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import fft
from scipy.optimize import brentq

from privfcd.accounting.curves import EPS, FLOOR, Array, gaussian_values

Complex = NDArray[np.complex128]

_NODES = 2**15
_WIDTH = 20.0
"""A grid has its nodes for so many standard deviations, of a bound on what any tilt can make of them."""
_TAIL = 42.0
_DIRECT = 2.0e6
"""Kernels whose lengths multiply to less are convolved term by term, which has no absolute error."""
_COARSE = 2.0**-8
_TILTS = 4
"""Tilts are powers of 2^(1/4): few, so that the same law is asked for again."""
_NO_TILT = -(10**6)
_KEPT = 6
_TINY = 1e-290


@dataclass(frozen=True, eq=False)
class Law:
    """Upper bounds on the masses of a privacy loss under P, at origin + i * step.

    Attributes
    ----------
    origin, step : float
        In nats.
    masses : ndarray
        `masses[i]` at origin + i * step.
    spread : float
        A bound on the loss's variance under any tilt; the window's width is taken from it, nothing else.
    infinite : float
        Mass at an infinite loss.
    """

    origin: float
    step: float
    masses: Array
    spread: float
    infinite: float = 0.0

    def losses(self) -> Array:
        """Return the losses of the masses."""
        return np.asarray(self.origin + self.step * np.arange(len(self.masses)))


@dataclass(frozen=True, eq=False)
class _Kernel:
    """A tilted law, of sum about 1: `weights[i]` at base + (first + i) * step."""

    first: int
    weights: Array


class Lattice:
    """The composition of independent laws and Gaussian noise, for any epsilon.

    Parameters
    ----------
    laws : sequence of (Law, int)
        Fixed pairs, each with how often it happens; at least one.
    variance : float
        mu² of all Gaussian noise beside them.
    more : float
        Added to delta.
    """

    def __init__(self, laws: Sequence[tuple[Law, int]], variance: float, more: float = 0.0) -> None:
        self._laws = tuple(laws)
        self._variance = variance
        self._spread = math.fsum(law.spread * count for law, count in self._laws)
        self._infinite = more + math.fsum(law.infinite * count for law, count in self._laws) * (1 + 4 * EPS)
        self._alone = len(self._laws) == 1
        self._step = self._laws[0][0].step if self._alone else common_step(self._spread)
        with np.errstate(divide="ignore"):
            self._logs = np.concatenate([np.log(law.masses) for law, _ in self._laws])
        self._losses = np.concatenate([law.losses() for law, _ in self._laws])
        sizes = [len(law.masses) for law, _ in self._laws]
        self._starts = np.cumsum([0, *sizes[:-1]])
        self._counts = np.array([float(count) for _, count in self._laws])
        self._cumulants: dict[int, float] = {}
        self._tables: dict[int, _Table] = {}

    def bound(self, epsilon: float) -> float:
        """Return an upper bound on delta at `epsilon` of at least 0."""
        table = self._table(self._place_of_tilt(epsilon))
        losses, masses = table.losses, table.masses
        # the rounding of losses and of epsilon - loss moves the point to the left, where the curve is higher
        left = epsilon - 8 * EPS * (epsilon + abs(losses[0]) + abs(losses[-1]))
        if self._variance > 0:
            total = float(masses @ gaussian_values(self._variance, left - losses))
        else:
            start = int(np.searchsorted(losses, left, side="right"))
            total = float(masses[start:] @ -np.expm1(left - losses[start:]))
        lost = math.exp(min(table.log_lost - table.tilt * left, 0.0))
        # what underflowed may be above 0
        return min(1.0, max((total + self._infinite + lost) * (1 + EPS * (len(losses) + 64)), FLOOR))

    def epsilon(self, delta: float, most: float) -> float:
        """Return the least epsilon up to `most` that was found with a bound of at most `delta`; `most` where none was.

        The search begins where Chernoff's inequality says that delta is met, and ends below it by a few parts of 1/t,
        so that few tilts are asked for.
        """
        if self._infinite >= delta or (math.isfinite(most) and self.bound(most) > delta):
            return most
        high, reach = self._chernoff_epsilon(delta - self._infinite, most)
        for _ in range(64):
            if high >= most or self.bound(high) <= delta:
                break
            high = min(most, high + 1e-9 * (1 + high) + reach)
        if not math.isfinite(high):
            return most
        low = max(0.0, high - reach)
        while low > 0 and self.bound(low) <= delta:
            high, reach = low, 2 * reach
            low = max(0.0, high - reach)
        if low == 0 and self.bound(0.0) <= delta:
            return 0.0

        def excess(epsilon: float) -> float:
            return math.log(max(self.bound(epsilon), sys.float_info.min)) - math.log(delta)

        answer = float(brentq(excess, low, high, xtol=1e-13 * high, rtol=8 * EPS))
        step = 1e-13
        while self.bound(answer) > delta:
            answer = min(high, answer * (1 + step))
            step *= 2
        return answer

    def _chernoff_epsilon(self, delta: float, most: float) -> tuple[float, float]:
        """Return min over t of (K(t) + log c - log delta) / t, c the largest (1 - exp(-x)) exp(-t x), and 4 / t there."""
        best, reach = most, most
        for k in self._places():
            tilt = _tilt(k)
            log_c = -tilt * math.log1p(1 / tilt) - math.log1p(tilt)
            epsilon = (self._cumulant(k) + log_c - math.log(delta)) / tilt
            if epsilon < best:
                best, reach = max(epsilon, 0.0), 4 / tilt
        return best, reach

    def _places(self) -> range:
        """Return the k of all tilts 2^(k/4) that may serve."""
        low = math.floor(_TILTS * math.log2(0.25 / math.sqrt(self._spread + self._variance)))
        return range(
            low, max(low + 2, math.floor(_TILTS * math.log2((200.0 if self._alone else 2.0) / self._step))) + 1
        )

    def _cumulant(self, k: int) -> float:
        """Return K(t) of everything, at the tilt 2^(k/4)."""
        if k not in self._cumulants:
            tilt = _tilt(k)
            self._cumulants[k] = float(self._counts @ self._cumulants_of(tilt)) + self._of_gaussian(tilt)
        return self._cumulants[k]

    def _place_of_tilt(self, epsilon: float) -> int:
        """Return the k for which the tilt 2^(k/4) makes K(t) - t epsilon least; `_NO_TILT` where none beats t = 0."""
        low, high = self._places()[0], self._places()[-1]

        def chernoff(k: int) -> float:
            return self._cumulant(k) - _tilt(k) * epsilon

        while high - low > 3:  # convex in t, so that thirds of the interval can be left out
            one, two = low + (high - low) // 3, high - (high - low) // 3
            low, high = (low, two) if chernoff(one) <= chernoff(two) else (one, high)
        best = min(range(low, high + 1), key=chernoff)
        return best if chernoff(best) < 0 else _NO_TILT

    def _of_gaussian(self, tilt: float) -> float:
        return self._variance * tilt * (tilt + 1) / 2

    def _cumulants_of(self, tilt: float) -> Array:
        """Return log E[exp(tilt * loss)] of each law."""
        exponents = self._logs + tilt * self._losses
        largest = np.maximum.reduceat(exponents, self._starts)
        sizes = np.diff(np.append(self._starts, len(exponents)))
        sums = np.add.reduceat(np.exp(exponents - np.repeat(largest, sizes)), self._starts)
        return np.asarray(largest + np.log(sums))

    @cached_property
    def _single(self) -> _Split:
        """The laws that happen once, on the common grid."""
        return _Split([(place, law) for place, (law, count) in enumerate(self._laws) if count == 1], self._step)

    def _table(self, k: int) -> _Table:
        if k not in self._tables:
            if len(self._tables) >= _KEPT:
                del self._tables[next(iter(self._tables))]
            self._tables[k] = self._made(_tilt(k))
        return self._tables[k]

    def _made(self, tilt: float) -> _Table:
        """Return the composed law by way of the law that is tilted by `tilt`."""
        cumulants = self._cumulants_of(tilt)
        total = float(self._counts @ cumulants)
        base, beyond = 0.0, 0.0
        kernels: list[_Kernel] = [] if self._alone else self._single.tilted(tilt, cumulants)
        for (law, count), cumulant in zip(self._laws, cumulants, strict=True):
            if count == 1 and not self._alone:
                continue
            with np.errstate(divide="ignore"):
                own = np.exp(np.log(law.masses) + tilt * law.losses() - cumulant)
            power, lost = _power(own, count)
            beyond += lost
            if self._alone:
                base = law.origin * count
                kernels.append(power)
            else:
                losses = law.origin * count + _nodes(power, law.step)
                kernels.append(_split_tilted(losses, power.weights, self._step, tilt))
        whole, lost = _convolved(kernels)
        beyond += lost
        losses = base + _nodes(whole, self._step)
        logs = np.log(whole.weights + _TINY) + total - tilt * losses
        size = abs(total) + float(np.abs(self._counts * cumulants).sum()) + tilt * float(np.abs(losses).max())
        rounding = 1 + 16 * EPS * (1 + size)
        masses = np.minimum(np.exp(np.minimum(logs, 0.0)) * rounding, 1.0)
        log_lost = total + self._of_gaussian(tilt) + math.log(beyond) + 1e-9 * (1 + abs(total)) if beyond else -math.inf
        return _Table(tilt, losses, masses, log_lost)


class BothWays:
    """The composition of pairs whose two directions differ: the larger of both bounds.

    Parameters
    ----------
    one, two : Lattice
        All pairs in one direction, and all exchanged: neighbours are the same two tables for every release.
    """

    def __init__(self, one: Lattice, two: Lattice) -> None:
        self._both = (one, two)

    def bound(self, epsilon: float) -> float:
        """Return an upper bound on delta at `epsilon` of at least 0."""
        return max(way.bound(epsilon) for way in self._both)

    def epsilon(self, delta: float, most: float) -> float:
        """Return the larger of both epsilons, see `Lattice.epsilon`."""
        return max(way.epsilon(delta, most) for way in self._both)


class _Split:
    """Laws on the common grid, with what is needed to tilt them all at once."""

    def __init__(self, laws: list[tuple[int, Law]], step: float) -> None:
        parts = [split(law.losses(), law.masses, step) for _, law in laws]
        self._law = np.array([place for place, _ in laws], dtype=np.int64)
        self._firsts = [first for first, _ in parts]
        self._sizes = np.array([len(masses) for _, masses in parts], dtype=np.int64)
        self._ends = np.cumsum(self._sizes)
        if parts:
            with np.errstate(divide="ignore"):
                self._logs = np.log(np.concatenate([masses for _, masses in parts]))
            self._nodes = step * np.concatenate([np.arange(first, first + len(masses)) for first, masses in parts])

    def tilted(self, tilt: float, cumulants: Array) -> list[_Kernel]:
        """Return the tilted laws, each divided by its own exp(cumulant)."""
        if not self._firsts:
            return []
        weights = np.exp(self._logs + tilt * self._nodes - np.repeat(cumulants[self._law], self._sizes))
        parts = np.split(weights, self._ends[:-1])
        return [_Kernel(first, part) for first, part in zip(self._firsts, parts, strict=True)]


@dataclass(frozen=True, eq=False)
class _Table:
    """P's masses at the losses, and log of what bounds E[exp(tilt L); beyond the window]."""

    tilt: float
    losses: Array
    masses: Array
    log_lost: float


def common_step(spread: float) -> float:
    """Return the grid's step: a power of two, so that grids are nested and a wider one only raises the bound."""
    most = _WIDTH * math.sqrt(spread) / _NODES
    # coarse steps are refined where they would not be small against 1, but to no more than 2^18 nodes
    return 2.0 ** math.floor(math.log2(min(most, max(_COARSE, most / 8))))


def _nodes(kernel: _Kernel, step: float) -> Array:
    return np.asarray(step * np.arange(kernel.first, kernel.first + len(kernel.weights)), dtype=np.float64)


def _tilt(k: int) -> float:
    return 0.0 if k == _NO_TILT else 2.0 ** (k / _TILTS)


def _places(losses: Array, step: float) -> tuple[NDArray[np.int64], Array]:
    """Return for each loss the node below it, and the share of its mass that goes to the node above."""
    at = losses + 4 * EPS * np.abs(losses)
    below = np.floor(at / step)
    share = np.expm1(np.minimum(below * step - at, 0.0)) / math.expm1(-step) + 8 * EPS
    return below.astype(np.int64), np.minimum(share, 1.0)


def split(losses: Array, masses: Array, step: float) -> tuple[int, Array]:
    """Return masses at rising losses on the grid of multiples of `step`, and the number of its first node."""
    below, share = _places(losses, step)
    first = int(below[0])
    whole = np.bincount(below - first, masses * (1 - share), int(below[-1]) - first + 2)
    whole += np.bincount(below - first + 1, masses * share, len(whole))
    return first, np.asarray(whole * (1 + 4 * EPS * (2 + np.bincount(below - first).max())))


def _split_tilted(losses: Array, weights: Array, step: float, tilt: float) -> _Kernel:
    """Return tilted weights on the common grid: split as untilted masses are, and tilted at the nodes."""
    below, share = _places(losses, step)
    first = int(below[0])
    down = weights * (1 - share) * np.exp(tilt * (below * step - losses))
    up = weights * share * np.exp(tilt * ((below + 1) * step - losses))
    whole = np.bincount(below - first, down, int(below[-1]) - first + 2)
    whole += np.bincount(below - first + 1, up, len(whole))
    return _Kernel(
        first,
        whole * (1 + 16 * EPS * (2 + np.bincount(below - first).max()) + 16 * EPS * tilt * np.abs(losses).max()),
    )


def _power(weights: Array, count: int) -> tuple[_Kernel, float]:
    """Return the sum of `count` independent losses with these weights, and the weight that lies beyond its end."""
    if count == 1:
        return _Kernel(0, weights), 0.0
    return _transformed([(_Kernel(0, weights), count)])


def _convolved(kernels: list[_Kernel]) -> tuple[_Kernel, float]:
    """Return the sum of independent losses, and the weight beyond its end: short ones directly, the rest by FFT."""
    heap = [(len(kernel.weights), place, kernel) for place, kernel in enumerate(kernels)]
    heapq.heapify(heap)
    number = len(heap)
    while len(heap) > 1:
        one, two = heapq.heappop(heap), heapq.heappop(heap)
        if one[0] * two[0] > _DIRECT:
            left = [(kernel, 1) for _, _, kernel in (one, two, *heap)]
            return _transformed(left)
        weights = np.convolve(one[2].weights, two[2].weights) * (1 + EPS * (one[0] + 4))
        number += 1
        heapq.heappush(heap, (len(weights), number, _Kernel(one[2].first + two[2].first, weights)))
    return heap[0][2], 0.0


def _transformed(kernels: list[tuple[_Kernel, int]]) -> tuple[_Kernel, float]:
    """Return the sum of independent losses by FFT, errors added, and a bound on the weight beyond its end."""
    full = sum((len(kernel.weights) - 1) * count for kernel, count in kernels) + 1
    low, high, beyond = _window(kernels, full)
    length = 1 << (max(2, high - low + 1) - 1).bit_length()
    product, transforms, size = np.ones(length // 2 + 1, dtype=np.complex128), 1.0, 1.0
    for kernel, count in kernels:
        weights = kernel.weights
        if len(weights) > length:
            weights = np.pad(weights, (0, -len(weights) % length)).reshape(-1, length).sum(axis=0)
        product *= _to_the(fft.rfft(weights, length), count)
        transforms += count
        size *= max(1.0, float(weights.sum())) ** count
    error = 8 * EPS * (math.log2(length) + 4) * transforms * size
    values = np.roll(fft.irfft(product, length), -(low % length))[: min(length, full - low)]
    first = low + sum(kernel.first * count for kernel, count in kernels)
    outside = (low > 0) + (low + length < full)  # below the window some may be cut off as well
    return _Kernel(first, np.maximum(values, 0.0) + error), beyond * size * outside


def _window(kernels: list[tuple[_Kernel, int]], full: int) -> tuple[int, int, float]:
    """Return the places between which all but exp(-`_TAIL`) of the sum's weight lies on each side, and that weight.

    By Chernoff's inequality for a few slopes: P(sum >= u) <= exp(K(s) - s u) for s > 0, and likewise below.
    """
    variance = 0.0
    for kernel, count in kernels:
        places, total = np.arange(len(kernel.weights)), float(kernel.weights.sum())
        center = float(kernel.weights @ places) / total
        variance += count * float(kernel.weights @ (places - center) ** 2) / total
    low, high = 0.0, full - 1.0
    for deviations in (1.0, 3.0, 6.0, 9.0, 15.0, 40.0):
        slope = deviations / math.sqrt(variance + 1e-3)
        for sign in (1, -1):
            cumulant = 1e-9
            for kernel, count in kernels:
                with np.errstate(divide="ignore"):
                    exponents = np.log(kernel.weights) + sign * slope * np.arange(len(kernel.weights))
                largest = float(exponents.max())
                cumulant += count * (largest + math.log(float(np.exp(exponents - largest).sum())))
            end = sign * (cumulant + _TAIL) / slope
            low, high = (low, min(high, end)) if sign > 0 else (max(low, end), high)
    return math.floor(low), math.ceil(high), math.exp(-_TAIL)


def _to_the(numbers: Complex, count: int) -> Complex:
    """Return the power by squaring."""
    answer: Complex | None = None
    while True:
        if count % 2:
            answer = numbers if answer is None else answer * numbers
        count //= 2
        if not count:
            assert answer is not None
            return answer
        numbers = numbers * numbers
