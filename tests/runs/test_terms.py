"""A second plan after the charge: what was agreed and paid for is final, for every party and every method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms import kept_messages
from privfcd.algorithms.fed_bnsl import FedBNSL
from privfcd.algorithms.fed_bnsl import messages as bnsl
from privfcd.algorithms.fed_bnsl.party import FedBNSLParty
from privfcd.algorithms.fed_sparse import FedSparseBNSL
from privfcd.algorithms.fed_sparse import messages as sparse
from privfcd.algorithms.fed_sparse.moment_party import MomentParty
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.algorithms.fedacd import FedACD
from privfcd.algorithms.fedacd import messages as fedacd
from privfcd.algorithms.fedacd.party import FedACDParty
from privfcd.algorithms.kept_learner import OwnRoundsParty
from privfcd.algorithms.peri import IPERI
from privfcd.algorithms.peri import messages as peri
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.protocol import SparseMatrix
from privfcd.algorithms.registry import LEARNERS
from privfcd.algorithms.release import messages as release
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.plan import COVARIANCE, HISTOGRAM
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.terms import Terms
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.mechanisms import SimulatedNoise
from privfcd.moments import Moments
from privfcd.runs.method import Method
from privfcd.runs.study_run import run_study
from privfcd.runs.wire.envelope import ENVELOPES, Refusal, Request

from .conftest import EPSILON, PARTIES, Place, Wire

NAMES = ("a", "b", "c")
NOTHING = SparseMatrix.of(np.zeros((3, 3)))
ROWS = np.random.default_rng(0).normal(size=(300, 3))
PLAN = release.Plan(((HISTOGRAM, 0.9), (COVARIANCE, 0.1)))
OTHER_PLAN = release.Plan(((HISTOGRAM, 0.1), (COVARIANCE, 0.9)))


def table(private: bool = True) -> PrivateTable:
    budget = Budget(epsilon=20, delta=1e-5) if private else None
    return PrivateTable(ROWS, NAMES, name="x", budget=budget, noise=SimulatedNoise(1))


def moments() -> Moments:
    return Moments(ROWS.T @ ROWS / len(ROWS), len(ROWS), NAMES)


def offered(kind: Any, settings: Any) -> tuple[Any, Any]:
    """An offer, and another one."""
    return kind(settings, NAMES), kind(settings, NAMES[::-1])


def sparse_offers() -> tuple[Any, Any]:
    return offered(sparse.Offer, FedSparseBNSL(rounds=2, updates=3)._settings(20.0, 3))


def release_offers(send: bool = True) -> tuple[Any, Any]:
    return offered(release.Offer, ReleaseSettings(method="covariance", send=send))


def own_offers() -> tuple[Any, Any]:
    return tuple(kept_messages.Offer(epsilon, 1e-6, False, NAMES, True) for epsilon in (2.0, 9.0))


def fedacd_offers(levels: tuple[int, ...] | None) -> tuple[Any, Any]:
    return offered(fedacd.Offer, replace(FedACD()._settings(NAMES), levels=levels))


CASES: dict[str, tuple[Callable[[], Any], Callable[[], tuple[Any, Any]], tuple[Any, ...]]] = {
    "fed-sparse": (lambda: FedSparseParty(table(), 0), sparse_offers, (sparse.Charge(), sparse.Start(True))),
    "fed-sparse on moments": (
        lambda: MomentParty(moments(), "x"),
        sparse_offers,
        (sparse.Charge(), sparse.Start(True)),
    ),
    "release": (lambda: ReleaseParty([table()], 0), release_offers, (PLAN, release.Charge())),
    "kept release": (
        lambda: ReleaseParty([table()], 0),
        lambda: release_offers(send=False),
        (PLAN, release.Charge(), release.AskOwn()),
    ),
    "own rounds": (lambda: OwnRoundsParty(table(), 0), own_offers, (kept_messages.Charge(),)),
    "fed-bnsl": (
        lambda: FedBNSLParty("x", moments()),
        lambda: offered(bnsl.Offer, FedBNSL()._settings()),
        (bnsl.Round(1, None),),
    ),
    "iperi": (
        lambda: PERIParty("x", moments()),
        lambda: offered(peri.Offer, IPERI()._settings()),
        (peri.AskRegrets(((0, 2),), "directed", 3),),
    ),
    "fedacd on moments": (lambda: FedACDParty(moments(), "x"), lambda: fedacd_offers(None), (fedacd.Charge(),)),
}


@pytest.mark.parametrize("case", CASES)
def test_before_the_charge_an_offer_may_change_and_after_it_none(case: str) -> None:
    make, offers, work = CASES[case]
    party, (first, other) = make(), offers()
    party.answer(other)
    quote = party.answer(first)
    for message in work:
        party.answer(message)
    for _ in range(2):
        with pytest.raises(PartyFailed, match=f"{party.name} was sent another Offer after its run had begun"):
            party.answer(other)
    assert party.answer(first) == quote
    charge = next((message for message in work if type(message).__name__ == "Charge"), None)
    if charge is not None:
        with pytest.raises(PartyFailed, match=r"a second time|in turn"):
            party.answer(charge)


def test_a_second_plan_moves_no_noise() -> None:
    party = ReleaseParty([table()], 0)
    party.answer(release_offers()[0])
    party.answer(PLAN)
    party.answer(release.Charge())
    spent = party._tables[0].ledger.spent_units()
    with pytest.raises(PartyFailed, match="another Plan"):
        party.answer(OTHER_PLAN)
    party.answer(PLAN)
    answer = party.answer(release.AskMoments(COVARIANCE, 1.0, None, None))
    untouched = ReleaseParty([table()], 0)
    for message in (release_offers()[0], PLAN, release.Charge()):
        untouched.answer(message)
    assert answer.scale == untouched.answer(release.AskMoments(COVARIANCE, 1.0, None, None)).scale
    assert party._tables[0].ledger.spent_units() == spent


def test_a_plan_belongs_to_its_offer() -> None:
    party = ReleaseParty([table()], 0)
    first, other = release_offers()
    party.answer(first)
    party.answer(PLAN)
    party.answer(other)
    with pytest.raises(PartyFailed, match="before a plan was agreed"):
        party.answer(release.Charge())


@pytest.mark.parametrize("shares", [(), (0.5, 0.5, 0.0), (1.5, -0.5), (0.5,)])
def test_shares_are_parts_of_the_whole(shares: tuple[float, ...]) -> None:
    party = ReleaseParty([table()], 0)
    party.answer(release_offers()[0])
    with pytest.raises(InvalidParameter, match="add up to 1"):
        party.answer(release.Plan(tuple((f"part {k}", share) for k, share in enumerate(shares))))


def test_terms_hold_the_latest_message_of_each_kind() -> None:
    terms, seen = Terms(), []

    def answer(message: Any) -> int:
        seen.append(message)
        return len(seen)

    assert [terms.consider("x", message, answer) for message in ("a", 1, "b")] == [1, 2, 3]
    terms.settle("x")
    assert [terms.consider("x", message, answer) for message in (1, "b", "b")] == [2, 3, 3] and len(seen) == 3
    for message in ("a", 2, 1.5, True):
        with pytest.raises(PartyFailed, match="x was sent another"):
            terms.consider("x", message, answer)
    with pytest.raises(PartyFailed, match="charged once"):
        terms.settle("x")


@pytest.mark.parametrize("name", LEARNERS)
def test_between_machines_a_coordinator_that_plans_again_gets_nothing_and_ends_nothing(place: Place, name: str) -> None:
    """After each charge it sends each opening message anew, changed, and those of a run that was never begun."""
    study = place.study(name, parameters={"rounds": 2, "updates": 3} if name == "fed-sparse" else {})
    place.ledgers(epsilon=5 * EPSILON, delta=5e-6)  # there is more, but the study is paid once
    method, halves = Method(study), place.halves(study)
    openings = (release.Offer, release.Plan, kept_messages.Offer, sparse.Offer)
    charged: list[str] = []
    seen: list[Any] = []

    def attack(party: str, body: bytes, answer: bytes) -> bytes:
        request = ENVELOPES.decode(body)
        message = method.codec.decode(request.payload)
        if isinstance(message, openings):
            seen.append(message)
        if type(message) in method.charging:
            charged.append(party)
            spent = place.spent(study, party)
            for opening in seen:
                changed = method.codec.encode(changed_opening(opening))
                for run, sequence in ((request.run, request.sequence + 1), ("another run", 1)):
                    question = ENVELOPES.encode(Request(study.digest, run, sequence, changed))
                    refusal = ENVELOPES.decode(halves[party].handle(question))
                    assert isinstance(refusal, Refusal) and refusal.kind in ("settings", "final", "run")
            assert place.spent(study, party) == spent <= EPSILON
        return answer

    run = run_study(study, Wire(halves, attack))
    assert tuple(charged) == PARTIES and seen and np.isfinite(run.model.adjacency_matrix_).all()


def changed_opening(message: Any) -> Any:
    if isinstance(message, release.Plan):
        (label, share), *rest = message.shares
        more = [(f"more {label}", share / 2), (label, share / 2)]
        return release.Plan((*more, *rest))
    return replace(message, columns=message.columns[::-1])


def test_a_run_is_charged_by_one_stage() -> None:
    learner = FedSparseBNSL(rounds=2, updates=3, release="auto", epsilon=5.0, bounds_share=0.3)
    own = table()
    party = learner.party([own], 0)
    coordinates, of_moments = learner.offers(learner.facts_of([table()]))
    for message in (coordinates, of_moments, release.Plan((("m", 1.0),)), sparse.Charge()):
        party.answer(message)
    spent = own.ledger.spent_units()
    with pytest.raises(PartyFailed, match="by one stage"):
        party.answer(release.Charge())
    assert own.ledger.spent_units() == spent and len(party.reports()) == 1


def test_an_offer_that_is_no_part_of_the_run_is_never_answered(place: Place) -> None:
    study = place.study("fed-sparse", parameters={"rounds": 2, "updates": 3})  # coordinates: nobody is offered a release
    place.ledgers()
    half, codec = place.desk(study, "north").party(), Method(study).codec
    for offer in release_offers():
        body = ENVELOPES.encode(Request(study.digest, "r", 1, codec.encode(offer)))
        refusal = ENVELOPES.decode(half.handle(body))
        assert isinstance(refusal, Refusal) and refusal.kind == "settings"
