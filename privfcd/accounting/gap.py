"""A lower bound on the epsilon of a composition: what some adversary really reaches.

Every step here is a strategy or a loss of information, never a gain. The largest group of selections plays
the grid strategy of `selections.selection_lower`; other groups repeat one two-point law (t is the best for an
exponential tail); Laplace noise is reduced to which side of the two answers it falls on (or between them),
randomised response is kept, other pure releases are ignored; Gaussian losses are merged into cells, whose
merged loss is at least the node that they are charged to (merging is post-processing). Losses are rounded
down to the grid: the largest delta at e, E[max(1 - exp(e - l), 0)], rises with every loss.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from privfcd.accounting.composition import GRID_LIMIT, Composition, PureRelease, reach_of
from privfcd.accounting.conversions import gdp_to_epsilon
from privfcd.accounting.curves import EPS, Array, Curve, Indices
from privfcd.accounting.domination import chained_variance
from privfcd.accounting.selections import LARGEST_ETA, cells_for, selection_lower

_NODES = 6000
_TRINOMIAL = 2048
_SAFE = 1 - 1e-9
"""Factor for the rounding of scipy's probabilities."""


def lower_epsilon(composition: Composition, delta: float, upper: float) -> float:
    """Return a lower bound on the optimum's epsilon at `delta`.

    Parameters
    ----------
    composition : Composition
        The releases.
    delta : float
        In [0, 1).
    upper : float
        An upper bound, from which the grid is chosen.
    """
    failure = composition.failure
    if upper == 0:
        return 0.0
    if math.isinf(upper):
        return math.inf if delta < failure or (delta == failure and composition.variance > 0) else 0.0
    rest = min(1.0, (delta - failure) / (1 - failure) * (1 + 4 * EPS) + 2 * EPS * failure)
    if rest <= 0:
        return upper
    if composition.variance == 0 and not composition.ranges:
        return 0.0  # laws from elsewhere are ignored: leaving a release out is a loss of information
    if composition.only_gaussian:
        return gdp_to_epsilon(math.sqrt(composition.variance), rest) * (1 - 1e-9)
    curve, main = _main(composition, rest, upper)
    size = len(curve.values) - 1
    values = np.maximum(curve.both_sides(size, size) * (1 - 8 * EPS), 0.0)
    tilt = _tilt(composition, upper)
    for eta, count in composition.selections:
        if (eta, count) != main:
            values = _compose(values, *_repeated(eta, count, tilt, curve.step))
    for release, count in composition.pure:
        values = _compose(values, *_pure_losses(release, count, curve.step))
    if composition.variance > 0:
        ways = _gaussian_cells(composition.variance, curve.step, rest)
        values = np.max([_compose(values, *cells) for cells in ways], axis=0)
    above = np.flatnonzero(values[size:] > rest)
    return float(above[-1] * curve.step * (1 - 4 * EPS)) if len(above) else 0.0


def _main(composition: Composition, rest: float, upper: float) -> tuple[Curve, tuple[float, int] | None]:
    """Return the lower curve of the group that is played adaptively, and that group; or H_0 where there is none."""
    small = [group for group in composition.selections if group[1] <= GRID_LIMIT and group[0] <= LARGEST_ETA]
    whole = composition.variance + chained_variance(composition.ranges)
    reach = max(1.02 * upper, min(reach_of(whole, min(rest, 0.5) * 1e-4), 4 * upper + 4, composition.pure_epsilon))
    if small:
        eta, count = max(small, key=lambda group: (group[0] ** 2 * group[1], group))
        own = min(reach, count * eta)
        if count == 1:
            alone = composition.kinds == 1 and composition.variance == 0
            cells = min(_NODES, max(8, int(_NODES * eta / (own if alone else reach))))
        else:
            cells = max(cells_for(count), 2 * (_NODES // (12 * count)))
        lower = selection_lower(eta, count, own, cells)
        size = math.ceil(reach / lower.step)
        if size <= 4 * _NODES:
            values = np.zeros(size + 1)
            kept = min(size, len(lower.values) - 1) + 1
            values[:kept] = lower.values[:kept]
            return Curve(lower.step, values), (eta, count)
    return Curve(reach / _NODES, np.zeros(_NODES + 1)), None


def _compose(values: Array, offsets: Indices, masses: Array) -> Array:
    """Return E[H(e - l)] on the same nodes for losses at `offsets` (whole steps); H is known to be >= 0 elsewhere."""
    low, high = int(offsets.min()), int(offsets.max())
    kernel = np.zeros(high - low + 1)
    np.add.at(kernel, offsets - low, masses)
    size = len(values)
    whole = np.convolve(values, kernel)  # entry i belongs to node i + low
    answer = np.zeros(size)
    start = max(0, -low)
    piece = whole[start : start + size - max(0, low)]
    answer[max(0, low) : max(0, low) + len(piece)] = piece
    return answer * (1 - EPS * (size + len(kernel)))


def _repeated(eta: float, count: int, tilt: float, step: float) -> tuple[Indices, Array]:
    """Return losses, in whole steps, and masses of `count` selections that all use one t."""
    ratio = tilt / (tilt + 1) * math.expm1(-(tilt + 1) * eta) / math.expm1(-tilt * eta)
    t = min(max(eta + math.log(ratio), 1e-3 * eta), (1 - 1e-3) * eta)
    chance = math.expm1(t - eta) / math.expm1(-eta)
    return _binomial(count, chance, t, t - eta, step)


def _pure_losses(release: PureRelease, count: int, step: float) -> tuple[Indices, Array]:
    """Return losses, in whole steps, and masses of `count` releases, each merged into two or three outcomes."""
    epsilon, stays = release.epsilon * (1 - 1e-12), math.exp(-release.epsilon)
    if release.law in ("discrete", "bounded"):
        return np.zeros(1, np.int64), np.ones(1)
    if release.law == "response":
        return _binomial(count, 1 / (1 + stays), epsilon, -epsilon, step)
    if count > _TRINOMIAL:
        loss = release.epsilon / 2 + math.log(2 - math.sqrt(stays))
        return _binomial(count, 1 - math.sqrt(stays) / 2, loss * (1 - 1e-12), -loss, step)
    masses, square, left = np.ones(1), np.array([stays / 2, (1 - stays) / 2, 0.5]), count
    while left:
        masses = np.convolve(masses, square) if left % 2 else masses
        left //= 2
        square = np.convolve(square, square) if left else square
    losses = np.arange(-count, count + 1) * release.epsilon / step
    return np.floor(losses - 1e-9 * np.maximum(1, np.abs(losses))).astype(np.int64), masses * _SAFE


def _binomial(count: int, chance: float, high: float, low: float, step: float) -> tuple[Indices, Array]:
    """Return the sum of `count` two-point losses, rounded down to whole steps, with its masses."""
    from scipy.stats import binom  # slow to import, and only needed here

    spread = 40 * math.sqrt(count * chance * (1 - chance)) + 40
    hits = np.arange(max(0, math.floor(count * chance - spread)), min(count, math.ceil(count * chance + spread)) + 1)
    losses = (hits * high + (count - hits) * low) / step
    masses = binom.pmf(hits, count, chance) * _SAFE
    return np.floor(losses - 1e-9 * np.maximum(1, np.abs(losses))).astype(np.int64), masses


def _gaussian_cells(variance: float, step: float, rest: float) -> list[tuple[Indices, Array]]:
    """Return ways to merge a Gaussian loss into cells that are worth at least a node each."""
    mu = math.sqrt(variance)
    most = math.ceil((variance / 2 + 38 * mu) / step)
    nodes = np.arange(-most, most + 1)
    ways = []
    for shift in (0.0, 0.01, 0.1, 0.5):
        edges = (np.append(nodes, most + 1) - 0.5 + shift) * step
        under_p, under_q = _between(edges, variance / 2, mu), _between(edges, -variance / 2, mu)
        with np.errstate(divide="ignore", invalid="ignore"):
            merged = np.log(under_p) - np.log(under_q)
            full = (under_q > 1e-300) & (merged >= nodes * step + 1e-6 * step)
        # a cell is always worth its left end
        worth = np.where(full, nodes, nodes - 1)
        usable = under_p > max(1e-305, 1e-7 * rest)  # leaving masses out only lowers the bound
        ways.append((worth[usable], under_p[usable] * _SAFE))
    return ways


def _between(edges: Array, mean: float, deviation: float) -> Array:
    """Return normal probabilities of the cells between `edges`, from the tail that is nearer."""
    at = (edges - mean) / deviation
    return np.asarray(np.where(at[1:] <= 0, np.diff(ndtr(at)), -np.diff(ndtr(-at))))


def _tilt(composition: Composition, epsilon: float) -> float:
    """Return the exponential rate at which the total's tail falls near `epsilon`."""
    variance = composition.variance + sum(count * eta * eta / 4 for eta, count in composition.ranges)
    return max(epsilon / variance - 0.5, 0.1)
