"""How a run begins: every party says the public facts that the run's settings follow from. Nothing is charged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from privfcd.accounting import REPLACE_ONE, zcdp_to_epsilon
from privfcd.algorithms.protocol import Empty, Federation, Message, Party
from privfcd.algorithms.rounds import expect
from privfcd.algorithms.terms import Terms
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_origin
from privfcd.errors import PartyFailed
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.moments import Origin


@dataclass(frozen=True)
class AskFacts(Empty):
    """To the parties: the columns, and what the run may spend of each budget. Answered by `PartyFacts`."""

    columns: tuple[str, ...]
    epsilon: float | None
    delta: float | None


@dataclass(frozen=True)
class PartyFacts(Empty):
    """From a party: what it declares public.

    Attributes
    ----------
    n_rows : int
        The number that its sums are divided by.
    epsilon : float
        What the run will spend of its budget, roughly; inf for an open table.
    replaced : bool
        Whether neighbours differ in a replaced record (else in an added or removed one).
    bounds : tuple of float, optional
        Declared bounds on |x_j|.
    origins : tuple of Origin
        The names of its data sets, and the kind of their noise.
    """

    n_rows: int
    epsilon: float
    replaced: bool
    bounds: tuple[float, ...] | None
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class Facts:
    """What is public of a run before it is charged.

    Attributes
    ----------
    columns : tuple of str
        In the order of the run's matrices.
    parties : tuple of PartyFacts
        In the federation's order.
    """

    columns: tuple[str, ...]
    parties: tuple[PartyFacts, ...]

    @property
    def private(self) -> bool:
        """Whether any party has a budget."""
        return any(not math.isinf(party.epsilon) for party in self.parties)

    @property
    def epsilon(self) -> float:
        """The least that a party will spend, roughly; inf where all tables are open."""
        return min(party.epsilon for party in self.parties)


def ask_facts(federation: Federation, ask: AskFacts) -> Facts:
    """Ask every party for its public facts."""
    return Facts(ask.columns, tuple(expect(federation, ask, PartyFacts)))


def planned_epsilon(table: PrivateTable, epsilon: float | None) -> float:
    """Return roughly what a run will spend of a table's budget, for the default settings; inf for an open table."""
    if table.open:
        return math.inf
    if epsilon is not None:
        return epsilon
    left = table.ledger.left()
    if left is None:
        return 1.0
    if left.rho is not None:
        return zcdp_to_epsilon(left.rho, 1 / max(table.n_rows, 2) ** 2)
    return left.epsilon or 1.0


class PayingParty(Party, Protocol):
    """A party's half of the stage that charges; a run has one such stage."""

    def reports(self) -> list[PrivacyReport]:
        """Return the report on each table, for its owner; nothing before the charge."""


class StagedParty:
    """A party's half of a run in stages: each message goes to the stage that knows its module.

    Attributes
    ----------
    stages : dict of str to Party
        The halves that have been asked something, by the name of their messages' module.
    seat : Seat, optional
        This party's in secure sums; the stage that pays gets it.

    Parameters
    ----------
    tables : sequence of PrivateTable
        One; or several, whose sum it is trusted with.
    stages : mapping of module to callable
        For the module of a stage's messages, what makes its half when the first of them comes.
    charging : sequence of type
        The messages that charge. A run is paid for by one stage: once one was asked to charge, no other is.
    """

    def __init__(
        self,
        tables: Sequence[PrivateTable],
        stages: Mapping[ModuleType, Callable[[], Party]],
        charging: Sequence[type] = (),
    ) -> None:
        self._tables = list(tables)
        self._make = {module.__name__: make for module, make in stages.items()}
        self.stages: dict[str, Party] = {}
        self._terms = Terms()
        self._charging = tuple(charging)
        self._paying = ""
        self.seat: Any = None

    @property
    def name(self) -> str:
        """See `Party.name`."""
        return self._tables[0].name if len(self._tables) == 1 else f"trusted sum of {len(self._tables)} tables"

    def reports(self) -> list[PrivacyReport]:
        """See `PayingParty.reports`."""
        return [report for stage in self.stages.values() if hasattr(stage, "reports") for report in stage.reports()]

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        if isinstance(message, AskFacts):
            return self._terms.consider(self.name, message, self._facts)
        place = type(message).__module__
        if place not in self._make:
            raise PartyFailed(f"{self.name} does not know the message {type(message).__name__}")
        if self.pays(message):
            if self._paying not in ("", place):
                raise PartyFailed(
                    f"{self.name} was asked to be charged a second time: a run is charged once, by one stage"
                )
            self._paying = place
        if place not in self.stages:
            self.stages[place] = self._make[place]()
            if self.seat is not None and hasattr(self.stages[place], "seat"):
                setattr(self.stages[place], "seat", self.seat)  # noqa: B010
        return self.stages[place].answer(message)

    def pays(self, message: Message) -> bool:
        """Return whether a message charges a budget."""
        return isinstance(message, self._charging)

    def _facts(self, ask: AskFacts) -> PartyFacts:
        tables = [table.reordered(ask.columns) for table in self._tables]
        declared = [table.bounds for table in tables if table.bounds is not None]
        bounds = None
        if len(declared) == len(tables):
            bounds = tuple(max(each) for each in zip(*declared, strict=True))
        return PartyFacts(
            sum(table.n_rows for table in tables),
            min(planned_epsilon(table, ask.epsilon) for table in tables),
            tables[0].relation is REPLACE_ONE,
            bounds,
            tuple(map(table_origin, tables)),
        )
