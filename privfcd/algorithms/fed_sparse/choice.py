"""What a private run should pay for: many noisy coordinates, or second moments in a few preconditioned rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from privfcd.accounting import REPLACE_ONE
from privfcd.algorithms.fed_sparse.constants import CLIP_FACTOR
from privfcd.algorithms.fed_sparse.losses import SQUARED
from privfcd.algorithms.fed_sparse.plan import plan_releases
from privfcd.algorithms.fed_sparse.settings import GUMBEL_GAUSSIAN, Settings
from privfcd.algorithms.release.messages import Quote
from privfcd.algorithms.release.plan import affordable_mu
from privfcd.algorithms.release.rules import seen, white_noise
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.data.private import PrivateTable
from privfcd.errors import BudgetExceeded, InvalidParameter

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


def choose_release(tables: Sequence[PrivateTable], settings: Settings) -> Choice:
    """Choose by the noise that each would put on one weight, predicted from public quantities only.

    Coordinates: an update of entry (i, j) has noise z 2 C_i / (n M_i) with C_i = f s sqrt(M_i), s the residuals' scale and
    f `CLIP_FACTOR`; as M_i >= s² that is at most 2 f z / n, and the coordinator averages over the parties. Second moments in
    preconditioned rounds: entries of white second moments have noise (d + 2) sqrt(2) / (sqrt(2) n mu), and a weight is such
    an entry to first order. z is the multiplier that the budget allows for all updates, mu its Gaussian-DP parameter. A
    rough prediction: it leaves out what rounds and selections add, for both.

    Raises
    ------
    BudgetExceeded, InvalidParameter
        A budget allows neither.
    """
    if all(table.open for table in tables):
        return Choice(COORDINATES, "the tables are open: nothing is paid for")
    if settings.loss != SQUARED:
        return Choice(COORDINATES, f"the {settings.loss.name} loss needs the rows")
    if settings.noise_multiplier is not None or settings.mechanisms != GUMBEL_GAUSSIAN:
        return Choice(COORDINATES, "noise_multiplier or mechanisms say how coordinates are released")
    release = ReleaseSettings(
        method="preconditioned", epsilon=settings.epsilon, delta=settings.delta, center=settings.center
    )
    d = tables[0].n_columns
    quotes = [
        Quote(
            table.n_rows,
            affordable_mu(table, release, "release of moments"),
            table.relation is REPLACE_ONE,
            table.bounds,
        )
        for table in tables
    ]
    moments = white_noise(seen(release, quotes), d)
    try:
        multipliers = [plan_releases(table, settings).noise_multiplier for table in tables]
    except BudgetExceeded as error:
        return Choice(PRECONDITIONED, f"coordinates cannot be paid for: {error}", {PRECONDITIONED: moments})
    moved = [2.0 if table.relation is REPLACE_ONE else 1.0 for table in tables]
    rows = sum(table.n_rows for table in tables)
    noises = [m * CLIP_FACTOR * z / rows for m, z in zip(moved, multipliers, strict=True)]
    predicted = {COORDINATES: math.hypot(*noises), PRECONDITIONED: moments}
    release_name = min(predicted, key=lambda name: predicted[name])
    return Choice(
        release_name,
        f"predicted noise of a weight {predicted[COORDINATES]:.2g} by coordinates (d = {d}, {settings.rounds} rounds of "
        f"{settings.updates} updates), {moments:.2g} by second moments in preconditioned rounds",
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
