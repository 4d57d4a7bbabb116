"""A party's half of Fed-Sparse-BNSL on moments: post-processing of what was released before, so nothing is charged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import lifted
from privfcd.algorithms.fed_sparse.descent import LocalDescent
from privfcd.algorithms.fed_sparse.descent_gradients import MomentGradient
from privfcd.algorithms.fed_sparse.descent_state import DescentState
from privfcd.algorithms.fed_sparse.losses import SQUARED
from privfcd.algorithms.fed_sparse.settings import Settings
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.terms import Terms
from privfcd.data.fused import kernels
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.mechanisms.staged import MaxTable
from privfcd.moments import Moments

Array = NDArray[np.float64]


class MomentSession:
    """A descent with exact gradients S B - S; what `GreedySession` is for rows.

    Parameters
    ----------
    moments : ndarray of shape (d, d)
        S, symmetric and positive semidefinite.
    smoothness : ndarray of shape (d,)
        M_i.
    l1, ridge : float
        As for `GreedyDescent`.
    fast : bool, optional
        Whether to use compiled loops; by default where numba is installed.
    """

    def __init__(self, moments: Array, smoothness: Array, l1: float, ridge: float, fast: bool | None = None) -> None:
        self._data = MomentGradient(moments)
        self._state = DescentState(smoothness, l1, ridge)
        self._loops = kernels(fast)

    def start(self, weights: Array, pull: Array, *key: int) -> None:
        """See `GreedySession.start`."""
        self._state.start(weights, pull, self._data, MaxTable)

    def descend(self, step: float, updates: int) -> Array | None:
        """See `GreedySession.descend`."""
        return None if self._loops is None else self._state.descend(self._data, self._loops.descend, step, updates)

    def select(self) -> tuple[int, int]:
        """Return the coordinate with the largest score."""
        return self._state.select()

    def gradient(self, i: int, j: int) -> float:
        """Return one gradient entry, the public part included."""
        return self._state.data_gradient(i, j) + self._state.public_gradient(i, j)

    def move(self, i: int, j: int, value: float) -> None:
        """Set B_ij."""
        self._state.move(i, j, value)


class MomentParty:
    """Answers the coordinator's messages from one party's moments.

    Parameters
    ----------
    moments : Moments
        Exact or released; with noise, eigenvalues below 0 are lifted to 0 first.
    name : str
        The party's name.
    """

    def __init__(self, moments: Moments, name: str) -> None:
        self.name = name
        self._moments = moments if moments.exact else moments.repaired()
        self._settings: Settings | None = None
        self._terms = Terms()
        self._descent: LocalDescent | None = None

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        matrix = self._moments.matrix
        match message:
            case messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case messages.Charge():
                self._agreed()
                self._terms.settle(self.name)
                return Empty()
            case messages.Finish():
                return Empty()
            case messages.Start():
                self._agreed()
                self._terms.final = True
                own = tuple(np.diag(matrix).tolist())
                return messages.Started(*((own, (0.0,) * len(own)) if message.share_smoothness else (None, None)))
            case messages.Configure():
                settings = self._agreed()
                declared = settings.smoothness
                smoothness = lifted(np.diag(matrix) if declared is None else np.array(declared)) + settings.rho2
                session = MomentSession(matrix, smoothness, settings.l1, settings.rho2, settings.fast)
                self._descent = LocalDescent(session, settings, smoothness)
                return Empty()
            case messages.Round():
                if self._descent is None:
                    raise PartyFailed(f"{self.name} was asked for a round before its constants were set")
                message.weights.check(len(matrix), "the coordinator")
                return messages.LocalUpdate(self._descent.round(message.weights.dense(), message.number))
            case messages.Refit():
                self._agreed()
                message.weights.check(len(matrix), "the coordinator")
                weights = message.weights.dense()
                return messages.SupportSlope((matrix @ weights - matrix)[np.nonzero(weights)])
        raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")

    def _consider(self, offer: messages.Offer) -> messages.Quote:
        self._settings = offer.settings
        return messages.Quote(self._moments.rows, private=False)

    def _agreed(self) -> Settings:
        if self._settings is None:
            raise PartyFailed(f"{self.name} was asked to work before it was offered a run")
        return self._settings


def check_moment_settings(settings: Settings) -> None:
    """Raise InvalidParameter for settings that need rows."""
    if settings.loss != SQUARED:
        raise InvalidParameter(f"loss must be 'squared' for moments, got {settings.loss!r}: other losses need rows")
    if not settings.unclipped:
        raise InvalidParameter(
            f"clip must be left out for moments, got {settings.clip!r}: records are clipped, not sums"
        )
