"""Learners that one release of second moments is enough for: the coordinator learns from what the parties sent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from privfcd import checks
from privfcd.algorithms.judgement import judge
from privfcd.algorithms.learner import BEFORE, Learner, OnRound
from privfcd.algorithms.opening import Facts, StagedParty, ask_facts
from privfcd.algorithms.protocol import Federation, Message
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.coordinator import Outcome, ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.release import release_notes, released, secure_in_process
from privfcd.algorithms.release.settings import SUMS, ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.results import store_released
from privfcd.algorithms.usable import usable
from privfcd.data.private import PrivateTable
from privfcd.moments import Moments, pooled

RELEASES = ("auto", "preconditioned", "covariance", "exact")


@dataclass(eq=False, repr=False)
class _ReleaseLearner(Learner):
    """The base of learners that begin with a release of moments: its parameters, checked once."""

    release: str = field(default="auto", kw_only=True)
    center: bool | None = field(default=None, kw_only=True)
    row_norm: float | None = field(default=None, kw_only=True)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        if self.release not in RELEASES:
            raise checks.refuse("release", self.release, "one of " + ", ".join(RELEASES))
        if self.center is not None and not isinstance(self.center, bool):
            raise checks.refuse("center", self.center, "True, False or None")
        if self.row_norm is not None:
            checks.moderate("row_norm", self.row_norm)

    def check_given(self) -> None:
        """See `Learner.check_given`."""
        super().check_given()
        for name, plain in (("center", None), ("row_norm", None), ("sum", "per-party")):
            if getattr(self, name, plain) not in (plain, False):
                raise checks.refuse(name, getattr(self, name), BEFORE)
        if self.release != "auto":
            raise checks.refuse("release", self.release, "'auto' for Moments, which were released before")

    def sends(self, facts: Facts) -> bool:
        """Return whether the parties send their moments, or keep them."""
        return True

    def released_columns(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns whose moments are released: an encoding's have names of their own."""
        return columns

    def release_settings(self, facts: Facts) -> ReleaseSettings:
        """Return the release's settings: `"auto"` is resolved here and nowhere else."""
        method, send = self.release, self.sends(facts)
        if method == "auto":
            private = "preconditioned" if send and self.row_norm is None else "covariance"
            method = private if facts.private else "exact"
        return ReleaseSettings(
            method=method,
            send=send,
            epsilon=self.epsilon,
            delta=self.delta,
            row_norm=self.row_norm,
            center=self.center is not False,
            sum=getattr(self, "sum", "per-party"),
            colluders=getattr(self, "colluders", 1),
            dropouts=getattr(self, "dropouts", 0),
        )

    def offers(self, facts: Facts) -> tuple[Message, ...]:
        """See `Learner.offers`."""
        return (release_messages.Offer(self.release_settings(facts), self.released_columns(facts.columns)),)

    def released(self, federation: Federation, facts: Facts) -> Outcome:
        """Do the release, and return what came of it, with whose moments they are."""
        settings = self.release_settings(facts)
        coordinator = ReleaseCoordinator(settings, self.released_columns(facts.columns), structure_whitening)
        outcome = released(coordinator, federation, facts)
        return replace(outcome, rule={"why": _why(self, settings), **outcome.rule})

    def summing(self, inner: Federation, tables: Sequence[PrivateTable], parties: Sequence[StagedParty]) -> Federation:
        """See `Learner.summing`."""
        return secure_in_process(inner, tables, parties, getattr(self, "colluders", 1), getattr(self, "dropouts", 0))

    def party(self, tables: Sequence[PrivateTable], index: int) -> StagedParty:
        """See `Learner.party`."""
        return StagedParty(tables, {release_messages: lambda: ReleaseParty(tables, index)}, self.charging)


def _why(learner: Any, settings: ReleaseSettings) -> str:
    if learner.release != "auto":
        return "asked for"
    return {
        "exact": "no table has a budget",
        "covariance": "the moments stay at the parties" if not settings.send else "a row norm was declared",
        "preconditioned": "its noise is small in every direction, whatever the longest rows are",
    }[settings.method]


@dataclass(eq=False, repr=False)
class _MomentLearner(_ReleaseLearner):
    """The base of learners that work on the moments of all rows, which the parties release and send."""

    sum: str = field(default="per-party", kw_only=True)
    colluders: int = field(default=1, kw_only=True)
    dropouts: int = field(default=0, kw_only=True)

    moments_: Moments = field(init=False)
    rule_: dict[str, Any] = field(init=False)

    rule_apart: ClassVar[bool] = False
    """Whether what the release chose stands apart in `rule_`, under "release"."""
    least_columns = 1
    message_modules = (release_messages,)
    charging = (release_messages.Charge,)
    ending = (release_messages.Finish,)

    def check(self) -> None:
        """See `Learner.check`."""
        super().check()
        if self.sum not in SUMS:
            raise checks.refuse("sum", self.sum, "one of " + ", ".join(SUMS))

    def run(self, federation: Federation, columns: tuple[str, ...], on_round: OnRound = None) -> None:
        """See `Learner.run`."""
        facts = ask_facts(federation, self.opening(columns))
        outcome = self.released(federation, facts)
        self._learn(outcome.parts, outcome.rule)
        self.rule_ |= {"release": outcome.rule} if self.rule_apart else outcome.rule
        self.notes_ = [*release_notes(outcome.rule), *self.notes_]
        self.bytes_exchanged_ = federation.bytes_exchanged

    def learn(self, parts: Sequence[Moments], on_round: OnRound = None) -> None:
        """See `Learner.learn`."""
        self._learn(parts, None)
        self.bytes_exchanged_ = 0

    def _learn(self, parts: Sequence[Moments], rule: Mapping[str, Any] | None) -> None:
        """Learn from moments; `rule` is that of their release, where it was made here."""
        used, looked = usable(parts, rule)
        moments = pooled(used)
        self.moments_ = pooled(parts)
        self.rule_ = {}
        self.notes_ = []
        self._release_rule: Mapping[str, Any] = rule or {}
        self.learn_from(moments)
        self.notes_ = [*looked, *self.notes_]
        store_released(self, [moments])
        judge(self, moments)

    @abstractmethod
    def learn_from(self, moments: Moments) -> None:
        """Learn from the moments of all rows, and store the result."""
