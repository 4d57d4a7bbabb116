"""Tables in, and the only door to their rows."""

from privfcd.data.box_moments import BoxMoments, box_sensitivity
from privfcd.data.column import Column
from privfcd.data.contingency import ContingencyTables
from privfcd.data.directions import DirectionMoments, LinearMoments, linear_on_grid
from privfcd.data.encoding import Contrasts
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.private import PrivateTable
from privfcd.data.quantile import QuantileScores, quantiles
from privfcd.data.queries import ClippedGradient, ClippedMean, ColumnSquares, Query, SecondMoments
from privfcd.data.schema import Schema
from privfcd.data.second_moments import table_moments
from privfcd.data.tables import Table, align, read_table, split_rows

__all__ = [
    "BoxMoments",
    "ClippedGradient",
    "ClippedMean",
    "Column",
    "ColumnSquares",
    "ContingencyTables",
    "Contrasts",
    "DirectionMoments",
    "LinearMoments",
    "OctaveHistogram",
    "PrivateTable",
    "QuantileScores",
    "Query",
    "Schema",
    "SecondMoments",
    "Table",
    "align",
    "box_sensitivity",
    "linear_on_grid",
    "quantiles",
    "read_table",
    "split_rows",
    "table_moments",
]
