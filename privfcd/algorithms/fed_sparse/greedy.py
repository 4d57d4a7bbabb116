"""The hot loop of private greedy coordinate descent on a party's rows.

The loss is that of `losses` (‖X - XB‖²/(2n) by default) plus a public quadratic term with gradient pull + rho B and an l1
penalty. The session keeps the clipped gradient and the scores up to date; one update changes one column of each. What
leaves it are the selected coordinates and noisy gradient entries, each drawn from the reservation first.

Privacy. Entry (i, j) of the data's gradient is the mean over records of clip(x_i slope_j, ±C_i), so one replaced record
moves it by at most 2 C_i / n. With C_i = C sqrt(M_i / (d sum M)) the score sqrt(M_i) |prox(B_ij - g_ij / M_i) - B_ij|
moves by at most 2 C_i / (n sqrt(M_i)) = 2 C / (n sqrt(d sum M)), the same for all (i, j), because the proximal map is
non-expansive: hence one Gumbel scale b = z D for all candidates, D that sensitivity, and Gaussian noise of scale z 2
C_i / n on the selected entry, z being the noise multiplier that was planned. The constants C_i, M_i are public or
were released before. With `laplace` both noises are Laplace noise of these scales (Mangold et al. 2023): the largest noisy
score is (2/z)-DP, because scores may move in both directions, and an entry (1/z)-DP.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation
from privfcd.algorithms.fed_sparse.descent_gradients import DescentGradient, MomentGradient, RowGradient
from privfcd.algorithms.fed_sparse.descent_state import DescentState, scores_of
from privfcd.algorithms.fed_sparse.losses import SQUARED, Loss, checked_loss
from privfcd.amounts import PlainNumbers
from privfcd.data.fused import kernels
from privfcd.data.private import check_covered
from privfcd.data.queries import Array, Kind, Norm, centred, check_offset
from privfcd.data.row_sums import blocked_slack
from privfcd.errors import ConvergenceFailure, InvalidParameter
from privfcd.ledger import Reservation
from privfcd.mechanisms import Gaussian, GumbelMax, Laplace, LaplaceNoisyMax, NoiseStream
from privfcd.mechanisms.tables import selection_table

ROUNDING = 1e-6
"""Relative allowance in the scores' sensitivity for the rounding of sums with public weights."""

SELECTION = "coordinate selection"
UPDATE = "coordinate gradient"


@dataclass(frozen=True)
class GreedyDescent:
    """What a greedy descent asks of a table.

    Parameters
    ----------
    smoothness : tuple of float
        M_i for each row of B, above 0: public, declared, or released.
    clip : float
        C, above 0; inf for no clipping, which only a non-private reservation covers.
    l1 : float
        Weight of the l1 penalty, at least 0.
    ridge : float
        rho of the public quadratic term, at least 0.
    noise_multiplier : float
        z: noise in units of sensitivity; 0 for a non-private run.
    offset : tuple of float, optional
        Public vector that is taken off every row.
    loss : Loss
        The squared loss by default.
    laplace : bool
        Whether both noises are Laplace, the selection being report noisy max.
    fast : bool, optional
        Whether loops over records are compiled (numba); by default where it is installed.
    """

    smoothness: tuple[float, ...]
    clip: float
    l1: float
    ridge: float
    noise_multiplier: float
    offset: tuple[float, ...] | None = None
    loss: Loss = SQUARED
    laplace: bool = False
    fast: bool | None = None

    def check(self, d: int) -> None:
        """See `SessionQuery.check`."""
        if len(self.smoothness) != d:
            raise checks.refuse("smoothness", self.smoothness, f"{d} numbers above 0")
        for value in self.smoothness:
            checks.moderate("smoothness", value)
        if d < 2:
            raise checks.refuse("the number of columns", d, "at least 2")
        if self.clip != math.inf:
            checks.moderate("clip", self.clip)
        if self.l1 != 0:
            checks.moderate("l1", self.l1)
        if self.ridge != 0:
            checks.moderate("ridge", self.ridge)
        checks.scale("noise_multiplier", self.noise_multiplier)
        check_offset(self.offset, d)
        checked_loss(self.loss)
        kernels(self.fast)

    def clips(self) -> Array:
        """Return C_i = C sqrt(M_i / (d sum M)), shape (d,)."""
        smoothness = np.array(self.smoothness)
        return np.asarray(self.clip * np.sqrt(smoothness / (len(smoothness) * smoothness.sum())))

    def entry_sensitivity(self, n: int, relation: NeighboringRelation) -> Array:
        """Return how far one record moves gradient entries (i, .), shape (d,)."""
        width = 2.0 if relation is NeighboringRelation.REPLACE_ONE else 1.0
        return np.asarray(width * self.clips() / n * blocked_slack(n))

    def score_sensitivity(self, n: int, relation: NeighboringRelation) -> float:
        """Return how far one record moves any score."""
        per_row = self.entry_sensitivity(n, relation) / np.sqrt(np.array(self.smoothness))
        return float(per_row.max()) * (1 + 2 * ROUNDING)

    def largest_public(self, n: int, relation: NeighboringRelation) -> float:
        """Return how large `public_size` may be before scores are rounded too coarsely; inf without clipping."""
        if math.isinf(self.clip):
            return math.inf
        return ROUNDING * self.score_sensitivity(n, relation) / (16 * sys.float_info.epsilon)

    def public_size(self, weights: Array, pull: Array) -> Array:
        """Return the size, in units of the scores, of the public numbers that go into each score's sums."""
        root = np.sqrt(np.array(self.smoothness))[:, None]
        return np.asarray(root * np.abs(weights) + (np.abs(pull) + self.ridge * np.abs(weights)) / root)

    def selector(self, scale: float) -> GumbelMax | LaplaceNoisyMax:
        """Return the mechanism that selects, with noise of this scale."""
        return LaplaceNoisyMax(scale) if self.laplace else GumbelMax(scale)

    def updater(self, scale: float) -> Gaussian | Laplace:
        """Return the mechanism that releases gradient entries, with noise of this scale."""
        return Laplace(scale) if self.laplace else Gaussian(scale)

    def data(self, rows: Array, n: int) -> DescentGradient:
        """Return the data's part of the gradient, to be kept up to date."""
        if math.isinf(self.clip) and self.loss == SQUARED:
            shifted = centred(rows, self.offset)
            return MomentGradient(shifted.T @ shifted / n)
        offset = np.zeros(rows.shape[1]) if self.offset is None else np.array(self.offset)
        return RowGradient(rows, offset, self.clips(), n, self.loss, kernels(self.fast))

    def open(
        self,
        rows: Array,
        n: int,
        reservation: Reservation,
        relation: NeighboringRelation,
        streams: Callable[..., NoiseStream],
    ) -> GreedySession:
        """See `SessionQuery.open`."""
        return GreedySession(self, rows, n, reservation, relation, streams)


class GreedySession:
    """A running descent; made by `PrivateTable.session`."""

    def __init__(
        self,
        query: GreedyDescent,
        rows: Array,
        n: int,
        reservation: Reservation,
        relation: NeighboringRelation,
        streams: Callable[..., NoiseStream],
    ) -> None:
        self._n = n
        self._query = query
        self._reservation = reservation
        self._largest = query.largest_public(n, relation)
        self._streams = streams
        # the factor covers the rounding of the products, so that no event costs more than planned
        entry = query.entry_sensitivity(n, relation)
        score = query.score_sensitivity(n, relation)
        stretch = query.noise_multiplier * (1 + 8 * sys.float_info.epsilon)
        private = query.noise_multiplier > 0
        self._selector = query.selector(stretch * score if private else 0.0)
        self._updaters = [query.updater(float(stretch * value) if private else 0.0) for value in entry]
        check_covered(self._selector.event(score), reservation, SELECTION)
        for value, mechanism in zip(entry, self._updaters, strict=True):
            check_covered(mechanism.event(float(value)), reservation, UPDATE)
        self._source = rows
        self._data: DescentGradient | None = None
        self._state = DescentState(np.array(query.smoothness), query.l1, query.ridge)
        self._root = np.sqrt(np.array(query.smoothness))

    def start(self, weights: Array, pull: Array, *key: int) -> None:
        """Begin a round at `weights` (d, d), with the public gradient pull + ridge * B.

        Nothing is released; `key` names the round's noise stream.
        """
        if not (np.isfinite(weights).all() and np.isfinite(pull).all()):
            raise InvalidParameter("weights and pull must be finite")
        _check_size(float(self._query.public_size(weights, pull).max()), self._largest)
        self._stream = self._streams(*key)
        if self._data is None:
            self._data = self._query.data(self._source, self._n)
        self._state.start(
            weights, pull, self._data, lambda candidates: selection_table(self._selector, candidates, self._stream)
        )

    @property
    def weights(self) -> Array:
        """B as it is now: it follows from what was released."""
        return self._state.weights

    def select(self) -> tuple[int, int]:
        """Draw one selection, and return the coordinate with the largest noisy score."""
        self._reservation.draw(SELECTION)
        return self._state.select()

    def descend(self, step: float, updates: int) -> Array | None:
        """Do a whole round of exact updates in compiled loops, and return B; None where there is noise, or no such loop.

        It draws what the updates would draw one by one, and does the same arithmetic.
        """
        loops = kernels(self._query.fast)
        exact = self._query.noise_multiplier == 0 and math.isinf(self._query.clip)
        if loops is None or not exact or not isinstance(self._data, MomentGradient):
            return None
        for label in (SELECTION, UPDATE):
            self._reservation.draw(label, updates)
        return self._state.descend(self._data, loops.descend, step, updates)

    def gradient(self, i: int, j: int) -> float:
        """Draw one gradient entry, and return it with noise, the public part included."""
        self._reservation.draw(UPDATE)
        noisy = float(self._updaters[i].release(self._state.data_gradient(i, j), self._stream))
        return noisy + self._state.public_gradient(i, j)

    def move(self, i: int, j: int, value: float) -> None:
        """Set B_ij; nothing is released."""
        if value == self._state.weight(i, j):
            return
        root = float(self._root[i])
        public = abs(self._state.pull(i, j)) + self._query.ridge * abs(value)
        _check_size(root * abs(value) + public / root, self._largest)
        self._state.move(i, j, value)


@dataclass(frozen=True)
class GreedyScores(PlainNumbers):
    """The scores of all coordinates at given weights, as a query of its own: what one selection looks at.

    Parameters
    ----------
    descent : GreedyDescent
        Constants.
    weights, pull : tuple of tuples of float
        B and the constant part of the public gradient, shape (d, d).
    """

    descent: GreedyDescent
    weights: tuple[tuple[float, ...], ...]
    pull: tuple[tuple[float, ...], ...]
    name: ClassVar[str] = "scores of greedy coordinate descent"
    norm: ClassVar[Norm] = "linf"
    kind: ClassVar[Kind] = "scores"

    def check(self, d: int) -> None:
        """See `Query.check`."""
        self.descent.check(d)
        for name, value in (("weights", self.weights), ("pull", self.pull)):
            if np.shape(value) != (d, d) or not np.isfinite(np.array(value)).all():
                raise checks.refuse(name, np.shape(value), f"finite and of shape ({d}, {d})")

    def evaluate(self, rows: Array, n: int | None = None) -> Array:
        """See `Query.evaluate`; shape (d (d - 1),), row by row without the diagonal.

        Raises
        ------
        ConvergenceFailure
            The weights are so large that rounding would break the sensitivity.
        """
        public = self.descent.public_size(np.array(self.weights), np.array(self.pull))
        _check_size(float(public.max()), self.descent.largest_public(n or len(rows), REPLACE_ONE))
        weights, pull = np.array(self.weights), np.array(self.pull)
        data = self.descent.data(rows, n or len(rows))
        data.start(np.ascontiguousarray(weights.T))
        gradient = data.gradient + pull.T + self.descent.ridge * weights.T
        scores = scores_of(weights.T, gradient, np.array(self.descent.smoothness), self.descent.l1).T
        return scores[~np.eye(len(weights), dtype=bool)]

    def sensitivity(self, n: int, relation: NeighboringRelation = REPLACE_ONE) -> float:
        """See `Query.sensitivity`."""
        return self.descent.score_sensitivity(n, relation)


def _check_size(size: float, largest: float) -> None:
    """Refuse public weights beside which the data would be lost in rounding, and the sensitivity with it."""
    if not size <= largest:
        raise ConvergenceFailure(
            f"weights grew to {size:g} in units of the scores, beyond the {largest:g} that scores can be computed for: "
            "the noise is too large for this step; use more rows, a larger epsilon or fewer updates"
        )
