"""The parameters of Fed-Sparse-BNSL, all public, checked in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privfcd import checks
from privfcd.algorithms.fed_sparse.losses import SQUARED, Loss, checked_loss
from privfcd.data.fused import kernels
from privfcd.errors import InvalidParameter

GUMBEL_GAUSSIAN = "gumbel-gaussian"
MANGOLD_PUBLISHED = "mangold-published"
MANGOLD_PROVEN = "mangold-proven"
MECHANISMS = (GUMBEL_GAUSSIAN, MANGOLD_PUBLISHED, MANGOLD_PROVEN)
"""What selections and updates are made private with; see `plan`."""


@dataclass(frozen=True)
class Settings:
    """See `FedSparseBNSL` for what each parameter means."""

    rounds: int
    updates: int
    clip: float | None
    step: float
    l1: float
    rho1: float
    rho2: float
    threshold: float
    center: bool
    smoothness: tuple[float, ...] | None
    epsilon: float | None
    delta: float | None
    noise_multiplier: float | None
    bounds_share: float
    mean_share: float
    smoothness_share: float
    refit_share: float = 0.0
    keep: float = 0.0
    loss: Loss = SQUARED
    mechanisms: str = GUMBEL_GAUSSIAN
    fast: bool | None = None

    def __post_init__(self) -> None:
        checks.count("rounds", self.rounds)
        checks.count("updates", self.updates)
        if self.clip is not None and self.clip != math.inf:
            checks.moderate("clip", self.clip)
        step = checks.positive("step", self.step)
        if step > 1:
            raise checks.refuse("step", self.step, "in (0, 1]")
        if self.l1 != 0:
            checks.moderate("l1", self.l1)
        checks.moderate("rho1", self.rho1)
        checks.moderate("rho2", self.rho2)
        checks.non_negative("threshold", self.threshold)
        if not isinstance(self.center, bool):
            raise checks.refuse("center", self.center, "True or False")
        for value in self.smoothness or ():
            checks.moderate("smoothness", value)
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        if self.delta is not None:
            checks.delta("delta", self.delta)
        if self.noise_multiplier is not None:
            checks.moderate("noise_multiplier", self.noise_multiplier)
            if self.epsilon is not None:
                raise InvalidParameter(
                    f"give epsilon or noise_multiplier, not both: got {self.epsilon!r} and {self.noise_multiplier!r}"
                )
        shares = 0.0
        for name in ("bounds_share", "mean_share", "smoothness_share"):
            shares += checks.fraction(name, getattr(self, name))
        if self.refit_share != 0:
            shares += checks.fraction("refit_share", self.refit_share)
        if shares >= 1:
            raise InvalidParameter(
                f"bounds_share, mean_share, smoothness_share and refit_share must add up to less than 1: {shares}"
            )
        checks.non_negative("keep", self.keep)
        checked_loss(self.loss)
        kernels(self.fast)
        if self.mechanisms not in MECHANISMS:
            raise checks.refuse("mechanisms", self.mechanisms, "one of " + ", ".join(MECHANISMS))

    def check_columns(self, d: int) -> None:
        """Raise InvalidParameter unless the settings fit `d` columns."""
        if d < 2:
            raise checks.refuse("the number of columns", d, "at least 2: a graph needs two variables")
        if self.smoothness is not None and len(self.smoothness) != d:
            raise InvalidParameter(
                f"smoothness must have one number for each of {d} columns, got {len(self.smoothness)}"
            )

    @property
    def unclipped(self) -> bool:
        """Whether an open table's run leaves the records as they are."""
        return self.clip is None or math.isinf(self.clip)

    @property
    def laplace(self) -> bool:
        """Whether selections and updates of private runs have Laplace noise."""
        return self.mechanisms != GUMBEL_GAUSSIAN
