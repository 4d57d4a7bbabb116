"""Whole runs in one call: tables in, a fitted learner out."""

from privfcd.learning.run import METHODS, Learner, learn, method_class, reports_rounds
from privfcd.learning.tables import data_set_of, log1p_rows, private_tables

__all__ = [
    "METHODS",
    "Learner",
    "data_set_of",
    "learn",
    "log1p_rows",
    "method_class",
    "private_tables",
    "reports_rounds",
]
