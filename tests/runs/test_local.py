"""The federation in one process: order of answers, and bytes both ways."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from privfcd.algorithms.local import LocalFederation, processors
from privfcd.errors import InvalidParameter, PartyFailed


@dataclass(frozen=True)
class Sized:
    size: int

    def payload_bytes(self) -> int:
        return self.size


@dataclass
class Echo:
    name: str
    answer_size: int
    seen: list[object] = field(default_factory=list)

    def answer(self, message: Sized) -> Sized:
        self.seen.append(message)
        if message.size < 0:
            raise PartyFailed(self.name)
        return Sized(self.answer_size)


def test_every_party_gets_the_message_and_answers_in_order() -> None:
    parties = [Echo("a", 1), Echo("b", 20), Echo("a", 300)]
    federation = LocalFederation(parties)
    assert list(federation.names) == ["a", "b", "a"] and federation.bytes_exchanged == 0
    message = Sized(1000)
    assert [answer.payload_bytes() for answer in federation.ask(message)] == [1, 20, 300]
    assert federation.bytes_exchanged == 3 * 1000 + 321
    federation.ask(Sized(0))
    assert federation.bytes_exchanged == 3000 + 642
    assert all(party.seen == [message, Sized(0)] for party in parties)


def test_a_partys_failure_is_passed_on_and_nothing_is_counted() -> None:
    federation = LocalFederation([Echo("a", 1), Echo("b", 1)])
    with pytest.raises(PartyFailed, match="a"):
        federation.ask(Sized(-1))
    assert federation.bytes_exchanged == 0


def test_a_federation_has_parties() -> None:
    with pytest.raises(InvalidParameter, match="at least one party"):
        LocalFederation([])


@dataclass(frozen=True)
class InTurn(Sized):
    in_turn = True


@dataclass
class Waiting:
    """A party that answers only when another one has been asked too."""

    name: str
    barrier: threading.Barrier

    def answer(self, message: Sized) -> Sized:
        self.barrier.wait(timeout=10)
        return Sized(message.size + len(self.name))


def test_several_workers_ask_several_parties_at_a_time_in_the_same_order() -> None:
    barrier = threading.Barrier(2)
    federation = LocalFederation([Waiting("x" * size, barrier) for size in (1, 2, 3, 4)], workers=2)
    assert [answer.payload_bytes() for answer in federation.ask(Sized(10))] == [11, 12, 13, 14]
    assert federation.bytes_exchanged == 40 + 50


def test_what_goes_in_turn_stops_at_the_first_failure_whatever_the_workers() -> None:
    @dataclass
    class Refusing(Echo):
        def answer(self, message: Sized) -> Sized:
            self.seen.append(message)
            raise PartyFailed(self.name)

    for message, later in ((InTurn(1), 0), (Sized(1), 1)):
        parties = [Echo("a", 1), Refusing("b", 1), Echo("c", 1)]
        federation = LocalFederation(parties, workers=3)
        with pytest.raises(PartyFailed, match="b"):
            federation.ask(message)
        assert len(parties[2].seen) == later and federation.bytes_exchanged == 0
    assert processors() >= 1
    for bad in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter, match="workers must be"):
            LocalFederation(parties, workers=bad)  # type: ignore[arg-type]
