"""The parameters of Fed-BNSL, all public, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from privfcd import checks

LocalStep = Literal["closed-form", "frank-wolfe"]
LOCAL_STEPS = ("closed-form", "frank-wolfe")

L1_PER_PARTY = 1 / 16
"""Default weight of ‖W‖₁ for each party, whose losses are summed; chosen at d = 20 on seeds 1, 100, 400, 1000-1008."""


@dataclass(frozen=True)
class Settings:
    """See `FedBNSL` for what each parameter means."""

    rounds: int
    l1: float | None
    rho1: float
    rho2: float
    growth: float
    rho1_max: float
    threshold: float
    local_step: LocalStep
    steps: int
    radius: float

    def __post_init__(self) -> None:
        checks.count("rounds", self.rounds)
        if self.l1 is not None and self.l1 != 0:
            checks.moderate("l1", self.l1)
        checks.moderate("rho1", self.rho1)
        checks.moderate("rho2", self.rho2)
        if checks.moderate("growth", self.growth) < 1:
            raise checks.refuse("growth", self.growth, "a number of at least 1")
        checks.moderate("rho1_max", self.rho1_max)
        checks.non_negative("threshold", self.threshold)
        if self.local_step not in LOCAL_STEPS:
            raise checks.refuse("local_step", self.local_step, "one of " + ", ".join(LOCAL_STEPS))
        checks.count("steps", self.steps)
        checks.moderate("radius", self.radius)

    def check_columns(self, d: int) -> None:
        """Raise InvalidParameter unless the settings fit `d` columns."""
        if d < 2:
            raise checks.refuse("the number of columns", d, "at least 2: a graph needs two variables")


    def l1_for(self, parties: int) -> float:
        """Return the weight of ‖W‖₁ for so many parties: by default none where their own l1 balls keep B sparse."""
        if self.l1 is not None:
            return self.l1
        return L1_PER_PARTY * parties if self.local_step == "closed-form" else 0.0
