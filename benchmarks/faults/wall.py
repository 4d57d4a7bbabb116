"""All faults, in the order in which they are printed."""

from __future__ import annotations

from benchmarks.faults import mechanisms, rows, sparse_vector
from benchmarks.faults.case import Case

WALL: tuple[Case, ...] = (*mechanisms.CASES, *sparse_vector.CASES, *rows.CASES)
