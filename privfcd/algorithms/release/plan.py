"""What a release will cost one party: a few Gaussian releases whose mu² add up.

Gaussian noise composes exactly: releases of noise multipliers z_1, z_2, ... are together mu-Gaussian-DP with
mu² = sum 1 / z_i² (Dong, Roth and Su 2022, Corollary 3.3), whatever later rounds make of earlier answers. A release that
gets the share s of mu² has the multiplier z / sqrt(s), z = 1 / mu being that of the whole budget spent at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dp_accounting import NonPrivateDpEvent

from privfcd.accounting import compose, gaussian_event
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.data.private import PrivateTable
from privfcd.errors import InvalidParameter
from privfcd.ledger import PlanPart
from privfcd.ledger.affordable import affordable_scale

HISTOGRAM = "histogram of octaves (bounds)"
SCALES = "histogram of octaves (scales)"
DIFFERENCES = "histogram of octaves (scales of differences of records)"
MEAN = "mean"
ROUND = "second moments, round"
COVARIANCE = "second moments, clipped"

Shares = Sequence[tuple[str, float]]


def round_label(number: int) -> str:
    """Return the plan's name for a round, 1, 2, ..."""
    return f"{ROUND} {number}"


@dataclass(frozen=True)
class TablePlan:
    """The plan on one table.

    Attributes
    ----------
    parts : tuple of PlanPart
        What will be released.
    multipliers : dict of str to float
        Noise multiplier of each, by label; 0 on an open table.
    delta : float or None
        The slice's delta under an (epsilon, delta) budget.
    """

    parts: tuple[PlanPart, ...]
    multipliers: dict[str, float]
    delta: float | None


def affordable_mu(table: PrivateTable, settings: ReleaseSettings, label: str) -> float:
    """Return the Gaussian-DP parameter that the table's budget allows for the whole run; inf for an open table."""
    if table.open:
        return math.inf
    z, _ = affordable_scale(
        table.ledger, lambda z: gaussian_event(1.0, z), settings.epsilon, settings.delta, label=label
    )
    return 1 / z


def plan_tables(
    tables: Sequence[PrivateTable], settings: ReleaseSettings, shares: Shares, label: str, least: float = 0.0
) -> list[TablePlan]:
    """Return the plans on tables that share their noise: the multipliers are what the smallest budget needs.

    `least` is the multiplier for a table elsewhere, for a secure sum.
    """
    labels = [name for name, _ in shares]
    positive = all(share > 0 for _, share in shares)
    if not positive or len(set(labels)) != len(labels) or abs(math.fsum(share for _, share in shares) - 1) > 1e-9:
        raise InvalidParameter(f"shares must have different names, be above 0 and add up to 1, got {list(shares)}")
    if any(table.open for table in tables):
        parts = tuple(PlanPart(name, NonPrivateDpEvent(), 1) for name in labels)
        return [TablePlan(parts, dict.fromkeys(labels, 0.0), None) for _ in tables]

    def parts_of(z: float) -> tuple[PlanPart, ...]:
        return tuple(PlanPart(name, gaussian_event(1.0, z / math.sqrt(share)), 1) for name, share in shares)

    found = [
        affordable_scale(
            table.ledger,
            lambda z: compose((part.event, part.count) for part in parts_of(z)),
            settings.epsilon,
            settings.delta,
            label=label,
        )
        for table in tables
    ]
    z = max(least, *(scale for scale, _ in found))
    multipliers = {name: z / math.sqrt(share) for name, share in shares}
    return [TablePlan(parts_of(z), multipliers, delta) for _, delta in found]
