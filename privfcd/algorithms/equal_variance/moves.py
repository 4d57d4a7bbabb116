"""Local search over orders: an edge is turned round where the noise leaves its direction open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.equal_variance.law import Array, Law
from privfcd.algorithms.equal_variance.parents import Fits, choose_parents, deepened, penalised

Indices = NDArray[np.int64]
_OPEN = 8.0
"""An edge's direction is open where its gain in residual variance is below this many standard deviations."""
_CLOSE = 20
"""How many changes of the order, of those that lose least, are valued with a deeper search for parents."""


@dataclass(frozen=True, eq=False)
class Placement:
    """An order, the parents that were chosen along it, and its penalised likelihood.

    Attributes
    ----------
    order : ndarray of int, shape (d,)
    fits : Fits
        Of all d variables.
    costs : ndarray of shape (d,)
        Of each variable: rows v / (2 variance) + tau² / 2 for each parent. Their sum is minus the logarithm of the
        penalised likelihood under one common variance, up to a constant.
    """

    order: Indices
    fits: Fits
    costs: Array

    @property
    def cost(self) -> float:
        """The sum of all variables' costs: the smaller the better."""
        return float(self.costs.sum())


@dataclass(frozen=True)
class Scale:
    """The common variance, and the rows that estimate a residual variance as well as the moments do, noise included."""

    variance: float
    rows: float

    @classmethod
    def of(cls, law: Law, fits: Fits) -> Scale:
        """Return both as medians over the variables."""
        positive = fits.variances[fits.variances > 0]
        variance = float(np.median(positive)) if positive.size else 1.0
        noise = float(np.median(fits.noise))
        return cls(variance, 1 / (1 / law.rows + (noise / variance) ** 2 / 2))

    def costs(self, fits: Fits, tau: float) -> Array:
        """Return the cost of each fit."""
        return penalised(fits, tau, self.variance, self.rows)


def place(law: Law, order: Indices, tau: float, scale: Scale | None = None) -> Placement:
    """Choose all variables' parents along an order."""
    d = len(order)
    nodes, allowed = np.arange(d), before(order)
    fits = choose_parents(law, nodes, allowed, tau)
    if scale is None:
        scale = Scale.of(law, fits)
    fits = deepened(law, nodes, allowed, fits, tau, scale.variance, scale.rows)
    return Placement(order, fits, scale.costs(fits, tau))


def before(order: Indices) -> NDArray[np.bool_]:
    """Return for each variable (column) which ones come before it."""
    position = np.argsort(order)
    return np.asarray(position[:, None] < position[None, :])


def improve(law: Law, start: Placement, scale: Scale, tau: float, most: int = 100) -> Placement:
    """Reorder windows of the order while the penalised likelihood rises.

    For every open edge a -> b the ways to put b before a are valued, all at once, by the costs of the variables whose
    parents they touch; then the best that do not touch one another are made.

    Parameters
    ----------
    start : Placement
        With costs on `scale`.
    most : int
        Rounds at most.
    """
    best = start
    refused: set[tuple[bytes, bytes]] = set()
    for _ in range(most):
        windows = [window for window in _windows(best, scale) if window.key(best.order) not in refused]
        if not windows:
            return best
        gains = _gains(law, best, windows, scale, tau)
        ranked = [windows[k] for k in np.argsort(-gains, kind="stable") if gains[k] > 1e-9 * abs(best.cost)]
        if not ranked:
            return best
        apart = _apart(len(best.order), ranked)
        for tried in (apart, apart[:1]) if len(apart) > 1 else (apart,):
            changed = _reordered(law, best, tried, scale, tau)
            if changed.cost < best.cost:
                best = changed
                break
        else:
            refused.add(apart[0].key(best.order))
    return best


@dataclass(frozen=True, eq=False)
class Window:
    """Positions from `first` on get the variables `inside`, which stood there in another order."""

    first: int
    inside: Indices

    @property
    def span(self) -> slice:
        """The positions."""
        return slice(self.first, self.first + len(self.inside))

    def key(self, order: Indices) -> tuple[bytes, bytes]:
        """Return what tells this change of an order from others."""
        return order[self.span].tobytes(), self.inside.tobytes()


def _windows(placement: Placement, scale: Scale) -> list[Window]:
    """Return four ways to put b before a, for each open edge a -> b.

    b before all of the window; a behind all of it; b and what it descends from before a; a and its descendants behind
    b. The last two turn only the edge itself where no other path leads from a to b.
    """
    order, fits = placement.order, placement.fits
    position = np.argsort(order)
    causes, effects = np.nonzero(fits.chosen)
    own = np.maximum(fits.variances, scale.variance / 2)
    gain = fits.weights[causes, effects] ** 2 * own[causes]
    open_edges = gain < _OPEN * scale.variance * np.sqrt(2 / scale.rows)
    if not open_edges.any():
        return []
    above = _ancestors(order, fits.chosen)
    found: dict[tuple[int, bytes], Window] = {}
    for a, b in zip(causes[open_edges], effects[open_edges], strict=True):
        first = int(position[a])
        between = order[first + 1 : position[b]]
        up, down = above[between, b], above[a, between]
        ends = np.array([b, a])
        for inside in (
            (ends[:1], ends[1:], between),
            (between, ends),
            (between[up], ends, between[~up]),
            (between[~down], ends, between[down]),
        ):
            window = Window(first, np.concatenate(inside))
            found.setdefault((first, window.inside.tobytes()), window)
    return list(found.values())


def _ancestors(order: Indices, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which variable (row) is an ancestor of which (column)."""
    above = np.zeros_like(chosen)
    for node in order:
        parents = np.flatnonzero(chosen[:, node])
        above[:, node] = above[:, parents].any(axis=1)
        above[parents, node] = True
    return above


def _gains(law: Law, placement: Placement, windows: list[Window], scale: Scale, tau: float) -> Array:
    """Return by how much each change lowers the cost of the variables that lose a parent or are lost as one."""
    chosen = placement.fits.chosen
    position = np.argsort(placement.order)
    nodes: list[int] = []
    allowed: list[NDArray[np.bool_]] = []
    owner: list[int] = []
    for index, window in enumerate(windows):
        after = position.copy()
        after[window.inside] = np.arange(window.span.start, window.span.stop)
        lost = chosen[np.ix_(window.inside, window.inside)] & ~np.tri(len(window.inside), dtype=np.bool_).T
        for node in window.inside[lost.any(axis=0) | lost.any(axis=1)]:
            nodes.append(int(node))
            allowed.append(after < after[node])
            owner.append(index)
    columns, candidates, owners = np.array(nodes), np.array(allowed).T, np.array(owner)
    fits = choose_parents(law, columns, candidates, tau)
    gains = placement.costs[columns] - scale.costs(fits, tau)
    total = np.bincount(owners, weights=gains, minlength=len(windows))
    close = np.argsort(-total, kind="stable")[:_CLOSE]
    close = close[total[close] > -tau * tau]
    some = np.flatnonzero(np.isin(owners, close))
    deeper = deepened(law, columns[some], candidates[:, some], fits.subset(some), tau, scale.variance, scale.rows)
    gains[some] = placement.costs[columns[some]] - scale.costs(deeper, tau)
    return np.asarray(np.bincount(owners, weights=gains, minlength=len(windows)), dtype=np.float64)


def _apart(d: int, windows: list[Window]) -> list[Window]:
    """Return the windows that overlap none before them."""
    taken = np.zeros(d, dtype=np.bool_)
    kept = []
    for window in windows:
        if not taken[window.span].any():
            taken[window.span] = True
            kept.append(window)
    return kept


def _reordered(law: Law, placement: Placement, windows: list[Window], scale: Scale, tau: float) -> Placement:
    """Return the placement with windows changed that do not overlap, and new parents for all that is in them."""
    order = placement.order.copy()
    for window in windows:
        order[window.span] = window.inside
    nodes = np.concatenate([window.inside for window in windows])
    allowed = before(order)[:, nodes]
    fits = choose_parents(law, nodes, allowed, tau)
    fits = deepened(law, nodes, allowed, fits, tau, scale.variance, scale.rows)
    old = placement.fits
    chosen, weights = old.chosen.copy(), old.weights.copy()
    variances, noise, costs = old.variances.copy(), old.noise.copy(), placement.costs.copy()
    chosen[:, nodes], weights[:, nodes] = fits.chosen, fits.weights
    variances[nodes], noise[nodes], costs[nodes] = fits.variances, fits.noise, scale.costs(fits, tau)
    return Placement(order, Fits(chosen, weights, variances, noise), costs)
