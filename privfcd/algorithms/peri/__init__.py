"""PERI and I-PERI: federated causal discovery by regrets, with unknown interventions."""

from privfcd.algorithms.peri.base import UnfinishedWarning
from privfcd.algorithms.peri.estimator import IPERI, PERI

__all__ = ["IPERI", "PERI", "UnfinishedWarning"]
