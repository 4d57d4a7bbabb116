"""The parameters of FedACD, all public, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass

from privfcd import checks
from privfcd.algorithms.constraint.skeleton import check_levels as check_test_levels

VARIANTS = ("stable", "reference")


@dataclass(frozen=True)
class Settings:
    """See `FedACD` for what each parameter means."""

    alpha: float
    largest: int
    mask_rate: float
    quorum: float
    variant: str
    per_cell: float
    sample_size: float
    levels: tuple[int, ...] | None

    def __post_init__(self) -> None:
        checks.count("largest", self.largest, least=0)
        check_test_levels(self.alpha, self.largest)
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
