"""Pay once, learn anything: private second moments of a federation in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from privfcd import checks
from privfcd.algorithms.inputs import checked_tables
from privfcd.algorithms.local import LocalFederation
from privfcd.algorithms.opening import Facts
from privfcd.algorithms.protocol import Federation
from privfcd.algorithms.release.coordinator import Outcome, ReleaseCoordinator
from privfcd.algorithms.release.party import ReleaseParty
from privfcd.algorithms.release.secure import SecureFederation
from privfcd.algorithms.release.settings import ReleaseSettings
from privfcd.algorithms.release.whitening import Whitening, structure_whitening
from privfcd.algorithms.results import warn_when_paid
from privfcd.algorithms.secure.seat import seats_for
from privfcd.data.private import PrivateTable
from privfcd.data.second_moments import table_origin
from privfcd.data.trusted_sum import check_summable
from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.moments import Moments, pooled

_UNKNOWN = (
    "Nothing is known of {} at this budget: the noise hides how large the values are. Leave these columns out, or give a "
    "larger budget"
)


_LOST = "Secure sums went on without {}. The last sum, to which the numbers of rows belong, is of {}."


class MomentsWarning(UserWarning):
    """Released moments say nothing of some columns, or are of fewer parties than were asked."""


def release_notes(rule: Mapping[str, Any]) -> list[str]:
    """Return what who learns from a release with this `rule` should know; mostly nothing."""
    notes = [_UNKNOWN.format(", ".join(map(repr, rule["unknown"])))] if rule.get("unknown") else []
    about = rule.get("secure sum", {})
    return notes + ([_LOST.format(*(", ".join(about[key]) for key in ("lost", "parties")))] if about.get("lost") else [])


@dataclass(frozen=True, eq=False)
class MomentsRelease:
    """Moments, and what they cost.

    Attributes
    ----------
    parts : tuple of Moments
        One for each party; a single one of all rows after a trusted sum.
    privacy_report : list of PrivacyReport
        One for each table.
    bytes_exchanged : int
        Both ways, numbers only.
    rule : dict
        What was chosen, and from what.
    """

    parts: tuple[Moments, ...]
    privacy_report: list[PrivacyReport]
    bytes_exchanged: int
    rule: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def moments(self) -> Moments:
        """The moments of all rows."""
        return pooled(self.parts)


def release_moments(
    tables: Sequence[PrivateTable],
    *,
    method: str | None = None,
    send: bool = True,
    epsilon: float | None = None,
    delta: float | None = None,
    row_norm: float | None = None,
    center: bool | str | None = None,
    offset: Sequence[float] | None = None,
    sum: str = "per-party",
    colluders: int = 1,
    dropouts: int = 0,
    shares: Sequence[float] | None = None,
    histogram_share: float | None = None,
    mean_share: float = 0.1,
    whitening: Whitening | None = None,
) -> MomentsRelease:
    """Release second moments of the parties' rows; what is learnt from them costs nothing more.

    Columns are aligned by name to the first table's order. Everything is checked, and every party's budget is asked,
    before any ledger is charged; every ledger is charged once, for the whole plan, before any row is read.

    Parameters
    ----------
    tables : sequence of PrivateTable
        One for each party.
    method : str, optional
        `"exact"`: open tables only, charged as non-private. `"covariance"`: one matrix of rows clipped in norm.
        `"preconditioned"`: rounds, each on rows that are multiplied by a matrix made from the rounds before, so that
        the noise is small relative to every direction's own variance. By default `"exact"` for open tables, and for
        others `"preconditioned"`, or `"covariance"` where the moments stay at the parties.
    send : bool
        False keeps each party's moments there (`"exact"` or `"covariance"`): no numbers pass.
    epsilon, delta : float, optional
        What this run may spend of each table's budget; all that is left by default. delta defaults to the budget's,
        in proportion to epsilon.
    row_norm : float, optional
        For `"covariance"`: rows are shortened to this norm; public. By default the norm of the declared bounds, or what
        a histogram says that is paid for.
    center : bool or "mean", optional
        Whether means are taken off, each party's own: they are by default, unless a public `offset` is.
        `"preconditioned"` looks at differences of records for that, in which no mean appears
        and skewed columns are symmetric (see `privfcd.data.pairs`): a replaced record moves them twice as far, and no mean
        is paid for. `"exact"` and `"covariance"` take off a mean that each party releases first. Rounds of
        tables whose neighbours lack a record, and `"mean"`, take off the mean of all parties, which is released; its noise
        is part of the moments' law. False takes means to be 0.
    offset : sequence of float, optional
        A public vector that is taken off instead.
    sum : str
        `"per-party"`: every party adds noise of its own. `"trusted"`: one noise on the sum over all tables, by a place
        that may see them all, such as one process that holds them; nothing is promised towards that place. `"secure"`: each
        party adds a share of one noise, and only the sum is seen, see `privfcd.algorithms.secure.seat`. In one process all
        parties are played here.
    colluders, dropouts : int
        For `"secure"`: how many parties may tell the coordinator all they know, and how many may be lost. With P parties the
        noise has P / (P - colluders - dropouts) times the variance of a trusted sum's.
    shares : sequence of float, optional
        For `"preconditioned"`: each round's share of mu², after the histogram and the mean; chosen by a rule by default.
    histogram_share, mean_share : float, optional
        Shares of mu² for the histogram and the mean, where they are needed.
    whitening : callable, optional
        For `"preconditioned"`: makes the next round's matrix, see `Whitening`; by default from the sparse structure that
        an order search finds.

    Returns
    -------
    MomentsRelease

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow the run; no party was charged.
    InvalidParameter, InvalidTable
        What is wrong, and with which party.
    """
    if whitening is not None and not callable(whitening):
        raise checks.refuse("whitening", whitening, "a function, see Whitening, or None")
    checked = checked_tables(tables)
    if center is None:
        center = offset is None
    opened = all(table.open for table in checked)
    why = "asked for"
    if method is None:
        method = "exact" if opened else ("preconditioned" if send and row_norm is None else "covariance")
        why = {
            "exact": "no table has a budget",
            "covariance": "the moments stay at the parties" if not send else "a row norm was declared",
            "preconditioned": "its noise is small in every direction, whatever the longest rows are",
        }[method]
    settings = ReleaseSettings(
        method=method,
        send=send,
        epsilon=epsilon,
        delta=delta,
        row_norm=row_norm,
        center=center,
        offset=None if offset is None else _numbers("offset", offset),
        sum=sum,
        shares=None if shares is None else _numbers("shares", shares),
        histogram_share=histogram_share,
        mean_share=mean_share,
        colluders=colluders,
        dropouts=dropouts,
    )
    groups = [checked] if sum == "trusted" else [[table] for table in checked]
    columns = checked[0].columns
    groups = [[table.reordered(columns) for table in group] for group in groups]
    parties = [ReleaseParty(group, index) for index, group in enumerate(groups)]
    federation: Federation = LocalFederation(parties)
    if sum == "secure":
        federation = secure_in_process(federation, checked, parties, colluders, dropouts)
    coordinator = ReleaseCoordinator(settings, columns, structure_whitening if whitening is None else whitening)
    outcome = coordinator.run(federation, coordinator.offer(federation))
    if not send and not opened:
        outcome.rule["row norm at each party"] = [party.facts.get("row_norm") for party in parties]
    for words in release_notes(outcome.rule):
        warn_when_paid(words, MomentsWarning)
    found = outcome.parts if send else tuple(party.kept for party in parties if party.kept is not None)
    groups = [checked] if sum == "secure" else groups
    parts = tuple(
        replace(part, origins=tuple(map(table_origin, group))) for part, group in zip(found, groups, strict=True)
    )
    reports = [report for party in parties for report in party.reports()]
    return MomentsRelease(parts, reports, federation.bytes_exchanged, {"why": why, **outcome.rule})


def secure_in_process(
    inner: Federation, tables: Sequence[PrivateTable], parties: Sequence[Any], colluders: int, dropouts: int
) -> SecureFederation:
    """Return a federation of secure sums over parties of this process, each of which gets a seat."""
    check_summable(tables)
    federation = SecureFederation(inner, [table.name for table in tables], colluders, dropouts)
    for party, seat in zip(parties, seats_for([table.name for table in tables]), strict=True):
        party.seat = seat
    return federation


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    if isinstance(values, str) or not np.iterable(values):
        raise checks.refuse(name, values, "a sequence of numbers")
    return tuple(checks.real(name, value) for value in values)


def released(coordinator: ReleaseCoordinator, federation: Federation, facts: Facts) -> Outcome:
    """Run a release, and return what came of it with whose moments they are; what is doubtful is warned of."""
    outcome = coordinator.run(federation, coordinator.offer(federation))
    for words in release_notes(outcome.rule):
        warn_when_paid(words, MomentsWarning)
    placed = zip(outcome.parts, outcome.places, strict=False)  # no parts where they stay at the parties
    parts = tuple(replace(part, origins=facts.parties[place].origins) for part, place in placed)
    return replace(outcome, parts=parts)
