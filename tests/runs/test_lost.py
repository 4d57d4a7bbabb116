"""Parties that are lost at any question: the run goes on with those who are left, and nothing is paid twice or hidden."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from privfcd.algorithms.consensus import Duals
from privfcd.algorithms.protocol import SparseMatrix
from privfcd.errors import PartyFailed
from privfcd.ledger.sqlite_journal import SqliteJournal
from privfcd.ledger.tools import open_ledger, verify
from privfcd.moments import Moments
from privfcd.runs.method import Method
from privfcd.runs.study_run import StudyRun, run_study
from privfcd.runs.wire.envelope import ENVELOPES, Answer

from .conftest import EPSILON, PARTIES, ROWS, Place, Wire

SHORT: dict[str, dict[str, Any]] = {
    "equal-variance": {},
    "notears": {"release": "covariance"},
    "fed-sparse": {"rounds": 2, "updates": 4},
    "peri": {},
    "fed-bnsl": {"rounds": 2},
    "fedacd": {},
    "ges": {},
}


class DeadlyWire(Wire):
    """A wire at whose end one party is killed at a question: just before it would answer, or just after it did."""

    victim, at, answers = "", 0, False

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        found = {}
        for name, body in requests.items():
            self.sent.append((name, body))
            sequence = ENVELOPES.decode(body).sequence
            if name != self.victim or sequence < self.at:
                found[name] = self.halves[name].handle(body)
            elif sequence == self.at and self.answers:
                self.halves[name].handle(body)
        return found


def run_killing(place: Place, study: Any, victim: str, at: int, answers: bool, **more: Any) -> tuple[StudyRun, Wire]:
    place.ledgers_again()
    wire = DeadlyWire(place.halves(study))
    wire.victim, wire.at, wire.answers = victim, at, answers
    return run_study(study, wire, tries=1, **more), wire


def check_paid_once(place: Place, study: Any, whole: float, lost: str) -> None:
    for name in PARTIES:
        charges = [each for each in open_ledger(place.ledger(name), name).entries() if each.kind == "reserve"]
        assert len(charges) == 1 or (name == lost and not charges)
        assert place.spent(study, name) == pytest.approx(whole * len(charges)) and whole <= EPSILON
        assert verify(place.ledger(name)).ok


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ledgers that do not wait for the disk: nothing here cuts the power."""
    monkeypatch.setattr(SqliteJournal, "_synchronous", "OFF")


@pytest.mark.parametrize("method", ["equal-variance", "fed-sparse", "fedacd"])
def test_a_party_killed_at_the_charge_in_the_middle_or_at_the_end(place: Place, method: str) -> None:
    kill_at_questions(place, method, every=False)


@pytest.mark.slow
@pytest.mark.parametrize("method", SHORT)
def test_each_party_killed_at_each_question(place: Place, method: str) -> None:
    kill_at_questions(place, method, every=True)


def kill_at_questions(place: Place, method: str, every: bool) -> None:
    study = place.study(method, min_parties=2, parameters=SHORT[method])
    place.ledgers()
    wire = Wire(place.halves(study))
    undisturbed = run_study(study, wire)
    whole = place.spent(study, "north")
    codec, charging = Method(study).codec, Method(study).charging
    asked = [codec.decode(ENVELOPES.decode(body).payload) for name, body in wire.sent if name == "north"]
    charge = 1 + next(number for number, message in enumerate(asked) if isinstance(message, charging))
    last = undisturbed.questions
    for at in range(charge, last + 1) if every else (charge, (charge + last) // 2, last - 1, last):
        for victim in PARTIES if every else [PARTIES[at % 3]]:
            run, wire = run_killing(place, study, victim, at, answers=(at + len(victim)) % 2 == 0)
            asked_last = max(ENVELOPES.decode(body).sequence for name, body in wire.sent if name == victim)
            assert asked_last == at
            check_paid_once(place, study, whole, victim)
            notes = " ".join(run.model.notes_)
            assert np.isfinite(run.model.adjacency_matrix_).all()
            if at == last:  # the last word changes nothing
                assert run.parties == PARTIES and f"Not told that the run is over: {victim}" in notes
                np.testing.assert_array_equal(run.model.adjacency_matrix_, undisturbed.model.adjacency_matrix_)
                continue
            others = tuple(name for name in PARTIES if name != victim)
            assert run.parties == others and f"lost at question {at}" in run.absent[victim]
            assert f"{victim} at question {at}" in notes and ", ".join(others) in notes and "stays spent" in notes
            if hasattr(run.model, "moments_") and method in ("equal-variance", "notears"):
                assert run.model.moments_.rows == 2 * ROWS


class BendingWire(Wire):
    """A wire at whose end one party answers a question with the right message in another shape."""

    def __init__(self, halves: Any, codec: Any, victim: str, at: int) -> None:
        super().__init__(halves)
        self.codec, self.victim, self.at, self.bent = codec, victim, at, False

    def exchange(self, requests: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        found = dict(super().exchange(requests, timeout))
        if self.victim in found and ENVELOPES.decode(requests[self.victim]).sequence == self.at:
            envelope = ENVELOPES.decode(found[self.victim])
            message, self.bent = bent(self.codec.decode(envelope.payload))
            found[self.victim] = ENVELOPES.encode(replace(envelope, payload=self.codec.encode(message)))
        return found


def bent(message: Any) -> tuple[Any, bool]:
    """Return a message whose first list or array is one entry longer, and whether it has any."""
    for each in fields(message):
        value = getattr(message, each.name)
        if isinstance(value, np.ndarray) and value.ndim:
            return replace(message, **{each.name: np.concatenate([value, value[:1] if len(value) else [1]])}), True
        if isinstance(value, tuple) and value and each.name != "columns":
            return replace(message, **{each.name: (*value, value[0])}), True
        if is_dataclass(value) and not isinstance(value, type | Moments):  # moments check themselves
            inner, changed = bent(value)
            if changed:
                return replace(message, **{each.name: inner}), True
    return message, False


@pytest.mark.parametrize("method", SHORT)
def test_a_party_whose_answer_has_another_shape_is_lost_and_the_run_goes_on(place: Place, method: str) -> None:
    study = place.study(method, min_parties=2, parameters=SHORT[method])
    place.ledgers()
    wire = Wire(place.halves(study))
    undisturbed = run_study(study, wire)
    codec, charging = Method(study).codec, Method(study).charging
    asked = [codec.decode(ENVELOPES.decode(body).payload) for name, body in wire.sent if name == "north"]
    charge = 1 + next(number for number, message in enumerate(asked) if isinstance(message, charging))
    kinds: dict[type, int] = {}
    for number, message in enumerate(asked[charge : undisturbed.questions - 1], charge + 1):
        kinds.setdefault(type(message), number)
    tried = 0
    for at in kinds.values():
        place.ledgers_again()
        bending = BendingWire(place.halves(study), codec, "south", at)
        run = run_study(study, bending, tries=1)
        if bending.bent:
            tried += 1
            assert run.parties == ("north", "west") and f"lost at question {at}" in run.absent["south"], at
            assert np.isfinite(run.model.adjacency_matrix_).all()
    assert tried


def test_with_too_few_left_the_run_stops_and_says_what_is_spent(place: Place) -> None:
    study = place.study(min_parties=3)
    with pytest.raises(PartyFailed, match=r"south: it did not answer .* needs 3 parties and 2 are left.*stays spent"):
        run_killing(place, study, "south", 5, answers=True)


def test_a_release_of_the_rest_is_that_of_the_rest(place: Place) -> None:
    """Who is lost at the last round of moments leaves nothing in the result: exact answers show it to the last digit."""
    study = place.study(private=False, min_parties=2, parameters={"release": "exact"})
    place.ledgers(epsilon=None)
    undisturbed = run_study(study, Wire(place.halves(study)))
    run, _ = run_killing_open(place, study, undisturbed.questions - 1)
    rows = np.vstack([part - part.mean(axis=0) for part in (place.parts[0], place.parts[2])])
    np.testing.assert_allclose(run.model.moments_.matrix, rows.T @ rows / len(rows), atol=1e-9)


def run_killing_open(place: Place, study: Any, at: int) -> tuple[StudyRun, Wire]:
    for name in PARTIES:
        for path in place.folder.glob(f"{name}.sqlite*"):
            path.unlink()
    place.ledgers(epsilon=None)
    wire = DeadlyWire(place.halves(study))
    wire.victim, wire.at = "south", at
    return run_study(study, wire, tries=1), wire


@pytest.mark.parametrize("method", ["equal-variance", "peri"])
def test_a_coordinator_that_dies_after_a_loss_goes_on_without_the_lost_one(place: Place, method: str) -> None:
    study = place.study(method, min_parties=2, parameters=SHORT[method])
    expected, wire = run_killing(place, study, "south", 5, answers=False)
    last = max(ENVELOPES.decode(body).sequence for _, body in wire.sent)
    place.ledgers_again()
    halves, checkpoint = place.halves(study), place.folder / "run.sqlite"

    def stop(name: str, body: bytes, answer: bytes) -> bytes | None:
        sequence = ENVELOPES.decode(body).sequence
        if sequence == last - 1:
            raise KeyboardInterrupt
        return None if name == "south" and sequence >= 5 else answer

    with pytest.raises(KeyboardInterrupt):
        run_study(study, Wire(halves, stop), tries=1, checkpoint=checkpoint)
    wire = Wire(halves)  # the lost one is there again, and is not asked any more
    run = run_study(study, wire, tries=1, checkpoint=checkpoint)
    assert "south" not in {name for name, _ in wire.sent} and run.parties == ("north", "west")
    np.testing.assert_array_equal(run.model.adjacency_matrix_, expected.model.adjacency_matrix_)


def test_the_mean_of_the_duals_is_that_of_the_parties_that_are_left() -> None:
    rng = np.random.default_rng(0)
    duals, own, rho2 = Duals(4, 3, 0.5), np.zeros((4, 3, 3)), 0.5
    for places in ([0, 1, 2, 3], [0, 2, 3], [0, 2], [1]):
        duals.keep(places)
        own = own[places]
        assert duals.mean == pytest.approx(own.mean(axis=0))
        for _ in range(2):
            local, consensus = rng.normal(size=own.shape), rng.normal(size=(3, 3))
            duals.step(local, consensus)
            own = own + rho2 * (local - consensus)
        assert duals.mean == pytest.approx(own.mean(axis=0))


@pytest.mark.parametrize("size", [1e16, 1e300])
def test_an_update_of_any_size_leaves_the_rounds_before_it(place: Place, size: float) -> None:
    """And a party that is asked to go on from such weights draws nothing for it, and stays in the run."""
    from privfcd.algorithms.fed_sparse import messages

    study = place.study("fed-sparse", parameters={"rounds": 4, "updates": 4})
    place.ledgers()
    codec = Method(study).codec
    huge = np.zeros((5, 5))
    huge[0, 1] = size

    def forge(name: str, body: bytes, answer: bytes) -> bytes:
        envelope = ENVELOPES.decode(body)
        message = codec.decode(envelope.payload)
        if name == "south" and isinstance(message, messages.Round) and message.number == 3:
            return ENVELOPES.encode(Answer(envelope.id, codec.encode(messages.LocalUpdate(SparseMatrix.of(huge)))))
        return answer

    model = run_study(study, Wire(place.halves(study), forge)).model
    assert any("ended in round 3 of 4" in note for note in model.notes_) and len(model.history_) == 2
    assert np.abs(model.adjacency_matrix_).max() < 1e6

    place.ledgers_again()
    drawn: list[Any] = []

    def steer(name: str, body: bytes, answer: bytes) -> bytes:
        envelope = ENVELOPES.decode(body)
        message = codec.decode(envelope.payload)
        if name == "north" and isinstance(message, messages.Round):
            request = codec.encode(messages.Round(message.number + 1, SparseMatrix.of(huge)))
            half = halves["north"]
            before = half._drawn()
            asked = type(envelope)(envelope.study, envelope.run, envelope.sequence + 1, request)
            reply = codec.decode(ENVELOPES.decode(half.handle(ENVELOPES.encode(asked))).payload)
            drawn.append((reply.weights, before == half._drawn()))
            raise KeyboardInterrupt
        return answer

    halves = place.halves(study)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, Wire(halves, steer))
    assert drawn == [(None, True)] and not halves["north"].finished
