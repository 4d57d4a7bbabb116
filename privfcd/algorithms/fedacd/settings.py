"""The parameters of FedACD, all public, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace

from privfcd import checks
from privfcd.algorithms.constraint.skeleton import check_levels as check_test_levels

VARIANTS = ("stable", "paper", "reference")


@dataclass(frozen=True)
class Settings:
    """See `FedACD` for what each parameter means."""

    alpha: float
    max_cond_vars: int
    mask_rate: float
    quorum: float
    variant: str
    per_cell: float
    sample_size: float
    levels: tuple[int, ...] | None

    @property
    def as_published(self) -> bool:
        """Whether the paper's rules hold: an edge that all parties mask stays, and the arcs' votes make a DAG."""
        return self.variant != "stable"

    def voted_by(self, parties: int) -> Settings:
        """Return the settings for so many voters: a mask leaves the answer to others, and one voter has none."""
        return replace(self, mask_rate=0.0) if parties == 1 else self

    def __post_init__(self) -> None:
        checks.count("max_cond_vars", self.max_cond_vars, least=0)
        check_test_levels(self.alpha, self.max_cond_vars)
        for name in ("mask_rate", "quorum"):
            value = checks.non_negative(name, getattr(self, name))
            if value > 1:
                raise checks.refuse(name, value, "in [0, 1]")
        if self.variant not in VARIANTS:
            raise checks.refuse("variant", self.variant, "one of " + ", ".join(VARIANTS))
        checks.non_negative("per_cell", self.per_cell)
        checks.positive("sample_size", self.sample_size)
        for level in self.levels or ():
            checks.count("levels", level, least=2)


EXACT_ALPHA = 0.01
ALPHA_ROWS, NOISY_ALPHA, FALSE_EDGES = 50.0, 0.3, 6.0
"""With noise the default level is ALPHA_ROWS / effective rows, at most NOISY_ALPHA, and so that a layer leaves a variable
at most FALSE_EDGES false edges on average. Chosen on seeds from 1000 on."""


def noisy_alpha(effective_rows: float, d: int) -> float:
    """Return the default level of tests on noisy moments of `d` variables.

    The fewer rows the answers are worth, the more edges are missed at a fixed level: the level grows as their number
    falls, and is that of exact answers for 5000 rows or more.
    """
    most = min(NOISY_ALPHA, FALSE_EDGES / max(d - 1, 1))
    return max(EXACT_ALPHA, min(most, ALPHA_ROWS / effective_rows))
