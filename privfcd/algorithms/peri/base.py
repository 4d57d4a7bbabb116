"""What PERI and I-PERI have in common as estimators: parties from tables or moments, a run, and its results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, Literal, Self

from numpy.typing import ArrayLike

from privfcd import checks
from privfcd.algorithms import kept_messages as own
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.judgement import judge
from privfcd.algorithms.kept_learner import _KeptMomentLearner
from privfcd.algorithms.learner import OnRound, settings_of
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.peri import messages
from privfcd.algorithms.peri.coordinator import Outcome, PERICoordinator
from privfcd.algorithms.peri.party import PERIParty
from privfcd.algorithms.peri.private_regrets import RegretOptions, least_regrets, private_parties, private_report
from privfcd.algorithms.peri.settings import Settings
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.results import store_cpdag, store_privacy, store_released, warn_when_paid
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.graphs.pdag import Pdag, as_pdag
from privfcd.moments import Moments, pooled

REGRETS = "its noisy regrets cannot be noised again: each was asked because of those before"
GIVEN = "it was fitted to graphs of the parties, whose own noise is not known here"

Source = Sequence[PrivateTable] | Moments | Sequence[Moments]
Local = Literal["pc", "ges"]
Worst = Literal["party", "node"]
Orientation = Literal["votes", "regret", "authors"]
Privacy = Literal["moments", "regret"]


class UnfinishedWarning(UserWarning):
    """A run had too few answers left of those that were paid for, and ended with what it had found."""


@dataclass(eq=False, repr=False)
class _RegretLearner(_KeptMomentLearner):
    """The base of `PERI` and `IPERI`."""

    graph = "cpdag"
    weight = ""
    message_modules = (release_messages, own, messages)
    second: ClassVar[ModuleType] = messages
    charging = (release_messages.Charge, own.Charge)
    ending = (messages.Finish,)
    alone = True
    differ = False

    local: Local = "pc"
    worst: Worst = "party"
    turning: bool = True
    max_parents: int | None = None
    alpha: float = 0.01
    max_cond_vars: int | None = 3
    penalty: float = 1.0
    privacy: Privacy = field(default="moments", kw_only=True)
    max_regrets: int = field(default=200, kw_only=True)
    value_bound: float | None = field(default=None, kw_only=True)
    radius: float = field(default=3.0, kw_only=True)
    variance_floor: float = field(default=0.5, kw_only=True)
    graph_share: float = field(default=0.5, kw_only=True)

    cpdag_: Pdag = field(init=False)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        self._settings()
        self._options()
        if self.privacy not in ("moments", "regret"):
            raise checks.refuse("privacy", self.privacy, "one of moments, regret")
        if self.release == "preconditioned" and self.row_norm is not None:
            raise checks.refuse("row_norm", self.row_norm, "None for release 'preconditioned'")

    def check_given(self) -> None:
        """See `Learner.check_given`."""
        super().check_given()
        for name, plain in (("value_bound", None), ("privacy", "moments")):
            if getattr(self, name) != plain:
                raise checks.refuse(name, getattr(self, name), f"{plain!r} for Moments, which were released before")

    def half(self, name: str, moments: Moments) -> PERIParty:
        """See `_KeptMomentLearner.half`."""
        return PERIParty(name, moments)

    def second_offer(self, columns: tuple[str, ...]) -> messages.Offer:
        """See `_KeptMomentLearner.second_offer`."""
        if self.privacy != "moments":
            raise checks.refuse("privacy", self.privacy, "'moments' between machines")
        return messages.Offer(self._settings(), columns)

    def fit(
        self,
        source: Source,
        *,
        graphs: Sequence[Pdag | ArrayLike] | None = None,
        on_round: OnRound = None,
    ) -> Self:
        """Learn the graphs from the parties' tables or moments; see `Learner.fit`.

        Parameters
        ----------
        source : sequence of PrivateTable, or Moments, or a sequence of Moments
            One for each party.
        graphs : sequence of Pdag or arrays of shape (d, d), optional
            For Moments: the parties' own CPDAGs, in the order of the first one's columns, instead of learning them.
            What they cost is not known here.
        on_round : None
            There are no rounds to report.

        Raises
        ------
        BudgetExceeded
            A party's budget does not allow the run; no party was charged.
        InvalidParameter, InvalidTable
            What is wrong, and with which party. With `privacy="regret"` also fewer `max_regrets` than the first step of a
            search needs, see `least_regrets`; no party was charged.

        Warns
        -----
        UnfinishedWarning
            With `privacy="regret"`: the run needed more distinct regrets than were planned, and ended with what it had.
            `notes_` say what was left undone.
        """
        given = moments_given(source)
        if given is None and graphs is not None:
            raise InvalidParameter(
                "graphs must be left out for tables: what the parties learn there is paid for here"
            )
        if given is None and self.privacy == "regret":
            return self._fit_by_regrets(source)
        if given is None or graphs is None:
            return super().fit(source, on_round=on_round)
        self.check()
        self.check_given()
        federation = LocalFederation(self._parties_of(given, graphs))
        self.learn_over(federation, given[0].columns, (), None)
        store_privacy(self, None, given)
        store_released(self, (), otherwise=GIVEN)
        judge(self, pooled(given))
        self.bytes_exchanged_ = federation.bytes_exchanged
        return self

    def learn_over(
        self, federation: Federation, columns: tuple[str, ...], known: Sequence[Moments], on_round: OnRound
    ) -> None:
        """See `_KeptMomentLearner.learn_over`."""
        outcome = PERICoordinator(self._settings(), columns).run(federation)
        self._store(outcome, columns)
        self.notes_ = []
        if outcome.unfinished:
            self.notes_.append(
                f"{outcome.unfinished}; plan more with max_regrets, or release the moments once (privacy='moments')"
            )
            warn_when_paid(self.notes_[0], UnfinishedWarning)

    def _fit_by_regrets(self, source: Any) -> Self:
        """Pay for each regret, in this process; see `privfcd.algorithms.peri.private_regrets`."""
        self.check()
        settings, options = self._settings(), self._options()
        tables = checked_tables(source, self.takes, self.method)
        columns = tables[0].columns
        self.check_columns(columns)
        self._refuse_with_regrets(settings, len(columns))
        tables = [table.reordered(columns) for table in tables]
        parties, reservations, plans = private_parties(tables, settings, options)
        federation = LocalFederation(parties)
        self.learn_over(federation, columns, (), None)
        planned = {"regrets planned": self.max_regrets, "noise multipliers": [plan.regret for plan in plans]}
        self.rule_ = {**planned, **self.rule_}
        for reservation in reservations:
            reservation.close()
        reports = [
            private_report(table, reservation, plan, options)
            for table, reservation, plan in zip(tables, reservations, plans, strict=True)
        ]
        store_privacy(self, reports)
        store_released(self, (), otherwise=REGRETS)
        judge(self, None)
        self.bytes_exchanged_ = federation.bytes_exchanged
        return self

    @abstractmethod
    def _phases(self) -> dict[str, Any]:
        """Return the settings of masks, refinement and the second phase."""

    def _settings(self) -> Settings:
        return settings_of(Settings, self, **self._phases())

    def _options(self) -> RegretOptions:
        return settings_of(RegretOptions, self)

    def _parties_of(self, parts: Sequence[Moments], graphs: Sequence[Pdag | ArrayLike]) -> list[PERIParty]:
        d = len(parts[0].columns)
        self.check_columns(parts[0].columns)
        if len(graphs) != len(parts):
            raise InvalidParameter(f"graphs must be one for each of the {len(parts)} parties, got {len(graphs)}")
        given = [as_pdag(graph, f"graphs[{k}]") for k, graph in enumerate(graphs)]
        for k, graph in enumerate(given):
            if graph.p != d:
                raise InvalidParameter(f"graphs[{k}] must have {d} nodes, got {graph.p}")
        return [
            PERIParty(f"party-{number}", part, graph)
            for number, (part, graph) in enumerate(zip(parts, given, strict=True), start=1)
        ]

    def _refuse_with_regrets(self, settings: Settings, d: int) -> None:
        for name, plain in (("release", "auto"), ("row_norm", None)):
            if getattr(self, name) != plain:
                raise checks.refuse(name, getattr(self, name), f"{plain!r} with privacy='regret'")
        if self.center:
            raise checks.refuse("center", self.center, "None or False with privacy='regret', which takes means to be 0")
        least = least_regrets(settings, d)
        if self.max_regrets < least:
            without = "; refine=False needs fewer" if settings.masked and settings.refine else ""
            raise checks.refuse(
                "max_regrets",
                self.max_regrets,
                f"at least {least} for {d} columns, the first step of a search{without}",
            )

    def _store(self, outcome: Outcome, columns: tuple[str, ...]) -> None:
        store_cpdag(self, outcome.graph, columns)
        self.cpdag_ = outcome.common
        self.history_ = outcome.history
        self.messages_ = outcome.messages
        self.regrets_ = outcome.families
        self.rule_ = {} if outcome.directed is None else {"orientation": outcome.directed.rule}
