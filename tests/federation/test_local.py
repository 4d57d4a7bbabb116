"""The federation in one process: order of answers, and bytes both ways."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.federation import LocalFederation


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
