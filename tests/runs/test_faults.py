"""What may go wrong between a coordinator and its parties, and what each of it must not cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.algorithms.release import messages as release
from privfcd.errors import PartyFailed
from privfcd.runs.method import Method
from privfcd.runs.study_run import run_study
from privfcd.runs.wire.checkpoint import Checkpoint, CheckpointUnusable
from privfcd.runs.wire.envelope import ENVELOPES, HELLO, Answer, Refusal, Request

from .conftest import EPSILON, PARTIES, Place, Wire


class Stopped(Exception):
    """The coordinator's process ends."""


def request_of(body: bytes) -> Request:
    request = ENVELOPES.decode(body)
    assert isinstance(request, Request)
    return request


def sequence_of(body: bytes) -> int:
    return request_of(body).sequence


def result_of(place: Place, folder: str = "undisturbed") -> np.ndarray:
    """The weights of an undisturbed run, on ledgers of its own."""
    (place.folder / folder).mkdir()
    other = Place(place.folder, place.parts)
    other.ledger = lambda name: place.folder / folder / f"{name}.sqlite"  # type: ignore[method-assign]
    other.ledgers()
    study = other.study()
    run = run_study(study, Wire(other.halves(study)))
    return np.asarray(run.model.adjacency_matrix_)


def test_a_repeated_question_gets_the_same_bytes_and_costs_nothing(place: Place) -> None:
    study = place.study()
    place.ledgers()
    halves = place.halves(study)
    wire = Wire(halves)
    run_study(study, wire)
    spent = place.spent(study, "north")
    assert 0 < spent <= EPSILON
    for name, body in wire.sent:
        assert halves[name].handle(body) == halves[name].handle(body)
    again = place.halves(study)  # processes that were started afresh
    for name, body in wire.sent:
        if sequence_of(body) > 3:  # charged, and after
            assert again[name].handle(body) == halves[name].handle(body)
    assert place.spent(study, "north") == spent


def test_lost_answers_are_asked_for_again(place: Place) -> None:
    lost: set[tuple[str, int]] = set()

    def lose(name: str, body: bytes, answer: bytes) -> bytes | None:
        key = name, sequence_of(body)
        if name == "south" and key not in lost:
            lost.add(key)
            return None
        return answer

    study = place.study()
    place.ledgers()
    run = run_study(study, Wire(place.halves(study), lose))
    assert len(lost) == run.questions
    assert place.spent(study, "south") == place.spent(study, "north") <= EPSILON
    np.testing.assert_array_equal(run.model.adjacency_matrix_, result_of(place))


@pytest.mark.parametrize("dies_at", [1, 2, 3, 4, 6])
def test_a_coordinator_that_dies_goes_on_and_nobody_pays_twice(place: Place, dies_at: int) -> None:
    study = place.study()
    place.ledgers()
    halves = place.halves(study)

    def die(name: str, body: bytes, answer: bytes) -> bytes:
        if sequence_of(body) == dies_at and name == "south":
            raise Stopped
        return answer

    checkpoint = place.folder / "checkpoint.sqlite"
    with pytest.raises(Stopped):
        run_study(study, Wire(halves, die), checkpoint=checkpoint)
    wire = Wire(halves)
    run = run_study(study, wire, checkpoint=checkpoint)
    assert min(sequence_of(body) for _, body in wire.sent) == dies_at
    assert {place.spent(study, name) for name in PARTIES} == {place.spent(study, "north")}
    assert place.spent(study, "north") <= EPSILON
    np.testing.assert_array_equal(run.model.adjacency_matrix_, result_of(place))


def test_a_checkpoint_of_another_course_or_study_is_refused(place: Place) -> None:
    study = place.study()
    place.ledgers()
    checkpoint = place.folder / "checkpoint.sqlite"
    run_study(study, Wire(place.halves(study)), checkpoint=checkpoint)
    with pytest.raises(CheckpointUnusable, match="another study"):
        run_study(place.study(name="other"), Wire({}), checkpoint=checkpoint)
    kept = Checkpoint(checkpoint, study.digest)
    with pytest.raises(CheckpointUnusable, match="question 2 differs"):
        kept.ask(2, b"something else")
    (place.folder / "broken.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(CheckpointUnusable, match="cannot be used"):
        Checkpoint(place.folder / "broken.sqlite", study.digest)


def test_a_party_that_dies_before_its_charge_may_come_back(place: Place) -> None:
    study = place.study()
    place.ledgers()
    halves = place.halves(study)
    died = []

    def restart(name: str, body: bytes, answer: bytes) -> bytes | None:
        if name == "west" and sequence_of(body) == 2 and not died:
            died.append(name)
            halves["west"] = place.desk(study, "west").party()  # the next question finds it afresh
            return None
        return answer

    run = run_study(study, Wire(halves, restart))
    assert died and run.parties == PARTIES
    np.testing.assert_array_equal(run.model.adjacency_matrix_, result_of(place))


@pytest.mark.parametrize("dies_at", [4, 6])
def test_a_party_that_dies_during_or_after_its_charge_ends_the_run_and_its_charge_stays(
    place: Place, dies_at: int
) -> None:
    study = place.study()
    place.ledgers()
    halves = place.halves(study)

    def restart(name: str, body: bytes, answer: bytes) -> bytes | None:
        if name == "west" and sequence_of(body) == dies_at:
            halves["west"] = place.desk(study, "west").party()
        return answer

    with pytest.raises(PartyFailed, match=rf"question {dies_at + 1} .* west: it stopped after it was charged"):
        run_study(study, Wire(halves, restart))
    assert 0 < place.spent(study, "west") <= EPSILON


def test_a_party_that_was_charged_serves_no_other_run_unless_its_owner_says_so(place: Place) -> None:
    study = place.study()
    place.ledgers(epsilon=2 * EPSILON, delta=2e-6)
    run_study(study, Wire(place.halves(study)))
    spent = place.spent(study, "north")
    with pytest.raises(PartyFailed, match="in another run"):
        run_study(study, Wire(place.halves(study)))
    assert place.spent(study, "north") == spent
    again = {name: place.desk(study, name).party(attempt=2) for name in PARTIES}
    run_study(study, Wire(again))
    assert place.spent(study, "north") == pytest.approx(2 * spent)


def test_missing_parties_are_left_out_as_long_as_enough_are_there(place: Place) -> None:
    place.ledgers()
    with pytest.raises(PartyFailed, match=r"needs 3 parties, 2 can take part; nothing was charged\. south"):
        run_study(place.study(), Wire(place.halves(place.study()) | {"south": Mute()}), tries=1)  # type: ignore[dict-item]
    study = place.study(min_parties=2)
    halves = place.halves(study)
    del halves["south"]
    run = run_study(study, Wire(halves), tries=1)
    assert run.parties == ("north", "west") and "in time" in run.absent["south"]


class Mute:
    """A party that answers with nothing that could be read."""

    def handle(self, body: bytes) -> bytes:
        return b"\x80\x04N."  # a pickle


def test_a_party_whose_budget_is_too_small_refuses_and_nobody_is_charged(place: Place) -> None:
    from privfcd.accounting import Budget
    from privfcd.ledger.tools import init_ledger

    study = place.study(min_parties=3)
    init_ledger(place.ledger("west"), "west", Budget(EPSILON / 2, 1e-6))
    for name in ("north", "south"):
        init_ledger(place.ledger(name), name, Budget(EPSILON, 1e-6))
    with pytest.raises(PartyFailed, match="west: its budget does not allow it"):
        run_study(study, Wire(place.halves(study)))
    assert all(place.spent(study, name) == 0 for name in PARTIES)
    run = run_study(place.study(min_parties=2), Wire(place.halves(place.study(min_parties=2))))
    assert run.parties == ("north", "south")


def test_a_coordinator_cannot_raise_what_was_agreed(place: Place) -> None:
    study = place.study()
    place.ledgers(epsilon=10.0)
    half = place.desk(study, "north").party()
    richer = Method(place.study(budget={"epsilon": 9.0, "delta": 1e-6}))
    offer = richer.agreed()[release.Offer][0]
    codec = Method(study).codec

    def ask(sequence: int, message: Any) -> Any:
        return ENVELOPES.decode(
            half.handle(ENVELOPES.encode(Request(study.digest, "r", sequence, codec.encode(message))))
        )

    assert ask(1, offer) == Refusal(ask(1, offer).request, "settings")
    honest = Method(study).agreed()[release.Offer][0]
    assert isinstance(ask(1, honest), Answer)
    assert isinstance(ask(2, release.Plan((("histogram of octaves (scales)", 1.0),))), Answer)
    assert isinstance(ask(3, release.Charge()), Answer)
    assert place.spent(study, "north") <= EPSILON
    assert ask(4, release.Charge()).kind == "changed"
    assert ask(3, release.AskMean((1.0,) * 5)).kind == "changed"
    assert ask(9, release.AskMean((1.0,) * 5)).kind == "behind"
    assert ask(4, release.AskMoments("second moments, round 1", 1.0, None, None)).kind == "protocol"
    assert place.spent(study, "north") <= EPSILON


def test_questions_of_others_and_nonsense_are_refused_and_change_nothing(place: Place) -> None:
    study = place.study()
    place.ledgers()
    lines: list[str] = []
    half = place.desk(study, "north").party(log=lines.append)
    assert half.handle(HELLO + study.digest.encode()) == HELLO + b"north"
    assert ENVELOPES.decode(half.handle(HELLO + b"0" * 64)).kind == "study"
    for body, kind in (
        (b"", "malformed"),
        (b"\x80\x04N.", "malformed"),
        (ENVELOPES.encode(Answer("x", b"")), "malformed"),
        (ENVELOPES.encode(Request("0" * 64, "r", 1, b"")), "study"),
        (ENVELOPES.encode(Request(study.digest, "r", 2, b"")), "behind"),
        (ENVELOPES.encode(Request(study.digest, "r", 1, b"junk")), "malformed"),
    ):
        assert ENVELOPES.decode(half.handle(body)).kind == kind
    assert place.spent(study, "north") == 0 and not half.charged
    run_study(study, Wire({**place.halves(study), "north": half}))
    assert any("CHARGED" in line for line in lines)


def forged(answer: bytes, message: Any, codec: Any) -> bytes:
    envelope = ENVELOPES.decode(answer)
    return ENVELOPES.encode(Answer(envelope.request, codec.encode(message)))


@pytest.mark.parametrize(
    ("sequence", "message", "word"),
    [
        (2, release.Quote(-3, 1.0, True, None), "-3 rows"),
        (2, release.Quote(100, float("inf"), True, None), "mu"),
        (2, release.Quote(100, 1.0, True, (1.0,) * 5), "other bounds"),
        (2, release.Finish(), "where Quote was expected"),
        (5, release.Numbers(np.full(5 * 81, 3.0), 0.01), "beyond 1 by more"),
        (5, release.Numbers(np.zeros(5 * 81), 0.0), "beyond 1 by more"),
        (6, release.Matrix(5, np.full(15, 1e6), 1.0), "by more than any noise"),
        (6, release.Numbers(np.zeros(3), 0.5), "where Matrix was expected"),
        (6, release.Matrix(3, np.zeros(6), 1.0), "malformed"),
    ],
)
def test_a_party_that_answers_nonsense_is_named(place: Place, sequence: int, message: Any, word: str) -> None:
    study = place.study()
    place.ledgers()
    codec = Method(study).codec

    def forge(name: str, body: bytes, answer: bytes) -> bytes:
        return forged(answer, message, codec) if name == "south" and sequence_of(body) == sequence else answer

    with pytest.raises(PartyFailed, match=rf"south.*{word}"):
        run_study(study, Wire(place.halves(study), forge))


def test_answers_to_other_questions_and_changed_bytes_are_named(place: Place) -> None:
    study = place.study()
    place.ledgers()

    def other(name: str, body: bytes, answer: bytes) -> bytes:
        if name != "south":
            return answer
        return ENVELOPES.encode(Answer("0" * 64, ENVELOPES.decode(answer).payload))

    with pytest.raises(PartyFailed, match="south: it answered another question"):
        run_study(study, Wire(place.halves(study), other))
    with pytest.raises(PartyFailed, match="south: its answer makes no sense"):
        run_study(study, Wire(place.halves(study), lambda name, _, answer: answer[:-1] if name == "south" else answer))


def test_nothing_of_rows_paths_or_errors_is_sent(place: Place, tmp_path: Path) -> None:
    study = place.study()
    place.ledgers()
    halves = place.halves(study)
    seen: list[bytes] = []

    def keep(name: str, body: bytes, answer: bytes) -> bytes:
        seen.extend((body, answer))
        return answer

    run_study(study, Wire(halves, keep))
    with pytest.raises(PartyFailed):
        run_study(study, Wire(halves, keep))
    everything = b"".join(seen)
    assert str(tmp_path).encode() not in everything and b"sqlite" not in everything and b"Error" not in everything
    for part in place.parts:
        assert part[0, 0].tobytes() not in everything


def test_a_party_that_fails_after_its_charge_answers_no_more(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from privfcd.algorithms.release.party import ReleaseParty

    study = place.study()
    place.ledgers()
    halves = place.halves(study)

    def broken(self: Any, message: Any) -> Any:
        raise RuntimeError("row 17 holds 4.2")

    monkeypatch.setattr(ReleaseParty, "_moments", broken)
    with pytest.raises(PartyFailed, match=r"north: it failed; its own log says more") as caught:
        run_study(study, Wire(halves))
    assert "4.2" not in str(caught.value)
    assert halves["north"].finished and 0 < place.spent(study, "north") <= EPSILON
