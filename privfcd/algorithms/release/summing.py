"""A party's half of secure sums: terms, keys, the share of the noise, masked numbers, and what its report says of them."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from privfcd.accounting import compose
from privfcd.accounting.calibration import epsilon_of
from privfcd.algorithms.protocol import Empty, Message
from privfcd.algorithms.release import messages
from privfcd.algorithms.release.plan import MEAN, TablePlan
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.secure.masks import digest
from privfcd.algorithms.secure.seat import Seat
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.data.private import PrivateTable
from privfcd.data.queries import Query
from privfcd.data.trusted_sum import noise_share
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.ledger import Reservation
from privfcd.ledger.privacy_report import rounded_up
from privfcd.mechanisms.distributed import WholeAnswer, alone_event, largest

SECURE = (
    "ONE NOISE for the sum over {parties} parties: only the sum is seen, by secure aggregation. The promise is towards the "
    "coordinator, up to {colluders} of the other parties that tell it all they know, and everybody outside, while at most "
    "{dropouts} parties drop out. It rests on the key exchange, the cipher and the signatures (X25519, ChaCha20, Ed25519)."
)
ONE_PROCESS = "the process that held all tables, and played all parties of the secure sum"


class Summing:
    """One table's part in the secure sums of one run, for what was offered.

    Parameters
    ----------
    seat : Seat
    table : PrivateTable
    settings : ReleaseSettings
        With `sum="secure"`.
    """

    def __init__(self, seat: Seat, table: PrivateTable, settings: ReleaseSettings) -> None:
        self._seat, self._table, self._settings = seat, table, settings
        self._terms = SumTerms(len(seat.parties), settings.colluders, settings.dropouts)
        self._mu = math.inf
        self._question: tuple[int, messages.Question] | None = None

    @property
    def least_multiplier(self) -> float:
        """The noise multiplier of the whole run that the smallest budget needs."""
        if math.isinf(self._mu):
            raise PartyFailed(f"{self._seat.name} was sent a plan before it knew who takes part in the sums")
        return (1 + 1e-12) / self._mu

    def answer(self, message: Message) -> Message:
        """Answer what looks at no rows and charges nothing."""
        match message:
            case messages.AskSeat():
                return messages.SeatTaken(self._seat.nonce)
            case messages.AskShares(number, names, public, signatures):
                return messages.Sealed(self._seat.shares(number, names, public, signatures))
            case messages.AskConfirmed(number, names):
                return messages.Confirmed(self._seat.confirm(number, names))
            case messages.AskUnmask(number, names, signers, signatures):
                return messages.Unmasked(self._seat.unmask(number, names, signers, signatures))
        raise PartyFailed(f"{self._seat.name} does not know the message {type(message).__name__}")

    def sit(self, message: messages.SeatsTaken) -> Empty:
        """Agree on who takes part in the sums, and on the least mu; charge nothing."""
        if not 0 < message.mu < math.inf:
            raise PartyFailed(f"{self._seat.name} was told of a budget of mu = {message.mu}")
        about = repr((message.mu, self._table.columns, self._settings)).encode()
        self._seat.sit(self._terms, message.names, message.nonces, about)
        self._mu = message.mu
        return Empty()

    def check(self, plan: TablePlan) -> None:
        """Refuse a plan whose sums may not fit into 64 bits, or whose promise is too small if all others collude."""
        terms, n = self._terms, self._table.n_rows
        for label, multiplier in plan.multipliers.items():
            if largest(multiplier, terms.honest, n) * terms.parties >= 2.0**62:
                raise InvalidParameter(
                    f"{label!r} over {terms.parties} parties of {n} rows does not fit into 64 bits with so little noise "
                    f"(multiplier {multiplier:.3g}): give a smaller budget, or use sum='per-party'"
                )
        most = self._seat.most_alone
        epsilon, delta = self.alone(plan)
        if most is not None and epsilon > most:
            raise InvalidParameter(
                f"{self._seat.name} takes part up to epsilon = {most:g} if all other parties collude, and this study has "
                f"{rounded_up(epsilon)} at delta = {rounded_up(delta)}: declare more colluders, or a smaller budget"
            )

    def alone(self, plan: TablePlan) -> tuple[float, float]:
        """Return epsilon and delta towards all other parties together: this party's own share of the noise is left."""
        delta = plan.delta or self._settings.delta or 1 / max(self._table.n_rows, 2) ** 2
        parts = ((alone_event(part.event, self._terms.honest), part.count) for part in plan.parts)
        return epsilon_of(compose(parts), delta, self._table.ledger.accountant), delta

    def begin(self, message: messages.AskKeys, query: Query, multiplier: float) -> messages.Keys:
        """Return keys for a sum, signed together with what is asked and with the size of this party's noise.

        The promise rests on the noise of all honest parties. Other shares of a budget, another mu or relation at one of them
        would give it other noise; then its signature is none to the others, and nobody sends numbers.
        """
        share, unit = noise_share(query, self._table, multiplier, self._terms.honest)
        noise = repr((share.size, share.symmetric, unit)).encode()
        begun = self._seat.keys(message.number, digest(_said(message.question), noise))
        self._question = message.number, message.question
        return messages.Keys(*begun)

    def question(self, number: int) -> messages.Question:
        """Return what sum `number` asks."""
        if self._question is None or self._question[0] != number:
            raise PartyFailed(f"{self._seat.name} was not asked for sum {number}, or has answered it")
        return self._question[1]

    def masked(
        self,
        message: messages.AskMasked,
        query: Query,
        multiplier: float,
        label: str,
        reservation: Reservation,
        key: tuple[int, ...],
    ) -> messages.Masked:
        """Read the rows, add this party's share of the noise, and mask the numbers."""
        share, unit = noise_share(query, self._table, multiplier, self._terms.honest)
        found: list[WholeAnswer] = []

        def numbers() -> NDArray[np.uint64]:
            answer = self._table.release(query, share, label=label, reservation=reservation, key=key)
            found.append(answer)
            if any(abs(each) * self._terms.parties >= 2**62 for each in answer.numbers):
                raise PartyFailed(f"the numbers of {self._seat.name} do not fit into 64 bits")
            return np.array([each % 2**64 for each in answer.numbers], dtype=np.uint64)

        words = self._seat.masked(message.number, message.names, message.shares, numbers)
        self._question = None
        return messages.Masked(words.view(np.int64), math.ldexp(unit, found[0].power), share.size * unit)

    def told(self, plan: TablePlan) -> tuple[str, ...]:
        """Return what a report says of the sums."""
        terms = self._terms
        epsilon, delta = self.alone(plan)
        return (
            SECURE.format(parties=terms.parties, colluders=terms.colluders, dropouts=terms.dropouts),
            f"If all other parties collude with the coordinator: epsilon = {rounded_up(epsilon)} at delta = "
            f"{rounded_up(delta)}, from this party's own share of the noise.",
        )


def label_of(question: messages.Question) -> str:
    """Return the plan's name for what is asked."""
    return MEAN if isinstance(question, messages.AskMean) else question.label


def _said(question: messages.Question) -> bytes:
    """Return a digest of all that a question asks, to the last bit: the parties sign it."""
    linear = getattr(question, "linear", None)
    arrays = [] if linear is None else [repr(linear.d).encode(), linear.indices.tobytes(), linear.values.tobytes()]
    plain = {each.name: getattr(question, each.name) for each in fields(question) if each.name != "linear"}
    return digest(type(question).__name__.encode(), repr(plain).encode(), *arrays)
