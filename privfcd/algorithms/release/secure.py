"""Secure sums as one party: a coordinator asks as of one place that is trusted, and gets the sum of all parties' answers.

Each question for a release becomes five questions to the parties, see `privfcd.algorithms.secure.seat`. Everything else is
passed on, and the parties' facts are put together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from privfcd.algorithms.opening import PartyFacts
from privfcd.algorithms.protocol import Check, Empty, Federation, Message
from privfcd.algorithms.release import messages
from privfcd.algorithms.rounds import expect
from privfcd.algorithms.secure import masks, shamir
from privfcd.algorithms.secure.masks import Words
from privfcd.algorithms.secure.seat import CONTEXT, NONCE, SEALED, pair_key
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.moments.octaves import BINS

Reply = TypeVar("Reply")


class SecureFederation:
    """A federation of one party, which answers with secure sums over the parties of another federation.

    Parameters
    ----------
    inner : Federation
        Of the parties, each with a seat. It may lose some after the charge.
    parties : sequence of str
        All the study's, in its order; the inner federation's are some of them.
    colluders, dropouts : int
        See `SumTerms`.

    Attributes
    ----------
    rows : int
        The public number of rows of the parties in the last sum; of all before the first.
    """

    def __init__(self, inner: Federation, parties: Sequence[str], colluders: int = 1, dropouts: int = 0) -> None:
        masks.need()
        self._inner = inner
        self._parties = tuple(parties)
        self.terms = SumTerms(len(self._parties), colluders, dropouts)
        self._rows: dict[str, int] = {}
        self._mu = math.inf
        self._columns = 0
        self._number = 0
        self._summed: tuple[str, ...] = ()
        self.rows = 0

    @property
    def names(self) -> Sequence[str]:
        """See `Federation.names`: one, of all parties together."""
        return (f"secure sum of {len(self._parties)} tables",)

    @property
    def bytes_exchanged(self) -> int:
        """See `Federation.bytes_exchanged`."""
        return self._inner.bytes_exchanged

    def about(self) -> dict[str, Any]:
        """Return what a result says of its sums."""
        return {
            "parties": list(self._summed or self._inner.names),
            "lost": [name for name in self._parties if name not in set(self._inner.names)],
            "colluders": self.terms.colluders,
            "dropouts": self.terms.dropouts,
            "certain to add noise": self.terms.honest,
            "noise of per-party answers, times as large": self.terms.less_noise,
        }

    def ask(self, message: Message, check: Check | None = None) -> list[Message]:
        """See `Federation.ask`."""
        answer: Message
        match message:
            case messages.AskHistogram() | messages.AskMean() | messages.AskMoments():
                answer = self._sum(message)
            case messages.Offer():
                answer = self._quoted(message)
            case _:
                if isinstance(message, messages.Plan):
                    self._take_seats()
                return self._same(message, check)
        if check is not None:
            check(answer, self.names[0])
        return [answer]

    def _same(self, message: Message, check: Check | None) -> list[Message]:
        answers = self._inner.ask(message, check)
        self._check_left()
        if answers and isinstance(answers[0], PartyFacts):
            return [_together([each for each in answers if isinstance(each, PartyFacts)])]
        return answers[:1]

    def _quoted(self, message: messages.Offer) -> messages.Quote:
        """Return the quote of all parties as of one, whose mu is that of the noise that the sums will have."""
        quotes = expect(self._inner, message, messages.Quote)
        self._check_left()
        if len({quote.replaced for quote in quotes}) > 1:
            raise InvalidParameter("secure sums need tables of one neighbouring relation, and these have both")
        self._rows = {name: quote.n_rows for name, quote in zip(self._inner.names, quotes, strict=True)}
        self._mu = min(quote.mu for quote in quotes)
        self._columns = len(message.columns)
        self.rows = sum(self._rows.values())
        bounds = [quote.bounds for quote in quotes if quote.bounds is not None]
        together = tuple(map(max, zip(*bounds, strict=True))) if len(bounds) == len(quotes) else None
        noisier = math.sqrt(len(quotes) / self.terms.honest)
        return messages.Quote(self.rows, self._mu / noisier, quotes[0].replaced, together)

    def _take_seats(self) -> None:
        taken = expect(self._inner, messages.AskSeat(), messages.SeatTaken, NONCE)
        self._check_left()
        nonces = b"".join(each.nonce for each in taken)
        expect(self._inner, messages.SeatsTaken(tuple(self._inner.names), nonces, self._mu), Empty)

    def _sum(self, question: messages.Question) -> Message:
        """Return the noisy answer on the rows of all parties that are there."""
        self._number += 1
        number = self._number
        keys = self._asked(messages.AskKeys(number, question), messages.Keys, 2 * masks.KEY, masks.SIGNATURE, CONTEXT)
        names = tuple(keys)
        public = {name: key.public[: masks.KEY] for name, key in keys.items()}
        sealed = self._asked(
            messages.AskShares(
                number,
                names,
                b"".join(key.public for key in keys.values()),
                b"".join(key.signature for key in keys.values()),
            ),
            messages.Sealed,
            SEALED * len(names),
        )
        sharing = tuple(sealed)
        columns = [names.index(name) for name in sharing]
        rows = [each.shares for each in sealed.values()]
        shares = b"".join(row[SEALED * at : SEALED * (at + 1)] for row in rows for at in columns)
        shape = self._shape(question)
        masked = self._asked(messages.AskMasked(number, sharing, shares), messages.Masked, math.prod(shape))
        summed = tuple(masked)
        self._check_alike(masked)
        signed = self._asked(messages.AskConfirmed(number, summed), messages.Confirmed, masks.SIGNATURE)
        signatures = b"".join(each.signature for each in signed.values())
        unmask = messages.AskUnmask(number, summed, tuple(signed), signatures)
        unmasking = self._asked(unmask, messages.Unmasked, shamir.SHARE * len(sharing))
        first = next(iter(masked.values()))
        total = np.zeros(len(first.words), dtype=np.uint64)
        for each in masked.values():
            total += each.words.view(np.uint64)
        secrets = self._secrets(sharing, {name: each.shares for name, each in unmasking.items()})
        context = next(iter(keys.values())).context
        total -= _streams(context, sharing, summed, secrets, public, len(total))
        self._summed = summed
        self.rows = sum(self._rows[name] for name in summed)
        values = total.view(np.int64).astype(np.float64) * (first.unit / self.rows)
        noise = first.scale * math.sqrt(len(summed)) / self.rows  # of all their shares
        if isinstance(question, messages.AskMoments):
            return messages.Matrix(self._columns, values, noise)
        return messages.Numbers(values.reshape(shape), noise)

    def _asked(self, message: Message, kind: type[Reply], *shape: int) -> dict[str, Reply]:
        """Return who answered what; fewer than P - s end the release."""
        answers = expect(self._inner, message, kind, *shape)
        self._check_left()
        return dict(zip(self._inner.names, answers, strict=True))

    def _check_left(self) -> None:
        here = len(self._inner.names)
        if here < self.terms.least:
            gone = [name for name in self._parties if name not in set(self._inner.names)]
            raise PartyFailed(
                f"the secure sum failed: {here} of {self.terms.parties} parties are left and {self.terms.least} must be "
                f"(dropouts={self.terms.dropouts}); missing: {', '.join(gone)}. What was charged stays charged"
            )

    def _check_alike(self, masked: dict[str, messages.Masked]) -> None:
        if len({(each.unit, each.scale) for each in masked.values()}) > 1:
            raise PartyFailed("the parties' numbers are not of one unit and noise, so that they have no sum")

    def _secrets(self, sharing: Sequence[str], given: dict[str, bytes]) -> dict[str, bytes]:
        """Return each party's secret that the others' shares give."""
        found: dict[str, dict[int, bytes]] = {name: {} for name in sharing}
        for sender, content in given.items():
            for place, name in enumerate(sharing):
                share = content[shamir.SHARE * place : shamir.SHARE * (place + 1)]
                found[name][self._parties.index(sender) + 1] = share
        if len(given) < self.terms.threshold:
            raise PartyFailed(
                f"{len(given)} parties sent shares, and {self.terms.threshold} are needed to unmask the sum. What was "
                "charged stays charged"
            )
        try:
            return {name: shamir.join(shares) for name, shares in found.items()}
        except ValueError as error:
            raise PartyFailed(f"the sum cannot be unmasked: {error}") from None

    def _shape(self, question: messages.Question) -> tuple[int, ...]:
        """Return the shape of the answer: a matrix is its upper triangle."""
        d = self._columns
        sizes: dict[type, tuple[int, ...]] = {messages.AskHistogram: (d + 1, BINS), messages.AskMean: (d,)}
        return sizes.get(type(question), (d * (d + 1) // 2,))


def _streams(
    context: bytes,
    sharing: Sequence[str],
    summed: Sequence[str],
    secrets: dict[str, bytes],
    public: dict[str, bytes],
    size: int,
) -> Words:
    """Return what masks the sum: the seeds' streams of those in it, and what they share with those who were lost."""
    total = np.zeros(size, dtype=np.uint64)
    for name in sharing:
        if name in summed:
            total += masks.mask(masks.derived(secrets[name], context, "own mask"), size)
            continue
        key = masks.key_from(secrets[name])
        if masks.raw(key.public_key()) != public[name]:
            raise PartyFailed(f"the shares of the mask key of {name} give another key")
        for other in summed:
            stream = masks.mask(pair_key(key, public[other], context, name, other), size)
            total = total + stream if other < name else total - stream
    return total


def _together(facts: list[PartyFacts]) -> PartyFacts:
    """Return the public facts of all parties as of one."""
    declared = [each.bounds for each in facts if each.bounds is not None]
    return PartyFacts(
        sum(each.n_rows for each in facts),
        min(each.epsilon for each in facts),
        all(each.replaced for each in facts),
        tuple(map(max, zip(*declared, strict=True))) if len(declared) == len(facts) else None,
        tuple(origin for each in facts for origin in each.origins),
    )
