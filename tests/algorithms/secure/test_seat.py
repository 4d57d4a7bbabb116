"""The protocol of secure sums: the sum is exact, whoever drops out, and each lie of a coordinator is refused."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from privfcd.algorithms.protocol import Empty
from privfcd.algorithms.release import messages
from privfcd.algorithms.release.secure import SecureFederation
from privfcd.algorithms.secure import masks
from privfcd.algorithms.secure.seat import SEALED, Seat, seats_for
from privfcd.algorithms.secure.terms import SumTerms
from privfcd.errors import InvalidParameter, PartyFailed

D = 2
SIZE = D * (D + 1) // 2
QUESTION = messages.AskMoments("round", 1.0, None, None)


class Half:
    """A party's half whose numbers are known: for the protocol alone."""

    def __init__(self, seat: Seat, numbers: np.ndarray, terms: SumTerms) -> None:
        self.seat, self.numbers, self.terms = seat, numbers, terms
        self.name = seat.name
        self.read = 0

    def words(self) -> np.ndarray:
        self.read += 1
        return self.numbers.astype(np.int64).view(np.uint64)

    def answer(self, message: Any) -> Any:
        match message:
            case messages.Offer():
                return messages.Quote(10 + len(self.name), 1.0, True, None)
            case messages.AskSeat():
                return messages.SeatTaken(self.seat.nonce)
            case messages.SeatsTaken():
                self.seat.sit(self.terms, message.names, message.nonces, b"settings")
            case messages.AskKeys():
                return messages.Keys(*self.seat.keys(message.number, b"question"))
            case messages.AskShares(number, names, public, signatures):
                return messages.Sealed(self.seat.shares(number, names, public, signatures))
            case messages.AskMasked(number, names, shares):
                found = self.seat.masked(number, names, shares, self.words)
                return messages.Masked(found.view(np.int64), 1.0, 0.5)
            case messages.AskConfirmed(number, names):
                return messages.Confirmed(self.seat.confirm(number, names))
            case messages.AskUnmask(number, names, signers, signatures):
                return messages.Unmasked(self.seat.unmask(number, names, signers, signatures))
        return Empty()


class Losing:
    """A federation that loses parties: `lose[question's class]` are gone when it is asked, for good."""

    def __init__(self, halves: Sequence[Half], lose: dict[type, Sequence[str]] | None = None) -> None:
        self.halves, self.lose = list(halves), dict(lose or {})
        self.bytes_exchanged = 0
        self.change: Callable[[Any], Any] = lambda message: message

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(half.name for half in self.halves)

    def ask(self, message: Any, check: Any = None) -> list[Any]:
        gone = self.lose.pop(type(message), ())
        self.halves = [half for half in self.halves if half.name not in gone]
        message = self.change(message)
        answers = [half.answer(message) for half in self.halves]
        for half, answer in zip(self.halves, answers, strict=True):
            if check is not None:
                check(answer, half.name)
        return answers


def made(parties: int, colluders: int, dropouts: int, seed: int = 0) -> list[Half]:
    rng = np.random.default_rng(seed)
    terms = SumTerms(parties, colluders, dropouts)
    most = 2**62 // parties
    return [
        Half(seat, rng.integers(-most, most, SIZE), terms)
        for seat in seats_for([f"party {chr(97 + index)}" for index in range(parties)])
    ]


def summed(
    halves: list[Half], lose: dict[type, Sequence[str]] | None = None, releases: int = 1
) -> tuple[SecureFederation, list[Any]]:
    terms = halves[0].terms
    federation = SecureFederation(Losing(halves, lose), [half.name for half in halves], terms.colluders, terms.dropouts)
    federation.ask(messages.Offer(None, ("a", "b")))  # type: ignore[arg-type]
    federation.ask(messages.Plan(()))
    return federation, [federation.ask(QUESTION)[0] for _ in range(releases)]


def right(halves: Sequence[Half]) -> np.ndarray:
    """Return the sum as `Matrix` has it: in doubles, divided by the public rows."""
    total = sum(half.numbers.astype(object) for half in halves)
    return np.array([float(each) for each in total]) * (1.0 / sum(10 + len(half.name) for half in halves))


GRID = [(3, 0, 0), (3, 1, 0), (4, 1, 0), (4, 1, 1), (5, 1, 1), (5, 2, 1), (8, 1, 2), (8, 3, 1), (20, 1, 0), (20, 4, 5)]
STEPS = [messages.AskKeys, messages.AskShares, messages.AskMasked, messages.AskConfirmed, messages.AskUnmask]


@pytest.mark.parametrize("terms", GRID)
def test_the_unmasked_sum_is_that_of_the_numbers_bit_for_bit(terms: tuple[int, int, int]) -> None:
    halves = made(*terms)
    federation, answers = summed(halves, releases=2)
    for answer in answers:
        assert (answer.upper == right(halves)).all()
        assert answer.scale == pytest.approx(0.5 * np.sqrt(terms[0]) / federation.rows)
    assert all(half.read == 2 for half in halves)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("terms", [(4, 1, 1), (8, 1, 2), (20, 4, 5)])
def test_parties_may_be_lost_at_any_step(terms: tuple[int, int, int], step: type) -> None:
    halves = made(*terms)
    gone = [half.name for half in halves[1 : 1 + terms[2]]]
    federation, (answer, later) = summed(list(halves), {step: gone}, releases=2)
    left = [half for half in halves if half.name not in gone]
    masked_before = step in (messages.AskConfirmed, messages.AskUnmask)
    assert (answer.upper == right(halves if masked_before else left)).all()
    assert (later.upper == right(left)).all()
    assert federation.rows == sum(10 + len(half.name) for half in left)
    assert federation.about()["lost"] == gone


@pytest.mark.parametrize("step", STEPS)
def test_one_more_is_too_many(step: type) -> None:
    halves = made(5, 1, 1)
    with pytest.raises(PartyFailed, match=r"4 must be.*party b, party c.*stays charged"):
        summed(halves, {step: ["party b", "party c"]})


def test_a_masked_vector_looks_like_noise_without_the_others() -> None:
    """Its bits are balanced and it does not repeat, although all numbers are 0."""
    halves = made(3, 1, 0)
    for half in halves:
        half.numbers = np.zeros(2000, np.int64)
    vectors = _until_masked(halves)
    assert len({word for words in vectors for word in words.tolist()}) == 6000
    for words in vectors:
        assert abs(np.unpackbits(words.view(np.uint8)).mean() - 0.5) < 6 * 0.5 / np.sqrt(64 * 2000)


def test_numbers_of_another_length_are_named() -> None:
    halves = made(3, 1, 0)
    halves[1].numbers = np.zeros(2000, np.int64)
    with pytest.raises(PartyFailed, match=r"party b sent masked numbers of shape .2000"):
        summed(halves)


# a coordinator that lies


def lied(halves: list[Half], kind: type, change: Callable[[Any], Any]) -> pytest.ExceptionInfo[PartyFailed]:
    """Run with a coordinator's messages of one kind changed; return how a party refused."""
    inner = Losing(halves)
    inner.change = lambda message: change(message) if isinstance(message, kind) else message
    terms = halves[0].terms
    federation = SecureFederation(inner, [half.name for half in halves], terms.colluders, terms.dropouts)
    with pytest.raises(PartyFailed) as refused:
        federation.ask(messages.Offer(None, ("a", "b")))  # type: ignore[arg-type]
        federation.ask(messages.Plan(()))
        federation.ask(QUESTION)
    return refused


def test_a_coordinator_in_the_middle_has_no_signature_for_its_own_keys() -> None:
    mine = masks.new_identity()

    def exchanged(message: messages.AskShares) -> messages.AskShares:
        other = masks.raw(masks.new_key().public_key()) + masks.raw(masks.new_key().public_key())
        forged = message.signatures[:64] + mine.sign(other) + message.signatures[128:]
        return messages.AskShares(
            message.number, message.names, message.public[:64] + other + message.public[128:], forged
        )

    halves = made(4, 1, 0)
    refused = lied(halves, messages.AskShares, exchanged)
    assert refused.match("not signed by its identity")
    assert not any(half.read for half in halves)


def test_swapped_keys_are_refused() -> None:
    def swapped(message: messages.AskShares) -> messages.AskShares:
        public, signed = message.public, message.signatures
        return messages.AskShares(
            message.number,
            message.names,
            public[:64] + public[128:192] + public[64:128] + public[192:],
            signed[:64] + signed[128:192] + signed[64:128] + signed[192:],
        )

    assert lied(made(4, 1, 0), messages.AskShares, swapped).match("not signed by its identity")


def test_keys_of_an_earlier_sum_or_run_are_refused() -> None:
    halves = made(4, 1, 0)
    old: list[messages.AskShares] = []
    inner = Losing(halves)

    def replayed(message: Any) -> Any:
        if isinstance(message, messages.AskShares):
            old.append(message)
            if len(old) == 2:
                first = old[0]
                return messages.AskShares(2, first.names, first.public, first.signatures)
        return message

    inner.change = replayed
    federation = SecureFederation(inner, [half.name for half in halves])
    federation.ask(messages.Offer(None, ("a", "b")))  # type: ignore[arg-type]
    federation.ask(messages.Plan(()))
    federation.ask(QUESTION)
    with pytest.raises(PartyFailed, match="not signed by its identity for this release"):
        federation.ask(QUESTION)


def test_another_question_to_some_parties_is_refused() -> None:
    """Keys are signed together with what is asked, so that all parties answer one question."""
    halves = made(4, 1, 0)
    answer = halves[2].answer
    other: Callable[[Any], Any] = lambda message: (  # noqa: E731
        messages.Keys(*halves[2].seat.keys(message.number, b"another question"))
        if isinstance(message, messages.AskKeys)
        else answer(message)
    )
    halves[2].answer = other  # type: ignore[method-assign]
    assert lied(halves, messages.Finish, lambda message: message).match("not signed by its identity")


def test_a_set_of_parties_that_shrank_is_refused_at_every_step() -> None:
    for kind in (messages.AskShares, messages.AskMasked, messages.AskConfirmed):

        def one_less(message: Any) -> Any:
            given = {**vars(message), "names": message.names[:3]}
            if isinstance(message, messages.AskShares):
                given |= {"public": message.public[:192], "signatures": message.signatures[:192]}
            if isinstance(message, messages.AskMasked):
                rows = [message.shares[4 * SEALED * i : 4 * SEALED * i + 3 * SEALED] for i in range(3)]
                given["shares"] = b"".join(rows)
            return type(message)(**given)

        assert lied(made(4, 1, 0), kind, one_less).match("3 parties are left for the sum, and 4 must be")


def test_a_set_of_one_is_refused_at_the_beginning() -> None:
    halves = made(4, 1, 1)
    alone = lambda message: messages.SeatsTaken(message.names[:1], message.nonces[:32], 1.0)  # noqa: E731
    refused = lied(halves, messages.SeatsTaken, alone)
    assert refused.match("1 parties are left for the sum, and 3 must be")


@pytest.mark.parametrize("names", [("x", "y", "z", "w"), ("party b", "party a", "party c", "party d")])
def test_strangers_and_other_orders_are_refused(names: tuple[str, ...]) -> None:
    change = lambda message: messages.SeatsTaken(names, message.nonces, 1.0)  # noqa: E731
    assert lied(made(4, 1, 0), messages.SeatsTaken, change).match("each once and in their order")


def test_another_random_number_is_refused() -> None:
    change = lambda message: messages.SeatsTaken(message.names, bytes(32) + message.nonces[32:], 1.0)  # noqa: E731
    assert lied(made(4, 1, 0), messages.SeatsTaken, change).match("another random number")


def test_two_lists_cannot_both_be_unmasked() -> None:
    """Half of the parties sign one list, half another: neither has enough signatures."""
    halves = made(8, 1, 2)
    names = tuple(half.name for half in halves)
    lists = names[:7], names[1:]
    _until_masked(halves)
    signed = [
        (seat, seat.confirm(1, lists[0] if seat.name in names[:4] else lists[1]))
        for seat in (each.seat for each in halves)
    ]
    for wanted, signers in ((lists[0], names[:4]), (lists[1], names[4:])):
        signatures = b"".join(signature for seat, signature in signed if seat.name in signers)
        with pytest.raises(PartyFailed, match="needs 5 signatures"):
            halves[names.index(signers[0])].seat.unmask(1, wanted, signers, signatures)


def _until_masked(halves: list[Half]) -> list[np.ndarray]:
    """Take the first three steps by hand."""
    names = tuple(half.name for half in halves)
    nonces = b"".join(half.seat.nonce for half in halves)
    for half in halves:
        half.seat.sit(half.terms, names, nonces, b"settings")
    keys = [half.seat.keys(1, b"question") for half in halves]
    public, signatures = b"".join(key[0] for key in keys), b"".join(key[1] for key in keys)
    sealed = b"".join(half.seat.shares(1, names, public, signatures) for half in halves)
    return [half.seat.masked(1, names, sealed, half.words) for half in halves]


def test_a_forged_signature_under_a_list_is_refused() -> None:
    halves = made(4, 1, 0)
    _until_masked(halves)
    names = tuple(half.name for half in halves)
    signatures = [half.seat.confirm(1, names) for half in halves]
    signatures[1] = masks.new_identity().sign(b"list")
    with pytest.raises(PartyFailed, match="'party b' did not sign"):
        halves[0].seat.unmask(1, names, names, b"".join(signatures))


def test_seed_and_key_shares_of_one_party_are_never_both_given() -> None:
    """After shares for one list, no other list is confirmed or unmasked."""
    halves = made(5, 1, 1)
    _until_masked(halves)
    names = tuple(half.name for half in halves)
    signatures = b"".join(half.seat.confirm(1, names) for half in halves)
    seat = halves[0].seat
    given = seat.unmask(1, names, names, signatures)
    assert len(given) == 33 * 5
    for again in (
        lambda: seat.unmask(1, names, names, signatures),
        lambda: seat.confirm(1, names[:4]),
        lambda: seat.unmask(1, names[:4], names[:4], signatures[: 64 * 4]),
    ):
        with pytest.raises(PartyFailed, match="out of order, or a second time"):
            again()


def test_another_list_than_the_signed_one_is_not_unmasked() -> None:
    halves = made(5, 1, 1)
    _until_masked(halves)
    names = tuple(half.name for half in halves)
    signatures = b"".join(half.seat.confirm(1, names) for half in halves)
    with pytest.raises(PartyFailed, match="another list"):
        halves[0].seat.unmask(1, names[:4], names[:4], signatures[: 64 * 4])


def test_two_answers_under_one_mask_are_refused_and_a_step_that_failed_is_over() -> None:
    halves = made(4, 1, 0)
    _until_masked(halves)
    names = tuple(half.name for half in halves)
    with pytest.raises(PartyFailed, match="masked numbers of release 1 out of order, or a second time"):
        halves[0].seat.masked(1, names, bytes(SEALED * 16), halves[0].words)
    fresh = made(4, 1, 0)
    names = tuple(half.name for half in fresh)
    nonces = b"".join(half.seat.nonce for half in fresh)
    for half in fresh:
        half.seat.sit(half.terms, names, nonces, b"")
    keys = [half.seat.keys(1, b"q") for half in fresh]
    public, signatures = b"".join(key[0] for key in keys), b"".join(key[1] for key in keys)
    sealed = b"".join(half.seat.shares(1, names, public, signatures) for half in fresh)
    seat = fresh[0].seat
    with pytest.raises(PartyFailed, match="changed on the way"):
        seat.masked(1, names, bytes(len(sealed)), fresh[0].words)
    assert not fresh[0].read
    with pytest.raises(PartyFailed, match="second time"):
        seat.masked(1, names, sealed, fresh[0].words)


def test_steps_out_of_order_and_of_other_releases_are_refused() -> None:
    halves = made(4, 1, 0)
    seat = halves[0].seat
    with pytest.raises(PartyFailed, match="before it knew who takes part"):
        seat.keys(1, b"")
    names = tuple(half.name for half in halves)
    seat.sit(halves[0].terms, names, b"".join(half.seat.nonce for half in halves), b"")
    for number in (0, 2):
        with pytest.raises(PartyFailed, match=f"release {number} was asked"):
            seat.keys(number, b"")
    seat.keys(1, b"")
    with pytest.raises(PartyFailed, match="release 1 was asked"):
        seat.keys(1, b"")
    with pytest.raises(PartyFailed, match="out of order"):
        seat.confirm(1, names)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_masks_nothing_with_its_parents_keys() -> None:
    halves = made(4, 1, 0)
    names = tuple(half.name for half in halves)
    nonces = b"".join(half.seat.nonce for half in halves)
    for half in halves:
        half.seat.sit(half.terms, names, nonces, b"")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            halves[0].seat.keys(1, b"")
            os.write(write, b"answered")
        except PartyFailed as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert b"another process" in os.read(read, 1000)
    os.close(read)
    os.close(write)


def test_numbers_of_other_units_have_no_sum() -> None:
    halves = made(4, 1, 0)
    answer = halves[1].answer

    def other(message: Any) -> Any:
        found = answer(message)
        return messages.Masked(found.words, 2.0, 0.5) if isinstance(found, messages.Masked) else found

    halves[1].answer = other  # type: ignore[method-assign]
    assert lied(halves, messages.Finish, lambda message: message).match("no sum")


def test_shares_that_give_another_key_are_noticed() -> None:
    halves = made(5, 1, 1)
    answer = halves[0].answer

    def wrong(message: Any) -> Any:
        found = answer(message)
        return messages.Unmasked(bytes(len(found.shares))) if isinstance(found, messages.Unmasked) else found

    halves[0].answer = wrong  # type: ignore[method-assign]
    with pytest.raises(PartyFailed, match=r"another key|no secret"):
        summed(halves, {messages.AskMasked: ["party c"]})


# terms


@pytest.mark.parametrize("terms", [(1, 0, 0), (2, 0, 0), (2, 1, 0), (3, 2, 0), (3, 1, 1), (4, 2, 1)])
def test_terms_without_a_gain_are_refused_with_what_to_use(terms: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidParameter, match="per-party"):
        SumTerms(*terms)


def test_dropouts_that_leave_too_few_shares_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="declare at most 2"):
        SumTerms(6, 1, 3)
    assert SumTerms(6, 1, 2).threshold == 4


@pytest.mark.parametrize("terms", [(5, -1, 0), (5, 1, -1), (5, 1.5, 0), (True, 1, 0)])
def test_terms_are_whole_numbers(terms: tuple[Any, Any, Any]) -> None:
    with pytest.raises(InvalidParameter):
        SumTerms(*terms)


@pytest.mark.parametrize("parties", range(3, 21))
def test_thresholds_keep_two_lists_apart_and_can_be_reached(parties: int) -> None:
    for colluders in range(parties):
        for dropouts in range(parties):
            try:
                terms = SumTerms(parties, colluders, dropouts)
            except InvalidParameter:
                continue
            assert 2 * terms.threshold - parties > colluders  # two lists share an honest signer
            assert dropouts + colluders < terms.threshold <= parties - dropouts
            assert terms.honest >= 2


def test_the_sum_is_of_the_studys_number_of_parties() -> None:
    seat = seats_for(["a", "b", "c", "d"])[0]
    with pytest.raises(PartyFailed, match="5 parties, and the study has 4"):
        seat.sit(SumTerms(5), ("a", "b", "c", "d"), bytes(128), b"")
