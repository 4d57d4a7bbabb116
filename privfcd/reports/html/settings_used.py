"""All parameters of a run with what the defaults became, what was dropped, and how to run it again."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from privfcd.ledger.privacy_report import PrivacyReport
from privfcd.reports.html.left_open import came_to
from privfcd.reports.html.promise import OPEN, SIMULATED, kind_of
from privfcd.reports.html.wording import printable, value_text

_MOST_DROPPED = 40
_SEED = re.compile(r"simulated \(seed (\d+)\)")


@dataclass(frozen=True)
class Parameter:
    """One parameter: as it was given, what it became where the run chose, and whether it was set."""

    name: str
    value: str
    became: str
    changed: bool


@dataclass(frozen=True)
class Dropped:
    """What was taken out of the weights on the way to a graph without cycles."""

    threshold: str
    small: int
    strongest_small: Sequence[tuple[str, str, float]]
    for_cycles: Sequence[tuple[str, str, float]]


def parameters(model: Any) -> list[Parameter]:
    """Return every parameter of a fitted estimator; None and "auto" with what the run made of it, see `left_open`."""
    defaults = inspect.signature(type(model).__init__).parameters
    shown = []
    for name, value in model.fitted_params().items():
        left = value is None or (isinstance(value, str) and value == "auto")
        became = came_to(model, name) if left else ""
        default = defaults[name].default if name in defaults else inspect.Parameter.empty
        shown.append(Parameter(name, value_text(value), became, not _same(value, default)))
    return shown


def _same(value: Any, default: Any) -> bool:
    try:
        return value is default or bool(value == default)
    except (TypeError, ValueError):  # arrays answer with an array
        return False


def dropped(model: Any) -> Dropped | None:
    """Return what was dropped; None where the learner drops nothing, as those of equivalence classes do not."""
    projection = getattr(model, "dropped_", None)
    if projection is None or not (projection.dropped_small or projection.dropped_for_cycles):
        return None
    names = [printable(name) for name in model.feature_names_in_]
    named = [
        [(names[i], names[j], float(weight)) for i, j, weight in edges]
        for edges in (projection.dropped_small, projection.dropped_for_cycles)
    ]
    threshold = value_text(model.fitted_params().get("threshold"))
    return Dropped(threshold, len(named[0]), named[0][::-1][:_MOST_DROPPED], named[1])


def python_lines(model: Any, reports: Sequence[PrivacyReport]) -> str:
    """Return the run as Python lines, for whoever holds the tables."""
    lines = ["import privfcd as pf", ""]
    if reports:
        lines.append("tables = [")
        for index, report in enumerate(reports, start=1):
            seed = _SEED.match(report.noise)
            options = f", noise=pf.SimulatedNoise({seed[1]})" if seed else ""
            budget = "" if report.budget.startswith("none") else ", budget=..."
            bounds = ", bounds=..." if "bounds" in report.declared else ""
            words = report.budget if budget else "no budget: exact answers"
            lines.append(
                f"    pf.PrivateTable(rows_{index}, columns, name={printable(repr(report.party))}{budget}{bounds}{options}),"
                f"  # {printable(words)}"
            )
        lines.append("]")
    source = "tables" if reports else "moments"
    lines.append(f"model = pf.{printable(repr(model))}.fit({source})")
    return "\n".join(lines)


def repeatable(reports: Sequence[PrivacyReport]) -> bool:
    """Say whether all noise came from seeds that are known here, or there was none."""
    return all(kind_of(report) == OPEN or _SEED.match(report.noise) for report in reports)


def seeds(reports: Sequence[PrivacyReport]) -> list[str]:
    """Return the seeds of simulated noise, each once."""
    found = (_SEED.match(report.noise) for report in reports if kind_of(report) == SIMULATED)
    return list(dict.fromkeys(match[1] for match in found if match))
