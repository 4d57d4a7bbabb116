"""A learner as a study runs it: both halves from the study file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from privfcd import checks
from privfcd.algorithms import opening
from privfcd.algorithms.learner import Learner, OnRound
from privfcd.algorithms.opening import Facts, PartyFacts
from privfcd.algorithms.registry import learner_class
from privfcd.data.private import PrivateTable
from privfcd.federation.protocol import Empty, Federation, Message, Party
from privfcd.federation.study_file import Study
from privfcd.federation.wire import Codec, module_messages


def study_learner(study: Study) -> Learner:
    """Return the study's learner, checked.

    Raises
    ------
    InvalidParameter
        There is none of that name, or it does not take the parameters.
    """
    kind = learner_class(study.method)
    known = [name for name in kind().get_params() if name not in ("epsilon", "delta")]
    for name, value in study.parameters.items():
        if name in ("epsilon", "delta"):
            raise checks.refuse(f"parameters.{name}", value, "left out: the study has a budget")
        if name not in known:
            raise checks.refuse("parameters", name, "one of " + ", ".join(sorted(known)))
    learner = kind(**study.parameters, epsilon=study.epsilon, delta=study.delta)
    together = study.parameters.get("sum", "per-party")
    if together != "per-party":
        raise checks.refuse("parameters.sum", together, "'per-party' between machines, where no place sees all tables")
    if study.private and getattr(learner, "release", "") == "exact":
        raise checks.refuse("parameters.release", "exact", "another one in a study with a budget")
    learner.check()
    learner.check_columns(study.columns)
    return learner


class Learnt:
    """See `privfcd.engines.methods.base.Method`."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._learner = study_learner(study)
        kind = type(self._learner)
        every = range(study.min_parties, len(study.parties) + 1)
        opening_message = self._learner.opening(study.columns)
        self._agreed: dict[type, list[Message]] = {type(opening_message): [opening_message]}
        for facts in map(self._facts, every):  # the run may do without some of the parties
            for offer in self._learner.offers(facts):
                same = self._agreed.setdefault(type(offer), [])
                if offer not in same:
                    same.append(offer)
        for module in kind.message_modules:  # an offer that is not part of this run is never answered
            self._agreed.setdefault(module.Offer, [])
        self.charging, self.ending = kind.charging, self._learner.ends(self._facts(len(study.parties)))
        known: dict[str, type] = {"empty": Empty, **module_messages("run", opening)}
        for module in kind.message_modules:
            known |= module_messages(module.__name__.split(".", 2)[-1], module)
        self.codec = Codec(known, kind.implementations)

    def agreed(self) -> Mapping[type, Sequence[Message]]:
        """See `Method.agreed`."""
        return self._agreed

    def _facts(self, parties: int) -> Facts:
        """Return what the study file says of so many parties."""
        study = self._study
        epsilon = math.inf if study.epsilon is None else study.epsilon
        party = PartyFacts(1, epsilon, True, study.bounds, ())
        return Facts(self._learner.opening(study.columns).columns, (party,) * parties)

    def party(self, table: PrivateTable, index: int) -> Party:
        """See `Method.party`."""
        return self._learner.party([table], index)

    def run(self, federation: Federation, on_round: OnRound = None) -> Any:
        """See `Method.run`."""
        self._learner.run(federation, self._study.columns, on_round)
        return self._learner
