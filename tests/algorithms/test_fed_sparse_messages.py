"""Messages of Fed-Sparse-BNSL that break the rules: what a party or a coordinator that lies can get, or break."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from privfcd.accounting import Budget
from privfcd.algorithms.fed_sparse import FedSparseBNSL, messages
from privfcd.algorithms.fed_sparse.coordinator import FedSparseCoordinator
from privfcd.algorithms.fed_sparse.party import FedSparseParty
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.protocol import Empty, SparseMatrix
from privfcd.data.private import PrivateTable
from privfcd.errors import PartyFailed, PrivfcdError

Tables = Callable[..., list[PrivateTable]]
Model = Callable[..., FedSparseBNSL]
PRIVATE = Budget(epsilon=100, delta=1e-5)


def defaults(learner: FedSparseBNSL, made: list[PrivateTable]) -> Any:
    """The settings that a run on these tables has."""
    return learner.settings_for(learner.facts_of(made))


def started(
    tables: Tables, model: Model, *, configured: bool = True, **changes: Any
) -> tuple[FedSparseParty, PrivateTable]:
    table = tables(budget=PRIVATE)[0]
    party = FedSparseParty(table, 0)
    settings = defaults(model(**changes), [table])
    party.answer(messages.Offer(settings, table.columns))
    party.answer(messages.Charge())
    party.answer(messages.Start(True))
    if configured:
        party.answer(messages.Configure((1.0,) * 4, 5.0))
    return party, table


def test_a_party_refuses_messages_out_of_order_or_unknown(tables: Tables, model: Model) -> None:
    table = tables(budget=PRIVATE)[0]
    nothing = SparseMatrix.of(np.zeros((4, 4)))
    party = FedSparseParty(table, 0)
    for message in (
        messages.Charge(),
        messages.Start(True),
        messages.Configure(None, 1.0),
        messages.Round(1, nothing),
        Empty(),
    ):
        with pytest.raises(PartyFailed):
            party.answer(message)
    party.answer(messages.Offer(defaults(model(), [table]), table.columns))
    for message in (messages.Start(True), messages.Configure(None, 1.0), messages.Round(1, nothing)):
        with pytest.raises(PartyFailed):
            party.answer(message)
    assert not table.ledger.entries()


def test_a_coordinator_gets_no_more_than_was_paid_for(tables: Tables, model: Model) -> None:
    party, table = started(tables, model, rounds=2)
    spent = table.ledger.spent_units()
    nothing = SparseMatrix.of(np.zeros((4, 4)))
    party.answer(messages.Round(1, nothing))
    for number in (-1, 0, 1, 3):
        with pytest.raises(PartyFailed, match=f"round {number} after round 1"):
            party.answer(messages.Round(number, nothing))
    party.answer(messages.Round(2, nothing))
    with pytest.raises(PrivfcdError, match="refused"):
        party.answer(messages.Round(3, nothing))
    for again in (messages.Start(True), messages.Configure((1.0,) * 4, 5.0)):
        with pytest.raises(PartyFailed, match="second time"):
            party.answer(again)
    assert table.ledger.spent_units() == spent


@pytest.mark.parametrize(
    "message",
    [
        messages.Configure((1.0,) * 3, 5.0),
        messages.Configure((1.0,) * 4, math.inf),
        messages.Configure((1.0,) * 4, None),
        messages.Configure((1.0,) * 4, math.nan),
        messages.Configure((1.0,) * 4, -1.0),
        messages.Configure((1.0, math.nan, 1.0, 1.0), 5.0),
        messages.Round(1, SparseMatrix(3, np.array([0]), np.array([1.0]))),
        messages.Round(1, SparseMatrix(4, np.array([16]), np.array([1.0]))),
        messages.Round(1, SparseMatrix(4, np.array([1]), np.array([math.nan]))),
    ],
    ids=str,
)
def test_a_coordinators_nonsense_is_refused_before_a_draw(tables: Tables, model: Model, message: Any) -> None:
    party, _ = started(tables, model, configured=isinstance(message, messages.Round))
    assert party.reservation is not None
    drawn = party.reservation.drawn()
    with pytest.raises(PrivfcdError):
        party.answer(message)
    assert party.reservation.drawn() == drawn


@pytest.mark.parametrize("size", [1.0, 1e4, 1e9, 1e200])
def test_whether_a_party_answers_does_not_depend_on_one_record(
    tables: Tables, model: Model, parts: list[np.ndarray], size: float
) -> None:
    """A coordinator may send any W; an error that only some rows cause would tell on them without any noise."""
    weights = np.zeros((4, 4))
    weights[0, 2], weights[1, 2] = size, -size
    absurd = parts[0].copy()
    absurd[0] = [1e200, 0.0, 1e200, 1e200]
    answers = []
    for rows in (parts[0], absurd):
        party, _ = started(lambda rows=rows, **each: tables([rows], **each), model)
        try:
            answers.append(type(party.answer(messages.Round(1, SparseMatrix.of(weights)))).__name__)
        except PrivfcdError as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    assert size > 1e4 or answers == ["LocalUpdate"] * 2


class Liar(FedSparseParty):
    """A party that answers one kind of message with something of its own."""

    def __init__(self, table: PrivateTable, index: int, kind: type, answer: Any) -> None:
        super().__init__(table, index)
        self._kind, self._answer = kind, answer

    def answer(self, message: Any) -> Any:
        real = super().answer(message)
        return self._answer if isinstance(message, self._kind) else real


LIES = [
    (messages.Offer, Empty()),
    (messages.Start, Empty()),
    (messages.Start, messages.Started(None, None)),
    (messages.Start, messages.Started((1.0, math.nan, 1.0, 1.0), None)),
    (messages.Round, Empty()),
    (messages.Round, messages.LocalUpdate(SparseMatrix(4, np.array([1]), np.array([math.inf])))),
    (messages.Round, messages.LocalUpdate(SparseMatrix(5, np.array([1]), np.array([1.0])))),
    (messages.Round, messages.LocalUpdate(SparseMatrix(4, np.array([99]), np.array([1.0])))),
]


def run_with_liar(tables: Tables, model: Model, kind: type, lie: Any, everyone: bool = False) -> None:
    made = tables(budget=PRIVATE)
    parties = [
        Liar(table, index, kind, lie) if everyone or index == 1 else FedSparseParty(table, index)
        for index, table in enumerate(made)
    ]
    coordinator = FedSparseCoordinator(defaults(model(), made), made[0].columns)
    federation = LocalFederation(parties)
    coordinator.run(federation, coordinator.offer(federation))


@pytest.mark.parametrize("everyone", [True, False])
@pytest.mark.parametrize(("kind", "lie"), LIES, ids=lambda value: str(value)[:60])
def test_a_partys_nonsense_is_refused_by_the_coordinator(
    tables: Tables, model: Model, kind: type, lie: Any, everyone: bool
) -> None:
    with pytest.raises(PartyFailed):
        run_with_liar(tables, model, kind, lie, everyone)


@pytest.mark.parametrize("moments", [None, (1.0,) * 3], ids=["missing", "too few"])
def test_one_partys_missing_moments_are_refused_by_name(tables: Tables, model: Model, moments: Any) -> None:
    with pytest.raises(PartyFailed):
        run_with_liar(tables, model, messages.Start, messages.Started(moments, None))


def test_an_offer_after_the_charge_does_not_buy_less_noise(tables: Tables, model: Model) -> None:
    """A coordinator that prices much noise and then asks for little is refused by the reservation."""
    table = tables(budget=Budget(rho=1e6), bounds=9.0)[0]
    party = FedSparseParty(table, 0)

    def offer(**changes: Any) -> None:
        party.answer(messages.Offer(defaults(model(center=True, **changes), [table]), table.columns))

    offer(noise_multiplier=0.5)
    offer(noise_multiplier=50.0)  # nothing is charged yet
    party.answer(messages.Charge())
    spent = table.ledger.spent_units()
    with pytest.raises(PartyFailed, match="another Offer"):
        offer(noise_multiplier=0.5)
    with pytest.raises(PartyFailed, match="a second time"):
        party.answer(messages.Charge())
    party.answer(messages.Start(True))
    offer(noise_multiplier=50.0)
    with pytest.raises(PartyFailed, match="a second time"):
        party.answer(messages.Start(True))
    assert party.plan is not None and party.plan.noise_multiplier == 50.0
    assert table.ledger.spent_units() == spent
