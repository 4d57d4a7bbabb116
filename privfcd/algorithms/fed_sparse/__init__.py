"""Fed-Sparse-BNSL and its differentially private version (Fassy et al. 2025, arXiv 2512.01708)."""

from privfcd.algorithms.fed_sparse.coordinator import RoundRecord
from privfcd.algorithms.fed_sparse.estimator import FedSparseBNSL

__all__ = ["FedSparseBNSL", "RoundRecord"]
