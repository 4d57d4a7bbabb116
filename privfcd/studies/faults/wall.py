"""All faults, in the order in which they are printed."""

from __future__ import annotations

from privfcd.studies.faults import mechanisms, rows, sparse_vector
from privfcd.studies.faults.case import Case

WALL: tuple[Case, ...] = (*mechanisms.CASES, *sparse_vector.CASES, *rows.CASES)
