"""What a private run should pay for: many noisy coordinates, or one noisy second-moment matrix."""

from __future__ import annotations

from collections.abc import Sequence

from privfcd.algorithms.fed_sparse.settings import GUMBEL_GAUSSIAN, Settings
from privfcd.data.losses import SQUARED
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter

COORDINATES, COVARIANCE, AUTO = "coordinates", "covariance", "auto"
RELEASES = (COORDINATES, COVARIANCE, AUTO)


def choose_release(tables: Sequence[PrivateTable], settings: Settings) -> tuple[str, str]:
    """Return `"coordinates"` or `"covariance"`, and the reason in words, from public quantities only.

    One covariance costs one release of d² numbers, whose noise grows with d; coordinates cost two releases an update,
    whose noise hardly does. On open tables, and with a loss that has no second moments, there is nothing to choose.
    """
    if all(table.open for table in tables):
        return COORDINATES, "the tables are open: nothing is paid for"
    if settings.loss != SQUARED:
        return COORDINATES, f"the {settings.loss.name} loss needs the rows"
    return COVARIANCE, "one preconditioned release of second moments serves every update"


def check_covariance(settings: Settings) -> None:
    """Raise InvalidParameter for settings that say how coordinates are released."""
    if settings.noise_multiplier is not None:
        raise InvalidParameter(
            f"noise_multiplier must be left out with release={COVARIANCE!r}, got {settings.noise_multiplier!r}: it is that "
            "of coordinates"
        )
    if settings.mechanisms != GUMBEL_GAUSSIAN:
        raise InvalidParameter(
            f"mechanisms must be left out with release={COVARIANCE!r}, got {settings.mechanisms!r}: they are those of "
            "coordinates"
        )
