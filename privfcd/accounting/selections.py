"""The optimal adaptive composition of bounded-range selections, from above and from below, on a grid.

**The recursion** (Dong, Durfee and Rogers 2020, "Optimal differential privacy composition for exponential mechanisms
and the cost of adaptivity", adaptive case). For each pair of neighbours the privacy loss of an eta-bounded-range
release lies in some [t - eta, t]. Let H_k(e) be the largest delta at e of k such releases, each chosen after seeing
the answers of the earlier ones. After an answer of loss l the remaining game is H_{k-1}(e - l). With x the likelihood
ratio, E_P[H_{k-1}(e - log x)] = E_Q[x H_{k-1}(e - log x)] is the expectation of a convex function of x, where
E_Q[x] = 1 and exp(t - eta) <= x <= exp(t): the two-point law on the ends is the worst. Therefore

    H_0(e) = max(1 - exp(e), 0)
    H_k(e) = max over t in [0, eta] of  p_t H_{k-1}(e - t) + (1 - p_t) H_{k-1}(e - t + eta)
    p_t = (1 - exp(t - eta)) / (1 - exp(-eta))

**As chords.** Write g(x) = H_{k-1}(log x), A = exp(eta), v = exp(e - t). The bracket is the value at exp(e) of the
chord of g from v to A v. So H_k is the upper envelope of all chords of g between points of ratio A: it is convex, at
least g, and rises with g and with eta (a chord over a longer interval lies higher). The reflection that takes g to
x g(1/x), and the addition of a linear function, map chords to chords; hence, as for H_0,
H_k(-e) = 1 - exp(-e) + exp(-e) H_k(e). Only e >= 0 is computed, and no small number is lost in the difference of
large ones.

**Upper bound.** Let g be bounded at the nodes of the grid i h, h = eta / m. Linear interpolation in x bounds it
everywhere. What is needed is the maximum over *all* t of chords of the interpolation, not only over t on the grid.
Take a cell of t between nodes a < b; it may span several grid cells, g being then interpolated over the whole of it,
which is still above g. With v = (1 - s) v_b + s v_a, 0 <= s <= 1, the values g(A v) and D = g(v) - g(A v) are linear
in s, and p = (A - exp(e)/v) / (A - 1) is above its own chord by at most s (1 - s) (exp(e) / (A - 1))
(v_a - v_b)² / (v_b² v_a). Hence F = g(A v) + p D satisfies

    F(s) <= (1 - s) F_b + s F_a + s (1 - s) M
    M = (p_a - p_b) max(D_b - D_a, 0) + K max(D_a, D_b)
    K = exp(a h - eta) (exp((b - a) h) - 1)² / (1 - exp(-eta))

and over s that is at most max(F_a, F_b) + max(M - |F_a - F_b|, 0)² / (4 M). The largest of these over the cells is
the bound at the node. That F has a single peak in t is nowhere assumed: a wide cell far from the best t costs
accuracy at most, and none where M <= |F_a - F_b|. Per step the excess is about (h/eta)²/2 of the step's own effect.
(Using eta + h for eta with t on the grid is a bound as well, with an excess of 2 h/eta.)

**Lower bound.** The maximum over t on the grid alone, whose two outcomes lie on nodes: a strategy that exists.

**Start.** H_1(e) = (1 - exp((e - eta)/2))² / (1 - exp(-eta)) for 0 <= e <= eta, at t = (e + eta)/2, and 0 beyond.

**Rounding.** A step adds and multiplies non-negative numbers, with relative errors of less than 16 · 2⁻⁵² in all;
differences are correctly rounded, and those of differences are charged to K. If the values that a step starts from
are too small by a factor of at most 1 - r, so is its result, the part 1 - exp(-e) of the mirrored values only
helping. So k steps are too small by at most (1 - 16 · 2⁻⁵²)^k, and too large by no more; more than that is added, or
taken off the lower bound. The upper bound never falls below 1e-307, and what would be below it is 0 in the lower one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from privfcd.accounting.curves import EPS, FLOOR, Array, Curve, Indices

LARGEST_ETA = 50.0
"""Beyond this range a selection hardly hides anything, and only its pure epsilon is charged."""


def cells_for(count: int) -> int:
    """Return m, the grid cells over one eta: fewer for longer compositions, so that bounds rise with `count`."""
    for most, cells in ((1, 1024), (2, 256), (4, 128), (16, 64), (64, 48), (256, 32)):
        if count <= most:
            return cells
    return 24


@lru_cache(maxsize=256)
def selection_curve(eta: float, count: int, reach: float, cells: int = 0) -> Curve:
    """Return the upper bound on H_count.

    Parameters
    ----------
    eta : float
        Range of each selection, in (0, `LARGEST_ETA`].
    count : int
        How many, at least 1.
    reach : float
        Nodes beyond this epsilon are left out (the bound stays at the last value there).
    cells : int
        m; 0 for `cells_for(count)`. Even.
    """
    m = cells or cells_for(count)
    step = eta / m
    if step * m < eta:
        step = math.nextafter(step, math.inf)
    size = _size(step, m, count, reach)
    stops = _stops(m, count)
    high = -np.expm1((stops - m) * step) / -math.expm1(-eta)
    widths = np.diff(stops) * step
    # rounding of the differences is charged to the correction, which is small
    drop = high[:-1] - high[1:] + 8 * EPS
    bend = np.expm1(widths) ** 2 * np.exp(stops[:-1] * step - eta) / -math.expm1(-eta) + 8 * EPS * drop
    share, drop, bend = high[:, None], drop[:, None], bend[:, None]
    values = np.maximum(_first(eta, m, size), FLOOR)
    window = _Window(values, step, m)
    for done in range(1, count):
        active = min(size, (done + 1) * m) + 1
        window.load(values)
        differences = window.rows(window.differences(active), stops, m, active)
        options = share * differences
        options += window.rows(window.cells, stops, 2 * m, active)
        near, far = differences[:-1], differences[1:]
        correction = drop * np.maximum(far - near, 0.0)
        correction += bend * np.maximum(np.maximum(far, near), 0.0)
        excess = correction - np.abs(options[1:] - options[:-1])
        np.maximum(excess, 0.0, out=excess)
        correction += 5e-324  # no division by 0; below the allowance for rounding
        excess *= excess / correction
        excess *= 0.25
        excess += np.maximum(options[1:], options[:-1])
        # the truth is at most 1 and falls with e, so the bound may be made to
        values[:active] = np.minimum.accumulate(np.clip(excess.max(axis=0), FLOOR, 1.0))
    values = np.minimum(values * (1 + 100 * EPS) ** count, 1.0)
    if size == m * count:
        values[-1] = 0.0  # no loss exceeds count * eta
    values.flags.writeable = False
    return Curve(step, values)


@lru_cache(maxsize=64)
def selection_lower(eta: float, count: int, reach: float, cells: int = 0) -> Curve:
    """Return a lower bound on H_count **at the nodes only**; beyond `reach` it is taken as 0."""
    m = cells or cells_for(count)
    step = eta / m
    size = _size(step, m, count, reach)
    stops = np.arange(m + 1, dtype=np.int64)
    share = (-np.expm1((stops - m) * step) / -math.expm1(-eta))[:, None]
    values = _first(eta, m, size)
    window = _Window(values, step, m)
    for done in range(1, count):
        active = min(size, (done + 1) * m) + 1
        window.load(values, beyond=0.0)
        options = share * window.rows(window.differences(active), stops, m, active)
        options += window.rows(window.cells, stops, 2 * m, active)
        best = options.max(axis=0)
        values[:active] = np.where(best < FLOOR, 0.0, best)
    values *= (1 - 40 * EPS) ** count
    values[-1] = 0.0
    values.flags.writeable = False
    return Curve(step, values)


class _Window:
    """The curve on nodes -m, ..., size + m in one buffer, and views of it shifted by each stop."""

    def __init__(self, values: Array, step: float, m: int) -> None:
        self._m, self._size = m, len(values) - 1
        behind = step * np.arange(m, 0, -1)
        self._constant, self._factor = -np.expm1(-behind), np.exp(-behind)
        self.cells = np.zeros(self._size + 1 + 2 * m)

    def load(self, values: Array, beyond: float | None = None) -> None:
        m, cells = self._m, self.cells
        cells[m : m + self._size + 1] = values
        cells[m + self._size + 1 :] = values[-1] if beyond is None else beyond
        cells[:m] = self._constant + self._factor * cells[2 * m : m : -1]

    def differences(self, active: int) -> Array:
        """Return g(i) - g(i + m) for the nodes i = -m, ..., active - 1."""
        m = self._m
        return self.cells[: active + m] - self.cells[m : active + 2 * m]

    @staticmethod
    def rows(source: Array, stops: Indices, offset: int, active: int) -> Array:
        """Return, for each stop j, the entries offset - j, ..., offset - j + active - 1."""
        (stride,) = source.strides
        if stops[-1] == len(stops) - 1:
            return as_strided(source[offset:], (len(stops), active), (-stride, stride), writeable=False)
        return np.stack([source[offset - j : offset - j + active] for j in stops])


def _size(step: float, m: int, count: int, reach: float) -> int:
    return m * count if reach >= step * m * count else max(min(2, count) * m, math.ceil(reach / step))


def _first(eta: float, m: int, size: int) -> Array:
    """Return H_1 at the nodes 0, ..., size."""
    nodes = np.minimum(np.arange(size + 1), m)
    return np.asarray(np.expm1((nodes - m) * (eta / m) / 2) ** 2 / -math.expm1(-eta))


def _stops(m: int, count: int) -> Indices:
    """Return the ends of the cells of t, in grid steps: all nodes, or for long compositions fewer far from eta/2."""
    if count <= 256:
        return np.arange(m + 1, dtype=np.int64)
    offsets = [0]
    while offsets[-1] < m // 2:
        offsets.append(min(m // 2, offsets[-1] + max(1, offsets[-1] // 2)))
    both = sorted({m // 2 + sign * offset for offset in offsets for sign in (-1, 1)})
    return np.array(both, dtype=np.int64)
