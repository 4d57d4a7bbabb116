"""Moments for a learner, from whatever it was given: tables, which release them, or moments that were released before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from privfcd import checks
from privfcd.accounting.privacy_report import PrivacyReport
from privfcd.algorithms.inputs import checked_tables, moments_given
from privfcd.algorithms.release.release import release_moments, release_notes
from privfcd.algorithms.scale_notes import party_notes
from privfcd.moments import Moments, pooled
from privfcd.moments.dependence import LeftOut, left_out, without

BEFORE = "left at its default for Moments, which were released before"

RELEASES = ("auto", "preconditioned", "covariance", "exact")

_LISTED = 5


@dataclass(frozen=True, eq=False)
class Gathered:
    """Moments, and what they cost here.

    Attributes
    ----------
    parts : tuple of Moments
        What is learnt from, one for each party: columns that are left out have no relation to others.
    reports : list of PrivacyReport or None
        None for moments that were released before.
    bytes_exchanged : int
        For the release.
    rule : dict
        What was chosen for the release, and from what.
    given : tuple of Moments
        As they were released.
    looked : list of str
        What was seen in them: columns that are left out, parties that differ.
    """

    parts: tuple[Moments, ...]
    reports: list[PrivacyReport] | None
    bytes_exchanged: int
    rule: dict[str, Any]
    given: tuple[Moments, ...] = ()
    looked: tuple[str, ...] = ()

    @property
    def moments(self) -> Moments:
        """The moments of all rows, as they are learnt from."""
        return pooled(self.parts)

    @property
    def released(self) -> Moments:
        """The moments of all rows, as they were released: other learners can use them."""
        return pooled(self.given or self.parts)

    @property
    def notes(self) -> list[str]:
        """What the release itself says of its moments (see `release_notes`), and what was seen in them."""
        return [*release_notes(self.rule), *self.looked]


def usable(
    parts: Sequence[Moments], rule: Mapping[str, Any] | None = None, *, differ: bool = True
) -> tuple[tuple[Moments, ...], tuple[str, ...]]:
    """Return the parties' moments with the columns set aside that no learner should use, and notes on what was seen.

    Post-processing of what was released. A column is set aside at all parties if others determine it in the sum over them,
    or if nothing is known of it there, see `left_out`.

    Parameters
    ----------
    parts : sequence of Moments
        One for each party.
    rule : mapping, optional
        Of their release, for the noise of means.
    differ : bool
        Whether parties whose sizes or means differ are named: not where they may, as under interventions.
    """
    together, d = pooled(parts), len(parts[0].columns)
    out = left_out(together) if together.rows > d + 1 else ()
    aside = [each.column for each in out]
    notes = _left_out_notes(out)
    if differ:
        notes += party_notes(parts, (rule or {}).get("mean noise sd"), aside)
    return tuple(without(part, aside) for part in parts), tuple(notes)


def _left_out_notes(out: Sequence[LeftOut]) -> list[str]:
    """Return in words which columns were left out, and why."""
    if not out:
        return []
    said = "; ".join(each.relation for each in out[:_LISTED])
    more = f"; and {len(out) - _LISTED} more" if len(out) > _LISTED else ""
    names = ", ".join(repr(each.column) for each in out)
    many = len(out) > 1
    return [
        f"{len(out)} column{'s were' if many else ' was'} left out of the learning: {names}. {said}{more}. Other columns "
        f"determine {'these' if many else 'it'}, or nothing is known of {'them' if many else 'it'}, so that no edge from or "
        "into it can be found. Leave out another column of the set if you want to see this one."
    ]


def gather(source: Any, release: str, *, look: bool = True, **options: Any) -> Gathered:
    """Return the moments of `source`, releasing them from tables as `release` says.

    Parameters
    ----------
    source : sequence of PrivateTable, or Moments, or a sequence of Moments
        One for each party.
    release : str
        `"auto"`, or a method of `release_moments`.
    look : bool
        Whether columns that no learner should use are set aside (`usable`); not those of an encoding.
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
                raise checks.refuse(name, value, BEFORE)
        if release != "auto":
            raise checks.refuse("release", release, "'auto' for Moments, which were released before")
        used, seen = usable(parts) if look else (tuple(parts), ())
        return Gathered(used, None, 0, {}, tuple(parts), seen)
    made = release_moments(checked_tables(source), method=None if release == "auto" else release, **options)
    used, seen = usable(made.parts, made.rule) if look else (made.parts, ())
    return Gathered(used, made.privacy_report, made.bytes_exchanged, made.rule, made.parts, seen)


def centring(center: Any, source: Any) -> bool:
    """Return whether means are to be taken off: as `center` says, and by default for tables, not for moments."""
    return centred(center) if center is not None else moments_given(source) is None


def centred(center: Any) -> bool:
    """Return whether a table's means are taken off: they are unless they are declared to be 0 (`center=False`)."""
    if center is not None and not isinstance(center, bool):
        raise checks.refuse("center", center, "True, False or None")
    return center is not False
