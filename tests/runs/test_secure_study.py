"""Studies of secure sums between machines: files, identities, parties that are killed at every message, resumed runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

import privfcd as pf
from privfcd.accounting import Budget
from privfcd.algorithms.release import messages
from privfcd.algorithms.secure.masks import read_identity, write_identity
from privfcd.datasets.simulate import linear_gaussian
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import init_ledger, open_ledger, verify
from privfcd.mechanisms import SimulatedNoise
from privfcd.runs.desk import Desk
from privfcd.runs.method import Method
from privfcd.runs.study_run import StudyRun, run_study
from privfcd.runs.wire.durable import DurableParty
from privfcd.runs.wire.envelope import ENVELOPES, Answer, Request
from privfcd.runs.wire.study_file import Study, study_from

from .conftest import Wire

PARTIES = ("north", "south", "west", "east", "offset")
COLUMNS = ("a", "b", "c")
EPSILON, DELTA, SEED = 4.0, 1e-6, 5
ROWS = [300, 400, 500, 350, 250]


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers that do not wait for the disk: nothing here cuts the power."""
    monkeypatch.setattr(SqliteJournal, "_synchronous", "OFF")


class House:
    """A folder with each party's table, identity and ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.times = folder, 0
        self.parts = linear_gaussian(len(COLUMNS), len(PARTIES), ROWS, seed=2).tables
        self.public = {name: write_identity(folder / f"{name}.identity") for name in PARTIES}
        for name, rows in zip(PARTIES, self.parts, strict=True):
            np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header=",".join(COLUMNS), comments="", fmt="%.17g")
        self.ledgers()

    def ledgers(self) -> None:
        """Make the ledgers anew."""
        self.times += 1
        for name in PARTIES:
            init_ledger(self.ledger(name), name, Budget(EPSILON, DELTA))

    def ledger(self, name: str) -> Path:
        return self.folder / f"{name}-{self.times}.sqlite"

    def document(self, **more: Any) -> dict[str, Any]:
        return {
            "schema": 1,
            "name": "sums",
            "method": "equal-variance",
            "parties": list(PARTIES),
            "columns": list(COLUMNS),
            "budget": {"epsilon": EPSILON, "delta": DELTA},
            "sum": "secure",
            "dropouts": 1,
            "min_parties": 2,
            "identities": {name: f"ed25519:{key.hex()}" for name, key in self.public.items()},
            **more,
        }

    def study(self, **more: Any) -> Study:
        return study_from(self.document(**more))

    def desk(self, study: Study, name: str, **more: Any) -> Desk:
        options = {"noise": SimulatedNoise(SEED), "identity": self.folder / f"{name}.identity", **more}
        return Desk.open(study, name, self.folder / f"{name}.csv", self.ledger(name), **options)

    def halves(self, study: Study) -> dict[str, DurableParty]:
        return {name: self.desk(study, name).party() for name in PARTIES}

    def charges(self, name: str) -> int:
        return len([each for each in open_ledger(self.ledger(name), name).entries() if each.kind == "reserve"])


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


class Watched(Wire):
    """A wire that keeps every answer, and at whose end some are killed at a question: before or after they answer it."""

    def __init__(self, halves: Any, codec: Any) -> None:
        super().__init__(halves)
        self.codec = codec
        self.victims: dict[str, int] = {}
        self.after = False
        self.masked: dict[tuple[str, int], set[bytes]] = {}
        self.asked: list[Any] = []

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        found = {}
        for name, body in requests.items():
            request = ENVELOPES.decode(body)
            assert isinstance(request, Request)
            message = self.codec.decode(request.payload)
            if name == PARTIES[0]:
                self.asked.append(message)
            at = self.victims.get(name, 10**9)
            if request.sequence > at or (request.sequence == at and not self.after):
                continue
            answer = self.halves[name].handle(body)
            assert self.halves[name].handle(body) == answer  # a second copy of the message
            envelope = ENVELOPES.decode(answer)
            if isinstance(message, messages.AskMasked) and isinstance(envelope, Answer):
                self.masked.setdefault((name, message.number), set()).add(envelope.payload)
            if request.sequence < at:
                found[name] = answer
        return found


def run(house: House, study: Study, victims: Mapping[str, int] | None = None, after: bool = False, **more: Any) -> Any:
    wire = Watched(house.halves(study), Method(study).codec)
    wire.victims, wire.after = dict(victims or {}), after
    return run_study(study, wire, tries=1, **more), wire


def in_process(house: House, **terms: int) -> pf.EqualVarianceSearch:
    tables = [
        pf.PrivateTable(rows, COLUMNS, name=name, budget=Budget(EPSILON, DELTA), noise=SimulatedNoise(SEED))
        for name, rows in zip(PARTIES, house.parts, strict=True)
    ]
    return pf.EqualVarianceSearch(sum="secure", epsilon=EPSILON, delta=DELTA, **terms).fit(tables)


def test_between_machines_it_is_the_run_of_one_process(house: House) -> None:
    found, wire = run(house, house.study())
    alone = in_process(house, colluders=1, dropouts=1)
    np.testing.assert_array_equal(found.model.adjacency_matrix_, alone.adjacency_matrix_)
    np.testing.assert_array_equal(found.model.moments_.matrix, alone.moments_.matrix)
    assert found.parties == PARTIES
    assert all(len(vectors) == 1 for vectors in wire.masked.values())
    assert found.model.rule_["release"]["secure sum"]["certain to add noise"] == 3


def _questions(wire: Watched) -> int:
    return len(wire.asked)


def test_a_party_killed_in_the_middle_of_a_sum_is_a_dropout(house: House) -> None:
    kill(house, every=False)


@pytest.mark.slow
def test_a_party_killed_at_any_message_is_a_dropout_paid_at_most_once(house: House) -> None:
    kill(house, every=True)


def kill(house: House, every: bool) -> None:
    study = house.study()
    _, wire = run(house, study)
    last = _questions(wire)
    charge = 1 + next(number for number, each in enumerate(wire.asked) if isinstance(each, messages.Charge))
    seen = {type(wire.asked[at - 1]).__name__ for at in range(charge, last + 1)}
    assert seen >= {"AskKeys", "AskShares", "AskMasked", "AskConfirmed", "AskUnmask", "Finish"}
    masked = 1 + next(number for number, each in enumerate(wire.asked) if isinstance(each, messages.AskMasked))
    for at in range(1, last + 1) if every else (masked, masked + 1):
        house.ledgers()
        victim = PARTIES[at % 5]
        found, wire = run(house, study, {victim: at}, after=at % 2 == 0)
        others = tuple(name for name in PARTIES if name != victim)
        if at < last:
            assert found.parties == others
            in_the_last = at > last - 3  # whose numbers arrived before it was lost
            assert found.model.moments_.rows == sum(ROWS) - (0 if in_the_last else ROWS[PARTIES.index(victim)])
            summed = found.model.rule_["release"]["secure sum"]["parties"]
            assert summed == list(PARTIES if in_the_last else others)
            assert victim in " ".join(found.model.notes_)
        for name in PARTIES:
            assert house.charges(name) == 1 or (name == victim and at <= charge)
            assert verify(house.ledger(name)).ok
        assert all(len(vectors) == 1 for vectors in wire.masked.values())


def test_one_more_dropout_than_declared_ends_the_run_and_says_so(house: House) -> None:
    study = house.study()
    _, wire = run(house, study)
    for kind in (messages.AskKeys, messages.AskShares, messages.AskMasked, messages.AskConfirmed, messages.AskUnmask):
        at = 1 + next(number for number, each in enumerate(wire.asked) if isinstance(each, kind))
        house.ledgers()
        with pytest.raises(PartyFailed, match="needs 4 parties and 3 are left"):
            run(house, study, {"south": at, "east": at})
        assert [house.charges(name) for name in PARTIES] == [1] * 5
    house.ledgers()
    with pytest.raises(PartyFailed, match=r"needs 4 parties, 3 can take part; nothing was charged"):
        run(house, study, {"south": 1, "east": 1})
    assert [house.charges(name) for name in PARTIES] == [0] * 5


class Stopped(Exception):
    """The coordinator's process ends."""


def test_a_coordinator_that_stops_in_the_middle_of_a_sum_goes_on(house: House, tmp_path: Path) -> None:
    stop(house, tmp_path, every=False)


@pytest.mark.slow
def test_a_coordinator_that_stops_at_any_question_goes_on_without_a_second_vector(house: House, tmp_path: Path) -> None:
    stop(house, tmp_path, every=True)


def stop(house: House, tmp_path: Path, every: bool) -> None:
    study = house.study()
    whole, wire = run(house, study)
    last = _questions(wire)
    masked = 1 + next(number for number, each in enumerate(wire.asked) if isinstance(each, messages.AskMasked))
    for at in range(2, last + 1) if every else (masked,):
        house.ledgers()
        wire = Watched(house.halves(study), Method(study).codec)
        exchange = wire.exchange

        def stopping(
            requests: Mapping[str, bytes], timeout: float, at: int = at, exchange: Any = exchange
        ) -> dict[str, bytes]:
            answers: dict[str, bytes] = exchange(requests, timeout)
            if any(ENVELOPES.decode(body).sequence == at for body in requests.values()):
                raise Stopped
            return answers

        wire.exchange = stopping  # type: ignore[method-assign]
        kept = tmp_path / f"checkpoint-{at}"
        with pytest.raises(Stopped):
            run_study(study, wire, tries=1, checkpoint=kept)
        wire.exchange = exchange  # type: ignore[method-assign]
        found = run_study(study, wire, tries=1, checkpoint=kept)
        np.testing.assert_array_equal(found.model.moments_.matrix, whole.model.moments_.matrix)
        assert all(len(vectors) == 1 for vectors in wire.masked.values())
        assert [house.charges(name) for name in PARTIES] == [1] * 5


def test_a_party_started_afresh_gives_its_stored_vector_and_masks_no_other(house: House) -> None:
    study = house.study()
    codec = Method(study).codec
    sent: list[tuple[str, bytes, bytes]] = []

    class Keeping(Watched):
        def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
            found = super().exchange(requests, timeout)
            sent.extend((name, body, found[name]) for name, body in requests.items() if name in found)
            return found

    run_study(study, Keeping(house.halves(study), codec), tries=1)
    again = house.desk(study, "south").party()  # another process, with other keys
    masked = [
        (body, answer)
        for name, body, answer in sent
        if name == "south" and isinstance(codec.decode(ENVELOPES.decode(body).payload), messages.AskMasked)
    ]
    assert masked
    for body, answer in masked:
        assert again.handle(body) == answer
        request = ENVELOPES.decode(body)
        asked = codec.decode(request.payload)
        other = messages.AskMasked(asked.number, asked.names[:4], asked.shares)
        changed = Request(request.study, request.run, request.sequence, codec.encode(other))
        assert ENVELOPES.decode(again.handle(ENVELOPES.encode(changed))).kind == "gone"
    assert house.charges("south") == 1


def test_a_second_list_for_one_sum_is_refused_by_a_running_party(house: House) -> None:
    """A coordinator that asks for masked numbers twice, with another set of parties, gets no second vector."""
    study = house.study()
    halves, codec = house.halves(study), Method(study).codec
    tried: list[Any] = []

    class Lying(Watched):
        def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
            found = super().exchange(requests, timeout)
            body = next(iter(requests.values()))
            request = ENVELOPES.decode(body)
            asked = codec.decode(request.payload)
            if isinstance(asked, messages.AskMasked):
                other = codec.encode(messages.AskMasked(asked.number, asked.names, asked.shares[::-1]))
                for sequence in (request.sequence, request.sequence + 1):
                    again = Request(request.study, request.run, sequence, other)
                    tried.append(ENVELOPES.decode(self.halves["west"].handle(ENVELOPES.encode(again))))
            return found

    run_study(study, Lying(halves, codec), tries=1)
    assert {answer.kind for answer in tried} == {"changed", "protocol"}


# the study file, and what a party checks before it takes part

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "trusted": ({"sum": "trusted"}, "no place sees all tables"),
    "no budget": ({"budget": None}, "without a budget"),
    "no identities": ({"identities": None}, "identities"),
    "a short key": ({"identities": dict.fromkeys(PARTIES, "ed25519:12")}, "64 hexadecimal"),
    "one key for all": ({"identities": dict.fromkeys(PARTIES, "ed25519:" + "ab" * 32)}, "a different key"),
    "colluders": ({"colluders": 4}, "per-party"),
    "dropouts": ({"dropouts": 3}, "per-party|at most"),
    "half a colluder": ({"colluders": 0.5}, "colluders"),
    "as a parameter": ({"parameters": {"sum": "secure"}}, "a key of the study itself"),
    "a method without sums": ({"method": "fed-sparse"}, "does not learn from one sum"),
    "identities for nothing": ({"sum": "per-party"}, "left out without"),
}


@pytest.mark.parametrize("name", WRONG)
def test_studies_that_cannot_be_are_refused(house: House, name: str) -> None:
    change, words = WRONG[name]
    document = {key: value for key, value in house.document(**change).items() if value is not None}
    with pytest.raises(InvalidParameter, match=words):
        Method(study_from(document))


def test_the_digest_is_of_all_that_the_file_says_of_sums(house: House) -> None:
    study = house.study()
    others = [house.study(colluders=2), house.study(dropouts=0)]
    swapped = house.document()
    keys = swapped["identities"]
    keys["north"], keys["south"] = keys["south"], keys["north"]
    others.append(study_from(swapped))
    assert len({study.digest, *(other.digest for other in others)}) == 4
    assert study.keys["identities.north"] != others[2].keys["identities.north"]
    assert study.least == 4 and study.min_parties == 2


def test_a_party_brings_the_identity_that_the_file_names(house: House) -> None:
    study = house.study()
    with pytest.raises(InvalidParameter, match="identity must be given"):
        house.desk(study, "north", identity=None)
    with pytest.raises(InvalidParameter, match="not the key that the study file names for 'north'"):
        house.desk(study, "north", identity=house.folder / "south.identity")
    with pytest.raises(InvalidParameter, match="left out"):
        plain = {key: house.document()[key] for key in ("schema", "name", "method", "parties", "columns", "budget")}
        house.desk(study_from(plain), "north")


def test_identities_are_their_owners_alone_and_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "x.identity"
    public = write_identity(path)
    assert len(public) == 32 and os.stat(path).st_mode & 0o777 == 0o600
    assert read_identity(path).public_key().public_bytes_raw() == public
    with pytest.raises(InvalidParameter, match="nothing is written over"):
        write_identity(path)
    (tmp_path / "no.identity").write_bytes(b"no key")
    with pytest.raises(InvalidParameter, match="keygen"):
        read_identity(tmp_path / "no.identity")


def test_a_preview_says_what_is_promised_and_what_is_left_if_all_others_collude(house: House) -> None:
    shown = house.desk(house.study(), "north").preview()
    assert shown["sum"].startswith("secure: one noise for all 5 parties")
    assert shown["holds while at most"] == "1 parties collude with the coordinator, 1 drop out"
    alone = float(shown["if all others collude"].split()[2])
    assert EPSILON * 1.5 < alone < EPSILON * 3
    assert house.charges("north") == 0


def test_a_partys_own_limit_ends_the_study_before_the_charge(house: House) -> None:
    study = house.study(dropouts=0)
    halves = house.halves(study)
    halves["west"] = house.desk(study, "west", most_alone=EPSILON).party()
    with pytest.raises(PartyFailed, match="needs 5 parties, 4 can take part; nothing was charged"):
        run_study(study, Wire(halves), tries=1)
    assert [house.charges(name) for name in PARTIES] == [0] * 5


def test_another_partys_identity_signs_no_keys(house: House) -> None:
    """A party whose machine has another long-term key than the file is found out by all others."""
    study = house.study(dropouts=0)
    halves = house.halves(study)
    desk = house.desk(study, "west")
    object.__setattr__(desk, "identity", read_identity(house.folder / "east.identity"))
    halves["west"] = desk.party()
    with pytest.raises(PartyFailed, match="question"):
        run_study(study, Wire(halves), tries=1)
    charged: StudyRun | None = None
    assert charged is None and house.charges("north") == 1  # keys are made after the charge
