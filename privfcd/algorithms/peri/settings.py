"""The options of PERI and I-PERI, all public, checked in one place."""

from __future__ import annotations

from dataclasses import dataclass

from privfcd import checks
from privfcd.algorithms.constraint.skeleton import check_levels

LOCALS = ("pc", "ges")
WORSTS = ("node", "party")
ORIENTATIONS = ("votes", "regret", "authors")


@dataclass(frozen=True)
class Settings:
    """See `IPERI` for what each option means; `masked` False is PERI, and `orientation` None no second phase."""

    local: str = "pc"
    worst: str = "party"
    masked: bool = True
    refine: bool = True
    orientation: str | None = "votes"
    min_support: int = 1
    missing_edges: bool = True
    turning: bool = True
    max_parents: int | None = None
    alpha: float = 0.01
    max_cond_vars: int | None = 3
    penalty: float = 1.0

    def __post_init__(self) -> None:
        choices: list[tuple[str, tuple[str, ...]]] = [("local", LOCALS), ("worst", WORSTS)]
        if self.orientation is not None:
            choices.append(("orientation", ORIENTATIONS))
        for name, accepted in choices:
            if getattr(self, name) not in accepted:
                raise checks.refuse(name, getattr(self, name), "one of " + ", ".join(accepted))
        for name in ("masked", "refine", "missing_edges", "turning"):
            if not isinstance(getattr(self, name), bool):
                raise checks.refuse(name, getattr(self, name), "True or False")
        checks.count("min_support", self.min_support)
        if self.max_parents is not None:
            checks.count("max_parents", self.max_parents, least=0)
        check_levels(self.alpha, self.max_cond_vars)
        checks.positive("penalty", self.penalty)

    def check_columns(self, d: int) -> None:
        """Raise InvalidParameter unless the settings fit `d` columns."""
        if d < 2:
            raise checks.refuse("the number of columns", d, "at least 2: a graph needs two variables")
