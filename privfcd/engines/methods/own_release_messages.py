"""The messages of parties that release moments to themselves, each by rounds of its own; in the order in which they pass."""

from __future__ import annotations

from dataclasses import dataclass

from privfcd.federation.protocol import Empty


@dataclass(frozen=True)
class Offer(Empty):
    """To the parties: this is to be planned. Answered by `Empty` where the budget allows it; nothing is charged yet."""

    epsilon: float | None
    delta: float | None
    center: bool
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Charge(Empty):
    """To the parties: charge the rounds. Answered by `Empty`; rows are read only when all have been charged."""


@dataclass(frozen=True)
class Release(Empty):
    """To the parties: do the rounds, and keep what comes of them. Answered by `Empty`."""
