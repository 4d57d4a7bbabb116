"""Moments that were released before, as `learn` takes them: from a release, from its file, or on their own."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd.errors import InvalidParameter

if TYPE_CHECKING:
    from privfcd.ledger.privacy_report import PrivacyReport
    from privfcd.moments import Moments


@dataclass(frozen=True, eq=False)
class GivenMoments:
    """Moments, the reports of their release, how many parties' came without one, and what their user should know."""

    parts: list[Moments]
    reports: list[PrivacyReport]
    unreported: int
    notes: list[str]


def given_moments(sources: Any) -> GivenMoments | None:
    """Return the moments that `sources` are or name, with the reports of their release; None for tables.

    A party is known by its name, in the moments' `origins` and in the reports. Where neither names anybody, as in moments
    that were made by hand, nothing here can tell that two of them are of the same rows.

    Raises
    ------
    InvalidParameter
        Moments are mixed with tables, a file is named twice, or is not one of moments; or a party was released twice: what
        both releases cost is the sum, which the report of neither says.
    """
    given = sources if isinstance(sources, Sequence) and not isinstance(sources, str) else [sources]
    found = [_is_moments(source) for source in given]
    if not any(found):
        return None
    if not all(found):
        raise InvalidParameter("sources must be all moments or all tables, got both")
    from privfcd.algorithms.release.release import release_notes
    from privfcd.moments import Moments, load_moments
    from privfcd.moments.origins import check_once

    paths = [os.path.realpath(source) for source in given if isinstance(source, str | os.PathLike)]
    parts: list[Moments] = []
    reports: list[PrivacyReport] = []
    names: list[str] = []
    unreported, notes = 0, []
    for source in given:
        if isinstance(source, Moments):
            parts.append(source)
            names.extend(origin.party for origin in source.origins)
            unreported += len(source.origins)
            continue
        if isinstance(source, str | os.PathLike):
            if paths.count(os.path.realpath(source)) > 1:
                raise InvalidParameter(f"sources must be different files, got {os.fspath(source)!r} twice")
            source = load_moments(source)
        parts.extend(source.parts)
        notes += release_notes(source.rule)
        reports.extend(source.privacy_report)
        names.extend(_parties(source))
        behind = sum(len(part.origins) for part in source.parts)
        unreported += max(0, behind - len(source.privacy_report))
    check_once(names)
    return GivenMoments(parts, reports, unreported, notes)


def _parties(source: Any) -> list[str]:
    """Return who is behind one release: its reports and its moments mostly name the same parties."""
    said = [report.party for report in source.privacy_report]
    own = [origin.party for part in source.parts for origin in part.origins]
    return [*own, *(Counter(said) - Counter(own)).elements()]


def _is_moments(source: Any) -> bool:
    if isinstance(source, str | os.PathLike):
        return Path(source).suffix == ".npz"
    from privfcd.algorithms.release import MomentsRelease
    from privfcd.moments import Moments, StoredMoments

    return isinstance(source, Moments | StoredMoments | MomentsRelease)


def fitted_to_moments(model: Any, given: GivenMoments, extra: Mapping[str, Any]) -> Any:
    """Fit to moments, and show the reports of the release that paid for them.

    Where some came without a report, no epsilon is known that holds for every party, and where some have no noise there is
    none: `privacy_spent_` says inf.
    """
    fitted = model.fit(given.parts, **extra)
    fitted.notes_ = [*fitted.notes_, *given.notes]
    if given.reports:
        fitted.privacy_report_ = given.reports
        fitted.unreported_ = given.unreported
        epsilon = math.inf if given.unreported or fitted.unprotected_ else max(each.epsilon for each in given.reports)
        fitted.privacy_spent_ = epsilon, max(each.delta for each in given.reports)
    return fitted
