"""Moments that were released before, as `learn` takes them: from a release, from its file, or on their own."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privfcd.errors import InvalidParameter

if TYPE_CHECKING:
    from privfcd.accounting.privacy_report import PrivacyReport
    from privfcd.moments import Moments


@dataclass(frozen=True, eq=False)
class GivenMoments:
    """Moments, the reports of their release, how many of them came without one, and what their user should know."""

    parts: list[Moments]
    reports: list[PrivacyReport]
    unreported: int
    notes: list[str]


def given_moments(sources: Any) -> GivenMoments | None:
    """Return the moments that `sources` are or name, with the reports of their release; None for tables.

    Raises
    ------
    InvalidParameter
        Moments are mixed with tables, a file is named twice, or is not one of moments.
    """
    given = sources if isinstance(sources, Sequence) and not isinstance(sources, str) else [sources]
    found = [_is_moments(source) for source in given]
    if not any(found):
        return None
    if not all(found):
        raise InvalidParameter("sources must be all moments or all tables, got both")
    from privfcd.algorithms.release.release import doubt
    from privfcd.moments import Moments, load_moments

    paths = [os.path.realpath(source) for source in given if isinstance(source, str | os.PathLike)]
    parts: list[Moments] = []
    reports: list[PrivacyReport] = []
    unreported, notes = 0, []
    for source in given:
        if isinstance(source, Moments):
            parts.append(source)
            unreported += 1
            continue
        if isinstance(source, str | os.PathLike):
            if paths.count(os.path.realpath(source)) > 1:
                raise InvalidParameter(f"sources must be different files, got {os.fspath(source)!r} twice")
            source = load_moments(source)
        parts.extend(source.parts)
        if source.rule.get("doubtful"):
            notes.append(doubt(source.rule["doubtful"]))
        reports.extend(source.privacy_report)
        unreported += 0 if source.privacy_report else len(source.parts)
    return GivenMoments(parts, reports, unreported, notes)


def _is_moments(source: Any) -> bool:
    if isinstance(source, str | os.PathLike):
        return Path(source).suffix == ".npz"
    from privfcd.algorithms.release import MomentsRelease
    from privfcd.moments import Moments, StoredMoments

    return isinstance(source, Moments | StoredMoments | MomentsRelease)


def fitted_to_moments(model: Any, given: GivenMoments, extra: Mapping[str, Any]) -> Any:
    """Fit to moments, and show the reports of the release that paid for them.

    Where some came without a report, no epsilon is known that holds for every party, and `privacy_spent_` says inf.
    """
    fitted = model.fit(given.parts, **extra)
    fitted.notes_ = [*fitted.notes_, *given.notes]
    if given.reports:
        fitted.privacy_report_ = given.reports
        fitted.unreported_ = given.unreported
        epsilon = math.inf if given.unreported else max(each.epsilon for each in given.reports)
        fitted.privacy_spent_ = epsilon, max(each.delta for each in given.reports)
    return fitted
