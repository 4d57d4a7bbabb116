"""Learners whose parties keep their moments, and answer from those.

First the moments come about at each party: by one clipped covariance, or by rounds of its own, whose matrices fit parties
that differ; exact ones, charged as non-private, without a budget. What a party answers afterwards is post-processing of
them. Noisy moments were paid for, and one copy of them is sent at the end of the first stage: the coordinator sets columns
aside that no learner can use, says what it sees, and finds out how stable each edge is. Exact moments are never sent; of
those a party says the columns' sizes, and which columns others determine.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms import kept_messages as own
from privfcd.algorithms.judgement import judge
from privfcd.algorithms.learner import OnRound
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.moment_learner import _ReleaseLearner
from privfcd.algorithms.opening import Facts, StagedParty, ask_facts
from privfcd.algorithms.own_rounds import OwnRoundsParty
from privfcd.algorithms.protocol import Empty, Federation, Message, Party
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.release import release_notes
from privfcd.algorithms.results import store_released
from privfcd.algorithms.rounds import check_rows, expect, still_there
from privfcd.algorithms.scale_notes import party_notes, sizes_known
from privfcd.algorithms.usable import left_out_notes, looked_at, usable
from privfcd.data.private import PrivateTable
from privfcd.errors import PartyFailed
from privfcd.moments import Moments, pooled
from privfcd.moments.dependence import LeftOut, left_out, without

Array = NDArray[np.float64]


class KeptParty(StagedParty):
    """A party's half that keeps moments, and then answers from them.

    Parameters
    ----------
    table : PrivateTable
    index : int
        The party's number in the federation.
    second : module
        Of the second stage's messages.
    make : callable
        Makes the second stage's half, from the party's name and moments.
    alone : bool
        Whether it may be asked for rounds of its own.
    charging : sequence of type
        See `StagedParty`.
    """

    def __init__(
        self, table: PrivateTable, index: int, second: ModuleType, make: Any, alone: bool, charging: Sequence[type]
    ) -> None:
        stages: dict[ModuleType, Any] = {
            release_messages: lambda: ReleaseParty([table], index),
            second: lambda: make(self.name, without(self.kept, self._aside)),
        }
        if alone:
            stages[own] = lambda: OwnRoundsParty(table, index)
        super().__init__([table], stages, charging)
        self._second = second.__name__
        self._aside: tuple[str, ...] = ()

    @property
    def kept(self) -> Moments:
        """The moments."""
        for stage in self.stages.values():
            found: Moments | None = getattr(stage, "kept", None)
            if found is not None:
                return found
        raise PartyFailed(f"{self.name} was asked to learn before it released its moments to itself")

    @property
    def _unknown(self) -> tuple[str, ...]:
        """The columns of which rounds of its own say nothing."""
        rounds = self.stages.get(own.__name__)
        return rounds.unknown if isinstance(rounds, OwnRoundsParty) else ()

    def answer(self, message: Message) -> Message:
        """See `Party.answer`."""
        match message:
            case own.AskKept():
                moments = self.kept
                noisy = moments if moments.protected else None
                exact_enough = noisy is None and moments.rows > len(moments.columns) + 1
                determined = left_out(moments) if exact_enough else ()
                return own.Kept(noisy, np.diag(moments.matrix).copy(), moments.rows, determined, self._unknown)
            case own.SetAside() if self._second not in self.stages:
                self._aside = message.columns
                return Empty()
        return super().answer(message)


@dataclass(eq=False, repr=False)
class _KeptMomentLearner(_ReleaseLearner):
    """The base of learners whose parties answer from moments that they keep."""

    differ: ClassVar[bool] = True
    """Whether parties that differ are named; not where they may."""
    alone: ClassVar[bool] = False
    """Whether parties do rounds of their own, where budgets allow them."""
    second: ClassVar[ModuleType]
    """The messages of the second stage."""

    @abstractmethod
    def half(self, name: str, moments: Moments) -> Party:
        """Return the second stage's half of a party."""

    @abstractmethod
    def second_offer(self, columns: tuple[str, ...]) -> Message:
        """Return the second stage's opening message."""

    @abstractmethod
    def learn_over(
        self, federation: Federation, columns: tuple[str, ...], known: Sequence[Moments], on_round: OnRound
    ) -> None:
        """Run the coordinator's half of the second stage, and store what it learnt.

        Parameters
        ----------
        federation : Federation
        columns : tuple of str
        known : sequence of Moments
            What is known of each party's, for notes: the noisy ones, or of exact ones the columns' sizes, without relations.
        on_round : callable, optional
        """

    def party(self, tables: Sequence[PrivateTable], index: int) -> KeptParty:
        """See `Learner.party`."""
        return KeptParty(tables[0], index, self.second, self.half, self.alone, self.charging)

    def sends(self, facts: Facts) -> bool:
        """See `_ReleaseLearner.sends`."""
        return False

    def own_offer(self, columns: tuple[str, ...]) -> own.Offer:
        """Return the offer of rounds of each party's own."""
        return own.Offer(self.epsilon, self.delta, self.center is not False, columns, self.release == "preconditioned")

    def wants_rounds(self, facts: Facts) -> bool:
        """Return whether rounds of the parties' own are tried first."""
        open_choice = self.release == "auto" and self.row_norm is None
        return self.alone and facts.private and (open_choice or self.release == "preconditioned")

    def offers(self, facts: Facts) -> tuple[Message, ...]:
        """See `Learner.offers`."""
        first: tuple[Message, ...] = (self.own_offer(facts.columns),) if self.wants_rounds(facts) else ()
        if not first or self.release == "auto":
            first = (*first, *super().offers(facts))
        return (*first, self.second_offer(facts.columns))

    def run(self, federation: Federation, columns: tuple[str, ...], on_round: OnRound = None) -> None:
        """See `Learner.run`."""
        facts = ask_facts(federation, self.opening(columns))
        if self.alone:
            for party in facts.parties:  # each learns a graph of its own
                check_rows([party.n_rows], len(columns))
        rule: dict[str, Any] = {}
        rounds = self.wants_rounds(facts)
        if rounds:
            planned = expect(federation, self.own_offer(columns), own.Planned)
            rounds = all(each.possible for each in planned)
        if rounds:
            for message in (own.Charge(), own.Release()):
                expect(federation, message, Empty)
            rule = {"method": "preconditioned, each party alone"}
        else:
            rule = self.released(federation, facts).rule
        kept = expect(federation, own.AskKept(), own.Kept, columns)
        names = tuple(federation.names)
        known, looked = self._looked(kept, columns, rule)
        aside = tuple(each.column for each in looked[0])
        if aside:
            expect(federation, own.SetAside(aside), Empty)
            known = [without(part, aside) for part in known]
        self.rule_: dict[str, Any] = {}
        self._release_rule = rule
        self.learn_over(federation, columns, known, on_round)
        store_released(self, [known[place] for place in still_there(federation, names)])
        self.rule_ = {**rule, **self.rule_}
        judge(self, pooled(known) if all(each.moments is not None for each in kept) else None)
        self.notes_ = [*release_notes(rule), *_unknown_notes(names, kept), *looked[1], *self.notes_]
        self.bytes_exchanged_ = federation.bytes_exchanged

    def _looked(
        self, kept: Sequence[own.Kept], columns: tuple[str, ...], rule: Mapping[str, Any]
    ) -> tuple[list[Moments], tuple[Sequence[LeftOut], Sequence[str]]]:
        """Return what is known of each party's moments, the columns that no learner can use, and notes."""
        known = [
            Moments(np.diag(each.squares), each.rows, columns) if each.moments is None else each.moments for each in kept
        ]
        if all(each.moments is not None for each in kept):
            return known, looked_at(known, rule, differ=self.differ)
        # of exact moments each party says which columns others determine: what all say holds in their sum
        speaking = [each.determined for each in kept if each.moments is None and each.rows > len(columns) + 1]
        names = set.intersection(*({out.column for out in each} for each in speaking)) if speaking else set()
        out = [each for each in speaking[0] if each.column in names] if speaking else []
        sizes = [Moments(part.matrix, part.rows, columns, part.noise) for part in known]  # whatever they are about
        out += [each for each in left_out(pooled(sizes)) if each.unknown and each.column not in names]
        notes = left_out_notes(out)
        if self.differ and sizes_known(rule):
            notes += party_notes(known, rule.get("mean noise sd"), [each.column for each in out])
        return known, (out, notes)

    def learn(self, parts: Sequence[Moments], on_round: OnRound = None) -> None:
        """See `Learner.learn`."""
        used, looked = usable(parts, differ=self.differ)
        halves = [self.half(f"party-{number}", part) for number, part in enumerate(used, start=1)]
        federation = LocalFederation(halves)
        self.rule_, self._release_rule = {}, {}
        self.learn_over(federation, parts[0].columns, used, on_round)
        self.notes_ = [*looked, *self.notes_]
        store_released(self, used)
        judge(self, pooled(used))
        self.bytes_exchanged_ = federation.bytes_exchanged


def _unknown_notes(names: Sequence[str], kept: Sequence[own.Kept]) -> list[str]:
    """Return in a sentence which parties' rounds say nothing of some columns: each learns from its own."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, each in zip(names, kept, strict=True):
        if each.unknown:
            found.setdefault(each.unknown, []).append(name)
    return [
        f"Nothing is known of {', '.join(map(repr, columns))} at {', '.join(at)}: the noise there hides how large the "
        "values are, so that what is learnt of them there is noise. Leave these columns out, or give a larger budget."
        for columns, at in found.items()
    ]
