"""The party's half of Fed-BNSL: it answers with the B that fits its own second moments.

The moments are exact (an open table's) or released with noise that was paid for, in which case all that happens here is
post-processing. Exact ones are not private: two numbers of the first message give them away (`reconstructed_moments`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.fed_bnsl import messages
from privfcd.algorithms.fed_bnsl.local_steps import ClosedForm, FrankWolfe, LocalSolver
from privfcd.algorithms.fed_bnsl.settings import Settings
from privfcd.algorithms.inputs import aligned
from privfcd.algorithms.protocol import Empty, Message, SparseMatrix
from privfcd.algorithms.terms import Terms
from privfcd.errors import PartyFailed
from privfcd.moments import Moments

Array = NDArray[np.float64]


class FedBNSLParty:
    """Answers the coordinator's messages from one party's moments.

    Parameters
    ----------
    name : str
        The party's name, public.
    moments : Moments
        Its own; they do not leave. Negative eigenvalues, which noise can leave, are lifted to 0.
    """

    def __init__(self, name: str, moments: Moments) -> None:
        self._name = name
        self._moments = moments
        self._settings: Settings | None = None
        self._terms = Terms()
        self._solver: LocalSolver | None = None
        self._rounds = 0

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._name

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        match message:
            case messages.Offer():
                return self._terms.consider(self.name, message, self._consider)
            case messages.Round():
                return self._update(message)
            case messages.Finish():
                self._solver = None
                return Empty()
        raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")

    def _consider(self, offer: messages.Offer) -> messages.Quote:
        settings, own = offer.settings, self._moments
        settings.check_columns(len(offer.columns))
        if sorted(offer.columns) != sorted(own.columns):
            raise PartyFailed(f"{self.name} has the columns {list(own.columns)}, not {list(offer.columns)}")
        own = aligned(own, offer.columns)
        matrix = own.matrix if own.exact else own.repaired().matrix
        if settings.local_step == "closed-form":
            self._solver = ClosedForm(matrix, settings.rho2)
        else:
            self._solver = FrankWolfe(matrix, settings.rho2, settings.radius, settings.steps)
        self._settings = settings
        self._rounds = 0
        self._dual = np.zeros_like(matrix)
        self._local = np.zeros_like(matrix)
        return messages.Quote(own.rows)

    def _update(self, message: messages.Round) -> messages.LocalUpdate:
        settings, solver = self._settings, self._solver
        if settings is None or solver is None:
            raise PartyFailed(f"{self.name} was asked for a round before it was offered a run")
        if message.number != self._rounds + 1:
            raise PartyFailed(f"{self.name} was asked for round {message.number} after round {self._rounds}")
        consensus = np.zeros_like(self._dual)
        if message.weights is not None:
            message.weights.check(len(consensus), "the coordinator")
            consensus = message.weights.dense()
        self._terms.final = True
        if self._rounds:
            self._dual += settings.rho2 * (self._local - consensus)
        self._local = solver.solve(consensus, self._dual)
        self._rounds += 1
        dense = settings.local_step == "closed-form"
        return messages.LocalUpdate(messages.DenseMatrix.of(self._local) if dense else SparseMatrix.of(self._local))
