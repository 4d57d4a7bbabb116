"""Fed-Sparse-BNSL and its differentially private version (Fassy et al. 2025, arXiv 2512.01708)."""

from privfcd.algorithms.fed_sparse.estimator import FedSparseBNSL
from privfcd.algorithms.fed_sparse.greedy import GreedyDescent, GreedyScores
from privfcd.algorithms.fed_sparse.losses import HuberLoss, Loss, SquaredLoss
from privfcd.algorithms.fed_sparse.support_gradient import SupportGradient
from privfcd.algorithms.rounds import RoundRecord

__all__ = [
    "FedSparseBNSL",
    "GreedyDescent",
    "GreedyScores",
    "HuberLoss",
    "Loss",
    "RoundRecord",
    "SquaredLoss",
    "SupportGradient",
]
