"""The wall of faults: mechanisms and algorithms that are wrong in one way, each beside its right twin."""

from privfcd.studies.faults.case import Case, Finding
from privfcd.studies.faults.wall import WALL

__all__ = ["WALL", "Case", "Finding"]
