"""Whole runs in one call: tables in, a fitted learner out."""

from privfcd.learning.run import Learner, learn, reports_rounds
from privfcd.learning.tables import data_set_of, log1p_rows, private_tables

__all__ = [
    "Learner",
    "data_set_of",
    "learn",
    "log1p_rows",
    "private_tables",
    "reports_rounds",
]
