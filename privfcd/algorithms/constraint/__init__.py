"""Constraint-based learning: tests of conditional independence, the stable PC skeleton, and its orientation."""

from privfcd.algorithms.constraint.estimator import PC
from privfcd.algorithms.constraint.fisher_z import FisherZ
from privfcd.algorithms.constraint.skeleton import IndependenceTest, Skeleton, stable_skeleton

__all__ = ["PC", "FisherZ", "IndependenceTest", "Skeleton", "stable_skeleton"]
