"""The contract of a learner: parameters, two halves, what its result rests on; and the one way to run it in this process.

A learner is one object. `fit` runs its halves over a federation in this process, a study over one between machines, a plan
on tables without rows, an audit on neighbouring ones: the same code each time. To add one, write its folder, and name it in
`privfcd.algorithms.registry`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, ClassVar, Literal, Self, TypeVar

from privfcd import checks
from privfcd.algorithms.base import NULL_LEVEL, Estimator
from privfcd.algorithms.declared import Takes
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.opening import AskFacts, Facts, StagedParty, ask_facts
from privfcd.algorithms.protocol import Federation, Message
from privfcd.algorithms.results import store_privacy
from privfcd.algorithms.rounds import check_on_round
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.moments import Moments

ROWS = "The rows are independent of each other."
CAUSES = "No variable outside the table is a common cause of two inside it."
ACYCLIC = "No variable is its own cause, however indirectly."
LINEAR = "Each variable is a linear function of its causes plus an error that is independent of them."
EQUAL = "The errors of all variables have one variance, in the columns' own units: rescaling a column can turn edges."
GAUSSIAN = "Errors are Gaussian, or correlations stand for dependence."
FAITHFUL = "Dependences do not cancel out exactly."
EQUAL_VARIANCES = (ROWS, CAUSES, ACYCLIC, LINEAR, EQUAL)
LINEAR_GAUSSIAN = (ROWS, CAUSES, ACYCLIC, LINEAR, GAUSSIAN, FAITHFUL)

SLOPE = (
    "The weight is the change of the effect for one unit more of the cause, the effect's other causes held fixed, in the "
    "columns' units as the learner saw them."
)

BEFORE = "left at its default for Moments, which were released before"

OnRound = Any
"""A function of a `RoundRecord`, or None."""

Settings = TypeVar("Settings")

_DECLARED = ("method", "graph", "weight", "rests_on", "message_modules", "charging", "ending")


@dataclass(eq=False, repr=False)
class Learner(Estimator, ABC):
    """What every learner declares and does.

    A class whose name begins with an underscore, or that has abstract methods, is a base; every other one states all of the
    following, or cannot be defined.

    Attributes
    ----------
    method : str
        Its name on the command line, in study files, reports and `learn`.
    graph : {"dag", "cpdag", "pdag"}
        What the result is: a graph, an equivalence class, or a graph in which undirected edges are left open.
    weight : str
        What an edge's weight means, in a sentence; empty where edges have none.
    rests_on : tuple of str
        The assumptions under which its edges are causes.
    message_modules : tuple of module
        Whose dataclasses pass between the halves.
    null_level : float or None
        At which level columns are tested for any dependence before an edge is stated; None states what the method finds.
    charging, ending : tuple of type
        The messages that charge a party, and the one that ends a run.
    """

    method: ClassVar[str]
    graph: ClassVar[Literal["dag", "cpdag", "pdag"]]
    weight: ClassVar[str]
    rests_on: ClassVar[tuple[str, ...]]
    message_modules: ClassVar[tuple[ModuleType, ...]]
    charging: ClassVar[tuple[type, ...]]
    ending: ClassVar[tuple[type, ...]]
    weight_name: ClassVar[str] = "Weight"
    reports_rounds: ClassVar[bool] = False
    least_columns: ClassVar[int] = 2
    pure: ClassVar[bool] = False
    """Whether it can run at delta = 0."""
    may_take: ClassVar[tuple[tuple[Takes, ...], ...]] = (("numbers",),)
    """Which declared columns it takes, see `privfcd.algorithms.declared`; several where parameters say which."""
    implementations: ClassVar[Mapping[type, tuple[type, ...]]] = {}
    """For a protocol that a message's type hint names: the dataclasses that it may be."""

    epsilon: float | None = field(default=None, kw_only=True)
    delta: float | None = field(default=None, kw_only=True)
    null_level: float | None = field(default=NULL_LEVEL, kw_only=True)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        missing = [name for name in _DECLARED if not hasattr(cls, name)]
        if missing and not cls.__name__.startswith("_"):
            raise TypeError(f"{cls.__name__} must state {', '.join(missing)}: see privfcd.algorithms.learner.Learner")

    @property
    def takes(self) -> tuple[Takes, ...]:
        """Which declared columns it takes with these parameters."""
        return self.may_take[0]

    def check(self) -> None:
        """Raise InvalidParameter for parameters that no data fit; extended by subclasses."""
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        if self.delta is not None:
            checks.delta("delta", self.delta, zero=self.pure)
        if self.null_level is not None:
            checks.fraction("null_level", self.null_level)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise InvalidParameter for parameters that do not fit these columns; extended by subclasses."""
        if len(columns) < self.least_columns:
            raise checks.refuse("the number of columns", len(columns), "at least 2: a graph needs two variables")

    def variables(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the variables that moments of these columns are of: those of an encoding have columns of other names."""
        return columns

    def opening(self, columns: tuple[str, ...]) -> AskFacts:
        """Return the first message of a run."""
        return AskFacts(columns, self.epsilon, self.delta)

    def facts_of(self, tables: Sequence[PrivateTable]) -> Facts:
        """Return the public facts that the parties of these tables would say before a run."""
        federation = LocalFederation([StagedParty([table], {}) for table in tables])
        return ask_facts(federation, self.opening(tables[0].columns))

    @abstractmethod
    def offers(self, facts: Facts) -> tuple[Message, ...]:
        """Return the offers that a coordinator may make where these facts are known; a party accepts no others."""

    def ends(self, facts: Facts) -> tuple[type, ...]:
        """Return the messages that end a run of which these facts are known."""
        return self.ending

    @abstractmethod
    def party(self, tables: Sequence[PrivateTable], index: int) -> StagedParty:
        """Return the half of a party; `index` is its number in the federation."""

    @abstractmethod
    def run(self, federation: Federation, columns: tuple[str, ...], on_round: OnRound = None) -> None:
        """Run the coordinator's half, and store what it learnt; it sees answers only."""

    @abstractmethod
    def learn(self, parts: Sequence[Moments], on_round: OnRound = None) -> None:
        """Learn from moments, one for each party: post-processing. Stores what was learnt."""

    def workers_for(self, tables: Sequence[PrivateTable]) -> int:
        """Return how many parties are asked at a time in one process."""
        return 1

    def fit(self, source: Sequence[PrivateTable] | Moments | Sequence[Moments], *, on_round: OnRound = None) -> Self:
        """Learn from tables or moments, one for each party.

        Columns are aligned by name to the first one's order. Everything is checked, and every party's budget is asked,
        before any ledger is charged; every ledger is charged before any row is read. Moments were released before: learning
        from them is post-processing, charged nowhere.

        Parameters
        ----------
        source : sequence of PrivateTable, or Moments, or a sequence of Moments
            One for each party.
        on_round : callable, optional
            Called after every round with its `RoundRecord`, by learners that have rounds.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party.
        """
        check_on_round(on_round)
        self.check()
        given = moments_given(source)
        if given is not None:
            self.check_columns(self.variables(given[0].columns))
            self.check_given()
            self.learn(given, on_round)
            store_privacy(self, None, given)
            return self
        tables = checked_tables(source, self.takes, self.method)
        columns = tables[0].columns
        self.check_columns(columns)
        groups = [tables] if getattr(self, "sum", "") == "trusted" else [[table] for table in tables]
        parties = [self.party(group, index) for index, group in enumerate(groups)]
        federation: Federation = LocalFederation(parties, self.workers_for(tables))
        if getattr(self, "sum", "") == "secure":
            federation = self.summing(federation, tables, parties)
        self.run(federation, columns, on_round)
        store_privacy(self, [report for party in parties for report in party.reports()])
        return self

    def summing(self, inner: Federation, tables: Sequence[PrivateTable], parties: Sequence[StagedParty]) -> Federation:
        """Return a federation of secure sums over parties of this process; by learners that know `sum="secure"`."""
        raise InvalidParameter(f"sum='secure' is not known to {type(self).__name__}")

    def check_given(self) -> None:
        """Raise InvalidParameter for parameters of a release that are set although moments are given; extended."""
        for name in ("epsilon", "delta"):
            if getattr(self, name) is not None:
                raise checks.refuse(name, getattr(self, name), BEFORE)


def settings_of(kind: type[Settings], learner: Learner, **resolved: Any) -> Settings:
    """Return the settings that pass between halves, from the learner's parameters of the same names and what is resolved."""
    names = [each.name for each in fields(kind) if each.name not in resolved]  # type: ignore[arg-type]
    return kind(**{name: getattr(learner, name) for name in names}, **resolved)
