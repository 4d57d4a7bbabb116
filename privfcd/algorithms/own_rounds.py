"""Every party's own private moments, in rounds of its own.

Rounds multiply the rows by a matrix that the rounds before suggest. Where parties intervene their moments differ, so that a
matrix made from all of them fits none: each party here is a federation of one. All parties are asked, then all are
charged, then rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.release.coordinator import ReleaseCoordinator
from privfcd.algorithms.release.messages import Quote
from privfcd.algorithms.release.party import ASSUMPTIONS, ReleaseParty
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import structure_whitening
from privfcd.algorithms.results import table_report
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_origin
from privfcd.federation.local import LocalFederation
from privfcd.moments import Moments


@dataclass(frozen=True, eq=False)
class OwnMoments:
    """Moments of each party, the reports on them, and what was chosen for each."""

    parts: tuple[Moments, ...]
    reports: list[PrivacyReport]
    rule: dict[str, Any]


@dataclass(frozen=True, eq=False)
class OwnRounds:
    """One party's rounds, planned and not yet paid for."""

    table: PrivateTable
    settings: ReleaseSettings
    party: ReleaseParty
    alone: LocalFederation
    coordinator: ReleaseCoordinator
    quotes: list[Quote]
    shares: dict[str, float]


def planned_rounds(
    tables: Sequence[PrivateTable],
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    center: bool = False,
    first: int = 0,
) -> list[OwnRounds]:
    """Plan rounds that look at one table alone, for each; open tables' moments are exact. Nothing is charged.

    Parameters
    ----------
    tables : sequence of PrivateTable
        One for each party, columns of the same names.
    epsilon, delta, center
        As of `release_moments`; each party takes off a mean of its own.
    first : int
        The first table's number in the federation, to which the noise's streams belong.

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow it, or is too small for rounds.
    """
    columns = tables[0].columns
    runs = []
    for index, table in enumerate(tables, first):
        method = "exact" if table.open else "preconditioned"
        settings = ReleaseSettings(method=method, epsilon=epsilon, delta=delta, center=center)
        own = table.reordered(columns)
        party = ReleaseParty([own], index)
        alone = LocalFederation([party])
        coordinator = ReleaseCoordinator(settings, columns, structure_whitening)
        quotes = coordinator.offer(alone)
        runs.append(OwnRounds(own, settings, party, alone, coordinator, quotes, coordinator.plan(alone, quotes)))
    return runs


def own_moments(runs: Sequence[OwnRounds]) -> OwnMoments:
    """Charge all parties for their rounds, then do them. Nothing has to be sent: a party does its rounds by itself.

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow it any more.
    """
    for run in runs:
        run.coordinator.charge(run.alone)
    return released(runs)


def released(runs: Sequence[OwnRounds]) -> OwnMoments:
    """Do rounds that were charged for before."""
    parts, reports, rules = [], [], []
    for run in runs:
        outcome = run.coordinator.release(run.alone, run.quotes, run.shares)
        parts.append(replace(outcome.parts[0], origins=(table_origin(run.table),)))
        rules.append(outcome.rule)
        planned = run.party.plans[0].delta
        delta = run.settings.delta if planned is None else planned
        reports.append(
            table_report(run.table, run.party.reservations[0], delta=delta, declared={}, assumptions=ASSUMPTIONS)
        )
    return OwnMoments(tuple(parts), reports, {"method": "preconditioned, each party alone", "parties": rules})
