"""What an engine needs of a method, and what methods share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from privfcd.algorithms.opening import PartyFacts
from privfcd.algorithms.release import messages as release_messages
from privfcd.data.private import PrivateTable
from privfcd.errors import PartyFailed
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

    def agreed(self) -> Mapping[type, Sequence[Message]]:
        """Return for each class of opening messages those that follow from the study file; no others are answered."""

    def party(self, table: PrivateTable, index: int) -> Party:
        """Return a party's half; `index` is its place in the study."""

    def run(self, federation: Federation, on_round: OnRound | None = None) -> Any:
        """Run the coordinator's half and return the fitted estimator."""


def check_answer(study: Study, question: object, answer: object) -> None:
    """Raise PartyFailed for an answer that cannot be: of no rows, of other bounds than the study's, or far beyond its noise.

    Shapes and kinds are checked where answers are used.
    """
    rows = getattr(answer, "n_rows", 1)
    if not 1 <= rows <= MOST_ROWS:
        raise PartyFailed(f"it says that it has {rows} rows")
    if isinstance(answer, PartyFacts) and (math.isinf(answer.epsilon) == study.private or answer.bounds != study.bounds):
        raise PartyFailed("it declares another budget or other bounds than the study's")
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
