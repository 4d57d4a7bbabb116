"""NOTEARS (Zheng et al. 2018) on second moments: centralised, or each party alone."""

from privfcd.algorithms.notears.estimator import NOTEARS

__all__ = ["NOTEARS"]
