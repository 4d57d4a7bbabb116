"""What a private run should pay for: many noisy coordinates, or second moments in a few preconditioned rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from privfcd.algorithms.fed_sparse import messages
from privfcd.algorithms.fed_sparse.constants import CLIP_FACTOR
from privfcd.algorithms.fed_sparse.losses import SQUARED
from privfcd.algorithms.fed_sparse.settings import GUMBEL_GAUSSIAN, Settings
from privfcd.algorithms.release import messages as release_messages
from privfcd.algorithms.release.rules import seen, white_noise
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.errors import InvalidParameter

COORDINATES, PRECONDITIONED, AUTO = "coordinates", "preconditioned", "auto"
RELEASES = (COORDINATES, PRECONDITIONED, AUTO)


@dataclass(frozen=True)
class Choice:
    """What a run pays for, and why.

    Attributes
    ----------
    release : str
        `"coordinates"` or `"preconditioned"`.
    reason : str
        In words.
    predicted : dict of str to float
        Standard deviation of the noise of one weight, where the choice was made by it.
    """

    release: str
    reason: str
    predicted: dict[str, float] = field(default_factory=dict)


def reason_for_coordinates(settings: Settings) -> str:
    """Return in words why these settings leave no choice but coordinates; empty where there is one."""
    if settings.loss != SQUARED:
        return f"the {settings.loss.name} loss needs the rows"
    if settings.noise_multiplier is not None or settings.mechanisms != GUMBEL_GAUSSIAN:
        return "noise_multiplier or mechanisms say how coordinates are released"
    return ""


def choose_release(
    settings: Settings, coordinates: Sequence[messages.Quote], moments: Sequence[release_messages.Quote], d: int
) -> Choice:
    """Choose by the noise that each would put on one weight, predicted from public quantities only.

    Coordinates: an update of entry (i, j) has noise z m C_i / (n M_i), m = 2 for a replaced record and 1 for an added
    or removed one, with C_i = f s sqrt(M_i), s the residuals' scale and f `CLIP_FACTOR`; as M_i >= s² that is at most
    m f z / n, and the coordinator averages over the parties. Second moments in preconditioned rounds: entries of
    white second moments have noise (d + 2) sqrt(2) / (sqrt(2) n mu), and a weight is such an entry to first order. z
    is the multiplier that the budget allows for all updates, mu its Gaussian-DP parameter. A rough prediction: it
    leaves out what rounds and selections add, for both.

    Parameters
    ----------
    settings : Settings
    coordinates, moments : sequence of Quote
        What the parties quoted for either.
    d : int
        Number of columns.
    """
    release = ReleaseSettings(
        method="preconditioned", epsilon=settings.epsilon, delta=settings.delta, center=settings.center
    )
    predicted = {PRECONDITIONED: white_noise(seen(release, moments), d)}
    if not all(quote.possible for quote in coordinates):
        return Choice(PRECONDITIONED, "a budget is too small for coordinates", predicted)
    rows = sum(quote.n_rows for quote in coordinates)
    predicted[COORDINATES] = math.hypot(
        *(CLIP_FACTOR * quote.update_noise * quote.n_rows / rows for quote in coordinates)
    )
    return Choice(
        min((COORDINATES, PRECONDITIONED), key=lambda name: predicted[name]),
        f"predicted noise of a weight {predicted[COORDINATES]:.2g} by coordinates (d = {d}, {settings.rounds} rounds of "
        f"{settings.updates} updates), {predicted[PRECONDITIONED]:.2g} by second moments in preconditioned rounds",
        predicted,
    )


def check_preconditioned(settings: Settings) -> None:
    """Raise InvalidParameter for settings that say how coordinates are released."""
    if settings.noise_multiplier is not None:
        raise InvalidParameter(
            f"noise_multiplier must be left out with release={PRECONDITIONED!r}, got {settings.noise_multiplier!r}: it is "
            "that of coordinates"
        )
    if settings.mechanisms != GUMBEL_GAUSSIAN:
        raise InvalidParameter(
            f"mechanisms must be left out with release={PRECONDITIONED!r}, got {settings.mechanisms!r}: they are those of "
            "coordinates"
        )
