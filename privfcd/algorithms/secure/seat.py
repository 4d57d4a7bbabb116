"""One party's part in secure sums (Bonawitz et al. 2017, with the rounds that a lying coordinator makes necessary).

For every release, a sum of whole numbers modulo 2^64:

1. **Keys.** Each party makes two X25519 keys, one for masks and one for sealing, and signs both with its long-term identity.
2. **Shares.** Each checks everybody's signature, draws a seed of its own, and sends Shamir's shares of the seed and of its
   mask key, sealed for each receiver.
3. **Masked numbers.** Each sends its numbers, plus the stream of its seed, plus or minus the stream that it agrees on with
   each other party. The latter cancel in the sum.
4. **Confirmation.** Each signs the list of parties whose masked numbers arrived.
5. **Unmasking.** Having seen that enough parties signed the same list, each sends its shares: of the seed of those on the
   list, of the mask key of those who were lost before. The coordinator takes away the seeds' streams, and those of the lost.

**What a coordinator learns that follows no rule, with t parties that tell it all**: one sum for each release, over at
least P - s parties. *Why.*

(a) Keys are signed by identities that the study file names, about one session, release, question and size of noise, so
that it cannot put a key of its own in the place of another's, nor an old one. A session has a random number of every
party in it.

(b) A list of parties is unmasked if at least T > (P + t) / 2 parties signed it. Two lists have more
than t signers in common, so an honest one, and honest parties sign one list in a release. So all honest parties unmask the
same list, and it has at least P - s names.

(c) For those on the list honest parties give shares of the seed only, for
others of the mask key only; t shares of the other kind are fewer than T. So numbers of who is not on the list L keep their
seed's stream. Numbers of honest parties on it keep the streams that these agree on with one another. A signer has masked
with all of L, for it checks that L is part of what it masked with. Let k honest parties on L not be asked to sign; then
|L| >= T + k, and each has masked with at least P - s parties, of which at least T + k - s - t - 1 >= k are other honest
ones on L (T <= P - s and T > (P + t) / 2 give T > s + t). Only k - 1 of these are no signers. So the honest parties on L
hang together by streams that nobody else has, and these cancel in the sum of all of them alone.

(d) A party answers each
step once, from keys that it made in this process: no two vectors of numbers leave it under one mask.

What is not promised: that the sum is right. A party that sends wrong numbers or shares spoils the result, as it can by its
rows.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privfcd.algorithms.secure import masks, shamir
from privfcd.algorithms.secure.masks import KEY, SIGNATURE, Words
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.errors import PartyFailed

NONCE, CONTEXT = 32, 32
SEALED = 2 * shamir.SHARE + masks.TAG
"""Bytes of the sealed shares for one receiver."""

_STEPS = ("keys", "shares", "masked numbers", "confirmation", "unmasking")


@dataclass
class _Release:
    """What a party keeps of one release."""

    number: int
    context: bytes
    mask_key: Any
    seal_key: Any
    done: int = 1
    names: tuple[str, ...] = ()
    public: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    seed: bytes = b""
    own: bytes = b""
    shares: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    summed: tuple[str, ...] = ()


class Seat:
    """A party's seat in the secure sums of one run: its keys, what it checks, and what it answers once.

    Parameters
    ----------
    name : str
    identities : mapping of str to bytes
        Of all the study's parties, in its order: their public long-term keys (Ed25519, 32 bytes).
    identity : Ed25519PrivateKey
        This party's own.
    study : str
        What stands for the study, such as its digest.
    most_alone : float, optional
        Above this epsilon, which is what is left if all other parties collude, the party takes no part.
    simulated : bool
        Whether one process holds all parties: then nothing is hidden from it.

    Raises
    ------
    PartyFailed
        By every method, for what an honest coordinator does not ask. Nothing that was asked for leaves the party then.
    """

    def __init__(
        self,
        name: str,
        identities: Mapping[str, bytes],
        identity: Any,
        study: str = "",
        *,
        most_alone: float | None = None,
        simulated: bool = False,
    ) -> None:
        self.name = name
        self.most_alone, self.simulated = most_alone, simulated
        self._identities = dict(identities)
        self._identity = identity
        self._study = study
        self._process = os.getpid()
        self.nonce = secrets.token_bytes(NONCE)
        self._terms: SumTerms | None = None
        self._present: tuple[str, ...] = ()
        self._session = b""
        self._last = 0
        self._release: _Release | None = None

    @property
    def parties(self) -> tuple[str, ...]:
        """The names of all the study's parties."""
        return tuple(self._identities)

    def sit(self, terms: SumTerms, names: Sequence[str], nonces: bytes, about: bytes) -> None:
        """Agree on who takes part; before the charge.

        Parameters
        ----------
        terms : SumTerms
        names : sequence of str
            Who is there.
        nonces : bytes
            Their random numbers, one after the other.
        about : bytes
            What else all must agree on.
        """
        if terms.parties != len(self._identities):
            raise PartyFailed(f"the sum is of {terms.parties} parties, and the study has {len(self._identities)}")
        self._check_names(names, self.parties, terms, "the study's parties")
        given = _parts(nonces, NONCE, len(names), "random numbers")
        if given[list(names).index(self.name)] != self.nonce:
            raise PartyFailed(f"the coordinator gave another random number than that of {self.name!r}")
        if len(set(given)) < len(given):
            raise PartyFailed("two parties have one random number")
        self._terms, self._present = terms, tuple(names)
        everybody = [part for each, key in self._identities.items() for part in (each.encode(), key)]
        told = [each.encode() for each in names]
        numbers = repr((terms.parties, terms.colluders, terms.dropouts)).encode()
        self._session = masks.digest(self._study.encode(), numbers, about, nonces, masks.digest(*everybody), *told)

    def keys(self, number: int, question: bytes) -> tuple[bytes, bytes, bytes]:
        """Begin release `number`: return both public keys, their signature, and what stands for the release.

        Parameters
        ----------
        number : int
            1, 2, ... in the run; one that was left unfinished is not taken up again.
        question : bytes
            What is asked of the rows, and the noise of each share; all must be asked the same.
        """
        self._check_process()
        if self._terms is None:
            raise PartyFailed(f"{self.name} was asked for keys before it knew who takes part")
        if number != self._last + 1:
            raise PartyFailed(f"release {number} was asked of {self.name}, which has answered {self._last} releases")
        self._last = number
        context = masks.digest(self._session, number.to_bytes(8, "big"), question)
        made = _Release(number, context, masks.new_key(), masks.new_key())
        self._release = made
        public = masks.raw(made.mask_key.public_key()) + masks.raw(made.seal_key.public_key())
        return public, self._identity.sign(_about_keys(context, self.name, public)), context

    def shares(self, number: int, names: Sequence[str], public: bytes, signatures: bytes) -> bytes:
        """Check everybody's keys; return this party's shares, sealed for each of `names` (zeros for itself)."""
        made = self._step(number, 1)
        terms = self._agreed()
        self._check_names(names, self._present, terms, "those who were there at the beginning")
        keys = _parts(public, 2 * KEY, len(names), "keys")
        for name, key, signature in zip(
            names, keys, _parts(signatures, SIGNATURE, len(names), "signatures"), strict=True
        ):
            if not masks.signed_by(self._identities[name], signature, _about_keys(made.context, name, key)):
                raise PartyFailed(f"the keys of {name!r} are not signed by its identity for this release")
            made.public[name] = key[:KEY], key[KEY:]
        if len({each for pair in made.public.values() for each in pair}) < 2 * len(names):
            raise PartyFailed("one key was given twice")
        if made.public[self.name] != (masks.raw(made.mask_key.public_key()), masks.raw(made.seal_key.public_key())):
            raise PartyFailed(f"the keys of {self.name!r} were exchanged on the way")
        made.names = tuple(names)
        made.seed = secrets.token_bytes(shamir.SECRET)
        points = [self._point(name) for name in names]
        of_key = shamir.split(made.mask_key.private_bytes_raw(), points, terms.threshold)
        of_seed = shamir.split(made.seed, points, terms.threshold)
        sealed = []
        for name, point in zip(names, points, strict=True):
            pair = of_key[point], of_seed[point]
            if name == self.name:
                made.shares[name] = pair
                sealed.append(bytes(SEALED))
                continue
            key, about = self._sealing(made, name, self.name, name)
            sealed.append(masks.seal(key, b"".join(pair), about))
        return b"".join(sealed)

    def masked(self, number: int, names: Sequence[str], sealed: bytes, numbers: Callable[[], Words]) -> Words:
        """Return this party's numbers, masked.

        Parameters
        ----------
        number : int
        names : sequence of str
            Those whose shares arrived.
        sealed : bytes
            Their shares for one another: for each sender, for each receiver.
        numbers : callable
            Reads the rows, and returns the numbers modulo 2^64; called once all is checked.
        """
        made = self._step(number, 2)
        self._check_names(names, made.names, self._agreed(), "those whose keys were given")
        mine = list(names).index(self.name)
        for place, row in enumerate(_parts(sealed, SEALED * len(names), len(names), "sealed shares")):
            name = names[place]
            if name == self.name:
                continue
            key, about = self._sealing(made, name, name, self.name)
            pair = masks.unseal(key, row[SEALED * mine : SEALED * (mine + 1)], about)
            made.shares[name] = pair[: shamir.SHARE], pair[shamir.SHARE :]
        made.names = tuple(names)
        total = np.array(numbers(), dtype=np.uint64)
        total += masks.mask(masks.derived(made.seed, made.context, "own mask"), len(total))
        for name in names:
            if name != self.name:
                key = pair_key(made.mask_key, made.public[name][0], made.context, self.name, name)
                stream = masks.mask(key, len(total))
                total = total + stream if self.name < name else total - stream
        return total

    def confirm(self, number: int, names: Sequence[str]) -> bytes:
        """Return this party's signature under the list of those whose numbers are added up."""
        made = self._step(number, 3)
        self._check_names(names, made.names, self._agreed(), "those whose shares were given")
        made.summed = tuple(names)
        signature: bytes = self._identity.sign(_about_list(made.context, names))
        return signature

    def unmask(self, number: int, names: Sequence[str], signers: Sequence[str], signatures: bytes) -> bytes:
        """Return this party's shares: of the seeds of `names`, of the mask keys of all others of step 3, in its order."""
        made = self._step(number, 4)
        if tuple(names) != made.summed:
            raise PartyFailed(f"another list of parties is to be unmasked than the one that {self.name} signed")
        terms = self._agreed()
        if len(set(signers)) != len(signers) or not set(signers) <= set(names) or len(signers) < terms.threshold:
            raise PartyFailed(f"a list needs {terms.threshold} signatures of different parties on it")
        about = _about_list(made.context, names)
        for name, signature in zip(signers, _parts(signatures, SIGNATURE, len(signers), "signatures"), strict=True):
            if not masks.signed_by(self._identities[name], signature, about):
                raise PartyFailed(f"{name!r} did not sign this list of parties")
        given = b"".join(made.shares[name][1 if name in made.summed else 0] for name in made.names)
        self._release = None
        return given

    def _sealing(self, made: _Release, other: str, sender: str, receiver: str) -> tuple[bytes, bytes]:
        about = masks.digest(made.context, sender.encode(), receiver.encode())
        shared = masks.agreed(made.seal_key, made.public[other][1])
        return masks.derived(shared, about, "sealing"), about

    def _step(self, number: int, done: int) -> _Release:
        """Return the release whose step `done` + 1 is asked for; each is answered once, whatever comes of it."""
        self._check_process()
        made = self._release
        if made is None or made.number != number or made.done != done:
            raise PartyFailed(
                f"{self.name} was asked for the {_STEPS[done]} of release {number} out of order, or a second time"
            )
        made.done += 1
        return made

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise PartyFailed(
                f"the keys of {self.name} belong to another process: two must not mask with the same ones"
            )

    def _check_names(self, names: Sequence[str], among: Sequence[str], terms: SumTerms, whose: str) -> None:
        wanted = [each for each in among if each in set(names)]
        if list(names) != wanted:
            raise PartyFailed(f"parties must be some of {whose}, each once and in their order, got {list(names)}")
        if self.name not in names:
            raise PartyFailed(f"{self.name} is not among the parties of the sum")
        if len(names) < terms.least:
            raise PartyFailed(
                f"{len(names)} parties are left for the sum, and {terms.least} must be: {terms.parties} less "
                f"{terms.dropouts} dropouts"
            )

    def _agreed(self) -> SumTerms:
        assert self._terms is not None
        return self._terms

    def _point(self, name: str) -> int:
        return self.parties.index(name) + 1


def pair_key(own: Any, other: bytes, context: bytes, one: str, two: str) -> bytes:
    """Return the key of the stream that two parties add and take away."""
    names = masks.digest(*(name.encode() for name in sorted((one, two))))
    return masks.derived(masks.agreed(own, other), masks.digest(context, names), "pair's mask")


def seats_for(names: Sequence[str]) -> list[Seat]:
    """Return a seat for each of the parties of one process, with identities made for this run."""
    made = {name: masks.new_identity() for name in names}
    public = {name: masks.raw(key.public_key()) for name, key in made.items()}
    return [Seat(name, public, key, simulated=True) for name, key in made.items()]


def _parts(content: bytes, size: int, count: int, what: str) -> list[bytes]:
    if len(content) != size * count:
        raise PartyFailed(f"{what} must be {count} times {size} bytes, got {len(content)}")
    return [content[size * place : size * (place + 1)] for place in range(count)]


def _about_keys(context: bytes, name: str, public: bytes) -> bytes:
    return masks.digest(b"keys", context, name.encode(), public)


def _about_list(context: bytes, names: Sequence[str]) -> bytes:
    return masks.digest(b"list", context, *(name.encode() for name in names))
