"""The options of a release of moments, all public, checked in one place."""

from __future__ import annotations

import math
from dataclasses import dataclass

from privfcd import checks
from privfcd.errors import InvalidParameter

METHODS = ("exact", "covariance", "preconditioned")
SUMS = ("per-party", "trusted", "secure")
MEAN = "mean"
"""For `center`: take off a mean that is paid for, where differences of records would do without."""


@dataclass(frozen=True)
class ReleaseSettings:
    """See `release_moments` for what each option means."""

    method: str
    send: bool = True
    epsilon: float | None = None
    delta: float | None = None
    row_norm: float | None = None
    center: bool | str = False
    offset: tuple[float, ...] | None = None
    sum: str = "per-party"
    shares: tuple[float, ...] | None = None
    histogram_share: float | None = None
    mean_share: float = 0.1
    colluders: int = 1
    dropouts: int = 0

    def __post_init__(self) -> None:
        for name, accepted in (("method", METHODS), ("sum", SUMS)):
            if getattr(self, name) not in accepted:
                raise checks.refuse(name, getattr(self, name), "one of " + ", ".join(accepted))
        if not isinstance(self.send, bool):
            raise checks.refuse("send", self.send, "True or False")
        if not isinstance(self.center, bool) and self.center != MEAN:
            raise checks.refuse("center", self.center, f"True, False or {MEAN!r}")
        if self.epsilon is not None:
            checks.positive("epsilon", self.epsilon)
        if self.delta is not None:
            checks.delta("delta", self.delta, zero=False)
        if self.row_norm is not None:
            checks.moderate("row_norm", self.row_norm)
        if self.center and self.offset is not None:
            raise InvalidParameter("give center=True, which is paid for, or a public offset, not both")
        for value in self.offset or ():
            if abs(checks.real("offset", value)) > 1e24:
                raise checks.refuse("offset", self.offset, "numbers of at most 1e24")
        if self.shares is not None:
            self._check_shares(self.shares)
        if self.histogram_share is not None:
            checks.fraction("histogram_share", self.histogram_share)
        checks.fraction("mean_share", self.mean_share)
        if not self.send and self.method == "preconditioned":
            raise InvalidParameter("send must be True for method 'preconditioned': its rounds depend on what was sent")
        if not self.send and self.sum != "per-party":
            raise InvalidParameter(f"send must be True for a {self.sum} sum: moments of all rows stay at no party")
        checks.count("colluders", self.colluders, least=0)
        checks.count("dropouts", self.dropouts, least=0)
        if self.sum == "secure" and self.method == "exact":
            raise InvalidParameter(
                "method must not be 'exact' for a secure sum, which has noise: give every table a budget"
            )
        if self.row_norm is not None and self.method == "preconditioned":
            raise InvalidParameter(
                f"row_norm must be left out for method 'preconditioned', whose rows are multiplied first, got "
                f"{self.row_norm!r}"
            )

    def _check_shares(self, shares: tuple[float, ...]) -> None:
        if not shares:
            raise checks.refuse("shares", shares, "one number above 0 for each round")
        total = math.fsum(checks.positive("shares", share) for share in shares)
        if abs(total - 1) > 1e-9:
            raise InvalidParameter(f"shares must add up to 1, got {shares}, which add up to {total:g}")

    def differences(self, replaced: bool) -> bool:
        """Return whether rounds look at differences of records; `replaced`: neighbours differ in a replaced record."""
        return self.center is True and self.method == "preconditioned" and replaced

    def check_columns(self, d: int) -> None:
        """Raise InvalidParameter unless the options fit `d` columns."""
        if self.offset is not None and len(self.offset) != d:
            raise checks.refuse("offset", self.offset, f"{d} finite numbers")
        if self.method == "preconditioned" and d < 2:
            raise checks.refuse("the number of columns", d, "at least 2 for method 'preconditioned'")
