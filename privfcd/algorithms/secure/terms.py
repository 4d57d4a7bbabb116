"""Who may collude and who may drop out of a secure sum, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privfcd import checks
from privfcd.errors import InvalidParameter
from privfcd.mechanisms.distributed import MOST_PARTIES


@dataclass(frozen=True)
class SumTerms:
    """The terms of secure sums over P parties.

    Parameters
    ----------
    parties : int
        P, all of the study's.
    colluders : int
        t: so many parties may tell the coordinator all they know.
    dropouts : int
        s: so many parties may be missing or be lost during the run.

    Raises
    ------
    InvalidParameter
        Nobody would certainly add noise, or the sum could not be unmasked after the dropouts.
    """

    parties: int
    colluders: int = 1
    dropouts: int = 0

    def __post_init__(self) -> None:
        checks.count("the number of parties", self.parties, most=MOST_PARTIES)
        checks.count("colluders", self.colluders, least=0)
        checks.count("dropouts", self.dropouts, least=0)
        if self.parties < 3:
            raise InvalidParameter(
                f"secure sums need at least 3 parties, got {self.parties}: the sum less one's own answer is the other's. "
                "Use sum='per-party', which has the same noise here"
            )
        if self.honest < 2:
            raise InvalidParameter(
                f"secure sums of {self.parties} parties with colluders={self.colluders} and dropouts={self.dropouts} leave "
                f"{self.honest} certain to add noise, so that each adds as much as without: there is nothing to gain. Use "
                "sum='per-party', or declare fewer colluders or dropouts if that is true"
            )
        if self.threshold > self.parties - self.dropouts:
            raise InvalidParameter(
                f"dropouts must leave {self.threshold} of {self.parties} parties to unmask the sum at "
                f"colluders={self.colluders}, got dropouts={self.dropouts}: declare at most "
                f"{self.parties - self.threshold}"
            )

    @property
    def honest(self) -> int:
        """h = P - t - s: who certainly adds noise that nobody else knows."""
        return self.parties - self.colluders - self.dropouts

    @property
    def least(self) -> int:
        """P - s: with fewer parties a release fails."""
        return self.parties - self.dropouts

    @property
    def threshold(self) -> int:
        """How many shares give a secret: above (P + t) / 2, so that no two secrets of one party come out, see `seat`."""
        return (self.parties + self.colluders) // 2 + 1

    @property
    def less_noise(self) -> float:
        """By what factor the sum's noise is below that of P noises, one for each party: sqrt(h)."""
        return math.sqrt(self.honest)


def secure_would(model: Any, reports: Sequence[Any]) -> str:
    """Return in a sentence what secure sums would give a run in which each party added noise for itself; else nothing.

    Parameters
    ----------
    model : Estimator
        Fitted; of a class that can learn from one sum.
    reports : sequence of PrivacyReport
        Of the parties.
    """
    if model.fitted_params().get("sum") != "per-party" or len(reports) < 3:
        return ""
    if not all(math.isfinite(report.rho) and report.rho > 0 for report in reports):
        return ""
    factor = SumTerms(len(reports)).less_noise
    return (
        f"Each party added noise for itself. With sum='secure' (1 colluder, no dropouts) the noise of the pooled answers "
        f"would be {factor:.1f} times smaller."
    )
