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

import numpy as np

from privfcd import checks
from privfcd.accounting import NeighboringRelation, Reservation, gaussian_event, selection_event
from privfcd.data.private import check_covered
from privfcd.data.queries import Array, centred, check_centre, gradient_column, summation_slack
from privfcd.errors import InvalidParameter
from privfcd.mechanisms import Gaussian, GumbelMax, NoiseStream

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
            checks.positive("smoothness", value)
        if d < 2:
            raise checks.refuse("the number of columns", d, "at least 2")
        if self.clip != math.inf:
            checks.positive("clip", self.clip)
        checks.non_negative("l1", self.l1)
        checks.non_negative("ridge", self.ridge)
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
        return float(per_row.max()) * (1 + 16 * sys.float_info.epsilon)

    def open(
        self,
        rows: Array,
        reservation: Reservation,
        relation: NeighboringRelation,
        streams: Callable[..., NoiseStream],
    ) -> GreedySession:
        """See `SessionQuery.open`."""
        return GreedySession(self, rows, reservation, relation, streams)


class GreedySession:
    """A running descent; made by `PrivateTable.session`."""

    def __init__(
        self,
        query: GreedyDescent,
        rows: Array,
        reservation: Reservation,
        relation: NeighboringRelation,
        streams: Callable[..., NoiseStream],
    ) -> None:
        n, d = rows.shape
        self._query = query
        self._reservation = reservation
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
        self._stream = self._streams(*key)
        self._weights = weights.copy()
        self._pull = pull
        if self._data is None:
            kind = _ExactData if math.isinf(self._query.clip) else _ClippedData
            self._data = kind(centred(self._source, self._query.centre), self._clips)
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
        assert self._data is not None
        self._data.move(i, j, change)
        self._scores[:, j] = self._scores_of(slice(j, j + 1))[:, 0]

    def _scores_of(self, columns: slice) -> Array:
        assert self._data is not None
        weights = self._weights[:, columns]
        gradient = self._data.gradient[:, columns] + self._pull[:, columns] + self._query.ridge * weights
        moved = weights - gradient / self._smoothness
        shrunk = np.sign(moved) * np.maximum(np.abs(moved) - self._query.l1 / self._smoothness, 0.0)
        return np.asarray(self._root * np.abs(shrunk - weights))


class _ClippedData:
    """Residuals and the clipped gradient; an update costs O(n d)."""

    def __init__(self, rows: Array, clips: Array) -> None:
        self._columns = np.ascontiguousarray(rows.T)
        self._clips = clips

    def start(self, weights: Array) -> None:
        self._residuals = self._columns - weights.T @ self._columns
        self.gradient = np.empty(weights.shape)
        for j, residual in enumerate(self._residuals):
            self.gradient[:, j] = gradient_column(self._columns, residual, self._clips)

    def move(self, i: int, j: int, change: float) -> None:
        self._residuals[j] -= self._columns[i] * change
        self.gradient[:, j] = gradient_column(self._columns, self._residuals[j], self._clips)


class _ExactData:
    """The unclipped gradient S B - S from second moments S; an update costs O(d)."""

    def __init__(self, rows: Array, clips: Array) -> None:
        self._moments = rows.T @ rows / len(rows)

    def start(self, weights: Array) -> None:
        self.gradient = self._moments @ weights - self._moments

    def move(self, i: int, j: int, change: float) -> None:
        self.gradient[:, j] += self._moments[:, i] * change
