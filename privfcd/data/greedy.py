"""The hot loop of private greedy coordinate descent on a party's rows.

The loss is L(B) = ‖X - XB‖²/(2n) plus a public quadratic term with gradient pull + rho B and an l1 penalty. The
session keeps residuals, the clipped gradient and the scores up to date; one update changes one column of each. What
leaves it are the selected coordinates and noisy gradient entries, each drawn from the reservation first.

Privacy. Entry (i, j) of the data's gradient is the mean over records of clip(-x_i r_j, ±C_i), so one replaced record
moves it by at most 2 C_i / n. With C_i = C sqrt(M_i / (d sum M)) the score sqrt(M_i) |prox(B_ij - g_ij / M_i) - B_ij|
moves by at most 2 C_i / (n sqrt(M_i)) = 2 C / (n sqrt(d sum M)), the same for all (i, j), because the proximal map is
non-expansive: hence one Gumbel scale b = z D for all candidates, D that sensitivity, and Gaussian noise of scale z 2
C_i / n on the selected entry, z being the noise multiplier that was planned. The constants C_i, M_i are public or
were released before.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privfcd import checks
from privfcd.accounting import REPLACE_ONE, NeighboringRelation, Reservation, gaussian_event, selection_event
from privfcd.data.private import check_covered
from privfcd.data.queries import Array, Kind, Norm, centred, check_centre, summation_slack
from privfcd.errors import ConvergenceFailure, InvalidParameter
from privfcd.mechanisms import Gaussian, GumbelMax, NoiseStream

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
    centre : tuple of float, optional
        Public vector that is taken off every row.
    """

    smoothness: tuple[float, ...]
    clip: float
    l1: float
    ridge: float
    noise_multiplier: float
    centre: tuple[float, ...] | None = None

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
        check_centre(self.centre, d)

    def clips(self) -> Array:
        """Return C_i = C sqrt(M_i / (d sum M)), shape (d,)."""
        smoothness = np.array(self.smoothness)
        return np.asarray(self.clip * np.sqrt(smoothness / (len(smoothness) * smoothness.sum())))

    def entry_sensitivity(self, n: int, relation: NeighboringRelation) -> Array:
        """Return how far one record moves gradient entries (i, .), shape (d,)."""
        width = 2.0 if relation is NeighboringRelation.REPLACE_ONE else 1.0
        return np.asarray(width * self.clips() / n * summation_slack(n, pairwise=True))

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
        d = len(query.smoothness)
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
        self._selector = GumbelMax(stretch * score if private else 0.0)
        self._gaussians = [Gaussian(float(stretch * value) if private else 0.0) for value in entry]
        check_covered(selection_event(score, self._selector.scale), reservation, SELECTION)
        for value, mechanism in zip(entry, self._gaussians, strict=True):
            check_covered(gaussian_event(float(value), mechanism.scale), reservation, UPDATE)
        self._clips = query.clips()
        self._source = rows
        self._data: _ClippedData | _ExactData | None = None
        smoothness = np.array(query.smoothness)
        self._smoothness = smoothness[:, None]
        self._root = np.sqrt(smoothness)[:, None]
        self._candidates = np.flatnonzero(~np.eye(d, dtype=bool).ravel())

    def start(self, weights: Array, pull: Array, *key: int) -> None:
        """Begin a round at `weights` (d, d), with the public gradient pull + ridge * B.

        Nothing is released; `key` names the round's noise stream.
        """
        if not (np.isfinite(weights).all() and np.isfinite(pull).all()):
            raise InvalidParameter("weights and pull must be finite")
        _check_size(float(self._query.public_size(weights, pull).max()), self._largest)
        self._stream = self._streams(*key)
        self._weights = weights.copy()
        self._pull = pull
        if self._data is None:
            kind = _ExactData if math.isinf(self._query.clip) else _ClippedData
            self._data = kind(centred(self._source, self._query.centre), self._clips, self._n)
        self._data.start(self._weights)
        self._scores = self._scores_of(slice(None))

    @property
    def weights(self) -> Array:
        """B as it is now: it follows from what was released."""
        return self._weights.copy()

    def select(self) -> tuple[int, int]:
        """Draw one selection, and return the coordinate with the largest noisy score."""
        self._reservation.draw(SELECTION)
        index = self._candidates[self._selector.release(self._scores.ravel()[self._candidates], self._stream)]
        return divmod(int(index), self._scores.shape[1])

    def gradient(self, i: int, j: int) -> float:
        """Draw one gradient entry, and return it with noise, the public part included."""
        self._reservation.draw(UPDATE)
        assert self._data is not None
        noisy = float(self._gaussians[i].release(self._data.gradient[i, j], self._stream))
        return noisy + float(self._pull[i, j]) + self._query.ridge * float(self._weights[i, j])

    def move(self, i: int, j: int, value: float) -> None:
        """Set B_ij; nothing is released."""
        change = value - self._weights[i, j]
        if change == 0:
            return
        self._weights[i, j] = value
        root = float(self._root[i, 0])
        public = abs(float(self._pull[i, j])) + self._query.ridge * abs(value)
        _check_size(root * abs(value) + public / root, self._largest)
        assert self._data is not None
        self._data.move(i, j, change)
        self._scores[:, j] = self._scores_of(slice(j, j + 1))[:, 0]

    def _scores_of(self, columns: slice) -> Array:
        assert self._data is not None
        weights = self._weights[:, columns]
        gradient = self._data.gradient[:, columns] + self._pull[:, columns] + self._query.ridge * weights
        return _scores(weights, gradient, self._smoothness, self._root, self._query.l1)


@dataclass(frozen=True)
class GreedyScores:
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
        weights, smoothness = np.array(self.weights), np.array(self.descent.smoothness)[:, None]
        kind = _ExactData if math.isinf(self.descent.clip) else _ClippedData
        data = kind(centred(rows, self.descent.centre), self.descent.clips(), n or len(rows))
        data.start(weights)
        gradient = data.gradient + np.array(self.pull) + self.descent.ridge * weights
        scores = _scores(weights, gradient, smoothness, np.sqrt(smoothness), self.descent.l1)
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


def _scores(weights: Array, gradient: Array, smoothness: Array, root: Array, l1: float) -> Array:
    """Return sqrt(M_i) |soft(B_ij - g_ij / M_i, l1 / M_i) - B_ij| for columns of B; `smoothness` has shape (d, 1)."""
    moved = weights - gradient / smoothness
    shrunk = np.sign(moved) * np.maximum(np.abs(moved) - l1 / smoothness, 0.0)
    return np.asarray(root * np.abs(shrunk - weights))


class _ClippedData:
    """Residuals and the clipped gradient; an update costs O(n d).

    Columns are kept in units of their clip, so that one pair of bounds serves all of them.
    """

    def __init__(self, rows: Array, clips: Array, n: int) -> None:
        self._columns = np.ascontiguousarray(rows.T)
        with np.errstate(over="ignore"):
            self._scaled = self._columns / clips[:, None]
        self._factors = -clips / n
        self._terms = np.empty_like(self._scaled)

    def start(self, weights: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self._residuals = self._columns - weights.T @ self._columns
        self.gradient = np.empty(weights.shape)
        for j in range(len(weights)):
            self._refresh(j)

    def move(self, i: int, j: int, change: float) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self._residuals[j] -= self._columns[i] * change
        self._refresh(j)

    def _refresh(self, j: int) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            np.multiply(self._scaled, self._residuals[j], out=self._terms)
        np.clip(self._terms, -1.0, 1.0, out=self._terms)
        sums = self._terms.sum(axis=1)
        if not np.isfinite(sums).all():
            sums = np.nan_to_num(self._terms, nan=0.0).sum(axis=1)  # 0 * inf of an absurd record counts as 0
        self.gradient[:, j] = sums * self._factors


class _ExactData:
    """The unclipped gradient S B - S from second moments S; an update costs O(d)."""

    def __init__(self, rows: Array, clips: Array, n: int) -> None:
        self._moments = rows.T @ rows / n

    def start(self, weights: Array) -> None:
        self.gradient = self._moments @ weights - self._moments

    def move(self, i: int, j: int, change: float) -> None:
        self.gradient[:, j] += self._moments[:, i] * change
