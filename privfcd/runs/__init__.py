"""Whole runs: learned here, planned before anything is paid, or shared with parties on other machines.

Names are loaded when they are first used: a party that answers loads no plans.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privfcd.runs.defaults import defaults_of as defaults_of
    from privfcd.runs.forecasts import Forecast as Forecast
    from privfcd.runs.forecasts import forecast as forecast
    from privfcd.runs.learning import Learner as Learner
    from privfcd.runs.learning import add_levels as add_levels
    from privfcd.runs.learning import learn as learn
    from privfcd.runs.learning import method_for as method_for
    from privfcd.runs.learning import reports_rounds as reports_rounds
    from privfcd.runs.plan import plan_run as plan_run
    from privfcd.runs.run_plan import PartyPlan as PartyPlan
    from privfcd.runs.run_plan import PlannedRelease as PlannedRelease
    from privfcd.runs.run_plan import RunPlan as RunPlan
    from privfcd.runs.run_plan import size_text as size_text
    from privfcd.runs.run_plan import time_text as time_text
    from privfcd.runs.tables import data_set_of as data_set_of
    from privfcd.runs.tables import log1p_rows as log1p_rows
    from privfcd.runs.tables import private_tables as private_tables

_HOMES = {
    "defaults": ["defaults_of"],
    "forecasts": ["Forecast", "forecast"],
    "learning": ["Learner", "add_levels", "learn", "method_for", "reports_rounds"],
    "plan": ["plan_run"],
    "run_plan": ["PartyPlan", "PlannedRelease", "RunPlan", "size_text", "time_text"],
    "tables": ["data_set_of", "log1p_rows", "private_tables"],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"privfcd.runs.{_HOME_OF[name]}"), name)
    return value
