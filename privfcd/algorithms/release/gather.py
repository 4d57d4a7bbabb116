"""Moments for a learner, from whatever it was given: tables, which release them, or moments that were released before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from privfcd import checks
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.release.release import release_moments, release_notes
from privfcd.moments import Moments, pooled

RELEASES = ("auto", "preconditioned", "covariance", "exact")


@dataclass(frozen=True, eq=False)
class Gathered:
    """Moments, and what they cost here.

    Attributes
    ----------
    parts : tuple of Moments
        One for each party.
    reports : list of PrivacyReport or None
        None for moments that were released before.
    bytes_exchanged : int
        For the release.
    rule : dict
        What was chosen for the release, and from what.
    """

    parts: tuple[Moments, ...]
    reports: list[PrivacyReport] | None
    bytes_exchanged: int
    rule: dict[str, Any]

    @property
    def moments(self) -> Moments:
        """The moments of all rows."""
        return pooled(self.parts)

    @property
    def notes(self) -> list[str]:
        """What the release itself says of its moments, see `release_notes`."""
        return release_notes(self.rule)


def gather(source: Any, release: str, **options: Any) -> Gathered:
    """Return the moments of `source`, releasing them from tables as `release` says.

    Parameters
    ----------
    source : sequence of PrivateTable, or Moments, or a sequence of Moments
        One for each party.
    release : str
        `"auto"`, or a method of `release_moments`.
    **options
        Of `release_moments`. They must be unset (None or False) where moments are given.

    Raises
    ------
    BudgetExceeded
        A party's budget does not allow the release; no party was charged.
    InvalidParameter, InvalidTable
        What is wrong, and with which party.
    """
    if release not in RELEASES:
        raise checks.refuse("release", release, "one of " + ", ".join(RELEASES))
    parts = moments_given(source)
    if parts is not None:
        for name, value in options.items():
            if value is not None and value is not False:
                raise checks.refuse(name, value, "left at its default for Moments, which were released before")
        if release != "auto":
            raise checks.refuse("release", release, "'auto' for Moments, which were released before")
        return Gathered(tuple(parts), None, 0, {})
    made = release_moments(checked_tables(source), method=None if release == "auto" else release, **options)
    return Gathered(made.parts, made.privacy_report, made.bytes_exchanged, made.rule)


def centring(center: Any, source: Any) -> bool:
    """Return whether means are to be taken off: as `center` says, and by default for tables, not for moments."""
    if center is None:
        return moments_given(source) is None
    if not isinstance(center, bool):
        raise checks.refuse("center", center, "True, False or None")
    return center
