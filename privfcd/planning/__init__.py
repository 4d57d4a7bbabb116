"""Runs before they are made: what they will release and cost, and how long they will take."""

from privfcd.planning.defaults import defaults_of
from privfcd.planning.plan import plan_run
from privfcd.planning.run_plan import PartyPlan, PlannedRelease, RunPlan, size_text, time_text

__all__ = ["PartyPlan", "PlannedRelease", "RunPlan", "defaults_of", "plan_run", "size_text", "time_text"]
