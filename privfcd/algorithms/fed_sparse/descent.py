"""The party's local step: K greedy proximal coordinate updates a round.

Each round minimises L(B) + tr(beta'(B - W)) + rho2/2 ‖B - W‖² + l1 ‖B‖₁ approximately, by K updates from B = W: the
coordinate with the largest score moves to soft(B_ij - step g_ij / M_i, step l1 / M_i).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import SparseMatrix

Array = NDArray[np.float64]


class Session(Protocol):
    """What the local step asks of the data: `privfcd.algorithms.fed_sparse.greedy.GreedySession`, or one on moments."""

    def start(self, weights: Array, pull: Array, *key: int) -> None:
        """Begin a round."""

    def descend(self, step: float, updates: int) -> Array | None:
        """Return B after a whole round of exact updates, or None where they must be made one by one."""

    def select(self) -> tuple[int, int]:
        """Return a coordinate."""

    def gradient(self, i: int, j: int) -> float:
        """Return its gradient entry."""

    def move(self, i: int, j: int, value: float) -> None:
        """Set its weight."""


class LocalDescent:
    """The local step and its dual variable from round to round.

    Parameters
    ----------
    session : Session
        The way to the data.
    settings : Settings
        Of the run.
    smoothness : ndarray of shape (d,)
        M_i.
    """

    def __init__(self, session: Session, settings: Settings, smoothness: Array) -> None:
        self._session, self._settings, self._smoothness = session, settings, smoothness
        self._dual = np.zeros((len(smoothness), len(smoothness)))
        self._local: Array | None = None

    def round(self, consensus: Array, *key: int) -> SparseMatrix:
        """Return B after this round's updates from B = `consensus`; `key` names the round's noise stream.

        Raises
        ------
        ConvergenceFailure
            The weights are too large to be computed with: public numbers say so. Nothing was drawn.
        """
        settings, session = self._settings, self._session
        dual = self._dual if self._local is None else self._dual + settings.rho2 * (self._local - consensus)
        session.start(consensus, dual - settings.rho2 * consensus, *key)
        self._dual = dual
        weights = session.descend(settings.step, settings.updates)
        if weights is None:
            weights = self._one_by_one(consensus)
        self._local = weights
        return SparseMatrix.of(weights)

    def _one_by_one(self, consensus: Array) -> Array:
        settings, session = self._settings, self._session
        weights = consensus.copy()
        for _ in range(settings.updates):
            i, j = session.select()
            rate = settings.step / self._smoothness[i]
            moved = weights[i, j] - rate * session.gradient(i, j)
            weights[i, j] = math.copysign(max(abs(moved) - rate * settings.l1, 0.0), moved)
            session.move(i, j, float(weights[i, j]))
        return weights
