"""The wall of faults: mechanisms and algorithms that are wrong in one way, each beside its right twin."""

from benchmarks.faults.case import Case, Finding
from benchmarks.faults.wall import WALL

__all__ = ["WALL", "Case", "Finding"]
