"""What parameters that were left open came to: a number where the model has one, words where it has none.

A parameter is left open by None or "auto". What then becomes of it depends on public numbers, on the budgets, or on what
the run releases. The first two are known before a run, and a plan says them in the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from privfcd.algorithms.release.plan import COVARIANCE, DIFFERENCES, HISTOGRAM, MEAN, ROUND
from privfcd.ledger.privacy_report import PrivacyReport, rounded_up
from privfcd.reports.html.promise import OPEN, kind_of
from privfcd.reports.html.wording import value_text
from privfcd.reports.run import BEFORE, reports_of, where_paid

ALL_LEFT = "all that is left of each budget"
IN_PROPORTION = "each budget's, in proportion to epsilon"
RELEASED = "found in what the run releases"
NOT_CLIPPED = "none: open tables are not clipped"
NO_BUDGET = "none: the tables are open"
EXACT = "none: exact answers"
LEAST_NOISE = "the least that the budgets allow"
OF_BOUNDS = "the norm of the declared bounds"
DIRECTIONS = "none: directions of rows are released"
MOMENTS = "none: moments were given"


def came_to(model: Any, name: str) -> str:
    """Return what a parameter of a fitted estimator, which was left open, came to; empty where the model does not say."""
    used: Mapping[str, Any] = getattr(model, "settings_", {})
    known = used.get(name) if name in used else getattr(model, f"{name}_", None)
    if known is None:
        known = _ruled(model, name)
    if known is not None:
        return value_text(known)
    words = _WORDS.get(name, "")
    return words if isinstance(words, str) else words(model)


def _ruled(model: Any, name: str) -> Any:
    """Return what the record of the run's choices holds: on the top, or among those of its release."""
    rule: Mapping[str, Any] = getattr(model, "rule_", None) or {}
    inner = [rule.get(part) for part in ("release", "moments")]
    for place in (rule, *(part for part in inner if isinstance(part, Mapping))):
        for key in ("release", "method") if name == "release" else (name.replace("_", " "),):
            if isinstance(place.get(key), str | int | float):
                return place[key]
    return None


def _open(model: Any) -> bool:
    reports = reports_of(model)
    return bool(reports) and all(kind_of(report) == OPEN for report in reports)


def _from_moments(model: Any) -> bool:
    """Say whether it was learnt from moments, given or released in this run, rather than step by step from tables."""
    return where_paid(model) == BEFORE or _ruled(model, "release") == "preconditioned"


def _by_source(private: str, opened: str, moments: str) -> Callable[[Any], str]:
    return lambda model: moments if _from_moments(model) else opened if _open(model) else private


def _spent(words: str, number: Callable[[PrivacyReport], float]) -> Callable[[Any], str]:
    """Return words for what was taken of the budgets, with the largest number among the parties."""

    def said(model: Any) -> str:
        if where_paid(model) == BEFORE:
            return MOMENTS
        if _open(model):
            return NO_BUDGET
        numbers = {rounded_up(number(report)) for report in reports_of(model) if kind_of(report) != OPEN}
        if not numbers:
            return words
        return f"{words}: {'at most ' * (len(numbers) > 1)}{max(numbers, key=float)}"

    return said


def _labels(model: Any) -> list[str]:
    return [part.label for report in reports_of(model) for part in report.parts]


def _release(model: Any) -> str:
    if where_paid(model) == BEFORE:
        return MOMENTS
    if _open(model):
        return "exact"
    labels = _labels(model)
    if any(label.startswith(ROUND) for label in labels):
        return "preconditioned"
    return "covariance" if COVARIANCE in labels else ""


def _smoothness(model: Any) -> str:
    words = _by_source(RELEASED, "found in the tables", "found in the moments")(model)
    late = getattr(model, "late_rounds_", None)
    return words if late is None else f"{words}: {value_text(late.second_moments)}"


def _row_norm(model: Any) -> str:
    if where_paid(model) == BEFORE:
        return MOMENTS
    if _open(model):
        return NOT_CLIPPED
    labels = _labels(model)
    if labels and COVARIANCE not in labels:
        return DIRECTIONS
    declared = bool(labels) and all("bounds" in report.declared for report in reports_of(model))
    return OF_BOUNDS if declared and HISTOGRAM not in labels else RELEASED


def _center(model: Any) -> str:
    if where_paid(model) == BEFORE:
        return "False"
    labels = _labels(model)
    return str(MEAN in labels or DIFFERENCES in labels) if labels else ""


def _combine(model: Any) -> str:
    if where_paid(model) == BEFORE or not reports_of(model):
        return ""
    return "vote" if _open(model) else "sum"


_WORDS: Mapping[str, str | Callable[[Any], str]] = {
    "epsilon": _spent(ALL_LEFT, lambda report: report.epsilon),
    "delta": _spent(IN_PROPORTION, lambda report: report.delta),
    "clip": _by_source(RELEASED, NOT_CLIPPED, "none: moments are not clipped"),
    "smoothness": _smoothness,
    "noise_multiplier": _by_source(LEAST_NOISE, EXACT, "none: nothing was released step by step"),
    "workers": _by_source("one for each party, and at most one for each processor", "1", "1"),
    "fast": "where numba is installed",
    "release": _release,
    "row_norm": _row_norm,
    "center": _center,
    "combine": _combine,
    "levels": "none: the columns are continuous",
    "max_parents": "no limit",
    "value_bound": "the tables' declared bounds, where it is needed",
}
