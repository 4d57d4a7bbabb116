"""A study's learner as both sides of the wire run it: its messages, a party's half, and the coordinator's run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.algorithms import opening
from privfcd.algorithms.declared import refuse_untaken
from privfcd.algorithms.learner import Learner, OnRound
from privfcd.algorithms.opening import Facts, PartyFacts
from privfcd.algorithms.protocol import Empty, Federation, Message, Party
from privfcd.algorithms.registry import learner_class
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.secure import SecureFederation
from privfcd.algorithms.secure.seat import Seat
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.runs.learning import add_levels
from privfcd.runs.wire.codec import Codec, module_messages
from privfcd.runs.wire.study_file import Study

MOST_ROWS = 10**12
FAR = 40.0
"""Standard deviations that Gaussian noise does not reach."""


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
    for name in ("sum", "colluders", "dropouts"):
        if name in study.parameters:
            raise checks.refuse(f"parameters.{name}", study.parameters[name], "a key of the study itself, beside parties")
    sums: dict[str, Any] = {}
    if study.secure:
        if "sum" not in kind().get_params():
            raise InvalidParameter(f"sum must be 'per-party' for method {study.method!r}, which does not learn from one sum")
        sums = {"sum": study.sum, "colluders": study.colluders, "dropouts": study.dropouts}
    parameters, declared = dict(study.parameters), study.declared
    if declared is not None:
        add_levels(study.method, declared, parameters)
    learner = kind(**parameters, **sums, epsilon=study.epsilon, delta=study.delta)
    if declared is not None:
        refuse_untaken(declared, learner.takes, study.method)
    if study.private and getattr(learner, "release", "") == "exact":
        raise checks.refuse("parameters.release", "exact", "another one in a study with a budget")
    learner.check()
    learner.check_columns(study.columns)
    return learner


class Method:
    """A study's learner on both sides of the wire.

    Parameters
    ----------
    study : Study

    Attributes
    ----------
    codec : Codec
        Of its messages.
    charging : tuple of type
        The messages that charge.
    ending : tuple of type
        The message that ends the run.
    bounds : tuple of float or None
        What parties declare as bounds: the study's, but for columns that are seen as declared levels.

    Raises
    ------
    InvalidParameter
        There is no method of that name, or it does not take the parameters.
    """

    def __init__(self, study: Study) -> None:
        self._study = study
        self._learner = study_learner(study)
        kind = type(self._learner)
        coded = study.schema is not None and "levels" in self._learner.takes
        self.bounds = None if coded else study.bounds
        every = [1] if study.secure else range(study.min_parties, len(study.parties) + 1)
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
        """Return for each class of opening messages those that follow from the study file; no others are answered."""
        return self._agreed

    def _facts(self, parties: int) -> Facts:
        """Return what the study file says of so many parties."""
        study = self._study
        epsilon = math.inf if study.epsilon is None else study.epsilon
        party = PartyFacts(1, epsilon, True, self.bounds, ())
        return Facts(self._learner.opening(study.columns).columns, (party,) * parties)

    def party(self, table: PrivateTable, index: int, seat: Seat | None = None) -> Party:
        """Return a party's half; `index` is its place in the study, `seat` that in its secure sums."""
        made = self._learner.party([table], index)
        made.seat = seat
        return made

    def run(self, federation: Federation, on_round: OnRound = None) -> Any:
        """Run the coordinator's half and return the fitted estimator."""
        study = self._study
        if study.secure:
            federation = SecureFederation(federation, study.parties, study.colluders, study.dropouts)
        self._learner.run(federation, study.columns, on_round)
        return self._learner


def check_answer(study: Study, bounds: tuple[float, ...] | None, question: object, answer: object) -> None:
    """Raise PartyFailed for an answer that cannot be: of no rows, of other bounds than these, or far beyond its noise.

    Shapes and kinds are checked where answers are used.
    """
    rows = getattr(answer, "n_rows", 1)
    if not 1 <= rows <= MOST_ROWS:
        raise PartyFailed(f"it says that it has {rows} rows")
    if isinstance(answer, PartyFacts) and (math.isinf(answer.epsilon) == study.private or answer.bounds != bounds):
        raise PartyFailed("it declares another budget or other bounds than the study's")
    if isinstance(answer, release_messages.Quote):
        if not answer.mu > 0 or answer.private != study.private:
            raise PartyFailed(f"it quotes a budget of mu = {answer.mu}, which the study does not allow")
        if answer.bounds != bounds:
            raise PartyFailed("it declares other bounds than the study's")
    if not study.private:
        return
    if isinstance(answer, release_messages.Numbers):  # shares, or means in units of the bounds
        _within(answer.values, 1.0, answer.noise_sd)
    if isinstance(answer, release_messages.Matrix) and isinstance(question, release_messages.AskMoments):
        _within(answer.upper, question.row_norm**2, answer.scale)


def _within(values: NDArray[np.float64], most: float, noise: float) -> None:
    if not 0 < noise or np.abs(values).max(initial=0.0) > most + FAR * noise:
        raise PartyFailed(f"it sent values beyond {most:g} by more than any noise of scale {noise:g}")
