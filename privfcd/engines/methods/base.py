"""What an engine needs of a method, and what methods share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd import checks
from privfcd.accounting import Reservation
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.base import Estimator
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter, PartyFailed
from privfcd.federation.protocol import Federation, Message, Party
from privfcd.federation.study_file import Study
from privfcd.federation.wire import Codec

OnRound = Callable[[Any], None]
MOST_ROWS = 10**12
FAR = 40.0
"""Standard deviations that Gaussian noise does not reach."""


class Method(Protocol):
    """A method as one study runs it."""

    @property
    def codec(self) -> Codec:
        """Of its messages."""

    @property
    def charging(self) -> tuple[type, ...]:
        """The messages that charge."""

    @property
    def ending(self) -> tuple[type, ...]:
        """The message that ends the run."""

    def agreed(self) -> Mapping[type, Message]:
        """Return the opening messages that follow from the study file; no others are answered."""

    def party(self, table: PrivateTable, index: int) -> Party:
        """Return a party's half; `index` is its place in the study."""

    def run(self, federation: Federation, on_round: OnRound | None = None) -> Any:
        """Run the coordinator's half and return the fitted estimator."""

    def report(self, table: PrivateTable, reservation: Reservation, delta: float | None) -> PrivacyReport:
        """Return the report on one party's table for its owner; `delta` is that of the slice that was charged."""


def estimator_of(kind: type[Estimator], study: Study, without: tuple[str, ...] = ()) -> Any:
    """Return the estimator with the study's parameters, those of `without` left out.

    Raises
    ------
    InvalidParameter
        The method has no such parameter, or it is one that the study states elsewhere.
    """
    known = inspect.signature(kind.__init__).parameters
    given = {name: value for name, value in study.parameters.items() if name not in without}
    for name in given:
        if name in ("epsilon", "delta"):
            raise checks.refuse(f"parameters.{name}", given[name], "left out: the study has a budget")
        if name not in known or name == "self":
            raise checks.refuse("parameters", name, f"one of {sorted(set(known) - {'self', 'epsilon', 'delta'})}")
    return kind(**given)


def release_settings(study: Study, estimator: type[Estimator], *, send: bool) -> ReleaseSettings:
    """Return the settings of the release that a study on moments begins with, chosen as the estimator does for tables."""
    given = study.parameters
    method = given.get("release", "auto")
    row_norm = given.get("row_norm")
    if method == "auto":
        private = "preconditioned" if send and row_norm is None else "covariance"
        method = private if study.private else "exact"
    if (method == "exact") == study.private:
        raise InvalidParameter(f"parameters.release must fit the study's budget, got {method!r} {study.epsilon=}")
    return ReleaseSettings(
        method=method,
        send=send,
        epsilon=study.epsilon,
        delta=study.delta,
        row_norm=row_norm,
        center=centred(study, estimator),
    )


def centred(study: Study, estimator: type[Estimator]) -> Any:
    """Return whether means are taken off: as the study says, or as the estimator does for tables."""
    center = study.parameters.get("center")
    return True if center is None else center


def check_answer(study: Study, question: object, answer: object) -> None:
    """Raise PartyFailed for an answer that cannot be: of no rows, of other bounds than the study's, or far beyond its noise.

    Shapes and kinds are checked where answers are used.
    """
    rows = getattr(answer, "n_rows", 1)
    if not 1 <= rows <= MOST_ROWS:
        raise PartyFailed(f"it says that it has {rows} rows")
    if isinstance(answer, release_messages.Quote):
        if not answer.mu > 0 or answer.private != study.private:
            raise PartyFailed(f"it quotes a budget of mu = {answer.mu}, which the study does not allow")
        if answer.bounds != study.bounds:
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
