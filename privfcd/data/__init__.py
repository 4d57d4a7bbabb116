"""Tables in, and the only door to their rows."""

from privfcd.data.box_moments import BoxMoments, box_sensitivity
from privfcd.data.contingency import ContingencyTables
from privfcd.data.datasets import Dataset, sachs
from privfcd.data.directions import DirectionMoments, LinearMoments
from privfcd.data.encoding import Contrasts
from privfcd.data.greedy import GreedyDescent, GreedyScores
from privfcd.data.histogram import OctaveHistogram
from privfcd.data.interventions import InterventionSimulation, unknown_interventions
from privfcd.data.losses import HuberLoss, Loss, SquaredLoss
from privfcd.data.networks import DiscreteNetwork, load_network, read_bif
from privfcd.data.non_iid import non_iid
from privfcd.data.private import PrivateTable
from privfcd.data.quantile import QuantileScores
from privfcd.data.queries import ClippedGradient, ClippedMean, ColumnSquares, Query, SecondMoments
from privfcd.data.second_moments import table_moments
from privfcd.data.simulate import Simulation, linear_gaussian
from privfcd.data.support_gradient import SupportGradient
from privfcd.data.tables import Table, align, read_table, split_rows

__all__ = [
    "BoxMoments",
    "ClippedGradient",
    "ClippedMean",
    "ColumnSquares",
    "ContingencyTables",
    "Contrasts",
    "Dataset",
    "DirectionMoments",
    "DiscreteNetwork",
    "GreedyDescent",
    "GreedyScores",
    "HuberLoss",
    "InterventionSimulation",
    "LinearMoments",
    "Loss",
    "OctaveHistogram",
    "PrivateTable",
    "QuantileScores",
    "Query",
    "SecondMoments",
    "Simulation",
    "SquaredLoss",
    "SupportGradient",
    "Table",
    "align",
    "box_sensitivity",
    "linear_gaussian",
    "load_network",
    "non_iid",
    "read_bif",
    "read_table",
    "sachs",
    "split_rows",
    "table_moments",
    "unknown_interventions",
]
