"""Attacks on parties and coordinators between machines: bytes that crash, questions that ask for more, repeated charges."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privfcd.algorithms import kept_messages
from privfcd.algorithms.fed_sparse import messages as sparse
from privfcd.algorithms.opening import AskFacts
from privfcd.algorithms.peri import messages as peri
from privfcd.algorithms.protocol import SparseMatrix
from privfcd.algorithms.release import messages as release
from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import Pdag
from privfcd.runs.flower.relay import listen
from privfcd.runs.method import Method
from privfcd.runs.study_run import run_study
from privfcd.runs.wire.checkpoint import Checkpoint, CheckpointUnusable
from privfcd.runs.wire.durable import DurableParty
from privfcd.runs.wire.envelope import ENVELOPES, Answer, Refusal, Request
from privfcd.runs.wire.study_file import Study

from .conftest import EPSILON, PARTIES, ROWS, Place, Wire


def raw(name: Any, fields: Any, arrays: Any = (), body: bytes = b"") -> bytes:
    """A message written by hand, which need not make sense."""
    header = json.dumps({"message": name, "fields": fields, "arrays": list(arrays)}).encode()
    return struct.pack(">4sHI", b"PFCD", 1, len(header)) + header + body


def enveloped(study: str, payload: bytes, run: Any = "r", sequence: Any = 1) -> bytes:
    fields = {"study": study, "run": run, "sequence": sequence, "payload": {"array": 0}}
    return raw("request", fields, [["u1", [len(payload)]]], payload)


def offered(study: str, kind: Any, fields: Any) -> bytes:
    return enveloped(study, raw("release.Offer", {"settings": {"is": kind, "fields": fields}, "columns": []}))


class Attacker:
    """Asks one party what it likes, in one run."""

    def __init__(self, half: DurableParty, study: Study, run: str = "r") -> None:
        self.half, self.study, self.run = half, study, run
        self.codec = Method(study).codec
        self.agreed = [
            message
            for kind, those in Method(study).agreed().items()
            for message in those
            if kind is not AskFacts
        ]
        self.sequence = 0

    def ask(self, message: Any) -> Any:
        """The answer's message, or the refusal."""
        self.sequence += 1
        request = Request(self.study.digest, self.run, self.sequence, self.codec.encode(message))
        envelope = ENVELOPES.decode(self.half.handle(ENVELOPES.encode(request)))
        return envelope if isinstance(envelope, Refusal) else self.codec.decode(envelope.payload)


def test_bytes_written_by_hand_are_refused_and_never_end_a_party(place: Place) -> None:
    study = place.study()
    place.ledgers()
    half = place.desk(study, "north").party()
    offer = {
        "method": "covariance", "send": True, "epsilon": None, "delta": None, "row_norm": None, "center": False,
        "offset": None, "sum": "per-party", "kind": "directions", "shares": None, "histogram_share": None,
        "mean_share": 0.1,
    }  # fmt: skip
    moments = {"label": "a", "row_norm": None, "linear": None, "offset": None}
    empty = {"study": study.digest, "run": "r", "sequence": 1, "payload": {"array": 0}}
    most = 2**31 - 1
    bodies = [
        enveloped(study.digest, b"x", run="\ud800"),
        enveloped("\udfff", b"x"),
        enveloped(study.digest, b"x", sequence=10**4000),
        enveloped(study.digest, b"x", run=["r"]),
        raw("request", empty, [["u1", [most, most, most, 0]]]),
        raw("request", empty, [["u1", [most, most, most, most]]]),
        raw("request", empty, [[["u1"], [0]]]),
        raw(["request"], empty),
        raw("request", [empty]),
        enveloped(study.digest, raw("release.AskMoments", {**moments, "linear": {"is": [1], "fields": {}}})),
        enveloped(study.digest, raw("release.AskMoments", {**moments, "linear": {"is": {}, "fields": {}}})),
        enveloped(study.digest, raw("release.AskMoments", {**moments, "label": "\ud800"})),
        enveloped(study.digest, b"PFCD" + struct.pack(">HI", 1, 200_000) + b"[" * 100_000 + b"]" * 100_000),
        *(
            offered(study.digest, kind, {**offer, **change})
            for kind in ("ReleaseSettings", "Settings", "Path")
            for change in ({"row_norm": 10**4000}, {"shares": [10**4000]}, {"offset": [1e400]}, {"epsilon": -1.0})
        ),
    ]  # fmt: skip
    for body in bodies:
        refusal = ENVELOPES.decode(half.handle(body))
        assert isinstance(refusal, Refusal), body[:200]
        assert refusal.kind in ("malformed", "settings", "study", "behind")
    assert place.spent(study, "north") == 0 and not half.charged
    run_study(study, Wire({**place.halves(study), "north": half}))


def test_a_ledger_that_fails_and_a_log_that_cannot_be_written_are_no_crash(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = place.study("notears")
    place.ledgers(epsilon=10.0, delta=1e-5)
    desk = place.desk(study, "north")

    def closed(line: str) -> None:
        raise BrokenPipeError

    half = desk.party(log=closed)
    attacker = Attacker(half, study)
    for message in (attacker.agreed[0], release.Plan((("m", 0.5), ("n", 0.5))), release.Charge()):
        assert not isinstance(attacker.ask(message), Refusal)

    def full(*args: Any, **options: Any) -> bytes:
        raise OSError("no space left in /home/owner/north.sqlite")

    monkeypatch.setattr(type(desk.ledger), "store_answer", full)
    assert attacker.ask(release.AskMoments("m", 1.0, None, None)).kind == "again"
    monkeypatch.undo()
    # the answer was made once, is stored when it is asked again, and is the same from then on
    answers = []
    for _ in range(2):
        attacker.sequence -= 1
        answers.append(attacker.ask(release.AskMoments("m", 1.0, None, None)))
    np.testing.assert_array_equal(answers[0].upper, answers[1].upper)
    assert not half.finished and place.spent(study, "north") <= EPSILON


def test_two_processes_of_one_party_charge_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    study = place.study("notears")
    place.ledgers(epsilon=10.0, delta=1e-5)
    first, second = (Attacker(place.desk(study, "north").party(), study) for _ in range(2))
    for attacker in (first, second):
        attacker.ask(attacker.agreed[0])
        attacker.ask(release.Plan((("m", 1.0),)))
    # both look, neither finds a run, both go on
    monkeypatch.setattr(DurableParty, "_unfit", lambda self, request: None)
    monkeypatch.setattr(second.half._ledger, "stored_answer", lambda request: None)
    answers = [attacker.ask(release.Charge()) for attacker in (first, second)]
    assert sum(isinstance(answer, Refusal) for answer in answers) == 1
    assert place.spent(study, "north") <= EPSILON


@pytest.mark.parametrize("number", [math.inf, 1e300, 1e-300, -1.0, 0.0, 10**400])
def test_no_number_of_a_coordinator_gets_an_answer_without_its_noise(place: Place, number: float) -> None:
    study = place.study("notears")
    place.ledgers(epsilon=10.0, delta=1e-5)
    mu = 0.0
    for attempt, message in enumerate(
        (
            release.AskMean((1.0,) * 4 + (number,)),
            release.AskMoments("mean", number, None, None),
            release.AskMoments("mean", number, SparseMatrix.of(np.eye(5)), (0.0,) * 5),
        ),
        start=1,
    ):
        attacker = Attacker(place.desk(study, "north").party(attempt=attempt), study)
        mu = attacker.ask(attacker.agreed[0]).mu
        attacker.ask(release.Plan((("mean", 1.0),)))
        attacker.ask(release.Charge())
        answer = attacker.ask(message)
        if isinstance(answer, release.Numbers):
            assert answer.noise_sd > 0 and np.isfinite(answer.values).all()
        elif isinstance(answer, release.Matrix):
            assert answer.scale >= number**2 / ROWS / mu and np.isfinite(answer.upper).all()
        else:
            assert isinstance(answer, Refusal)
    assert place.spent(study, "north") <= 3 * EPSILON


def test_shares_cannot_be_moved_after_the_charge(place: Place) -> None:
    study = place.study("notears")
    place.ledgers(epsilon=10.0, delta=1e-5)
    attacker = Attacker(place.desk(study, "north").party(), study)
    attacker.ask(attacker.agreed[0])
    attacker.ask(release.Plan((("m", 0.01), ("n", 0.99))))
    attacker.ask(release.Charge())
    assert attacker.ask(release.Plan((("m", 0.99), ("n", 0.01)))).kind == "final"
    attacker.sequence -= 1
    scales = [attacker.ask(release.AskMoments(label, 1.0, None, None)).scale for label in ("m", "n")]
    assert scales[0] / scales[1] == pytest.approx(math.sqrt(99))  # as charged
    assert place.spent(study, "north") <= EPSILON


def test_a_run_gives_no_more_rounds_than_were_paid_and_none_after_its_end(place: Place) -> None:
    study = place.study("fed-sparse", parameters={"rounds": 2, "updates": 3})
    nothing = SparseMatrix.of(np.zeros((5, 5)))
    place.ledgers(epsilon=10.0, delta=1e-5)
    greedy = Attacker(place.desk(study, "north").party(), study)
    for message in (greedy.agreed[0], sparse.Charge(), sparse.Start(False), sparse.Configure((1.0,) * 5, 1.0)):
        assert not isinstance(greedy.ask(message), Refusal)
    assert isinstance(greedy.ask(sparse.Round(1, nothing)), sparse.LocalUpdate)
    assert isinstance(greedy.ask(sparse.Round(2, nothing)), sparse.LocalUpdate)
    assert greedy.ask(sparse.Round(3, nothing)).kind == "budget"
    ended = Attacker(place.desk(study, "south").party(), study)
    for message in (ended.agreed[0], sparse.Charge(), sparse.Start(False), sparse.Finish(nothing)):
        assert not isinstance(ended.ask(message), Refusal)
    for message in (sparse.Configure((1.0,) * 5, 1.0), sparse.Round(1, nothing)):
        assert ended.ask(message).kind == "final" and ended.half.finished
    # a run that is ended before anything was drawn costs nothing, and gives nothing
    idle = Attacker(place.desk(study, "west").party(), study)
    for message in (idle.agreed[0], sparse.Charge(), sparse.Finish(nothing)):
        idle.ask(message)
    assert idle.ask(sparse.Start(True)).kind == "final" and place.spent(study, "west") == 0
    for name in ("north", "south"):
        assert 0 < place.spent(study, name) <= EPSILON


@pytest.mark.parametrize("private", [True, False])
def test_moments_that_stay_at_a_party_are_not_sent_on_request(place: Place, private: bool) -> None:
    study = place.study("fed-bnsl", private)
    place.ledgers(epsilon=10.0 if private else None, delta=1e-5)
    for name, message in zip(
        PARTIES,
        (
            release.AskMoments("m", 1.0, None, None),
            release.AskMean((1.0,) * 5),
            release.AskHistogram("m", None),
        ),
        strict=True,
    ):
        attacker = Attacker(place.desk(study, name).party(), study)
        attacker.ask(attacker.agreed[0])
        attacker.ask(release.Plan((("m", 0.5), ("mean", 0.5))))
        attacker.ask(release.Charge())
        assert attacker.ask(message).kind == "protocol"


def test_graphs_and_masks_that_a_study_does_not_use_stay_at_the_party(place: Place) -> None:
    graph = Pdag.from_edges(5, [], [(0, 1)])
    unused: dict[str, list[Any]] = {
        "peri": [
            peri.AskGraph(),
            peri.AskRegrets(((0, 2),), "skeleton", 5),
            peri.AskRegrets(((0, 2),), "directed", 5),
            peri.AskRegrets(((0, 2),), "targets", 5),
            peri.AskColliders(graph, ((),)),
        ],
        "iperi": [
            peri.AskRegrets(((0, 2),), "skeleton", 5),
            peri.AskRegrets(((0, 2),), "none", 5),
            peri.AskColliders(graph, (((0, 10**9),),)),
            peri.AskColliders(graph, (((0, -1),),)),
        ],
    }
    for method, questions in unused.items():
        study = place.study(method)
        for attempt, question in enumerate(questions, start=1):
            folder = place.folder / f"{method}-{attempt}"
            folder.mkdir()
            here = Place(place.folder, place.parts)
            here.ledger = lambda name, folder=folder: folder / f"{name}.sqlite"  # type: ignore[method-assign, misc]
            here.ledgers()
            attacker = Attacker(here.desk(study, "north").party(), study)
            offers = {type(message): message for message in attacker.agreed}
            first, second = offers[kept_messages.Offer], offers[peri.Offer]
            for message in (first, kept_messages.Charge(), kept_messages.Release(), second):
                assert not isinstance(attacker.ask(message), Refusal)
            assert attacker.ask(question).kind == "protocol", question


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("pc", {"alpha": 7.0}),
        ("pc", {"max_cond_vars": "x"}),
        ("ges", {"penalty": -1.0}),
        ("notears", {"l1": -3.0}),
        ("equal-variance", {"threshold": -1.0}),
        ("fedacd", {"quorum": -5.0}),
        ("fedacd", {"levels": [2, 2]}),
        ("fed-bnsl", {"rho1": -1.0}),
        ("fed-sparse", {"updates": -1}),
        ("iperi", {"privacy": "regret"}),
    ],
)
def test_parameters_that_would_fail_after_the_charge_are_refused_before(
    place: Place, method: str, parameters: dict[str, Any]
) -> None:
    study = place.study(method, parameters=parameters)
    place.ledgers()
    with pytest.raises(InvalidParameter):
        place.halves(study)
    with pytest.raises(InvalidParameter):
        run_study(study, Wire({}))


@pytest.mark.parametrize("method", ["notears", "fed-sparse", "fed-bnsl", "peri", "fedacd"])
def test_simulated_noise_is_marked_in_every_ledger(place: Place, method: str) -> None:
    study = place.study(method)
    place.ledgers()
    desk = place.desk(study, "north")
    attacker = Attacker(desk.party(), study)
    offer = attacker.agreed[0]
    attacker.ask(offer)
    if isinstance(offer, release.Offer):
        attacker.ask(release.Plan((("m", 1.0),)))
    charge = next(kind for kind in Method(study).charging if kind.__module__ == type(offer).__module__)
    assert not isinstance(attacker.ask(charge()), Refusal)
    charged = [entry.label for entry in desk.ledger.entries() if entry.kind == "reserve"]
    assert charged and all("SIMULATED" in label for label in charged)


def test_a_checkpoint_is_its_owners_alone(tmp_path: Path) -> None:
    Checkpoint(tmp_path / "run.sqlite", "study").close()
    assert (tmp_path / "run.sqlite").stat().st_mode & 0o077 == 0
    with pytest.raises(CheckpointUnusable, match=r"run\.sqlite") as caught:
        Checkpoint(tmp_path / "nowhere" / "run.sqlite", "study")
    assert "nowhere" not in str(caught.value).split("cannot be used")[0]


def test_a_relay_does_not_take_the_place_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    ledger = folder / "north.sqlite"
    ledger.write_bytes(b"kept")
    with pytest.raises(InvalidParameter, match="is a file"):
        listen(lambda body: body, ledger, until=lambda: True)
    assert ledger.read_bytes() == b"kept"


def test_refusals_tell_nothing_of_what_a_question_or_the_party_holds(place: Place) -> None:
    study = place.study("notears")
    place.ledgers()
    half = place.desk(study, "north").party()
    for payload in (b"secret", raw("release.secret", {}), raw("release.AskMean", {"bounds": ["secret"]})):
        answer = half.handle(enveloped(study.digest, payload))
        assert b"secret" not in answer and b"north" not in answer and str(place.folder).encode() not in answer


def test_a_charge_out_of_turn_does_not_use_up_the_attempt(place: Place) -> None:
    study = place.study("notears")
    place.ledgers()
    halves = place.halves(study)
    assert isinstance(Attacker(halves["north"], study).ask(release.Charge()), Refusal)
    assert place.spent(study, "north") == 0
    run = run_study(place.study("notears"), Wire(place.halves(study)))
    assert run.parties == PARTIES


def test_answers_are_bound_to_the_run_and_the_number(place: Place) -> None:
    study = place.study("notears")
    place.ledgers()
    half = place.desk(study, "north").party()
    attacker = Attacker(half, study)
    attacker.ask(attacker.agreed[0])
    attacker.ask(release.Plan((("m", 0.5), ("n", 0.5))))
    attacker.ask(release.Charge())
    payload = attacker.codec.encode(release.AskMoments("m", 1.0, None, None))
    body = ENVELOPES.encode(Request(study.digest, "r", 4, payload))
    given = half.handle(body)
    assert isinstance(ENVELOPES.decode(given), Answer) and half.handle(body) == given
    for run, sequence in (("s", 4), ("r", 3), ("r", 6), ("r", -4), ("r", 0)):
        assert isinstance(
            ENVELOPES.decode(half.handle(ENVELOPES.encode(Request(study.digest, run, sequence, payload)))), Refusal
        )
    again = half.handle(ENVELOPES.encode(Request(study.digest, "r", 5, payload)))  # drawn once, as planned
    assert ENVELOPES.decode(again).kind == "budget"
    assert half.handle(body) == given
