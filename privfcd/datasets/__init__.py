"""Bundled tables, known networks, and simulators."""

from privfcd.datasets.interventions import InterventionSimulation, unknown_interventions
from privfcd.datasets.networks import DiscreteNetwork, load_network, read_bif
from privfcd.datasets.non_iid import non_iid
from privfcd.datasets.sachs import Dataset, sachs
from privfcd.datasets.simulate import Simulation, linear_gaussian

__all__ = [
    "Dataset",
    "DiscreteNetwork",
    "InterventionSimulation",
    "Simulation",
    "linear_gaussian",
    "load_network",
    "non_iid",
    "read_bif",
    "sachs",
    "unknown_interventions",
]
